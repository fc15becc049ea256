"""A query whose outputs come and go, without Spark: started on one checkpoint with these outputs, then with those."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from slackwater.engine.driver.opening import stored_query
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.known import input_order, renumber
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.model.node import Node, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.relation import Relation
from slackwater.semantics.bounds import topological
from slackwater.testing.executors.observing import plain, table_of
from slackwater.testing.local.run import LocalInput, LocalRun
from slackwater.testing.transcripts.query import QueryBuilder, build_source

Steps = Sequence[Mapping[str, Any]]
COLUMNS = {"k": "string", "t": "bigint", "v": "bigint"}


def stream(name: str = "s", delay: int = 0, key: int = 0) -> Source:
    """A stream of `COLUMNS` over the DataFrame of that ``key``."""
    spec = {"columns": COLUMNS, "time": "t", "progress": {"bounded_delay": delay}}
    return replace(build_source(name, spec), input=key)


def with_slack(source: Source, delay: int) -> Source:
    """The stream again with a slack of its own, as `Stream.withQuality` makes it."""
    return replace(source, name=f"{source.name}~", policies=(BoundedDelay(delay),), twin=source.name)  # fmt: skip


def made(
    steps: Steps | str, *sources: Source, relations: Mapping[str, Relation] | None = None
) -> Node:
    """The operators of a pipeline, made anew with each call: nothing but the sources is shared."""
    return QueryBuilder({s.given_name: s for s in sources}, {}, relations).pipeline(steps)


class Life:
    """One checkpoint over several starts; a batch is the rows of each DataFrame, by its key."""

    def __init__(self, folder: Path, **options: Any):
        self.folder = folder
        self.options = options
        self.run: LocalRun | None = None
        self.numbers: dict[int, int] = {}
        """Of each DataFrame, the number that the first start gave it."""

    @property
    def running(self) -> LocalRun:
        assert self.run is not None
        return self.run

    def plan(self, outputs: Mapping[str, Node]) -> tuple[Plan, list[int]]:
        """As `surface.start.plan_of` has it."""
        nodes = [Output(n, node) for n, node in outputs.items()]
        known = stored_query(Checkpoint(str(self.folder / "checkpoint")))
        keys = input_order(nodes, known)
        numbered = renumber(nodes, {key: i for i, key in enumerate(keys)}, known)
        return passed(build(numbered, ansi=True, zone="UTC", known=known), Written()), keys

    def start(self, outputs: Mapping[str, Node], groups: int = 2) -> Plan:
        """Start with these outputs; the one before has stopped."""
        self.stop()
        plan, keys = self.plan(outputs)
        if self.run is None:
            nodes = topological(list(outputs.values()))
            schemas = {n.input: n.schema for n in nodes if isinstance(n, Source)}
            self.numbers = {key: i for i, key in enumerate(keys)}
            self.sources = {n.input: n for n in nodes if isinstance(n, Source)}
            self.run = LocalRun(
                self.folder, plan, [LocalInput(schemas[key]) for key in keys], **self.options
            )
        self.run.plan = plan
        self.run.start(groups)
        self.active = True
        return plan

    active = False

    def stop(self) -> None:
        """Stop, if it runs."""
        if self.active:
            self.active = False
            self.running.stop()

    def batch(self, rows: Any = (), *, end: bool = False) -> None:
        """One batch: rows of the only DataFrame, or of each by its key."""
        given = rows if isinstance(rows, Mapping) else {next(iter(self.numbers)): rows}
        tables = {
            self.numbers[key]: table_of(
                self.sources[key], [dict(zip(COLUMNS, r, strict=True)) for r in each]
            )
            for key, each in given.items()
        }
        self.running.give(tables)
        self.running.step(final=end)

    def rows(self, output: str, *columns: str) -> list[tuple[Any, ...]]:
        """All results so far; of a batch in the order in which they came."""
        return [r for each in self.batches(output, *columns).values() for r in each]

    def batches(self, output: str, *columns: str) -> dict[int, list[tuple[Any, ...]]]:
        """The results by batch."""
        found = self.running.published.get(output, {})
        return {b: rows_of(found[b], columns) for b in sorted(found)}

    @property
    def operators(self) -> list[str]:
        """The operators that hold state, as the plan calls them."""
        return [op.id for op in self.running.loop.query.plan.operators]


def rows_of(table: pa.Table, columns: Iterable[str]) -> list[tuple[Any, ...]]:
    """Rows as tuples of these columns; ``start`` and ``end`` are those of the window."""
    return [
        tuple(r["window"][c] if c in ("start", "end") else r[c] for c in columns)
        for r in map(plain, table.to_pylist())
    ]
