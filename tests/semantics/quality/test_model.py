"""The model of coverage by slack, against the digest's vectors and plain sums."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.semantics.quality.delays import (
    bins,
    histogram,
)
from slackwater.semantics.quality.model import (
    candidates,
    coverages,
    cumulated,
    edge_coverages,
    masses,
    shares,
    smallest,
)
from slackwater.semantics.quality.statistics import (
    Bag,
    StreamStatistics,
)
from slackwater.testing.oracle.quality import window_coverage
from tests.examples import examples

F = np.array([0.6, 0.2, 0.1, 0.1])


@pytest.mark.spec("QD-C5", "QD-C6")
def test_the_digest_s_vectors() -> None:
    slacks = np.arange(4)
    for piece, wanted in (
        (1, [0.825, 0.925, 0.975, 1]),
        (2, [0.75, 0.9, 0.95, 1]),
        (4, [0.6, 0.8, 0.9, 1]),
        (9, [0.6, 0.8, 0.9, 1]),
    ):
        assert coverages(F, 4, 1, slacks, piece=piece) == pytest.approx(wanted)
    assert coverages(F, 35, 10, 10 * slacks) == pytest.approx([0.8, 0.91429, 0.97143, 1], abs=1e-5)
    assert coverages(F, 4, 1, slacks, sync=1.0) == pytest.approx([0.925, 0.975, 1, 1])
    assert smallest(coverages(F, 4, 1, slacks), slacks, 0.95) == 2
    assert bins(np.array([0, 1, 10, 11, 20]), 10).tolist() == [0, 1, 1, 2, 2]


@pytest.mark.spec("QD-C5", "QD-C6", "QD-D10")
@given(
    st.lists(st.integers(0, 90), min_size=1, max_size=60),
    st.integers(1, 7),
    st.integers(1, 120),
    st.integers(1, 5),
)
def test_the_curve_is_the_sum_over_basic_windows(
    late: list[int], g: int, width: int, several: int
) -> None:
    counts = histogram(np.array(late), g)
    slacks = candidates(max(late), g)
    curve = coverages(shares(counts), width, g, slacks)
    for slack, found in zip(slacks.tolist(), curve, strict=True):
        assert found == pytest.approx(window_coverage(late, width, slack, g), abs=1e-9)
    assert (np.diff(curve) >= -1e-12).all() and curve[-1] == pytest.approx(1)
    # Longer pieces err to the low side.
    rough = masses(shares(counts), width, g, slacks, piece=g * several)
    assert (rough <= curve * width + 1e-9).all()
    assert (np.diff(cumulated(shares(counts))) >= 0).all()


@pytest.mark.spec("QD-C6")
@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(5, 60), st.integers(0, 30))
def test_at_the_edge_of_a_batch_the_model_counts_what_is_missing(
    seed: int, g: int, width: int, slack: int
) -> None:
    """Windows that end one slack before an edge, row by row."""
    rng = np.random.default_rng(seed)
    times = np.arange(600) // 2 - rng.integers(0, 50, 600) * (rng.random(600) < 0.3)
    statistics = StreamStatistics.fresh(g)
    edges: list[int] = []
    seen: list[int] = []
    for batch in np.split(times, 12):
        statistics.observe_bag(Bag.of(batch, seen, g))
        edges.append(statistics.newest or 0)
        seen = sorted(set(edges))
    slack -= slack % g
    missing = 0
    for i, edge in enumerate(edges[:-1]):
        if edge in edges[:i]:
            continue
        late = times[50 * (i + 1) :]
        # Whole bins: the reach of the window is rounded up.
        reach = -(-(slack + width) // g) * g
        missing += int(((edge - late > slack) & (edge - late <= reach)).sum())
    rows = statistics.window.edges * statistics.rate * width
    found = edge_coverages(statistics.window.counts, rows, width, g, np.array([slack]))[0]
    assert found == pytest.approx(max(0.0, 1 - missing / rows))


@pytest.mark.spec("QD-D10")
def test_four_streams_and_two_thousand_slacks_take_less_than_five_milliseconds() -> None:
    rng = np.random.default_rng(1)
    streams = [shares(rng.integers(0, 50, 2_001)) for _ in range(4)]
    slacks = np.arange(2_001) * 10_000
    best = math.inf
    for _ in range(5):
        began = time.process_time()
        product = np.ones(len(slacks))
        for f in streams:
            product *= coverages(f, 5_000_000, 10_000, slacks)
        smallest(product, slacks, 0.99)
        best = min(best, time.process_time() - began)
    assert best < 0.005
