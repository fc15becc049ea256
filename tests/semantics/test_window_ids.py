from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import END, START
from slackwater.semantics.panes import Panes
from slackwater.semantics.window_ids import (
    extent,
    first_open,
    last_complete,
    wid_range,
    window_bound,
    windows_missed,
)

windows = st.builds(
    TimeWindow,
    range=st.integers(1, 40),
    slide=st.integers(1, 40),
    origin=st.integers(-50, 50),
    on=st.just("ts"),
)
times = st.integers(-300, 300)


def ids(a: int, w: TimeWindow) -> set[int]:
    return set(range(*wid_range(a, w)))


@pytest.mark.spec("WQ-F13")
@pytest.mark.parametrize(
    ("a", "expected"),
    [
        (0, (0, 10)),
        (60, (1, 11)),
        (599, (9, 19)),
        (600, (10, 20)),
        (659, (10, 20)),
        (660, (11, 21)),
    ],
)
def test_ten_minutes_every_minute(a: int, expected: tuple[int, int]) -> None:
    assert wid_range(a, TimeWindow(600, 60, 0, "ts")) == expected


@pytest.mark.spec("WQ-F13")
@pytest.mark.parametrize(
    ("a", "expected"),
    [
        (0, {0}), (2, {0}), (3, {0, 1}), (5, {0, 1}), (6, {1}), (8, {1}), (9, {1, 2}),
        (11, {1, 2}), (12, {2}),
    ],
)  # fmt: skip
def test_slide_that_does_not_divide_the_range(a: int, expected: set[int]) -> None:
    w = TimeWindow(9, 6, 0, "ts")
    # The digest counts windows from 0; ours goes on below.
    assert {i for i in ids(a, w) if i >= 0} == expected
    assert [extent(i, w) for i in range(4)] == [(-3, 6), (3, 12), (9, 18), (15, 24)]


@pytest.mark.spec("WQ-F13")
def test_gaps_between_windows() -> None:
    w = TimeWindow(2, 5, 0, "ts")
    assert {a: ids(a, w) for a in range(15) if ids(a, w)} == {
        3: {0}, 4: {0}, 8: {1}, 9: {1}, 13: {2}, 14: {2},
    }  # fmt: skip


@pytest.mark.spec("WQ-F14")
def test_nine_partial_extents() -> None:
    w = TimeWindow(600, 60, 0, "ts")
    assert sum(extent(i, w)[0] < 0 for i in range(100)) == 9
    assert extent(9, w) == (0, 600)
    assert extent(14, w) == (300, 900)


@pytest.mark.spec("WQ-F14")
@given(w=windows)
def test_number_of_partial_extents(w: TimeWindow) -> None:
    partial = sum(extent(i, w)[0] < w.origin for i in range(100))
    assert partial == -(-w.range // w.slide) - 1


@pytest.mark.spec("WQ-F12", "WQ-F13")
@given(w=windows, a=times)
def test_duality(w: TimeWindow, a: int) -> None:
    near = range((a - w.origin) // w.slide - 45, (a - w.origin) // w.slide + 90)
    assert set(range(*wid_range(a, w))) == {
        i for i in near if extent(i, w)[0] <= a < extent(i, w)[1]
    }


@pytest.mark.spec("WQ-F15")
@given(a=times, size=st.integers(1, 40), origin=times)
def test_tumbling_is_one_window(a: int, size: int, origin: int) -> None:
    w = TimeWindow(size, size, origin, "ts")
    lo, hi = wid_range(a, w)
    assert hi == lo + 1 == (a - origin) // size + 1


@pytest.mark.spec("WQ-F7", "WQ-F28", "WQ-F31")
def test_eleven_past_twelve_closes_window_ten() -> None:
    noon = 12 * 3600
    w = TimeWindow(600, 60, noon, "ts")
    assert wid_range(noon + 630, w) == (10, 20)
    assert last_complete(noon + 660, w) == 10
    assert last_complete(noon + 659, w) == 9
    assert first_open(noon + 660, w) == 11


@pytest.mark.spec("WQ-F7")
@given(w=windows, v=times)
def test_a_bound_closes_exactly_the_windows_that_end_by_then(w: TimeWindow, v: int) -> None:
    c = last_complete(v, w)
    assert extent(c, w)[1] <= v < extent(c + 1, w)[1]


@pytest.mark.spec("WQ-F36")
@given(w=windows, v=times, a=times)
def test_results_after_a_bound_respect_the_bound_of_results(w: TimeWindow, v: int, a: int) -> None:
    b = window_bound(v, w)
    for wid in ids(a, w):
        if wid > last_complete(v, w):
            assert extent(wid, w)[1] - 1 >= b
    # and it is the best such bound
    assert extent(first_open(v, w), w)[1] - 1 == b


def test_window_bound_at_the_ends() -> None:
    w = TimeWindow(10, 5, 3, "ts")
    assert window_bound(START, w) == START
    assert window_bound(END, w) == END


@pytest.mark.spec("WQ-F36")
def test_one_minute_results_close_five_minute_windows() -> None:
    minute, five = TimeWindow(60, 60, 0, "ts"), TimeWindow(300, 300, 0, "window")
    # At five minutes sharp the last minute closes, and with it the five.
    assert last_complete(window_bound(300, minute), five) == 0
    assert last_complete(window_bound(299, minute), five) == -1


@given(w=windows, a=st.lists(times, min_size=1), v=times)
def test_arrays_equal_ints(w: TimeWindow, a: list[int], v: int) -> None:
    array = np.array(a, dtype=np.int64)
    closed = last_complete(v, w)
    lo, hi = wid_range(array, w)
    assert list(zip(lo.tolist(), hi.tolist(), strict=True)) == [wid_range(x, w) for x in a]
    assert windows_missed(array, closed, w).tolist() == [windows_missed(x, closed, w) for x in a]
    panes = Panes.of(w)
    pane = (array - panes.origin) // panes.width
    assert panes.first_window(pane).tolist() == lo.tolist()
    assert panes.end_window(pane).tolist() == hi.tolist()


@given(w=windows, a=times, v=times)
def test_windows_missed_counts_closed_windows(w: TimeWindow, a: int, v: int) -> None:
    closed = last_complete(v, w)
    assert windows_missed(a, closed, w) == sum(i <= closed for i in ids(a, w))


@pytest.mark.spec("WQ-F42")
@given(w=windows, a=times)
def test_windows_of_a_pane_are_the_windows_of_its_rows(w: TimeWindow, a: int) -> None:
    panes = Panes.of(w)
    pane = np.array([(a - panes.origin) // panes.width])
    wids = int(panes.first_window(pane)[0]), int(panes.end_window(pane)[0])
    assert wids == wid_range(a, w)
    for wid in range(*wids):
        first, end = panes.first_pane(wid), panes.end_pane(wid)
        assert first <= pane[0] < end
        assert end - first == panes.per_window


@pytest.mark.spec("WQ-F42")
def test_panes_of_nine_by_six() -> None:
    panes = Panes.of(TimeWindow(9, 6, 0, "ts"))
    assert (panes.width, panes.per_window, panes.per_slide) == (3, 3, 2)
    assert (panes.first_pane(1), panes.end_pane(1)) == (1, 4)


@given(w=windows, v=times)
def test_first_needed_pane(w: TimeWindow, v: int) -> None:
    panes = Panes.of(w)
    closed = last_complete(v, w)
    later = [
        pane
        for wid in range(closed + 1, closed + 60)
        for pane in range(panes.first_pane(wid), panes.end_pane(wid))
    ]
    assert min(later) == panes.first_pane(closed + 1)
