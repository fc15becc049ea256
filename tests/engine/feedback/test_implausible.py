"""A guard drops no row whose time is implausible: it is newer than all that is missing, so its windows come out, and whole."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store.feedback_log import state_of
from slackwater.model.node import LATE_FIELDS, Late, Node, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.time import TimeColumn
from slackwater.semantics.feedback.standing import Request
from slackwater.testing.clock import ManualClock
from slackwater.testing.local.run import scratch_folder
from slackwater.testing.transcripts.query import aggregate, project
from tests.engine.feedback.viewport import FIELDS, Viewed, said

CLOCK = {0: 10, 1: 12, 2: 14, 3: 33, 4: 50}
"""By batch, in ticks; a time is plausible up to three ticks later."""
FAR = 30
BATCHES = [
    [(1, 8), (4, 9), (1, 10)],
    [(1, 10), (4, 11), (1, 12), (1, FAR)],
    [(1, 13), (4, 14)],
    [(1, 31), (4, 32), (1, 33)],
    [(1, 50), (4, 50)],
]
"""Segments and times."""


def query(*, late: bool, projected: bool) -> Plan:
    """Counts by segment; if ``projected``, by a column on which no record gets below a step of the path."""
    guarded = BoundedDelay(delay=3).futureGuard(3, future="keep")
    stream = Source(FIELDS, (TimeColumn("ts", "long", 1),), "cars", policies=(guarded,))
    rows: Node = stream
    if projected:
        rows = project(stream, {"segment": "segment + 0", "ts": "ts", "v": "v"})
    step = {"window": {"range": 6, "slide": 3}, "by": ["segment"], "agg": {"n": "count(*)"}}
    outputs = [Output("map", aggregate(rows, step))]
    if late:
        outputs.append(Output("late", Late((*FIELDS, *LATE_FIELDS), stream.times, stream)))
    return passed(build(outputs, ansi=True, zone="UTC"), Written())


def tables() -> list[pa.Table]:
    return [
        pa.table(
            {
                "segment": pa.array([s for s, _ in rows], pa.int64()),
                "ts": pa.array([t for _, t in rows], pa.int64()),
                "v": pa.array([0] * len(rows), pa.int64()),
            }
        )
        for rows in BATCHES
    ]


def results(
    plan: Plan, *, splits: bool, group: int | None, feedback: bool
) -> tuple[list[dict[str, Any]], int]:
    """What comes out, and how many rows were dropped of the batch with the row far ahead."""
    clock = ManualClock(0)
    clock.script(CLOCK)
    with scratch_folder() as folder:
        run = Viewed(folder, plan, splits=splits, clock=clock, group=group)
        run.give(tables())
        run.run.start()

        def ask(r: Viewed) -> None:
            r.run.send(Request("send", "map", "x", said("~{segment = 1}", plan)))

        def take_back(r: Viewed) -> None:
            r.run.send(Request("retract", target=1))

        run.all({1: ask, 2: take_back} if feedback else {})
        run.run.stop()
        dropped = state_of(run.manifests[1]).dropped
        return run.rows(), sum(n for at, n in dropped.items() if not at.startswith("aggregate"))


PATHS = {
    "rows": {"splits": False, "group": None, "late": False, "projected": False},
    "rows, behind a step": {"splits": False, "group": None, "late": False, "projected": True},
    "scanned rows": {"splits": True, "group": None, "late": True, "projected": False},
    "fused": {"splits": True, "group": None, "late": False, "projected": False},
    "fused, behind a step": {"splits": True, "group": None, "late": False, "projected": True},
    "row groups": {"splits": True, "group": 1, "late": False, "projected": False},
}


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.spec("FC-F17")
def test_a_row_far_ahead_of_the_clock_is_not_missing_once_its_window_comes(name: str) -> None:
    path = PATHS[name]
    plan = query(late=bool(path["late"]), projected=bool(path["projected"]))
    splits, group = bool(path["splits"]), path["group"]
    reference, _ = results(plan, splits=splits, group=group, feedback=False)
    got, dropped = results(plan, splits=splits, group=group, feedback=True)
    whole = {(r["segment"], r["wid"]): r["n"] for r in reference}
    mine = {(r["segment"], r["wid"]): r["n"] for r in got}
    held = [(1, wid) for wid in (10, 11)]
    assert [whole[w] for w in held] == [2, 3], "the row far ahead is one of them"
    assert {w: n for w, n in mine.items() if w in held} == {w: whole[w] for w in held}
    assert all(n == whole[w] for w, n in mine.items())
    assert (1, 3) not in mine and dropped == 2, "the guard dropped the rows beside it"
