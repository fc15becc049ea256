"""Windows whose start and end are linear in the id: the ids of a time follow from these.

Window w is ``[a*w + b, c*w + d)`` with a and c above zero, so a time t is in the windows with
``(t - d) / c < w <= (t - b) / a``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Linear:
    """The two lines; the methods are the three functions of a type of window."""

    start: tuple[int, int]
    end: tuple[int, int]

    def extent(self, ids: Ints) -> tuple[Ints, Ints]:
        """Start (inclusive) and end (exclusive) of each window."""
        (a, b), (c, d) = self.start, self.end
        return a * ids + b, c * ids + d

    def wids(self, times: Ints) -> tuple[Ints, Ints]:
        """Pairs of a place in ``times`` and the id of a window that holds the time."""
        (a, b), (c, d) = self.start, self.end
        first, last = (times - d) // c + 1, (times - b) // a
        count = np.maximum(last - first + 1, 0)
        places = np.repeat(np.arange(len(times)), count)
        begin = np.cumsum(count) - count
        return places, np.repeat(first - begin, count) + np.arange(len(places))

    def windows(self, low: int, high: int) -> Ints:
        """Ids of the windows that hold a time in [low, high)."""
        (a, b), (c, d) = self.start, self.end
        ids = np.arange((low - d) // c + 1, (high - 1 - b) // a + 1, dtype=np.int64)
        starts, ends = self.extent(ids)
        return ids[starts < ends]
