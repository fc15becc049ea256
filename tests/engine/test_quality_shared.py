"""What is observed of a stream is observed once, however many of its results have targets of their own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store import manifest as manifests
from slackwater.model.aggregate import Primitive
from slackwater.model.node import Aggregate, Source
from slackwater.model.policy import Quality
from slackwater.model.schema import Field, Named, column
from slackwater.model.window import TimeWindow
from slackwater.semantics.quality.adwin import Adwin
from slackwater.semantics.quality.late_sums import LateSums
from slackwater.semantics.quality.needs import FEWEST
from slackwater.semantics.quality.statistics import Bag, Observations, StreamStatistics
from slackwater.surface.explain import explain_plan
from tests.engine.in_process import Engine, Make
from tests.engine.test_quality import FIELDS, TIME, WINDOW, even, run, stream

ERRORS = (0.02, 0.05, 0.1, 0.2, 0.3)


def targets(errors: tuple[float, ...]) -> Plan:
    """A sum by window under each target; all but the first over a twin of the stream."""
    outputs = []
    for i, error in enumerate(errors):
        source = Source(FIELDS, (TIME,), "s", 0, (Quality(error=error, granularity=2),))
        if i:
            source = replace(source, name=f"s~out{i}", twin="s")
        parts = (Primitive("_a0", "sum", (column("v", "double"),), "double"),)
        fields = (
            Field("wid", "bigint"), Field("window", "struct<start:bigint,end:bigint>"), Field("total", "double"),
        )  # fmt: skip
        named = (Named("total", column("__sw_a0", "double")),)
        window = TimeWindow(100, 20, 0, "ts")
        outputs.append(
            Output(f"out{i}", Aggregate(fields, (WINDOW,), source, (), window, parts, named))
        )
    return build(outputs, ansi=True, zone="UTC")


def shown(made: Engine, output: int, of: int) -> Any:
    """A result's rows, and its slacks."""
    name = f"s~out{output}" if output and of > 1 else "s"
    rows = made.rows(f"out{output}" if of > 1 else "out0")
    slacks = [r["streams"][name]["quality"]["ts"]["slack"] for r in made.records]
    return sorted((r["wid"], r["total"]) for r in rows), slacks


def test_five_targets_observe_a_stream_as_often_as_one(
    engine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: Counter[str] = Counter()

    def counted(owner: Any, name: str) -> None:
        before = getattr(owner, name)

        def call(*args: Any, **named: Any) -> Any:
            counts[name] += 1
            return before(*args, **named)

        monkeypatch.setattr(owner, name, call)

    rows = stream(3, 6_000, rate=2.0)
    cuts = even(len(rows), 12)
    counted(Bag, "of")
    counted(LateSums, "of")
    counted(Adwin, "add_block")
    one = run(engine, targets(ERRORS[:1]), rows, cuts, groups=1)
    alone = dict(counts)
    counts.clear()
    five = run(engine, targets(ERRORS), rows, cuts, groups=1)
    assert dict(counts) == alone
    # Each result is what it is by itself, also where a change was believed for some of them alone.
    assert shown(five, 0, 5) == shown(one, 0, 1)
    for i in (2, 4):
        apart = run(engine, targets((ERRORS[i],)), rows, cuts, groups=1)
        assert shown(five, i, 5) == shown(apart, 0, 1)


def test_statistics_of_one_stream_go_on_apart() -> None:
    """A change that is believed for one result is none for another."""
    first = StreamStatistics.fresh(2)
    for clock in range(100, 2_000, 100):
        first.observe_bag(Bag(2, 50, 10, 20, 60, {1: 10}, 30, clock, 0, {1: 10}))
        first.recent.keep(clock, 300)
    before, bag = first.to_json(), Bag(2, 50, 10, 20, 60, {1: 10}, 30, 2_100, 0, {1: 10})
    seen = Observations()
    a, b = seen.of(before, bag), seen.of(before, bag)
    a.recent.keep(2_100, 50)
    assert a.recent.to_json() != b.recent.to_json() == seen.of(before, bag).recent.to_json()
    a.forget()
    assert a.window is b.window and b.since is None and a.since is not None
    assert b.to_json() == seen.of(before, bag).to_json() != a.to_json()
    # The window is one still where the rest differs.
    other = {**before, "since": 1_000}
    assert seen.of(other, bag).window is a.window
    assert seen.of(before, replace(bag, late=11)).window is not a.window


def test_until_slack_follows_the_target_progress_and_explain_say_so(engine: Make) -> None:
    rows = stream(3, 6_000, rate=2.0)
    made = run(engine, targets(ERRORS[1:2]), rows, even(len(rows), 20), groups=1)
    shown = [r["streams"]["s"]["quality"]["ts"] for r in made.records]
    early = [q["warmup"] for q in shown if q["warmup"] is not None]
    assert [q["warm"] for q in shown] == [False] * len(early) + [True] * (len(shown) - len(early))
    windows = [w["windows"] for w in early]
    assert windows[0] == 0 and 10 <= windows[-1] < 40 and windows == sorted(windows)
    # Five windows share a row; of so many the next is the largest with the rest of the probability.
    expected = [w["expected"] for w in early]
    assert expected[-1] == pytest.approx(windows[-1] / 5 / (windows[-1] / 5 + 1), abs=0.05)
    assert {w["of"] for w in early} == {FEWEST} and expected == sorted(expected)
    plan = made.loop.query.plan
    assert "quality of ts: warming up, 0 of 40 windows are known" in explain_plan(plan, made.inputs)
    last = manifests.last(made.checkpoint)
    assert last is not None
    assert "warming up" not in explain_plan(plan, made.inputs, states=last.sources)
