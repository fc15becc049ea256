"""Window ids of time windows: exact integer arithmetic, any range, slide, origin and sign.

Window ``w`` is half-open, ``[origin + (w+1)*slide - range, origin + (w+1)*slide)``: ids count window
*ends*, and every integer is an id. Division rounds towards minus infinity throughout.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.semantics.patterns import Span, Test, Value

Ints = TypeVar("Ints", int, NDArray[np.int64])
"""An int, or an int64 array handled element by element."""


def wid_range(a: Ints, w: TimeWindow) -> tuple[Ints, Ints]:
    """Ids of the windows that hold time ``a``: first (inclusive) and end (exclusive).

    The range is empty (end <= first) only where the range is smaller than the slide.

    >>> wid_range(5, TimeWindow(600, 60, 0, "ts"))
    (0, 10)
    """
    since = a - w.origin
    return since // w.slide, (since + w.range) // w.slide


def extent(wid: Ints, w: TimeWindow) -> tuple[Ints, Ints]:
    """Start (inclusive) and end (exclusive) of a window.

    >>> extent(1, TimeWindow(9, 6, 0, "ts"))
    (3, 12)
    """
    end = w.origin + (wid + 1) * w.slide
    return end - w.range, end


def last_complete(bound: Ints, w: TimeWindow) -> Ints:
    """The greatest window that ``bound`` closes: no later row is older than the bound.

    >>> last_complete(660, TimeWindow(600, 60, 0, "ts"))
    10
    """
    return (bound - w.origin) // w.slide - 1


def closed_by(bound: Ints, w: TimeWindow) -> Ints:
    """As `last_complete`, also for a bound that is not a time: `START` closes nothing, `END` all.

    >>> closed_by(START, TimeWindow(5, 5, 0, "ts")) == START, closed_by(END, TimeWindow(5, 5, 0, "ts")) == END
    (True, True)
    """
    return _at_ends(bound, last_complete(bound, w))


def first_open(bound: Ints, w: TimeWindow) -> Ints:
    """The smallest window that may still get rows; `START` if all may, `END` if none may.

    >>> first_open(660, TimeWindow(600, 60, 0, "ts"))
    11
    """
    return _at_ends(bound, last_complete(bound, w) + 1)


def _at_ends(bound: Ints, wid: Ints) -> Ints:
    """``wid``, but `START` and `END` where the bound is one of them."""
    if isinstance(bound, int):
        return START if bound <= START else END if bound >= END else wid
    return np.where(bound <= START, START, np.where(bound >= END, END, wid))


def window_bound(bound: int, w: TimeWindow) -> int:
    """Bound of the result rows that come later, on their time (window end − 1 tick).

    With windows up to c closed the next result is of window c+1 at the earliest.

    >>> window_bound(12, TimeWindow(10, 5, 0, "ts")), window_bound(END, TimeWindow(10, 5, 0, "ts"))
    (14, 4611686018427387904)
    """
    if bound <= START:
        return START
    if bound >= END:
        return END
    return min(extent(first_open(bound, w), w)[1] - 1, END - 1)


def wids_within(times: Test, w: TimeWindow) -> Test:
    """The windows whose results have a time (window end − 1 tick) that passes.

    >>> wids_within(Test.below(14), TimeWindow(10, 5, 0, "ts")).spans
    ((None, 2),)
    """

    def first(time: Value | None) -> int | None:
        return None if not isinstance(time, int) else -((w.origin - 1 - time) // w.slide) - 1

    return Test.of((first(low), first(high)) for low, high in times.spans)


def times_of_wids(wids: Test, w: TimeWindow) -> Test:
    """The times of the results of these windows: the inverse of `wids_within`.

    >>> times_of_wids(Test.below(2), TimeWindow(10, 5, 0, "ts")).spans
    ((None, 14),)
    """

    def time(wid: Value | None) -> int | None:
        return extent(wid, w)[1] - 1 if isinstance(wid, int) else None

    return Test.of((time(low), time(high)) for low, high in wids.spans)


def rows_within(times: Test, w: TimeWindow) -> Test:
    """The times of rows all of whose windows have results of a time that passes.

    Of windows below n these are the rows before the first row of window n; of windows from n on the rows behind the end
    of window n - 1, which is where window n has its last slide.

    >>> w = TimeWindow(10, 5, 0, "ts")
    >>> rows_within(times_of_wids(Test.below(2), w), w).spans, rows_within(times_of_wids(Test.among([2]), w), w).spans
    (((None, 5),), ())
    """

    def span(low: Value | None, high: Value | None) -> Span:
        return (
            w.origin + low * w.slide if isinstance(low, int) else None,
            w.origin + (high + 1) * w.slide - w.range if isinstance(high, int) else None,
        )

    return Test.of(span(low, high) for low, high in wids_within(times, w).spans)


def windows_missed(a: Ints, closed: Ints | int, w: TimeWindow) -> Ints:
    """How many of the windows that hold time ``a`` are closed, that is, have an id <= ``closed``.

    >>> windows_missed(7, 1, TimeWindow(10, 5, 0, "ts"))
    1
    """
    lo, hi = wid_range(a, w)
    if isinstance(a, int):
        return max(0, min(hi, closed + 1) - lo)
    return np.maximum(np.minimum(hi, closed + 1) - lo, 0)
