"""A query with a view that moves: counts by segment and window, over rows of ten segments."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.clock import Clock
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store.manifest import Manifest
from slackwater.model.node import LATE_FIELDS, Late, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.feedback.text import parsed
from slackwater.semantics.feedback.value import Feedback
from slackwater.testing.local.run import LocalInput, LocalRun
from slackwater.testing.transcripts.query import aggregate

FIELDS = (Field("segment", "bigint"), Field("ts", "bigint"), Field("v", "bigint"))
TS = TimeColumn("ts", "long", None)


def source(**others: Any) -> Source:
    given: dict[str, Any] = {"policies": (BoundedDelay(delay=3),), **others}
    return Source(given.pop("fields", FIELDS), (TS,), "cars", **given)


def plan_of(
    stream: Source | None = None, window: Mapping[str, int] | None = None, late: bool = False
) -> Plan:
    node = stream or source()
    step = {
        "window": dict(window or {"range": 6, "slide": 3}),
        "by": ["segment"],
        "agg": {"n": "count(*)", "peak": "max(v)"},
    }
    outputs = [Output("map", aggregate(node, step))]
    if late:
        outputs.append(Output("late", Late((*node.schema, *LATE_FIELDS), node.times, node)))
    return passed(build(outputs, ansi=True, zone="UTC"), Written())


def rows(seed: int = 3, batches: int = 10, each: int = 30) -> list[pa.Table]:
    rng = random.Random(seed)
    made = []
    for n in range(batches):
        ts = [4 * n + rng.randint(-5, 4) for _ in range(each)]
        made.append(
            pa.table(
                {
                    "segment": pa.array(sorted(rng.randint(0, 9) for _ in ts), pa.int64()),
                    "ts": pa.array(ts, pa.int64()),
                    "v": pa.array([rng.randint(0, 99) for _ in ts], pa.int64()),
                }
            )
        )
    return made


def said(text: str, plan: Plan, output: str = "map") -> Feedback:
    node = next(o.node for o in plan.outputs if o.name == output)
    return parsed(text, Columns.of(node))


def view(plan: Plan, low: int, high: int, lease: int | None = None, name: str = "view") -> Request:
    """All but the segments from ``low`` to ``high`` are ignored."""
    text = f"~{{segment < {low} OR > {high} OR IS NULL}}"
    return Request("send", "map", name, said(text, plan), lease)


Asked = Mapping[int, Callable[["Viewed"], None]]
"""By batch, what is sent before it."""


class Viewed:
    """A run, batch by batch."""

    def __init__(
        self,
        folder: Path,
        plan: Plan | None = None,
        *,
        splits: bool = True,
        clock: Clock | None = None,
        feedback: Mapping[str, Sequence[Feedback]] | None = None,
        group: int | None = 4,
    ):
        self.plan = plan or plan_of()
        self.run = LocalRun(
            folder, self.plan, [LocalInput(s.schema, splits) for s in self.plan.sources[:1]],
            clock=clock, feedback=feedback, settings=Settings(compact_runs=2),
        )  # fmt: skip
        self.group = group
        self.manifests: list[Manifest] = []

    def give(self, tables: Sequence[pa.Table]) -> None:
        for t in tables:
            self.run.give({0: t})
        if self.group is not None:
            for path in sorted(Path(self.run.inputs[0].path).glob("*.parquet")):
                pq.write_table(pq.read_table(path), path, row_group_size=self.group)

    def step(self, final: bool = False) -> Manifest:
        done = self.run.step(final=final)
        assert done is not None
        if not self.manifests or self.manifests[-1].batch != done.batch:
            self.manifests.append(done)
        return done

    def all(self, asked: Asked | None = None, end: bool = True) -> None:
        """All batches that are left, and what is asked before each."""
        while self.run.done < len(self.run.host.batches):
            for at in [b for b in (asked or {}) if b == self.run.done]:
                (asked or {})[at](self)
            self.step()
        if end:
            self.step(final=True)

    def rows(self, name: str = "map") -> list[dict[str, Any]]:
        tables = self.run.published[name]
        return [r for b in sorted(tables) for r in tables[b].to_pylist()]
