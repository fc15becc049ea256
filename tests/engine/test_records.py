"""Progress records: how long results waited, what operators took, and which partition is silent."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from slackwater.engine.driver import loop
from slackwater.engine.operators import group_task
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.model.node import Source
from slackwater.model.policy import BoundedDelay, BoundedLatency
from slackwater.model.time import TimeColumn, iso
from slackwater.model.window import TimeWindow
from slackwater.testing.clock import ManualClock
from slackwater.testing.local.host import LocalHost
from tests.engine.in_process import _Rows
from tests.engine.test_low_table import FIELDS, counted, plan_of, table


def ticking(step: float) -> Any:
    """A clock on which each reading is ``step`` seconds after the one before."""
    readings = count()
    return lambda: next(readings) * step


def test_latency_is_the_time_of_the_batch_and_only_of_outputs_with_rows(
    engine: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "monotonic", ticking(0.25))
    q = engine()
    q.start(plan_of(10, 10))
    q.batch(table([(k, 5, 1) for k in range(4)]))
    q.batch(table([(9, 17, 1)]))  # bound 11: the first window is complete, the larger one is not
    first, second = q.records
    assert all("latencyMs" not in out for out in first["outputs"].values())
    took = second["durationMs"]
    assert took["total"] > took["job"] == took["plan"] == took["commit"] == took["publish"] == 250
    assert second["outputs"]["small"]["rows"] == 4
    assert second["outputs"]["small"]["latencyMs"] == took["total"]
    assert second["outputs"]["large"]["rows"] == 0 and "latencyMs" not in second["outputs"]["large"]
    q.stop()


@pytest.mark.spec("WQ-F98")
def test_latency_counts_from_the_bound_that_completed_results_until_they_are_visible(
    engine: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock stands still but where a batch is taken up, computed, and published, each for a time of its own."""
    now = 100.0
    shown: list[tuple[str, float]] = []

    def takes(seconds: float, function: Any, *, told: bool = False) -> Any:
        def slow(*arguments: Any, **named: Any) -> Any:
            nonlocal now
            now += seconds
            result = function(*arguments, **named)
            if told and arguments[2]:
                shown.append((arguments[0].name, now))
            return result

        return slow

    monkeypatch.setattr(loop, "monotonic", lambda: now)
    monkeypatch.setattr(loop, "intended", takes(0.5, loop.intended))
    monkeypatch.setattr(LocalHost, "run_job", takes(3.0, LocalHost.run_job))
    monkeypatch.setattr(_Rows, "publish", takes(0.25, _Rows.publish, told=True))
    q = engine()
    q.start(plan_of(10, 10))
    taken_up = {}
    for number, rows in enumerate(
        ([(1, 5, 1)], [(1, 8, 1)], [(1, 17, 1)], [(1, 20, 1)], [(1, 41, 1)])
    ):
        now += 60.0  # the query waits for rows
        taken_up[number] = now
        q.batch(table(rows))
    latencies = [
        {name: out["latencyMs"] for name, out in r["outputs"].items() if "latencyMs" in out}
        for r in q.records
    ]
    # Bounds are 6 below the newest time. 17 completes the window that ends at 10; 41 the one that ends at 20 and the larger
    # one over both. How long the rows had waited for the bound does not count, both publishings do.
    assert latencies == [{}, {}, {"small": 4000}, {}, {"small": 4000, "large": 4000}]
    for name, at in shown:
        number = max(n for n, t in taken_up.items() if t < at)
        assert 1000 * (at - taken_up[number]) <= latencies[number][name]
    assert [name for name, _ in shown] == ["small", "small", "large"]
    q.stop()


@pytest.mark.spec("WQ-F98")
def test_latency_counts_from_the_clock_reading_where_time_alone_completes_results(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "monotonic", ticking(0.25))
    time = TimeColumn("ts", "long", 1_000_000)
    source = Source(FIELDS, (time,), "s", 0, (BoundedLatency(delay=30),))
    node = counted(source, ("k",), TimeWindow(10, 10, 0, "ts"), "v")
    clock = ManualClock(0)
    clock.script({0: 5_000_000, 1: 20_000_000, 2: 120_000_000})
    q = engine()
    q.start(build([Output("out", node)], ansi=True, zone="UTC"), clock=clock)
    q.batch(table([(1, 5, 1)]))
    q.batch()
    q.batch()
    outputs = [r["outputs"]["out"] for r in q.records]
    assert [out["rows"] for out in outputs] == [0, 0, 1]
    assert "latencyMs" not in outputs[1]
    assert outputs[2]["latencyMs"] == q.records[2]["durationMs"]["total"] > 0
    q.stop()


def test_an_operator_tells_the_seconds_of_all_its_tasks(
    engine: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_task, "monotonic", ticking(0.125))
    q = engine()
    q.start(plan_of(10, 10), groups=3)
    q.batch(table([(k, 5, 1) for k in range(20)]))
    # From one reading to the next in each of three tasks.
    assert {op["seconds"] for op in q.records[-1]["operators"].values()} == {3 * 0.125}
    known = q.loop.last.statistics.values()
    assert {round(s.seconds, 6) for s in known} == {3 * 0.125}
    q.batch(table([(k, 6, 1) for k in range(20)]))
    assert {round(s.seconds, 6) for s in q.loop.last.statistics.values()} == {6 * 0.125}
    q.stop()


def test_the_partition_without_a_row_for_longest_is_named(engine: Any) -> None:
    time = TimeColumn("ts", "long", 1_000_000)
    source = Source(FIELDS, (time,), "s", 0, (BoundedDelay(6),), partition="k")
    node = counted(source, (), TimeWindow(10, 10, 0, "ts"), "v")
    plan = build([Output("out", replace(node))], ansi=True, zone="UTC")
    q = engine()
    q.start(plan)
    q.batch(table([(1, 5, 1), (2, 5, 1)]))
    assert q.records[-1]["streams"]["s"]["bounds"]["ts"]["silent"] is None  # no clock was read
    clock = ManualClock(7_000_000)
    object.__setattr__(q.loop.query, "clock", clock)
    silent = []
    for rows in ([(1, 6, 1), (2, 6, 1)], [(1, 7, 1)], [(2, 8, 1), (3, 8, 1)]):
        q.batch(table(rows))
        silent.append(q.records[-1]["streams"]["s"]["bounds"]["ts"]["silent"])
        clock.advance(1_000_000)
    q.stop()
    assert silent[1:] == [
        {"partition": "2", "since": iso(7_000_000)},
        {"partition": "1", "since": iso(8_000_000)},
    ]
    assert silent[0]["since"] == iso(7_000_000)
