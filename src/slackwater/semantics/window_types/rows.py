"""Row windows: rows are counted, so any row has a window, whatever its time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.model.window import RowWindow, TimeWindow
from slackwater.semantics import window_ids
from slackwater.semantics.limits import START
from slackwater.semantics.window_types.rules import Ints, Span, Traits, WindowRules


def counted(w: RowWindow) -> TimeWindow:
    """A row window as windows over row numbers.

    >>> counted(RowWindow(4, 2, "ts"))
    TimeWindow(range=4, slide=2, origin=0, on='_row')
    """
    return TimeWindow(w.range, w.slide, 0, "_row")


class RowWindows(WindowRules[RowWindow]):
    """Counted rows."""

    traits = Traits("FCF", plan="rows", timed=False)

    def needs_rows(self, w: RowWindow) -> bool:
        return True

    def besides_time(self, w: RowWindow) -> tuple[str, ...]:
        return w.order if w.passing is None else (*w.order, w.passing)

    def extents(self, wids: Ints, w: RowWindow) -> tuple[Ints, Ints]:
        return window_ids.extent(wids, counted(w))

    def result_bound(self, bound: int, w: RowWindow) -> int:
        # How far the windows are is known only where rows are counted.
        return START

    def missed(self, times: Ints, bound: int, w: RowWindow) -> Ints:
        return np.zeros(len(times), np.int64)

    def closing(self, hi: int, w: RowWindow) -> int:
        return hi + 1

    def reaching(self, needed: int, w: RowWindow) -> int:
        return needed

    def shifted(self, w: RowWindow, ticks: int) -> RowWindow:
        return w

    def apart(self, w: RowWindow, key: str) -> bool:
        # Of another key, rows are counted for all of its values together.
        return key in w.per

    def keeps(self, w: RowWindow, each: str, keys: Sequence[str], span: Span) -> str:
        per = ", ".join(w.per) or "the stream"
        return f"{each} of the last {w.range} rows of {per}, and a counter that stays"
