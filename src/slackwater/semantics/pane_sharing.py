"""One store of panes for several windows over the same rows: numbers only.

All windows must consist of whole panes of the store, so a pane is as long as the greatest common divisor of
ranges, slides and the distances of origins. A row is then reduced once instead of once per aggregate. What
it costs is panes: if windows fit badly, there are many more of them than any of the windows needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from slackwater.model.window import TimeWindow
from slackwater.semantics.cost import Constants
from slackwater.semantics.panes import Panes

MOST_PANES = 4.0
"""How many times as many panes a store may hold as the aggregates would by themselves. More save time at
best, since there are never more partials than rows, but hold nearly every row."""

DENSITY = 4.0
"""Rows of a group in the smallest pane of the windows by themselves, where nothing was measured."""


@dataclass(frozen=True)
class StorePanes:
    """Pane ``p`` is ``[origin + p*width, origin + (p+1)*width)``."""

    width: int
    origin: int

    @classmethod
    def of(cls, windows: Sequence[TimeWindow]) -> StorePanes:
        """The largest panes that all windows are made of; the origin is in [0, width).

        >>> StorePanes.of([TimeWindow(60, 20, 0, "ts"), TimeWindow(90, 30, 5, "ts")])
        StorePanes(width=5, origin=0)
        """
        first = windows[0].origin
        width = gcd(*(n for w in windows for n in (w.range, w.slide, w.origin - first)))
        return cls(width, first % width)

    def holds(self, window: TimeWindow) -> bool:
        """Whether a window consists of whole panes."""
        return (
            self.width
            == StorePanes.of([window, TimeWindow(self.width, self.width, self.origin, "")]).width
        )

    def per_pane(self, window: TimeWindow) -> int:
        """How many of the store's panes are one of the window's own."""
        return Panes.of(window).width // self.width

    def first_needed(self, window: TimeWindow, closed: int) -> int:
        """The first pane of the store that windows after ``closed`` hold."""
        own = Panes.of(window)
        start = own.origin + own.first_pane(closed + 1) * own.width
        return (start - self.origin) // self.width


def costs(
    windows: Sequence[TimeWindow], density: float = DENSITY, constants: Constants | None = None
) -> tuple[float, float]:
    """(shared, unshared) cost per row that comes, in the cost model's unit.

    Each aggregate by itself reduces the row and hands its panes on. A store does so once, and each aggregate
    then puts panes of the store together to panes of its own, if these are longer. There are never more
    groups in panes than rows. Making windows of own panes is the same in both, and left out.
    """
    k = constants or Constants()
    own = [Panes.of(w).width for w in windows]
    # One row a tick; a group then has `density` rows per pane if there are `groups` of them.
    groups = min(own) / density
    apart = sum(k.row + k.pane_out * min(1.0, groups / width) for width in own)
    store = StorePanes.of(windows)
    panes = min(1.0, groups / store.width)
    longer = sum(1 for w in windows if store.per_pane(w) > 1)
    return k.row + panes * (k.pane_out + longer * k.pane_in), apart


def pane_counts(windows: Sequence[TimeWindow]) -> tuple[float, float]:
    """(shared, unshared) number of panes that are held: those of the longest window, and of all of them.

    >>> pane_counts([TimeWindow(60, 20, 0, "ts"), TimeWindow(90, 30, 5, "ts")])
    (18.0, 6.0)
    """
    longest = max(w.range for w in windows)
    return longest / StorePanes.of(windows).width, sum(
        float(Panes.of(w).per_window) for w in windows
    )


def worthwhile(windows: Sequence[TimeWindow]) -> bool:
    """Whether one store costs no more time than several, and not too much memory."""
    shared, apart = costs(windows)
    held, held_apart = pane_counts(windows)
    return shared <= apart and held <= MOST_PANES * held_apart


def grouped(windows: Sequence[TimeWindow]) -> list[list[int]]:
    """Which windows share a store, by their places; one alone shares nothing.

    All of them, unless that costs more than it saves. Then the window without which the panes of the others
    are longest is put aside, and the ones put aside are tried again by themselves.

    >>> hour = TimeWindow(3600, 60, 0, "ts")
    >>> grouped([hour, TimeWindow(600, 60, 0, "ts"), TimeWindow(601, 601, 0, "ts")])
    [[0, 1], [2]]
    """
    left = list(range(len(windows)))
    groups: list[list[int]] = []
    while left:
        chosen, aside = list(left), []
        while len(chosen) > 1:
            if worthwhile([windows[i] for i in chosen]):
                break
            worst = max(chosen, key=lambda i: _width_without(windows, chosen, i))
            chosen.remove(worst)
            aside.append(worst)
        groups.append(chosen)
        left = sorted(aside)
    return sorted(groups)


def _width_without(windows: Sequence[TimeWindow], chosen: Sequence[int], i: int) -> int:
    return StorePanes.of([windows[j] for j in chosen if j != i]).width
