"""Generated disorder: what each kind promises, the same for the same seed; accuracy; low-water marks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.model.policy import BoundedDelay, BoundedRows, Ordered, Punctuated
from slackwater.testing import (
    Arrivals,
    accuracy,
    delays,
    events,
    is_progressing,
    low_water_marks,
)
from tests.semantics.helpers import Feed

seeds = st.integers(0, 2**32)
COLUMNS = ("time", "arrival", "source", "key", "number")


def same(a: Arrivals, b: Arrivals) -> bool:
    return all(np.array_equal(getattr(a, c), getattr(b, c)) for c in COLUMNS)


def made(seed: int) -> Arrivals:
    return events(400, every=10, seed=seed, sources=3).keyed(20, skew=1.2)


@pytest.mark.spec("WQ-F99")
@pytest.mark.parametrize(
    "step",
    [
        lambda a: a.band(50),
        lambda a: a.exponential(30, limit=200),
        lambda a: a.stragglers(0.2, 300),
        lambda a: a.blocks(500),
        lambda a: a.skew(700, source=1),
        lambda a: a.lull(1000, 2000),
        lambda a: a.burst(1000, 2000, 4),
    ],
    ids=["band", "exponential", "stragglers", "blocks", "skew", "lull", "burst"],
)
def test_the_same_seed_gives_the_same_rows_and_no_row_is_lost(
    step: Callable[[Arrivals], Arrivals],
) -> None:
    base = made(5)
    one = step(base)
    assert same(one, step(made(5)))
    assert (np.diff(one.arrival) >= 0).all()
    kept = one.number < len(base)
    order = np.argsort(one.number[kept])
    for column in ("time", "source", "key"):
        assert np.array_equal(getattr(one, column)[kept][order], getattr(base, column))
    assert one.tuples()[0] == tuple(
        int(getattr(one, c)[0]) for c in ("time", "source", "key", "number")
    )


def test_another_seed_gives_other_rows() -> None:
    assert not same(made(5), made(6)) and not same(made(5).band(50), made(5).band(50).band(50))


@pytest.mark.spec("WQ-F99")
@given(seed=seeds, limit=st.integers(0, 200))
def test_a_band_keeps_its_limit(seed: int, limit: int) -> None:
    rough = events(200, every=7, seed=seed).band(limit)
    assert rough.delays().max() <= limit
    assert is_progressing(rough.time, limit)


@pytest.mark.spec("WQ-F99")
def test_the_shapes_are_what_their_names_say() -> None:
    base = made(9)
    assert not base.delays().any()
    assert base.band(100).delays().any()
    tail = base.exponential(30)
    assert 15 < (tail.arrival - tail.time).mean() < 60
    few = base.stragglers(0.1, 300)
    late = few.arrival > few.time
    assert 10 < late.sum() < 90 and (few.arrival - few.time).max() <= 300
    skewed = base.skew(700, source=1)
    assert set((skewed.arrival - skewed.time)[skewed.source == 1].tolist()) == {700}
    assert not (skewed.arrival - skewed.time)[skewed.source != 1].any()
    quiet = base.lull(1000, 2000, source=0)
    there = quiet.source == 0
    assert not ((quiet.arrival >= 1000) & (quiet.arrival < 2000) & there).any()
    assert (quiet.arrival[there] == 2000).sum() > 5  # the burst behind it
    assert ((quiet.arrival >= 1000) & (quiet.arrival < 2000) & ~there).any()
    silent = base.silence(1000, 2000)
    assert not ((silent.time >= 1000) & (silent.time < 2000)).any() and len(silent) < len(base)
    inside = ((base.time >= 1000) & (base.time < 2000)).sum()
    dense = base.burst(1000, 2000, 4)
    assert len(dense) == len(base) + 3 * inside
    assert len(set(dense.number.tolist())) == len(dense)
    first, last = (base.key == 0).sum(), (base.key == 19).sum()
    assert first > 4 * max(1, last)


@pytest.mark.spec("WQ-F99")
@given(seed=seeds, size=st.integers(1, 300))
def test_blocks_are_sorted_among_each_other_and_say_when_they_end(seed: int, size: int) -> None:
    rows = events(150, every=7, seed=seed).blocks(size)
    assert (np.diff(rows.time // size) >= 0).all()
    ends = rows.block_ends(size)
    for place in np.flatnonzero(ends >= 0):
        assert (rows.time[place + 1 :] >= ends[place]).all()
        assert (rows.time[: place + 1] < ends[place]).all()
    assert (ends >= 0).sum() == len(set((rows.time // size).tolist()))


@given(seed=seeds, rows=st.integers(1, 50))
def test_batches_hold_every_row_once(seed: int, rows: int) -> None:
    base = events(120, every=7, seed=seed).band(30)
    by_rows, by_time = base.batches(rows=rows), base.batches(every=rows)
    for cut in (by_rows, by_time):
        assert np.concatenate(cut).tolist() == list(range(120))
    assert all(len(b) == rows for b in by_rows[:-1])
    for batch in by_time:
        if len(batch):
            assert np.ptp(base.arrival[batch]) < rows


def test_bad_arguments_are_named() -> None:
    base = events(3, every=1)
    for call in (
        lambda: base.band(-1),
        lambda: base.stragglers(1.5, 3),
        lambda: base.batches(),
        lambda: events(-1, every=1),
    ):
        with pytest.raises(AnalysisError) as caught:
            call()
        assert caught.value.condition == "BAD_DISORDER" and caught.value.hint
    assert events(0, every=1).batches(rows=5) == []


# --- low-water marks ---------------------------------------------------------------------------------

times = st.lists(st.integers(-50, 50), min_size=1, max_size=25)


@pytest.mark.spec("WQ-F1")
@given(column=times)
def test_the_low_water_mark_is_the_least_time_to_come(column: list[int]) -> None:
    marks = low_water_marks(column).tolist()
    assert marks == [min(column[n:]) for n in range(len(column))]
    assert delays(column).tolist() == [max(column[: n + 1]) - t for n, t in enumerate(column)]


@pytest.mark.spec("WQ-F1", "OO-F1", "WQ-F2")
@given(column=times, cut=st.integers(1, 6))
def test_bounds_of_every_policy_stay_below_the_low_water_mark(column: list[int], cut: int) -> None:
    """Each policy is told the truth about the stream, so that its bound must never pass the mark."""
    marks = [*low_water_marks(column).tolist(), None]
    behind = int(delays(column).max())
    assert is_progressing(column, behind) and (
        behind == 0 or not is_progressing(column, behind - 1)
    )
    # By how many rows a row comes after its place, which is before the first row of a larger time.
    overtaken = max(
        n - next((j for j, u in enumerate(column[:n]) if u > t), n) for n, t in enumerate(column)
    )
    rows = [{"ts": t, "i": i} for i, t in enumerate(column)]
    feeds = [
        (Feed(BoundedDelay(delay=behind)), rows),
        (Feed(BoundedRows(rows=overtaken), order=("i",)), rows),
        (Feed(Punctuated(column="done", data=True)),
         [{**r, "done": m} for r, m in zip(rows, marks[1:], strict=True)]),
    ]  # fmt: skip
    if behind == 0:
        feeds.append((Feed(Ordered()), rows))
    for feed, given_rows in feeds:
        for start in range(0, len(rows), cut):
            stop = min(start + cut, len(rows))
            bound = feed.batch(*given_rows[start:stop])
            if marks[stop] is not None:
                assert bound <= marks[stop]


# --- accuracy ----------------------------------------------------------------------------------------


@pytest.mark.spec("WQ-F98")
def test_accuracy_of_results_that_missed_rows() -> None:
    truth = {(k, w): 10.0 * (w + 1) for k in "ab" for w in range(5)}
    perfect = accuracy(truth, truth)
    assert (perfect.recall, perfect.wrong, perfect.mean_error, perfect.extra) == (1, 0, 0, 0)
    found = {key: v for key, v in truth.items() if key != ("a", 0)}
    found["b", 1] = 15.0
    found["c", 1] = 1.0
    some = accuracy(found, truth)
    assert (some.recall, some.wrong, some.extra, some.wrong_share) == (0.9, 1, 1, 1 / 9)
    assert some.mean_error == pytest.approx(0.25 / 9)
    assert accuracy({}, {}).recall == 1 and accuracy({"a": 1}, {"a": 0}).mean_error == 1
