"""Types of windows: duality of extent and ids, classes, bounds of results, what a bound closes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.model.window import (
    ByTuple,
    CustomWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
)
from slackwater.semantics.limits import END, START
from slackwater.semantics.linear_windows import Linear
from slackwater.semantics.window_chains import flush_bound
from slackwater.semantics.window_ids import wid_range
from slackwater.semantics.window_types.custom import check_duality, custom_wids
from slackwater.semantics.window_types.rows import counted
from slackwater.semantics.windows import (
    closing,
    context_class,
    extents,
    missed,
    needs_rows,
    plan_of,
    reaching,
    result_bound,
    shifted,
)
from slackwater.testing.custom_windows import shifts
from tests.examples import examples

TIME = TimeWindow(10, 5, 0, "ts")
ALL: list[Window] = [
    TIME,
    RowWindow(4, 2, "ts"),
    Landmark(5, 0, "ts"),
    ByTuple(10, 1, "arrival", "ts"),
    SessionWindow(4, "ts"),
    SessionWindow(4, "ts", closed=True),
    shifts("ts"),
]


@pytest.mark.spec("WQ-F26")
@pytest.mark.parametrize(
    ("window", "kind", "plan"),
    [
        (TIME, "CF", "panes"),
        (Landmark(5, 0, "ts"), "CF", "landmark"),
        (shifts("ts"), "CF", "custom"),
        (RowWindow(4, 2, "ts"), "FCF", "rows"),
        (RowWindow(4, 2, "ts", per=("g",)), "FCF", "rows"),
        (ByTuple(10, 1, "arrival", "ts"), "FCA", "ticks"),
        (ByTuple(10, 3, "arrival", "ts"), "FCA", "ticks"),
        (ByTuple(10, 3, "rank", "ts"), "FCA", "ticks"),
        (SessionWindow(4, "ts"), "FCA", "sessions"),
    ],
)
def test_the_class_of_a_window_decides_its_plan(window: Window, kind: str, plan: str) -> None:
    assert context_class(window) == kind
    assert plan_of(window) == plan
    # Rows travel as such exactly where something before the row must be counted.
    counts = isinstance(window, RowWindow) or window == ByTuple(10, 3, "arrival", "ts")
    assert needs_rows(window) == counts


# --- duality: each type by its two definitions, the window's and the row's -----------------------------

Held = set[tuple[int, int]]


def by_extent(ids: Iterable[int], times: Sequence[int], holds: Callable[[int, int], bool]) -> Held:
    return {(t, w) for w in ids for t in times if holds(w, t)}


@pytest.mark.spec("WQ-F12")
@examples(30)
@given(
    times=st.lists(st.integers(-40, 40), min_size=1, max_size=12),
    size=st.integers(1, 12),
    slide=st.integers(1, 12),
    origin=st.integers(-10, 10),
    every=st.integers(1, 4),
)
def test_a_row_is_in_the_extents_of_its_ids(
    times: list[int], size: int, slide: int, origin: int, every: int
) -> None:
    # Row windows: over the rows' numbers.
    w = counted(RowWindow(size, slide, "ts"))
    numbers = range(len(times))
    ids = {i for n in numbers for i in range(*wid_range(n, w))}
    shown = {
        i: [int(e[0]) for e in extents(np.array([i]), RowWindow(size, slide, "ts"))] for i in ids
    }
    assert by_extent(ids, numbers, lambda i, n: shown[i][0] <= n < shown[i][1]) == {
        (n, i) for n in numbers for i in range(*wid_range(n, w))
    }
    # Landmark: of the windows up to the newest row's; those of a row are all from its own on.
    mark = Landmark(slide, origin, "ts")
    kept = [t for t in times if t >= origin]
    last = max(((t - origin) // slide for t in kept), default=-1)
    starts, ends = extents(np.arange(last + 1), mark)
    assert by_extent(range(last + 1), times, lambda i, t: starts[i] <= t < ends[i]) == {
        (t, i) for t in kept for i in range((t - origin) // slide, last + 1)
    }
    # By tuple: windows are times of rows; those of a row are the ones in [time, time + range).
    ranked = sorted(times)
    chosen = {t for rank, t in enumerate(ranked, 1) if rank % every == 0}
    window = ByTuple(size, every, "rank", "ts")
    spans = {i: [int(e[0]) for e in extents(np.array([i]), window)] for i in chosen}
    assert by_extent(chosen, times, lambda i, t: spans[i][0] < t <= spans[i][1]) == {
        (t, i) for t in times for i in chosen if t <= i < t + size
    }


@pytest.mark.spec("WQ-F11", "WQ-F12")
def test_a_custom_type_may_have_pieces_and_ids_of_any_kind() -> None:
    w = shifts("ts")
    times = np.arange(-25, 26)
    check_duality(w, times)
    places, ids = custom_wids(times, w)
    of_tick = {t: sorted(ids[times[places] == t].tolist()) for t in range(10)}
    assert of_tick == {
        0: [0], 1: [0], 2: [0, 7], 3: [7], 4: [7], 5: [7], 6: [7], 7: [7], 8: [0, 7], 9: [0],
    }  # fmt: skip
    assert [e.tolist() for e in extents(np.array([0, 7]), w)] == [[0, 2], [10, 9]]


@pytest.mark.spec("WQ-F27")
@examples(40)
@given(
    start=st.tuples(st.integers(1, 9), st.integers(-20, 20)),
    end=st.tuples(st.integers(1, 9), st.integers(-20, 40)),
)
def test_ids_follow_from_linear_extents(start: tuple[int, int], end: tuple[int, int]) -> None:
    lines = Linear(start, end)
    times = np.arange(-30, 31)
    places, ids = lines.wids(times)
    found = set(zip(times[places].tolist(), ids.tolist(), strict=True))
    assert len(found) == len(ids)
    assert found == {
        (int(t), w)
        for w in range(-80, 81)
        for t in times
        if start[0] * w + start[1] <= t < end[0] * w + end[1]
    }
    w = CustomWindow("lines", "ts", lines.windows, lines.extent, lines.wids)
    check_duality(w, times)


@pytest.mark.parametrize("function", ["windows", "extent", "wids"])
def test_a_custom_type_whose_functions_disagree_is_refused(function: str) -> None:
    w = shifts("ts")
    wrong: dict[str, Any] = {
        "windows": lambda low, high: w.windows(low, high)[1:],
        "extent": lambda ids: (w.extent(ids)[0], w.extent(ids)[1] - 1),
        "wids": lambda times: tuple(a[:-1] for a in w.wids(times)),
    }
    with pytest.raises(AnalysisError, match="shifts") as e:
        check_duality(replace(w, **{function: wrong[function]}), np.arange(-25, 26))
    assert e.value.condition == "BAD_WINDOW" and e.value.hint


def test_shapes_that_do_not_fit_are_named() -> None:
    w = shifts("ts")
    bad = replace(w, extent=lambda ids: (ids[:-1], ids))
    with pytest.raises(AnalysisError, match="extent"):
        check_duality(bad, np.arange(5))
    bad = replace(w, wids=lambda times: (times[:-1], times))
    with pytest.raises(AnalysisError, match="wids"):
        check_duality(bad, np.arange(5))


# --- bounds -------------------------------------------------------------------------------------------


@pytest.mark.spec("WQ-F36")
@pytest.mark.parametrize(
    ("window", "at_12"),
    [
        (TIME, 14),
        (Landmark(5, 0, "ts"), 14),
        (ByTuple(10, 1, "rank", "ts"), 11),
        (SessionWindow(4, "ts"), 12),
        (SessionWindow(4, "ts", closed=True), 11),
        (shifts("ts"), 12),
        (RowWindow(4, 2, "ts"), START),
    ],
)
def test_what_is_promised_of_results_to_come(window: Window, at_12: int) -> None:
    assert result_bound(12, window) == at_12
    assert result_bound(START, window) == START
    assert result_bound(END, window) == END


@pytest.mark.parametrize("window", [w for w in ALL if not isinstance(w, RowWindow)])
def test_reaching_is_the_least_bound_that_promises_enough(window: Window) -> None:
    for needed in range(-12, 30):
        least = reaching(needed, window)
        assert result_bound(least, window) >= needed
        assert result_bound(least - 1, window) < needed


def test_closing_closes_all_windows_of_the_newest_row_and_not_more() -> None:
    assert closing(7, TIME) == 15
    assert closing(7, Landmark(5, 0, "ts")) == 10
    assert closing(7, SessionWindow(4, "ts")) == 11
    assert closing(7, SessionWindow(4, "ts", closed=True)) == 12
    assert closing(7, ByTuple(10, 1, "rank", "ts")) == 8
    assert closing(8, shifts("ts")) == 10  # windows 0 and 7 of the day, which end at 10 and 9
    assert closing(7, shifts("ts")) == 9


def test_a_flush_reaches_through_windows_over_windows() -> None:
    sessions = SessionWindow(4, "ts")
    assert flush_bound(7, [sessions]) == 11
    # The session's result is at 10, in the window that ends at 20; no promise below 20 would close it.
    assert flush_bound(7, [(sessions, TimeWindow(10, 10, 0, "window"))]) == 20
    assert flush_bound(7, [(ByTuple(3, 1, "rank", "ts"), TimeWindow(10, 10, 0, "window"))]) == 11
    # The landmark's result is at 9; from bound 10 on results are at 14 or later.
    assert flush_bound(7, [(Landmark(5, 0, "ts"), sessions)]) == 10


def test_windows_missed_by_a_late_row() -> None:
    late = np.array([-3, 1, 6, 11])
    assert missed(late, 12, TIME).tolist() == [2, 2, 1, 0]
    assert missed(late, 12, Landmark(5, 0, "ts")).tolist() == [0, 2, 1, 0]
    assert missed(late, 12, ByTuple(10, 1, "rank", "ts")).tolist() == [1, 1, 1, 1]
    assert missed(late, 12, SessionWindow(4, "ts")).tolist() == [1, 1, 1, 0]
    assert missed(np.array([7, 8]), 12, SessionWindow(4, "ts")).tolist() == [1, 1]
    assert missed(np.array([7, 8]), 12, SessionWindow(4, "ts", closed=True)).tolist() == [1, 0]
    assert missed(late, 12, shifts("ts")).tolist() == [1, 1, 1, 0]
    assert missed(late, 12, RowWindow(4, 2, "ts")).tolist() == [0, 0, 0, 0]
    assert missed(late, START, SessionWindow(4, "ts")).tolist() == [0, 0, 0, 0]


def test_a_shift_moves_what_depends_on_the_place_in_time() -> None:
    times = np.arange(-20, 20)
    for w in ALL:
        if isinstance(w, CustomWindow):
            places, ids = custom_wids(times, shifted(w, 3))
            expected = custom_wids(times + 3, w)
            assert (places.tolist(), ids.tolist()) == tuple(x.tolist() for x in expected)
        elif isinstance(w, TimeWindow | Landmark):
            assert shifted(w, 3) == replace(w, origin=w.origin - 3)
        else:
            assert shifted(w, 3) is w
