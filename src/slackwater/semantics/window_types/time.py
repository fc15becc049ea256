"""Time windows: spans of equal range, one every slide. Their arithmetic is in `window_ids`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slackwater.model.window import TimeWindow, is_all_time
from slackwater.semantics import window_ids
from slackwater.semantics.window_types.rules import Ints, Span, Traits, WindowRules


class TimeWindows(WindowRules[TimeWindow]):
    """Spans of equal range, one every slide."""

    traits = Traits("CF", plan=None, spans=True)

    def extents(self, wids: Ints, w: TimeWindow) -> tuple[Ints, Ints]:
        return window_ids.extent(wids, w)

    def result_bound(self, bound: int, w: TimeWindow) -> int:
        return window_ids.window_bound(bound, w)

    def missed(self, times: Ints, bound: int, w: TimeWindow) -> Ints:
        return window_ids.windows_missed(times, window_ids.closed_by(bound, w), w)

    def closing(self, hi: int, w: TimeWindow) -> int:
        first, stop = window_ids.wid_range(hi, w)
        return hi + 1 if stop <= first else window_ids.extent(stop - 1, w)[1]

    def reaching(self, needed: int, w: TimeWindow) -> int:
        steps = -(-(needed + 1 - w.origin) // w.slide) - 1
        return w.origin + steps * w.slide

    def shifted(self, w: TimeWindow, ticks: int) -> TimeWindow:
        return replace(w, origin=w.origin - ticks)

    def holds(self, time: int, w: TimeWindow) -> bool:
        first, stop = window_ids.wid_range(time, w)
        return first < stop

    def keeps(self, w: TimeWindow, each: str, keys: Sequence[str], span: Span) -> str:
        if is_all_time(w):
            return f"{each}, until punctuation on {', '.join(keys)} completes it"
        return f"{each} and part of windows that the bound on {w.on} has not closed"
