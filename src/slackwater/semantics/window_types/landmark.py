"""Landmark windows: everything since the origin, reported every slide. They never end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slackwater.model.window import Landmark, TimeWindow
from slackwater.semantics import window_ids
from slackwater.semantics.window_types.rules import Ints, Span, Traits, WindowRules


class Landmarks(WindowRules[Landmark]):
    """Everything since the origin."""

    traits = Traits("CF", plan="landmark", ends=False)

    def extents(self, wids: Ints, w: Landmark) -> tuple[Ints, Ints]:
        ends = w.origin + (wids + 1) * w.slide
        return np.full_like(ends, w.origin), ends

    def result_bound(self, bound: int, w: Landmark) -> int:
        return window_ids.window_bound(bound, TimeWindow(w.slide, w.slide, w.origin, w.on))

    def missed(self, times: Ints, bound: int, w: Landmark) -> Ints:
        first = (times - w.origin) // w.slide
        ended = (bound - w.origin) // w.slide
        return np.where(times < w.origin, 0, np.maximum(ended - first, 0))

    def closing(self, hi: int, w: Landmark) -> int:
        return w.origin + ((hi - w.origin) // w.slide + 1) * w.slide

    def reaching(self, needed: int, w: Landmark) -> int:
        steps = -(-(needed + 1 - w.origin) // w.slide) - 1
        return w.origin + steps * w.slide

    def shifted(self, w: Landmark, ticks: int) -> Landmark:
        return replace(w, origin=w.origin - ticks)

    def keeps(self, w: Landmark, each: str, keys: Sequence[str], span: Span) -> str:
        return f"{each}, kept for ever: it grows with the number of groups"
