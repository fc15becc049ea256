"""Changes of delays: a promise is kept again soon after them, and one extreme delay is no change."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.recent_delays import RecentDelays
from slackwater.semantics.quality.state import AdaptationState
from slackwater.semantics.quality.strict import Feed, judge
from slackwater.semantics.quality.target import Consumer, Target
from slackwater.semantics.quality.threshold import Asked

RANGE, SLIDE = 2_000, 400
WINDOW = TimeWindow(RANGE, SLIDE, 0, "t")
ERROR = 0.02


def rows(seed: int, count: int, means: list[float]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Times in order of arrival, a row every 10 ticks, delays with these means one after the other."""
    rng = np.random.default_rng(seed)
    made = 10 * np.arange(count)
    mean = np.repeat(means, -(-count // len(means)))[:count]
    return made[np.argsort(made + rng.exponential(mean), kind="stable")]


def fresh(**settings: Any) -> Adaptation:
    target = Target(**{"error": ERROR, "granularity": 10, **settings})
    return Adaptation.fresh(target, [Consumer(WINDOW, (Asked("count"),), 0)])


def bounds(adaptation: Adaptation, times: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return judge(adaptation, times, [Feed(np.ones(len(times), bool), [])], START).bounds


def shares(times: Any, before: Any) -> tuple[Any, Any, Any]:
    """By window that closed: its end, the share of its rows that are missing, and how long it waited."""
    ends = np.arange(RANGE, int(times.max()) - 20 * RANGE, SLIDE)
    missing = np.zeros(len(ends))
    for i, end in enumerate(ends):
        # Rows of a window are not far from where its time is reached.
        near = slice(max(0, end // 10 - 1_500), end // 10 + 1_500)
        inside = (times[near] >= end - RANGE) & (times[near] < end)
        missing[i] = (before[near][inside] >= end).mean()
    clocks = np.maximum.accumulate(times)
    return ends, missing, clocks[np.searchsorted(before, ends) - 1] - ends


@pytest.mark.spec("QD-C2", "QD-D1", "QD-D2")
@pytest.mark.parametrize("factor", [8.0, 1 / 8])
def test_the_target_is_kept_soon_after_a_change_and_nobody_waits_for_the_past(
    factor: float,
) -> None:
    mean = 100.0 if factor > 1 else 800.0
    times = rows(5, 60_000, [mean, mean * factor])
    ends, missing, waits = shares(times, bounds(fresh(), times))
    # That delays are shorter is told by two thousand late rows.
    far = ends > 300_000 + (15 * SLIDE if factor > 1 else 15 * RANGE)
    assert (missing[far] <= ERROR).mean() >= 0.93
    # The least fixed slack that keeps it, as nobody can know it beforehand.
    clocks = np.concatenate([[START], np.maximum.accumulate(times)[:-1]])
    low, high = -1, 500
    while high - low > 1:
        slack = (low + high) // 2
        _, fixed, _ = shares(times, clocks - 20 * slack)
        low, high = (low, slack) if (fixed[far] <= ERROR).mean() >= 0.95 else (slack, high)
    _, _, hindsight = shares(times, clocks - 20 * high)
    assert 0 < waits[far].mean() <= 1.3 * hindsight[far].mean()


@pytest.mark.spec("QD-C1", "QD-D2")
@pytest.mark.parametrize("at", [300, 9_000])
def test_600_windows_after_an_extreme_delay_bins_and_slack_are_what_they_would_be(at: int) -> None:
    times = rows(7, 40_000, [60.0])
    other = times.copy()
    other[at] = -(10**13)
    plain, with_one = fresh(), fresh()
    wanted, found = bounds(plain, times), bounds(with_one, other)
    assert with_one.statistics.granularity == plain.statistics.granularity == 10
    assert with_one.slack == plain.slack > 0
    after = np.searchsorted(times, 10 * at + 600 * SLIDE)
    assert (found[after:] == wanted[after:]).all()


@pytest.mark.spec("QD-C2")
def test_a_state_of_an_earlier_version_goes_on() -> None:
    times = rows(9, 12_000, [60.0, 60.0, 60.0, 900.0])
    adaptation = fresh()
    feed = [Feed(np.ones(6_000, bool), [])]
    bound = judge(adaptation, times[:6_000], feed, START).bound
    kept = json.loads(json.dumps(adaptation.kept.to_json()))
    for name in ("since", "recent", "calm", "seen"):
        del kept["statistics"][name]
    del kept["statistics"]["window"]["base"]
    (state,) = kept["states"].values()
    for name in ("missing", "since", "told", "evidence", "start", "rows", "after", "new"):
        del state["needs"][name]
    old = Adaptation.resumed(
        AdaptationState.from_json(kept), adaptation.target, adaptation.consumers
    )
    assert old.slack == adaptation.slack
    judge(old, times[6_000:], feed, bound)
    judge(adaptation, times[6_000:], feed, bound)
    assert None not in [a.states[0].needs.since for a in (old, adaptation)]
    assert old.slack == pytest.approx(adaptation.slack, rel=0.1)


def test_since_when_delays_are_shorter_is_remembered_over_a_restart() -> None:
    """Windows are judged by it for as long as it takes to be sure."""
    adaptation = fresh()
    times = rows(3, 33_000, [800.0] * 10 + [50.0])
    feed = [Feed(np.ones(len(times), bool), [])]
    judge(adaptation, times, feed, START)
    statistics = adaptation.statistics
    # Nothing else is known yet of the change but when it was.
    statistics.calm = statistics.newest
    kept = AdaptationState.from_json(json.loads(json.dumps(adaptation.kept.to_json())))
    again = Adaptation.resumed(kept, adaptation.target, adaptation.consumers)
    assert again.statistics.calm == statistics.newest is not None
    assert again.kept == adaptation.kept


def test_the_latest_stretch_holds_rows_by_their_own_times() -> None:
    recent = RecentDelays()
    recent.add(np.array([5]), np.array([3]))
    assert recent.begun is None and not recent.rows  # nothing before it has begun
    recent.keep(1_000, 800)
    rng = np.random.default_rng(1)
    for clock in range(1_000, 9_000, 10):
        times = clock - rng.integers(0, 50, 40)
        recent.add(times, clock - times)
        recent.keep(clock, 800)
        recent = RecentDelays.from_json(json.loads(json.dumps(recent.to_json())))
    assert recent.begun is not None and 8_990 - recent.begun >= recent.stretch == 800
    assert recent.whole(8_990) and min(recent.blocks) * recent.length >= recent.begun
    assert recent.sketch().quantile(0.99) == pytest.approx(48, rel=0.1)
    assert len(recent.sketch(half=True).counts) and recent.rows > 2_000
    recent.add(np.array([recent.begun - 1]), np.array([10**12]))
    assert recent.sketch().quantile(1.0) < 60  # too old to count
    few = RecentDelays()
    few.keep(0, 800)
    for clock in range(0, 4_000, 100):
        few.add(np.array([clock - 5]), np.array([5]))
        few.keep(clock, 800)
    assert few.stretch > 1_600 and not few.whole(4_000)
