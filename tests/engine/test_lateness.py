"""The engine judges rows by the definition of lateness, whichever way it reads them."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.lowlevel.inputs import SplitInput
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.plan.reading import FusedScan, chosen
from slackwater.errors import LateRowError
from slackwater.model.node import LATE_FIELDS, Late, LateSetting, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.lateness import Verdict, judge, judged_by, late_by, reason
from slackwater.semantics.limits import EARLIEST, LATEST, START
from slackwater.testing.clock import ManualClock
from tests.engine.test_low_table import FIELDS, counted

SECOND = 1_000_000
GUARD = 5
TIME = TimeColumn("ts", "long", SECOND)
SHOWN = [Field(f.name, "bigint") if f.name == "_late_bound" else f for f in LATE_FIELDS]


def planned(reading: str, late: LateSetting) -> Plan:
    """Counts by windows of ten seconds; read in one pass, or as rows that the late stream needs, too."""
    future = "side" if reading == "aside" else "keep"
    policy = BoundedDelay(3).futureGuard(GUARD, future=future)
    source = Source(FIELDS, (TIME,), "s", 0, (policy,), late)
    outputs = [Output("out", counted(source, ("k",), TimeWindow(10, 10, 0, "ts"), "v"))]
    if reading != "fused":
        outputs.append(Output("late", Late((*FIELDS, *SHOWN), (TIME,), source)))
    plan = build(outputs, ansi=True, zone="UTC")
    (chosen_,) = chosen(plan, [SplitInput(None, "in", plan.sources[0].schema)]).readings
    assert isinstance(chosen_, FusedScan) == (reading == "fused")
    return plan


def rows_of(rng: random.Random, now: int) -> list[tuple[int, int | None, int]]:
    """Rows around the clock; some batches have rows without a time, which their files' footers then tell."""
    times: list[int | None] = [now + rng.randrange(-25, 12) for _ in range(rng.randrange(1, 12))]
    if rng.random() < 0.4:
        times += [None, rng.choice([EARLIEST - 1, LATEST + 1, now + 1000])]
    return [(rng.randrange(2), t, i) for i, t in enumerate(times)]


def as_table(rows: list[tuple[int, int | None, int]]) -> pa.Table:
    columns = zip(FIELDS, zip(*rows, strict=True), strict=True)
    return pa.table({f.name: pa.array(list(c), pa.int64()) for f, c in columns})


@pytest.mark.parametrize("late", ["admit", "drop"])
@pytest.mark.parametrize("reading", ["fused", "rows", "aside"])
def test_rows_are_judged_by_the_definition(engine: Any, reading: str, late: LateSetting) -> None:
    for seed in range(2):
        _judged(engine(), reading, late, random.Random(seed))


def _judged(q: Any, reading: str, late: LateSetting, rng: random.Random) -> None:
    clock = ManualClock(0)
    q.start(planned(reading, late), clock=clock)
    bound, now, newest = START, 100, None
    verdicts: list[tuple[int | None, int | None, Verdict]] = []
    for _ in range(8):
        # A clock that was set back, and a flush, both leave bounds that plausible times have not reached.
        now += rng.choice([2, 6, -8])
        clock.advance(now * SECOND - (clock.now(0) or 0))
        rows = rows_of(rng, now)
        limit = now + GUARD
        here = [(t, limit, judge(t, bound, limit, side=reading == "aside")) for _, t, _ in rows]
        verdicts += here
        q.batch(as_table(rows), flush=rng.random() < 0.3)
        stream = q.records[-1]["streams"]["s"]
        assert stream["late"]["ts"] == sum(v.late for _, _, v in here)
        assert stream["nullTime"]["ts"] == sum(v.null for _, _, v in verdicts)
        assert stream["future"]["ts"] == sum(v.future for _, _, v in verdicts)
        plausible = [t for t, _, v in here if t is not None and not v.null and not v.future]
        newest = max([*plausible, *([] if newest is None else [newest])], default=None)
        assert stream["bounds"]["ts"]["newest"] == newest
        ticks = stream["bounds"]["ts"]["ticks"]
        bound = START if ticks is None else ticks
    if reading != "fused":
        assert sorted(map(repr, _shown(q.rows("late")))) == sorted(
            repr((reason(v), late_by(t, v, limit), judged_by(v, limit)))
            for t, limit, v in verdicts
            if reason(v) is not None
        )
    q.stop()


def test_a_row_that_was_sent_aside_does_not_stop_a_query(engine: Any) -> None:
    q, clock = engine(), ManualClock(100 * SECOND)
    q.start(planned("aside", "raise"), clock=clock)
    q.batch(as_table([(1, 105, 0)]))  # the bound is at 102
    clock.advance(-10 * SECOND)
    q.batch(as_table([(1, 101, 0)]))  # below it, but too far ahead of the clock
    assert _shown(q.rows("late")) == [("future", 6, 95)]
    with pytest.raises(LateRowError):
        q.batch(as_table([(1, 95, 0)]))
    q.stop()


def _shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(r[f.name] for f in SHOWN[:3]) for r in rows]
