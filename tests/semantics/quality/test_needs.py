"""The slack that past windows needed, and estimates that are corrected by past errors."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.delays import (
    delays,
)
from slackwater.semantics.quality.evidence import first_level, least_level
from slackwater.semantics.quality.late_sums import LateSums
from slackwater.semantics.quality.late_sums import merged as merged_late
from slackwater.semantics.quality.needs import (
    Needs,
    needed_slack,
)
from slackwater.semantics.quality.strict import Feed, judge
from slackwater.semantics.quality.target import Consumer, Target
from slackwater.semantics.quality.threshold import (
    Asked,
)
from tests.examples import examples


@pytest.mark.spec("QD-D8", "QD-D11")
@examples(25)
@given(st.integers(0, 10**6), st.sampled_from([(20, 5), (10, 10), (90, 3)]), st.integers(1, 4))
def test_a_window_needs_the_slack_with_which_its_results_would_have_been_right(
    seed: int, shape: tuple[int, int], g: int
) -> None:
    w = TimeWindow(*shape, 0, "t")
    rng = np.random.default_rng(seed)
    rows = np.arange(120) - (rng.integers(0, 60, 120) * (rng.random(120) < 0.4))
    values = rng.integers(1, 9, 120).astype(float)
    before = np.concatenate([[START], delays(rows).clocks[:-1]])
    halves = [LateSums.of(rows[i::2], before[i::2], [values[i::2]], w, g) for i in range(2)]
    found = merged_late([LateSums.from_json(json.loads(json.dumps(h.to_json()))) for h in halves])
    asked = {
        "sum": lambda v, kept: abs(v.sum() - v[kept].sum()) / v.sum(),
        "avg": lambda v, kept: abs(v[kept].mean() / v.mean() - 1) if kept.any() else math.inf,
        "count": lambda v, kept: 1 - kept.mean(),
        "other": lambda v, kept: 0.0 if kept.all() else math.inf,
    }
    for wid, total in found.totals.items():
        end = (wid + 1) * w.slide
        inside = (rows >= end - w.range) & (rows < end)
        late = {b: s for (k, b), s in found.late.items() if k == wid}
        for rule, error in asked.items():
            one = Asked(rule, 0)
            need = needed_slack(total, late, [one], 0.1, g)

            def off(slack: int, error: Any = error, inside: Any = inside, end: int = end) -> float:
                there = (before[inside] <= START) | (before[inside] - slack < end)
                return float(error(values[inside], there))

            assert need % g == 0 and off(need) <= 0.1 + 1e-9
            if need and rule != "avg":  # an average may be right by chance with less
                assert off(need - g) > 0.1
        worst = needed_slack(total, late, [Asked("count"), Asked("sum", 0)], 0.1, g)
        assert worst == max(
            needed_slack(total, late, [a], 0.1, g) for a in (Asked("count"), Asked("sum", 0))
        )


@pytest.mark.spec("QD-D9")
def test_the_level_rises_with_missed_targets_and_judged_windows_are_forgotten() -> None:
    w = TimeWindow(10, 10, 0, "t")
    needs, asked = Needs(1, first_level(0.9)), ([Asked("count")], 0.1)
    for wid in range(100):
        end = 10 * (wid + 1)
        times, clocks = np.array([end - 5, end - 4]), np.array([end - 1, end + wid % 10])
        needs.add(LateSums.of(times, clocks, [], w, 1), 1)
        needs.close(wid, wid, end + 5, w)
        needs = Needs.from_json(json.loads(json.dumps(needs.to_json())))
        needs.judge(wid, [Asked("count")], 0.1, 0.9)
    assert needs.done == [wid % 10 + 1 for wid in range(100)]
    assert needs.slack(*asked, 0.9) == (10, True) and needs.level > first_level(0.9)
    assert not needs.totals and not needs.late and not needs.reach
    for _ in range(2_000):
        needs.totals[101], needs.reach[101] = [1.0], 3
        needs.judge(101, [Asked("count")], 0.1, 0.9)
    assert needs.level == least_level(0.9) and needs.slack(*asked, 0.9) == (0, True)
    needs.late[200] = {3: [1.0], 4: [2.0]}
    needs.rebin(2)
    assert needs.late == {200: {2: [3.0]}}
    needs.rebin(1)
    assert needs.late == {200: {4: [3.0]}}


@pytest.mark.spec("QD-D11")
def test_estimates_can_be_corrected_by_past_errors_instead() -> None:
    """Late rows in bursts: the model expects more than windows get, which shows in retrospect."""
    rng = np.random.default_rng(8)
    times = np.arange(4_000) - np.where(np.arange(4_000) % 400 < 60, rng.integers(40, 90, 4_000), 0)
    found = {}
    for how in ("off", "bias"):
        target = Target(coverage=0.9, granularity=1, warm_rows=200, calibrate=how)  # type: ignore[arg-type]
        consumer = Consumer(TimeWindow(100, 20, 0, "t"), (Asked("count"),), 0)
        found[how] = Adaptation.fresh(target, [consumer])
        judge(found[how], times, [Feed(np.ones(4_000, bool), [])], START)
    assert found["off"].states[0].bias == 0
    assert abs(found["bias"].states[0].bias) > 1e-4


def test_a_row_that_is_years_late_is_told_from_others() -> None:
    w, now = TimeWindow(1_000_000, 500_000, 0, "t"), 1_800_000_000_000_000
    times = np.array([7, now - 3_000_000, now - 5_000_000], np.int64)
    whole = LateSums.of(times, np.full(3, now), [], w, 1_000)
    parts = [LateSums.of(times[i : i + 1], np.full(1, now), [], w, 1_000) for i in range(3)]
    assert whole == merged_late(parts)
    assert len(whole.late) == 6 and max(b for _, b in whole.late) > 10**12
