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


def test_bins_grow_with_the_delays() -> None:
    window = Adwin(1)
    window.add(np.array([0, 3, 5_000]), np.zeros(3, np.int64))
    assert window.granularity == 2 and window.counts.sum() == 3
    assert np.flatnonzero(window.counts).tolist() == [0, 2, 2_500]
