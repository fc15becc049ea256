"""What every type of window answers: its class, its extents, what a bound closes, what results promise.

The arithmetic of time windows is in `window_ids`; here it is asked by type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slackwater.errors import AnalysisError
from slackwater.model.window import (
    ByTuple,
    CustomWindow,
    JointWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
)
from slackwater.semantics import window_ids
from slackwater.semantics.limits import END, START

ContextClass = Literal["CF", "FCF", "FCA"]
TimePlan = Literal["panes", "wids", "buffered", "adaptive"]
WindowPlan = Literal[
    "panes", "wids", "buffered", "adaptive", "rows", "landmark", "ticks", "sessions", "custom", "joint"
]  # fmt: skip
Ints = NDArray[np.int64]


def context_class(w: Window) -> ContextClass:
    """What must be known, besides a row itself, to tell its windows.

    ``CF``: nothing. ``FCF``: rows that came before it (a counter). ``FCA``: also rows that come after it.

    >>> context_class(TimeWindow(10, 5, 0, "ts")), context_class(SessionWindow(10, "ts"))
    ('CF', 'FCA')
    """
    if isinstance(w, RowWindow):
        return "FCF"
    if isinstance(w, ByTuple | SessionWindow):
        return "FCA"
    return "CF"


def plan_of(w: Window, sliding: TimePlan = "panes") -> WindowPlan:
    """How windows of a type are computed; ``sliding`` is the choice for time windows.

    A context-free type needs no state to place a row, so rows are reduced where they are read. Where
    rows must be counted first, they travel to their counter. Where windows depend on rows to come,
    rows are reduced per tick and put together when the bound has passed.
    """
    if isinstance(w, TimeWindow):
        return sliding
    if isinstance(w, RowWindow):
        return "rows"
    if isinstance(w, Landmark):
        return "landmark"
    if isinstance(w, ByTuple):
        return "ticks"
    if isinstance(w, JointWindow):
        return "joint"
    return "sessions" if isinstance(w, SessionWindow) else "custom"


def keeps_rows(plan: str) -> bool:
    """Whether rows, of all groups or of some, are kept as they came until their windows close."""
    return plan in ("buffered", "adaptive")


def needs_rows(w: Window) -> bool:
    """Whether rows must be counted in order of arrival, so that partial aggregates would not do."""
    return isinstance(w, RowWindow) or (
        isinstance(w, ByTuple) and w.over == "arrival" and w.every > 1
    )


def counted(w: RowWindow) -> TimeWindow:
    """A row window as windows over row numbers.

    >>> counted(RowWindow(4, 2, "ts"))
    TimeWindow(range=4, slide=2, origin=0, on='_row')
    """
    return TimeWindow(w.range, w.slide, 0, "_row")


def extents(wids: Ints, w: Window) -> tuple[Ints, Ints]:
    """What the ``window`` column shows of each id: start and end (of the hull, for a custom type).

    The start is inclusive and the end exclusive; for `ByTuple` it is the other way round. Sessions
    have no ids.
    """
    if isinstance(w, TimeWindow):
        return window_ids.extent(wids, w)
    if isinstance(w, RowWindow):
        return window_ids.extent(wids, counted(w))
    if isinstance(w, Landmark):
        ends = w.origin + (wids + 1) * w.slide
        return np.full_like(ends, w.origin), ends
    if isinstance(w, ByTuple):
        return wids - w.range, wids
    assert isinstance(w, CustomWindow)
    return hull(wids, w)


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


def result_bound(bound: int, w: Window) -> int:
    """Bound of the results that come later, on their time (``window.end`` − 1 tick).

    What remains open ends after ``bound``; for `ByTuple` it ends at the bound or later. How far row
    windows are is known only where rows are counted, so until the end nothing is promised of them.

    >>> result_bound(12, Landmark(5, 0, "ts")), result_bound(12, SessionWindow(3, "ts"))
    (14, 12)
    """
    if bound <= START:
        return START
    if bound >= END:
        return END
    if isinstance(w, TimeWindow):
        return window_ids.window_bound(bound, w)
    if isinstance(w, RowWindow):
        return START
    if isinstance(w, Landmark):
        return window_ids.window_bound(bound, TimeWindow(w.slide, w.slide, w.origin, w.on))
    return bound - 1 if isinstance(w, ByTuple) else bound


def missed(times: Ints, bound: int, w: Window) -> Ints:
    """How many windows closed by ``bound`` each time would have been in.

    Where that depends on other rows only the row's own window counts: that at its time (`ByTuple`),
    that of a row by itself (sessions). Row windows take any row.
    """
    if bound <= START or isinstance(w, RowWindow):
        return np.zeros(len(times), np.int64)
    if isinstance(w, TimeWindow):
        closed = END if bound >= END else window_ids.last_complete(bound, w)
        return window_ids.windows_missed(times, closed, w)
    if isinstance(w, Landmark):
        first = (times - w.origin) // w.slide
        ended = (bound - w.origin) // w.slide
        return np.where(times < w.origin, 0, np.maximum(ended - first, 0))
    if isinstance(w, ByTuple):
        return (times < bound).astype(np.int64)
    if isinstance(w, SessionWindow):
        return (times + w.gap <= bound).astype(np.int64)
    assert isinstance(w, CustomWindow)
    places, ids = custom_wids(times, w)
    return np.bincount(places[hull(ids, w)[1] <= bound], minlength=len(times)).astype(np.int64)


def closing(hi: int, w: Window) -> int:
    """The bound that closes every window which holds a row of time ``hi``, the newest."""
    if isinstance(w, TimeWindow):
        first, stop = window_ids.wid_range(hi, w)
        return hi + 1 if stop <= first else window_ids.extent(stop - 1, w)[1]
    if isinstance(w, Landmark):
        return w.origin + ((hi - w.origin) // w.slide + 1) * w.slide
    if isinstance(w, SessionWindow):
        return hi + w.gap
    if isinstance(w, CustomWindow):
        _, ids = custom_wids(np.array([hi], np.int64), w)
        return max([hi + 1, *(int(e) for e in hull(ids, w)[1])])
    return hi + 1


def reaching(needed: int, w: Window) -> int:
    """The least bound whose `result_bound` is at least ``needed``."""
    if isinstance(w, TimeWindow | Landmark):
        steps = -(-(needed + 1 - w.origin) // w.slide) - 1
        return w.origin + steps * w.slide
    return needed + 1 if isinstance(w, ByTuple) else needed


def shifted(w: Window, ticks: int) -> Window:
    """The window for times that are ``ticks`` smaller."""
    if ticks == 0:
        return w
    if isinstance(w, TimeWindow | Landmark):
        return replace(w, origin=w.origin - ticks)
    if isinstance(w, CustomWindow):
        return replace(w, shift=w.shift + ticks)
    return w


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
