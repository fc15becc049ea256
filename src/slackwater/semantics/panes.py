"""Panes: the largest equal pieces of time of which every window is a whole number."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from slackwater.model.window import TimeWindow
from slackwater.semantics.window_ids import Ints


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

    def pane_of(self, a: Ints) -> Ints:
        """The pane that holds time ``a``."""
        return (a - self.origin) // self.width

    def pane_range(self, wid: Ints) -> tuple[Ints, Ints]:
        """The panes of a window: first (inclusive) and end (exclusive)."""
        end = (wid + 1) * self.per_slide
        return end - self.per_window, end

    def windows_of(self, pane: Ints) -> tuple[Ints, Ints]:
        """Ids of the windows that hold a pane: first (inclusive) and end (exclusive).

        Empty for a pane in a gap between windows (range smaller than slide).
        """
        return pane // self.per_slide, (pane + self.per_window) // self.per_slide

    def first_needed_pane(self, closed: int) -> int:
        """The smallest pane that a window > ``closed`` can hold; panes below it may be dropped."""
        return (closed + 2) * self.per_slide - self.per_window
