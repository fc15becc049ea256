"""What the benchmark of error targets measures, and the streams that it measures on."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.quality_aggregates import SLIDE, TRAINING, adaptive, baselines, outcome
from benchmarks.quality_data import GENERATORS, Rows
from benchmarks.quality_join_data import SECOND
from slackwater.semantics.limits import START


def test_an_outcome_is_that_of_windows_filled_one_by_one() -> None:
    rng = np.random.default_rng(1)
    times = (np.arange(900) * SECOND // 9 + TRAINING).astype(np.int64)
    times -= (rng.exponential(SECOND // 4, 900) * (rng.random(900) < 0.4)).astype(np.int64)
    times[0] = 0  # training is counted from the first row
    data = Rows("t", times, rng.random(900))
    slack = SECOND // 10
    width = 4 * SLIDE
    clock = bound = START
    exact: dict[int, float] = {}
    found: dict[int, float] = {}
    closed_at: dict[int, int] = {}
    bounds = []
    for t, v in zip(times.tolist(), data.values.tolist(), strict=True):
        bounds.append(bound)
        wid = t // SLIDE
        while (wid + 1) * SLIDE - width <= t:
            exact[wid] = exact.get(wid, 0.0) + v
            if bound < (wid + 1) * SLIDE:
                found[wid] = found.get(wid, 0.0) + v
            wid += 1
        clock = max(clock, t)
        for wid in range(0 if bound <= START else bound // SLIDE, (clock - slack) // SLIDE):
            closed_at.setdefault(wid, clock)
        bound = max(bound, clock - slack)
    got = outcome(data, np.array(bounds), width)
    wids = got.ends // SLIDE - 1
    assert len(wids) > 500
    for wid, error, latency in zip(wids.tolist(), got.errors, got.latencies, strict=True):
        wanted = abs(exact[wid] - found.get(wid, 0.0)) / exact[wid]
        assert error == pytest.approx(wanted, abs=1e-9)
        assert latency * SECOND == pytest.approx(closed_at[wid] - (wid + 1) * SLIDE, abs=1e-3)


@pytest.mark.parametrize("name", list(GENERATORS))
def test_streams_are_repeatable_and_disordered(name: str) -> None:
    data, again = (GENERATORS[name](3, 70) for _ in range(2))
    assert np.array_equal(data.times, again.times)
    assert np.array_equal(data.values, again.values)
    seen = data.statistics()
    assert 0.1 < seen["late"] < 0.6 and seen["max"] > 1
    if name.startswith("game"):
        assert seen["correlated"] > 0.7


def test_a_target_is_kept_with_half_the_latency_of_the_largest_delay_at_the_most() -> None:
    data = GENERATORS["game1"](5, 150)
    bounds, _, _ = adaptive(data, SECOND, 0.02, "model")
    ours = outcome(data, bounds, SECOND)
    others = {way: outcome(data, b, SECOND) for way, b in baselines(data).items()}
    assert ours.interval(0.02, 100)[1] >= 0.95
    assert ours.latency < 0.5 * others["max-delay"].latency
    assert ours.kept(0.02) > others["no slack"].kept(0.02) + 0.1
