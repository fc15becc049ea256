"""Types of windows that users give by three functions over arrays of times and ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slackwater.errors import AnalysisError
from slackwater.model.window import CustomWindow
from slackwater.semantics.window_types.rules import Ints, Span, Traits, WindowRules


class CustomWindows(WindowRules[CustomWindow]):
    """A user's type."""

    traits = Traits("CF", plan="custom")

    def extents(self, wids: Ints, w: CustomWindow) -> tuple[Ints, Ints]:
        return hull(wids, w)

    def result_bound(self, bound: int, w: CustomWindow) -> int:
        return bound

    def missed(self, times: Ints, bound: int, w: CustomWindow) -> Ints:
        places, ids = custom_wids(times, w)
        return np.bincount(places[hull(ids, w)[1] <= bound], minlength=len(times)).astype(np.int64)

    def closing(self, hi: int, w: CustomWindow) -> int:
        _, ids = custom_wids(np.array([hi], np.int64), w)
        return max([hi + 1, *(int(e) for e in hull(ids, w)[1])])

    def reaching(self, needed: int, w: CustomWindow) -> int:
        return needed

    def shifted(self, w: CustomWindow, ticks: int) -> CustomWindow:
        return replace(w, shift=w.shift + ticks)

    def keeps(self, w: CustomWindow, each: str, keys: Sequence[str], span: Span) -> str:
        return f"{each} and part of windows that the bound on {w.on} has not closed"


def hull(wids: Ints, w: CustomWindow) -> tuple[Ints, Ints]:
    """First time (inclusive) and end (exclusive) of each window."""
    starts, ends = pieces(wids, w)
    some = starts < ends
    least = np.where(some, starts, np.iinfo(np.int64).max).min(axis=1)
    most = np.where(some, ends, np.iinfo(np.int64).min).max(axis=1)
    return least, most


def pieces(wids: Ints, w: CustomWindow) -> tuple[Ints, Ints]:
    """Starts and ends of the pieces of each window, as arrays of two dimensions."""
    if not len(wids):
        return np.zeros((0, 1), np.int64), np.zeros((0, 1), np.int64)
    starts, ends = (np.asarray(x, dtype=np.int64) for x in w.extent(wids))
    if starts.ndim == 1:
        starts, ends = starts[:, None], ends[:, None]
    if starts.shape != ends.shape or len(starts) != len(wids):
        raise AnalysisError(
            "BAD_WINDOW",
            f"window '{w.name}': extent() of {len(wids)} ids gave arrays of shapes {starts.shape} "
            f"and {ends.shape}",
            hint="return two arrays with one element (or one row of pieces) per id",
            name=w.name,
        )
    return starts - w.shift, ends - w.shift


def custom_wids(times: Ints, w: CustomWindow) -> tuple[Ints, Ints]:
    """Pairs (place in ``times``, id) of a custom type."""
    if not len(times):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    places, ids = (np.asarray(x, dtype=np.int64) for x in w.wids(times + w.shift))
    if places.shape != ids.shape or places.ndim != 1:
        raise AnalysisError(
            "BAD_WINDOW",
            f"window '{w.name}': wids() gave arrays of shapes {places.shape} and {ids.shape}",
            hint="return two arrays of equal length: places in the times given, and ids",
            name=w.name,
        )
    return places, ids


def check_duality(w: CustomWindow, times: Ints) -> None:
    """Raise unless a sample of times is in ``extent(w)`` exactly where ``w`` is in its ``wids``.

    Also no window may hold a time outside of the ids that ``windows`` gives, and none may be empty.
    """
    places, ids = custom_wids(times, w)
    given = np.asarray(w.windows(int(times.min()) + w.shift, int(times.max()) + 1 + w.shift))
    given = np.unique(given.astype(np.int64))
    claimed = set(zip(times[places].tolist(), ids.tolist(), strict=True))
    starts, ends = pieces(given, w)
    inside = (starts[:, :, None] <= times) & (times < ends[:, :, None])
    rows, columns = np.nonzero(inside.any(axis=1))
    held = set(zip(times[columns].tolist(), given[rows].tolist(), strict=True))
    if claimed == held:
        return
    time, wid = min(claimed ^ held)
    where = "wids() but not in extent()" if (time, wid) in claimed else "extent() but not in wids()"
    raise AnalysisError(
        "BAD_WINDOW",
        f"window '{w.name}': time {time} is in window {wid} by {where}",
        hint="a time must be in extent(w) exactly if w is in wids(time), and windows(low, high) must "
        "give every window that holds a time in [low, high)",
        name=w.name,
        time=time,
        wid=wid,
    )
