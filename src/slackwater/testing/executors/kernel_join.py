"""Joins in the kernel executor: the engine's own programs on stand-ins for the inputs, in one group of all buckets.

A join with ``memory`` writes blocks into a folder of its own, and nothing but its ledger lasts from batch to batch.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from slackwater.engine.operators.group_runs import GroupRuns
from slackwater.engine.operators.ledgers import holds_of
from slackwater.engine.operators.program import Arrival, GroupContext
from slackwater.engine.operators.registry import kind_of
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.steps import relation
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.operators.join import finishing
from slackwater.engine.plan.plan import Output
from slackwater.engine.store.manifest import Run
from slackwater.kernels.buckets import bucket_of
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.types import arrow_schema
from slackwater.model.names import BUCKET, ROWS, TIME, key
from slackwater.model.node import Aggregate, Join, Node, Source
from slackwater.model.schema import Field, Named
from slackwater.model.time import TimeColumn
from slackwater.semantics.frontier import Points, frontier
from slackwater.semantics.limits import Bounds
from slackwater.semantics.patterns import Patterns
from slackwater.testing.executors.kernel_tables import PLACE, plain, query, ticks_of
from slackwater.testing.executors.program_machine import ProgramMachine


class Punctuated(NamedTuple):
    """What holds at an input of a join: patterns and bounds, before a batch and after it."""

    before: Patterns
    after: Patterns
    linear: tuple[Bounds, Bounds]


class KernelJoin:
    """A join, batch by batch. ``hold`` is what it may promise of its inputs while rows are owed."""

    def __init__(self, node: Join):
        self.children = node.inputs
        self.node = _stand_in(node)
        self.plan = build([Output("out", self.node)], ansi=True, zone="UTC")
        (self.operator,) = self.plan.operators
        self.hold: tuple[int, ...] | None = None
        self._folder: Path | None = None
        self._ledger: str | None = None
        self._runs: list[Run] = []
        self._batches = 0
        self._machine = ProgramMachine(self.operator, batch=lambda: self._batch((), None))

    def step(
        self,
        inputs: Sequence[pa.Table],
        old: Sequence[int],
        new: Sequence[int],
        now: int | None,
        says: Sequence[Punctuated] = (),
    ) -> pa.Table:
        """The results of a batch, in the user's columns."""
        new_rows = [self._keyed(i, table) for i, table in enumerate(inputs)]
        # Each input in two tables, as from two tasks, in the wrong order.
        halves = [[t.slice(t.num_rows // 2), t.slice(0, t.num_rows // 2)] for t in new_rows]
        arrivals = [Arrival(*a) for a in zip(halves, old, new, strict=True)]
        if says:
            arrivals = [
                replace(a, before=s.before, after=s.after, linear=s.linear)
                for a, s in zip(arrivals, says, strict=True)
            ]
        self._batches += 1
        if self.node.memory is None:
            found = self._machine.pieces(arrivals)
        else:
            found = self._bounded(arrivals, now)
        raw = arrow_schema(self.node.raw_fields)
        rows = pa.concat_tables(
            [raw.empty_table(), *(t.select(raw.names).cast(raw) for t in found)]
        )
        sql = relation(finishing(self.node), f"SELECT * FROM {ROWS}")
        return sql_to_arrow(connect(), sql, {ROWS: rows}).cast(arrow_schema(self.node.schema))

    def _bounded(self, arrivals: list[Arrival], now: int | None) -> list[pa.Table]:
        batch = self._batch([a.old for a in arrivals], now)
        results: list[pa.Table] = []
        context = GroupContext(batch, 0, arrivals, lambda _, table: results.append(table))
        program = kind_of(self.operator).program(self.operator, context)
        state = GroupRuns(self.operator, context, program)
        step = program.step(arrivals, state.read)
        self._ledger = json.dumps(step.ledger)
        self._runs = state.after(step).runs
        self.hold = holds_of(batch, {self.operator.id: [step.hold]})[self.operator.id]
        return results

    def _batch(self, old: Sequence[int], now: int | None) -> Batch:
        names = [self.plan.name_of(c) for c in self.node.inputs]
        bounds = {n: {on: b} for n, on, b in zip(names, self.node.on, old, strict=False)}
        id = self.operator.id
        if self.node.memory is not None and self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="slackwater-join-"))
            (self._folder / "runs").mkdir()
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return Batch(
            self.plan, self._batches, 1, 1, now, frozenset(), False, {}, bounds, {id: [self._runs]},
            str(self._folder), {},
            ledgers={} if self._ledger is None else {id: [json.loads(self._ledger)]},
            holds={} if self.hold is None else {id: list(self.hold)},
        )  # fmt: skip

    def _keyed(self, i: int, table: pa.Table) -> pa.Table:
        keys = self.node.keys[i]
        items = [f"{ticks_of(self.children[i], self.node.on[i])} AS {TIME}"]
        items += [f"{k.expr.duck} AS {key(n)}" for n, k in enumerate(keys)]
        found = query(f"SELECT *, {', '.join(items)} FROM t ORDER BY {PLACE}", table)
        names = [key(n) for n in range(len(keys))]
        buckets = bucket_of([found[c] for c in names], rows=found.num_rows)
        return found.append_column(BUCKET, pa.array(buckets, pa.int16()))


def holds_now(joins: Mapping[int, KernelJoin]) -> dict[int, tuple[int, ...]]:
    """What joins, given by id, may promise of their inputs."""
    return {n: j.hold for n, j in joins.items() if j.hold is not None}


def frontier_at(
    node: Aggregate,
    nodes: Sequence[Node],
    bounds: Sequence[Mapping[str, int]],
    holds: Mapping[int, Sequence[int]],
) -> Points:
    """The frontier of an aggregate's input over the times of its windows; bounds go with ``nodes``."""
    place = {id(n): i for i, n in enumerate(nodes)}
    return frontier(
        node.child,
        [w.on for w in node.windows],
        lambda n, c: bounds[place[id(n)]][c],
        lambda n: holds.get(id(n)),
    )


def _stand_in(node: Join) -> Join:
    """The join over sources in place of its inputs, and with integers for times."""
    return replace(
        node,
        schema=_fields(node),
        inputs=tuple(
            Source(_fields(c), (TimeColumn(on, "long", None),), f"input {i}")
            for i, (c, on) in enumerate(zip(node.inputs, node.on, strict=True))
        ),
        keys=tuple(tuple(_plain(k) for k in keys) for keys in node.keys),
        outputs=tuple(_plain(o) for o in node.outputs),
        pair=tuple(_plain(c) for c in node.pair),
    )


def _fields(node: Node) -> tuple[Field, ...]:
    return tuple(replace(f, type=plain(f.type)) for f in node.schema)


def _plain(named: Named) -> Named:
    return replace(named, expr=replace(named.expr, type=plain(named.expr.type)))
