"""The measured lateness of results: shares from what is known so far, and the slack that follows."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.semantics.quality.join_measured import MeasuredSlack
from slackwater.semantics.quality.join_slack import RecallTarget
from slackwater.semantics.quality.recall_lateness import (
    ResultLateness,
    lateness_bins,
    lateness_edges,
)
from slackwater.semantics.quality.recall_state import RecallState
from tests.examples import examples


@given(st.lists(st.integers(-50, 10_000_000), max_size=20), st.integers(1, 1000))
def test_a_bin_s_edge_is_enough_and_the_one_before_is_not(late: list[int], granularity: int) -> None:  # fmt: skip
    bins = lateness_bins(np.array(late, np.int64), granularity)
    edges = lateness_edges(2000 if not late else int(bins.max()) + 1, granularity)
    for value, at in zip(late, bins.tolist(), strict=True):
        assert edges[at] >= value
        assert at == 0 or edges[at - 1] < value
        # Not much too large either: a granule, or a twentieth.
        assert edges[at] <= max(0, value) + max(granularity, value // 19 + granularity)


def one_by_one(results: list[tuple[int, int]], clock: int, gr: int, interval: int, span: int) -> list[float]:  # fmt: skip
    """The shares from their definition: loops over results that are (time, lateness)."""
    bins = lateness_bins(np.array([k for _, k in results]), gr)
    count = int(bins.max()) + 1
    edges = lateness_edges(count, gr).tolist()
    first = min(t // interval for t, _ in results)
    shares = [1.0] * count
    for at in range(count - 1, 0, -1):
        high = (clock - edges[at]) // interval
        high = min(max(high, first), max(t // interval for t, _ in results) + 1)
        low = max((clock - edges[at]) // interval - span // interval, first)
        inside = [b for (t, _), b in zip(results, bins.tolist(), strict=True) if low <= t // interval < high]  # fmt: skip
        whole = sum(b <= at for b in inside)
        step = sum(b <= at - 1 for b in inside) / whole if whole else 1.0
        shares[at - 1] = shares[at] * step
    return shares


@given(
    st.lists(st.tuples(st.integers(0, 300), st.sampled_from([0, 0, 0, 3, 8, 15, 40, 90])), min_size=1),
    st.integers(100, 500),
)  # fmt: skip
@examples(30)
def test_shares_are_those_of_the_definition(results: list[tuple[int, int]], clock: int) -> None:
    known = [(t, k) for t, k in results if t + k <= clock] or results
    lateness = ResultLateness(5, 20, 120)
    lateness.record(
        np.array([t for t, _ in known]), np.array([k for _, k in known]), np.ones(len(known), bool)
    )
    # The span of 120 ticks and its last sixth; the lesser share counts.
    want = np.minimum(*(one_by_one(known, clock, 5, 20, span) for span in (120, 20)))
    assert lateness.shares(clock) == pytest.approx(want)


def test_recent_results_that_are_not_there_yet_do_not_count_as_missing() -> None:
    """Half of the results come 100 late. Of the last hundred ticks only the other half is known."""
    lateness = ResultLateness(10, 10, 200)
    times = np.arange(1000)
    late = np.where(times % 2, 100, 0)
    seen = times + late <= 1000
    lateness.record(times[seen], late[seen], late[seen] == 0)
    shares = lateness.shares(1000)
    assert shares[0] == pytest.approx(0.5)
    made, true = lateness.past(1000, 900, 1000, shares)
    assert made == 50
    assert true == pytest.approx(100, rel=0.05)


def stream(rng: np.random.Generator, n: int, share: float, most: int) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    late = np.where(rng.random(n) < share, rng.integers(1, most, n), 0)
    return np.arange(n), late


def drive(state: MeasuredSlack, times: np.ndarray, late: np.ndarray, stop: int, start: int = 0) -> list[int]:  # fmt: skip
    """One result a tick; the clock is that of the slowest stream."""
    known = times + late
    slacks = []
    for clock in range(start + 10, stop, 10):
        fresh = (known >= clock - 10) & (known < clock)
        state.lateness.record(times[fresh], late[fresh], late[fresh] <= state.slack)
        slacks.append(state.adapt(clock, clock - state.slack, 500))
    return slacks


def test_the_recall_that_is_aimed_at_does_not_swing() -> None:
    """A tenth of what may be lost is kept in reserve, and what is lacking is not made good by waiting for all results."""
    rng = np.random.default_rng(4)
    times, late = stream(rng, 3000, 0.2, 200)
    for limit, needed in ((None, 0.955), (0, 0.98)):
        state = MeasuredSlack.fresh(replace(RecallTarget(0.95, 600, 10, 10), limit=limit))
        aims = []
        for stop in range(1_500, 3_000, 300):
            drive(state, times, late, stop, stop - 300 if aims else 0)
            aims.append(state.needed)
        assert all(0.955 - 1e-9 <= a <= 0.98 + 1e-9 for a in aims if a is not None)
        assert any(a == pytest.approx(needed) for a in aims)


@pytest.mark.spec("QD-E4", "QD-E8")
def test_slack_settles_where_measured_recall_meets_the_target() -> None:
    rng = np.random.default_rng(4)
    times, late = stream(rng, 6000, 0.2, 200)
    target = RecallTarget(0.95, 600, 10, 10)
    state = MeasuredSlack.fresh(target)
    slacks = drive(state, times, late, 6000)
    assert slacks[0] == 500  # not warm yet: the largest delay
    settled = np.array(slacks[100:])
    # 5 % of the results need more than 150.
    assert 140 <= settled.mean() <= 170
    assert state.estimated is not None and 0.945 <= state.estimated <= 0.98


@pytest.mark.spec("QD-E12")
@pytest.mark.parametrize("recall", [0.8, 0.95])
def test_the_controller_steers_measured_recall_to_the_target(recall: float) -> None:
    times, late = stream(np.random.default_rng(4), 6000, 0.2, 200)
    state = MeasuredSlack.fresh(RecallTarget(recall, 600, 10, 10, "controller"))
    settled = np.array(drive(state, times, late, 6000)[100:])
    assert state.estimated is not None and abs(state.estimated - recall) < 0.03
    # It swings, but does not just wait for the largest delay.
    assert settled.mean() < 300 and settled.min() < 150


@pytest.mark.spec("QD-E11")
def test_slack_follows_a_change() -> None:
    rng = np.random.default_rng(5)
    times, late = stream(rng, 3000, 0.2, 40)
    later, more = stream(rng, 3000, 0.2, 400)
    state = MeasuredSlack.fresh(RecallTarget(0.95, 600, 10, 10))
    slacks = drive(state, np.concatenate([times, later + 3000]), np.concatenate([late, more]), 6000)
    assert max(slacks[100:290]) < 60
    assert min(slacks[400:]) > 200


def test_a_silent_join_freezes_the_slack() -> None:
    rng = np.random.default_rng(6)
    state = MeasuredSlack.fresh(RecallTarget(0.9, 200, 10, 10))
    drive(state, *stream(rng, 1000, 0.2, 100), 1000)
    before = state.kept
    assert state.adapt(1500, state.reached or 0, 500) == before.slack
    assert state.kept == before


def test_measured_slack_goes_on_from_json_as_if_nothing_had_happened() -> None:
    rng = np.random.default_rng(7)
    times, late = stream(rng, 2000, 0.3, 100)
    target = RecallTarget(0.97, 300, 10, 10)
    going = MeasuredSlack.fresh(target)
    drive(going, times, late, 1000)
    kept = RecallState.from_json(json.loads(json.dumps(going.kept.to_json())))
    resumed = MeasuredSlack.resumed(target, kept)
    after = [drive(s, times, late, 2000, start=990) for s in (going, resumed)]
    assert after[0] == after[1]
    assert going.kept == resumed.kept
    # Old intervals are forgotten.
    assert len(going.lateness.by_bin) < 60
