"""Windows as runs of panes: numbers only.

A pane spans gcd(range, slide) ticks; pane p is [origin + p*g, origin + (p+1)*g). Window w holds the panes
[(w+1)*S - P, (w+1)*S) with P panes a window and S panes a slide; pane p lies in the windows
[floor(p/S), floor((p+P)/S)), which is empty for some panes when the range is below the slide.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt

from slackwater.model.window import TimeWindow

Ints = npt.NDArray[np.int64]

END = 1 << 62
"""A window id beyond all windows (close everything); ``-END`` is before all (none closed)."""


@dataclass(frozen=True)
class Panes:
    """``size`` ticks a pane, ``per_window`` = P, ``per_slide`` = S."""

    size: int
    per_window: int
    per_slide: int

    @staticmethod
    def of(window: TimeWindow) -> Panes:
        """The panes of a window."""
        g = gcd(window.range, window.slide)
        return Panes(g, window.range // g, window.slide // g)

    def first_window(self, pane: Ints) -> Ints:
        """First window of each pane, inclusive."""
        return np.asarray(pane // np.int64(self.per_slide))

    def end_window(self, pane: Ints) -> Ints:
        """Window after the last one of each pane."""
        # Written so that panes near the end of the integers do not overflow.
        whole, part = divmod(self.per_window, self.per_slide)
        quotient, rest = np.divmod(pane, np.int64(self.per_slide))
        more = (rest + np.int64(part)) // np.int64(self.per_slide)
        return np.asarray(quotient + np.int64(whole) + more)

    def first_pane(self, wid: int) -> int:
        """First pane of a window, inclusive."""
        return (wid + 1) * self.per_slide - self.per_window

    def end_pane(self, wid: int) -> int:
        """Pane after the last one of a window."""
        return (wid + 1) * self.per_slide


def clamp(value: int) -> int:
    """The nearest 64-bit integer."""
    return max(-(1 << 63), min((1 << 63) - 1, value))
