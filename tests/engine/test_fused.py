"""The first pass that reduces rows right away judges them as every other pass does."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.engine.lowlevel.inputs import SplitInput
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.plan.reading import FusedScan, Scan, chosen
from slackwater.model.node import Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.testing.clock import ManualClock
from tests.engine.test_low_table import FIELDS, counted, table

SECOND = 1_000_000
NOW = 50


def planned(fused: bool) -> Plan:
    """Counts by windows of ten seconds; a time more than five seconds ahead of the clock moves no bound."""
    policy = BoundedDelay(0).futureGuard(5).idleAfter("20 seconds").lagLimit(30)
    time = TimeColumn("ts", "long", SECOND)
    source = Source(FIELDS, (time,), "s", 0, (policy,), partition="v")
    node = counted(source, ("k",), TimeWindow(10, 10, 0, "ts"), "v")
    outputs = [Output("out", node)]
    if not fused:  # a second reader of the rows
        outputs.append(Output("rows", source))
    plan = build(outputs, ansi=True, zone="UTC")
    (reading,) = chosen(plan, [SplitInput(None, "in", FIELDS)]).readings
    assert isinstance(reading, FusedScan if fused else Scan)
    return plan


@pytest.mark.parametrize("fused", [True, False])
def test_guards_against_the_future_and_against_partitions_that_lag_or_are_silent(
    engine: Any, fused: bool
) -> None:
    q = engine()
    q.start(planned(fused))
    clock = ManualClock(NOW * SECOND)
    object.__setattr__(q.loop.query, "clock", clock)
    bounds = []

    def batch(*rows: tuple[int, int, int]) -> dict[str, Any]:
        q.batch(table(list(rows)))
        stream = q.records[-1]["streams"]["s"]
        bounds.append(stream["bounds"]["ts"]["ticks"])
        return dict(stream)

    # The last place is the partition. 56 is one second too far ahead.
    assert batch((1, 40, 0), (1, 55, 1), (1, 56, 1), (1, 9_999, 0))["future"] == {"ts": 2}
    assert batch((1, 41, 0))["future"] == {"ts": 2}
    clock.advance(60 * SECOND)
    late = batch((1, 110, 1))  # partition 0 is silent for a minute
    assert late["bounds"]["ts"]["idle"] == ["0"]
    late = batch((1, 45, 0), (2, 110, 1))  # and comes back too far behind
    assert late["bounds"]["ts"]["excluded"] == ["0"] and late["late"] == {"ts": 1}
    assert bounds == [40, 41, 110, 110]
    q.stop()
