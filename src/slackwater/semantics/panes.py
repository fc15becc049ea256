"""Panes: the largest equal pieces of time of which every window is a whole number.

A pane spans gcd(range, slide) ticks. Window w holds the panes [(w+1)*S - P, (w+1)*S) with P panes a window and S panes a
slide; pane p lies in the windows [floor(p/S), floor((p+P)/S)), which is empty for some panes when the range is below the
slide.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt

from slackwater.model.window import TimeWindow

_Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Panes:
    """Pane ``p`` is ``[origin + p*width, origin + (p+1)*width)``; any integer is a pane's number.

    A window is ``per_window`` panes and starts ``per_slide`` panes after the one before it. Windows
    over pane numbers (range ``per_window``, slide ``per_slide``, origin 0) have the ids of the
    windows over time.
    """

    width: int
    per_window: int
    per_slide: int
    origin: int = 0

    @classmethod
    def of(cls, w: TimeWindow) -> Panes:
        """The panes of a window.

        >>> Panes.of(TimeWindow(9, 6, 0, "ts"))
        Panes(width=3, per_window=3, per_slide=2, origin=0)
        """
        width = gcd(w.range, w.slide)
        return cls(width, w.range // width, w.slide // width, w.origin)

    def first_window(self, pane: _Array) -> _Array:
        """First window of each pane, inclusive."""
        return np.asarray(pane // np.int64(self.per_slide))

    def end_window(self, pane: _Array) -> _Array:
        """Window after the last one of each pane."""
        # Written so that panes near the end of the integers do not overflow.
        whole, part = divmod(self.per_window, self.per_slide)
        quotient, rest = np.divmod(pane, np.int64(self.per_slide))
        more = (rest + np.int64(part)) // np.int64(self.per_slide)
        return np.asarray(quotient + np.int64(whole) + more)

    def first_pane(self, wid: int) -> int:
        """First pane of a window, inclusive: what lies below is of no use to this window and later ones."""
        return (wid + 1) * self.per_slide - self.per_window

    def end_pane(self, wid: int) -> int:
        """Pane after the last one of a window."""
        return (wid + 1) * self.per_slide
