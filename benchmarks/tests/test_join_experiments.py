"""The simulated machine of the join experiments, the data they run on, and the page they write."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import join_experiments
from benchmarks.experiments.common import Finding
from benchmarks.join_simulation import (
    MILLI,
    Baseline,
    Machine,
    Ours,
    Work,
    Workload,
    _slice,
    simulate,
)
from slackwater.errors import AnalysisError
from slackwater.testing import b_model, bursty_events, clustered, events, skewed_keys

SMALL = Workload(
    rate=2000, window=40, memory=5_000_000, keys=10_000, length=120, warm_up=50, trigger=5
)


# --- data


@pytest.mark.spec("XJ-F81")
@pytest.mark.parametrize("bias", [0.5, 0.6, 0.8, 1.0])
def test_a_volume_is_halved_unevenly_at_every_level(bias):
    parts = b_model(1_000_003, bias=bias, levels=10, seed=4)
    assert len(parts) == 1024 and parts.sum() == 1_000_003 and parts.min() >= 0
    while len(parts) > 64:  # below, rounding shows
        pairs = parts.reshape(-1, 2)
        whole = pairs.sum(axis=1)
        large = whole > 300
        shares = pairs.max(axis=1)[large] / whole[large]
        assert shares == pytest.approx(bias, abs=0.01)
        parts = whole


@pytest.mark.spec("XJ-F81")
def test_keys_are_halved_unevenly_and_all_lie_in_their_range():
    keys = skewed_keys(200_000, 1000, bias=0.7, seed=1)
    assert keys.min() >= 0 and keys.max() < 1000
    halves = np.bincount(skewed_keys(200_000, 1024, bias=0.7, seed=1) >> 9) / 200_000
    assert sorted(halves) == pytest.approx([0.3, 0.7], abs=0.01)
    even = np.bincount(skewed_keys(200_000, 100, bias=0.5), minlength=100)
    assert even.min() > 1_000
    counts = np.sort(np.bincount(keys, minlength=1000))[::-1]
    assert counts[:200].sum() > 0.6 * 200_000


@pytest.mark.spec("XJ-F81")
def test_rows_near_in_time_have_near_keys_and_quadrants_get_their_shares():
    times, keys = clustered(100_000, length=1 << 20, keys=1 << 20, quadrants=(0.5, 0.2, 0.1, 0.2))
    assert (np.diff(times) >= 0).all()
    for bits in (19, 18):  # the whole plane, and inside each of its quadrants
        late, high = times >> bits & 1, keys >> bits & 1
        shares = [((late == a) & (high == b)).mean() for a, b in ((0, 0), (0, 1), (1, 0), (1, 1))]
        assert shares == pytest.approx([0.5, 0.2, 0.1, 0.2], abs=0.01)


@pytest.mark.spec("XJ-F81")
def test_bursty_events_have_the_volume_the_length_and_the_bias_asked_for():
    found = bursty_events(50_000, length=64_000, keys=500, bias=0.7, levels=5, seed=9)
    assert len(found) == 50_000 and (np.diff(found.time) >= 0).all()
    assert found.time.min() >= 0 and found.time.max() < 64_000 and found.key.max() < 500
    volume = np.bincount(found.time // 2_000, minlength=32)
    assert volume.max() == pytest.approx(50_000 * 0.7**5, rel=0.01)
    # Without bias and clusters: as many in each slot, and independent events as `events` makes them.
    even = bursty_events(64_000, length=64_000, keys=9, bias=0.5, quadrants=(0.25,) * 4, levels=4)
    assert np.bincount(even.time // 4_000).tolist() == [4_000] * 16
    gaps = np.diff(events(50_000, every=100.0, seed=3).time)
    assert gaps.mean() == pytest.approx(100, rel=0.02)
    assert gaps.std() == pytest.approx(100, rel=0.03)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: b_model(10, bias=0.4, levels=2),
        lambda: skewed_keys(10, 5, bias=1.1),
        lambda: clustered(10, length=9, keys=9, quadrants=(0.5, 0.5, 0.5, 0.5)),
    ],
)
def test_shares_out_of_range_are_refused(wrong):
    with pytest.raises(AnalysisError, match=r"share|bias"):
        wrong()


# --- the machine


class Echo:
    """A result per row, as old as the row."""

    def __init__(self):
        self.seen = []

    def step(self, rows, now):
        times = np.concatenate([r.time for r in rows])
        assert (times < now).all()
        self.seen += times.tolist()
        return Work(len(times), 0, times, 0, 0, 0)


@pytest.mark.parametrize("row_seconds", [0.001, 0.02, 0.2])
def test_rows_are_stamped_before_they_wait_and_a_delay_includes_the_wait(row_seconds):
    machine = Machine(row=row_seconds, result=0.0, slow=1.0)
    figures = simulate(Echo(), SMALL, machine)
    # 20 rows come in a second: at 0.2 s for each, the queue grows and so does the wait.
    assert figures.delay >= figures.waited >= 0.3 * SMALL.trigger
    assert figures.delay - figures.waited >= row_seconds
    if row_seconds == 0.2:
        assert figures.waited > 2 * SMALL.trigger and figures.last_waiting > 500
    else:
        assert figures.last_waiting < 300


@pytest.mark.spec("XJ-F83")
def test_time_is_simulated_and_the_warm_up_is_left_out():
    machine = Machine(row=0.01, result=0.0, slow=1.0)
    with_all = simulate(Echo(), replace(SMALL, warm_up=0), machine)
    echo = Echo()
    after = simulate(echo, SMALL, machine)
    rows = sum(len(s.time) for s in SMALL.streams())
    assert with_all.processed == len(echo.seen) and rows - 200 <= len(echo.seen) <= rows
    late = sum(t >= (SMALL.warm_up - SMALL.trigger) * MILLI for t in echo.seen)
    assert after.processed == pytest.approx(late, abs=120) and after.processed < 0.8 * rows
    assert after.over_time[0][0] > SMALL.warm_up
    # The clock of the machine that runs this plays no part.
    assert simulate(Echo(), SMALL, machine) == after
    short = replace(SMALL, length=60, warm_up=45)
    assert simulate(Ours(short), short, machine) == simulate(Ours(short), short, machine)


@pytest.mark.parametrize("kind", [Ours, Baseline])
def test_what_is_measured_adds_up(kind):
    machine = Machine(slow=0.2)
    found = simulate(kind(SMALL), SMALL, machine)
    assert found.results > 0 and found.over_time[-1] == (found.over_time[-1][0], found.results)
    assert found.processed > 1_000 and 0 <= found.late <= 1 and found.delay > 0
    assert found.disk > 0 and found.cpu > 0 and found.idle > 0
    elapsed = found.over_time[-1][0] - SMALL.warm_up
    assert found.busy + found.idle == pytest.approx(elapsed, abs=2 * SMALL.trigger)
    # Both windows, of rows of 64 bytes, and what a block has around them.
    least = 2 * SMALL.window * SMALL.rate / 200 * SMALL.row_bytes
    assert 0.5 * least < found.window < 8 * least


def test_both_joins_make_the_same_pairs():
    """Both owe some when the streams end, and pay them then: each pair is made, and made once."""
    results, owed = {}, {}
    for kind in (Ours, Baseline):
        found: Counter = Counter()

        class Spy(kind):
            def step(self, rows, now, found=found, kind=kind):
                work = kind.step(self, rows, now)
                found.update(work.newest.tolist())
                return work

        join = Spy(SMALL)
        simulate(join, SMALL, Machine(slow=0.01))
        owed[kind] = found.copy()
        if kind is Baseline:
            found.update(max(x.time, y.time) for x, y in join.finish())
        for quiet in range(1, 4):  # batches without rows
            now = (SMALL.length + quiet * SMALL.trigger) * MILLI
            join.step([_slice(s, 0, 0) for s in SMALL.streams()], now)
        results[kind] = found
    a, b = SMALL.streams()
    right: Counter = Counter()
    for t, k in zip(a.time.tolist(), a.key.tolist(), strict=True):
        for u in b.time[b.key == k].tolist():
            if abs(t - u) <= SMALL.window * MILLI:
                right[max(t, u)] += 1
    for kind, found in results.items():
        assert found == right
        assert (right - owed[kind]).total() > 500  # or nothing would have been left to pay


def test_the_page_says_what_was_found():
    finding = Finding("X0", "a title", "How.", ("a", "b"), [[1, 2]], "this", "that", agrees=False)
    page = join_experiments.document({"commit": "0123456789ab"}, [finding])
    assert "| X0 | this | that | no |" in page and "## X0: a title" in page
    assert set(join_experiments.EXPERIMENTS) == {"X1", "X7", "X9", "X11", "X19", "X21"}
