"""Printed rules about windows that are wrong: ours agree with the definition, the printed ones do not."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import pytest

from slackwater.model.window import TimeWindow
from slackwater.semantics.lateness import is_late
from slackwater.semantics.window_ids import extent, last_complete, wid_range

GRID = [(r, s, a) for r in range(1, 14) for s in range(1, 14) for a in range(60)]


def in_extents(r: int, s: int, a: int) -> set[int]:
    w = TimeWindow(r, s, 0, "ts")
    return {wid for wid in range(-2, 80) if extent(wid, w)[0] <= a < extent(wid, w)[1]}


def test_ids_take_the_floor_and_not_the_ceiling() -> None:
    def ceilings(r: int, s: int, a: int) -> set[int]:
        return set(range(ceil(a / s), ceil((a + r) / s)))

    def ours(r: int, s: int, a: int) -> set[int]:
        return set(range(*wid_range(a, TimeWindow(r, s, 0, "ts"))))

    assert ours(600, 60, 5) == set(range(10)) and ceilings(600, 60, 5) == set(range(1, 11))
    wrong = 0
    for r, s, a in GRID:
        expected = in_extents(r, s, a)
        assert ours(r, s, a) == expected
        wrong += ceilings(r, s, a) != expected
    assert wrong == 7175


def closed_by(bounds: list[int], closes: Callable[[int, int], bool]) -> list[int]:
    """Windows of one minute with rows, 0 to 4, in the order in which bounds close them."""
    left, out = list(range(5)), []
    for bound in bounds:
        done = [w for w in left if closes(w, bound)]
        out += done
        left = [w for w in left if w not in done]
    return out


@pytest.mark.parametrize("bounds", [[60, 120, 180, 240, 300], [130, 300], [1000]])
def test_a_bound_closes_all_windows_up_to_it_and_not_just_one(bounds: list[int]) -> None:
    minute = TimeWindow(60, 60, 0, "ts")
    assert closed_by(bounds, lambda w, v: w <= last_complete(v, minute)) == [0, 1, 2, 3, 4]
    only_equal = closed_by(bounds, lambda w, v: w == last_complete(v, minute))
    # The printed test is right only for one bound per slide.
    assert (only_equal == [0, 1, 2, 3, 4]) == (len(bounds) == 5)


def test_the_first_id_of_a_bound_is_not_yet_complete() -> None:
    noon = TimeWindow(600, 60, 720 * 60, "ts")
    bound = 731 * 60  # 12:11
    first, _ = wid_range(bound, noon)
    assert (first, last_complete(bound, noon)) == (11, 10)
    # A row that the bound allows is in window 11: to close it would lose the row.
    assert not is_late(bound, bound)
    assert extent(11, noon)[0] <= bound < extent(11, noon)[1]
    assert extent(10, noon)[1] <= bound


def test_a_row_equal_to_a_bound_is_on_time() -> None:
    # "All rows no greater than v have arrived" would make the second of two rows at 5 a late one, although
    # the bound of an ordered stream is its newest time.
    newest = 5
    assert not is_late(5, newest)
    assert is_late(4, newest)
