"""The stretch of a stream whose delays count: cut where the stream changes."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.semantics.quality.adwin import Adwin
from slackwater.semantics.quality.statistics import (
    Bag,
    StreamStatistics,
    merged_bags,
    next_edges,
)
from slackwater.testing.oracle.quality import PlainAdwin
from tests.examples import examples

# Width and number of cuts after 500, 1000, ... values of `_values`, by river 0.26.1 (drift.ADWIN, defaults).
RIVER = [
    (500, 0), (1000, 0), (732, 2), (976, 4), (580, 5), (696, 8),
    (524, 11), (1024, 11), (1524, 11), (2024, 11), (2524, 11), (720, 16),
]  # fmt: skip


def _values(count: int) -> list[int]:
    """A fixed series of values up to 1000 whose mean changes now and then."""
    rng = random.Random(7)
    means = [5, 5, 60, 60, 200, 20, 20, 20, 20, 90]
    made = [min(999, int(rng.expovariate(1 / means[i * 10 // count]))) for i in range(count)]
    return [1000, *made[1:]]


@pytest.mark.spec("QD-C2")
def test_the_window_is_cut_where_the_published_implementation_cuts_it() -> None:
    values = np.array(_values(6_000))
    window = Adwin(1)
    window.largest = 1000
    found = []
    for at in range(0, 6_000, 500):
        window.add(values[at : at + 500], np.zeros(500, np.int64))
        found.append((window.width, window.cuts))
    assert found == RIVER


@pytest.mark.spec("QD-C2", "QD-C1")
@examples(12)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 900), max_size=5))
def test_the_window_is_that_of_one_value_after_the_other(seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    mean = np.repeat(rng.choice([2, 10, 60, 300], 3), 300)
    values = rng.exponential(mean).astype(np.int64)
    plain, largest = PlainAdwin(), 0
    for start in range(0, 900, 32):
        # The scale is the largest value up to the test that follows.
        largest = max(largest, int(values[start : start + 32].max()))
        for v in values[start : start + 32].tolist():
            plain.add(v, largest)
    window = Adwin(1)
    edges = [0, *sorted(cuts), 900]
    for a, b in pairwise(edges):
        window = Adwin.from_json(json.loads(json.dumps(window.to_json())))
        window.add(values[a:b], np.arange(a, b))
    assert window.width == len(plain.values) and window.cuts == plain.cuts
    kept = values[900 - window.width :]
    assert window.counts.tolist() == np.bincount(kept).tolist()
    assert window.total == int(kept.sum()) and window.begin == 900 - window.width


@pytest.mark.spec("QD-C2")
def test_batches_of_unknown_order_shrink_the_window_after_a_change() -> None:
    rng = np.random.default_rng(3)
    statistics = StreamStatistics.fresh(1)
    clock, edges = 0, []
    widths = []
    for batch in range(80):
        rows = int(rng.integers(20, 200))
        late = rng.exponential(3 if batch < 50 else 80, rows).astype(np.int64)
        now = clock + np.sort(rng.integers(0, 100, rows)) - late
        parts = [Bag.of(now[i::2], edges, statistics.granularity) for i in range(2)]
        bag = merged_bags(Bag.from_json(json.loads(json.dumps(p.to_json()))) for p in parts)
        assert bag == Bag.of(now, edges, statistics.granularity)
        statistics.observe_bag(bag)
        statistics = StreamStatistics.from_json(json.loads(json.dumps(statistics.to_json())))
        clock = statistics.newest or 0
        edges = next_edges(edges, clock, statistics.largest)
        widths.append(statistics.window.width)
    assert widths[49] > 40 * 80 and widths[-1] < widths[49]
    assert statistics.window.cuts >= 1
    assert len(statistics.window.blocks) < 60


@pytest.mark.spec("QD-C3")
def test_rates_and_largest_delays_are_those_of_the_window() -> None:
    statistics = StreamStatistics.fresh(10)
    rows = np.repeat(np.arange(0, 4_000, 4), 2)
    rows[1_001] -= 777
    statistics.observe(rows)
    assert statistics.rate == pytest.approx(0.5, rel=0.01)
    assert statistics.largest == 777 and statistics.window_largest == 780
    assert statistics.quantile(0.5) == pytest.approx(777, rel=0.011)


def test_bins_grow_with_the_delays_and_shrink_again() -> None:
    window = Adwin(1)
    window.add(np.array([0, 3, *[5_000] * 8]), np.zeros(10, np.int64))
    assert window.granularity == 2 and window.counts.sum() == 10
    assert np.flatnonzero(window.counts).tolist() == [0, 2, 2_500]
    rng = np.random.default_rng(1)
    window.add(rng.integers(0, 9_000, 4_000), np.zeros(4_000, np.int64))
    assert window.granularity == 4
    for _ in range(20):
        window = Adwin.from_json(json.loads(json.dumps(window.to_json())))
        window.add(rng.integers(0, 50, 2_000), np.zeros(2_000, np.int64))
    assert window.granularity == 1 and window.cuts > 0


@pytest.mark.spec("QD-C1", "QD-C2")
@pytest.mark.parametrize("ages", [5_000, 10**13])
@pytest.mark.parametrize("at", [3, 1_500])
def test_one_extreme_delay_leaves_the_bins_as_they_are(ages: int, at: int) -> None:
    rng = np.random.default_rng(2)
    values = rng.exponential(30, 4_000).astype(np.int64)
    extreme = values.copy()
    extreme[at] = ages
    plain, with_one = Adwin(1), Adwin(1)
    for piece in np.array_split(np.arange(4_000), 9):
        plain.add(values[piece], piece)
        with_one = Adwin.from_json(json.loads(json.dumps(with_one.to_json())))
        with_one.add(extreme[piece], piece)
    assert with_one.granularity == 1 and with_one.largest == ages
    assert with_one.width == plain.width == 4_000
    # It is in the bin behind the last; all others are where they were.
    found, wanted = with_one.counts, np.bincount(np.delete(values, at), minlength=4_098)
    wanted[-1] += 1
    assert found.tolist() == wanted.tolist()
    # A change is noticed all the same.
    with_one.add(rng.exponential(300, 2_000).astype(np.int64), np.zeros(2_000, np.int64))
    assert with_one.cuts > 0 and with_one.width < 4_000


def test_delays_that_were_beyond_come_into_the_bins_when_these_grow() -> None:
    window = Adwin(1, confidence=1e-250)  # nothing is dropped
    window.add(np.array([6_000] * 5 + [0] * 91), np.zeros(96, np.int64))
    assert window.granularity == 1 and window.counts[4_097] == 5
    window.add(np.array([6_100] * 96), np.zeros(96, np.int64))
    assert window.granularity == 2 and len(window.counts) <= 4_097
    assert window.counts[3_050] == 96 and window.counts[2_960:3_041].sum() == 5


def test_a_batch_with_one_extreme_delay_leaves_the_bins_as_they_are() -> None:
    rng = np.random.default_rng(4)
    plain, with_one = StreamStatistics.fresh(1), StreamStatistics.fresh(1)
    edges: list[int] = []
    for batch in range(60):
        times = batch * 100 + np.arange(100) - rng.exponential(20, 100).astype(np.int64)
        other = times.copy()
        if batch == 20:
            other[50] = -(10**12)
        plain.observe_bag(Bag.of(times, edges, plain.granularity))
        with_one.observe_bag(Bag.of(other, edges, with_one.granularity))
        assert plain.newest is not None
        edges = next_edges(edges, plain.newest, plain.reach)
        with_one = StreamStatistics.from_json(json.loads(json.dumps(with_one.to_json())))
    assert with_one.granularity == 1 and with_one.largest > 10**11
    assert with_one.reach == 4_096 and plain.reach < 400
    assert with_one.window.width == plain.window.width
    assert abs(with_one.quantile(0.9) - plain.quantile(0.9)) <= 1
