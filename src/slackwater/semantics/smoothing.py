"""Spread what a bound closes over the batches that follow: what goes out now, and what is promised meanwhile.

Closed windows leave oldest first, and within a window bucket by bucket, so that a pair of numbers says how far one
has come. An operator may keep results of closed windows back if it holds its own bound back with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.semantics.window_ids import last_complete

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Smoothing:
    """``most``: partial aggregates that a task puts together in a batch; ``windows``: how many windows a result may be
    late. What is due by ``windows`` goes out even if it is more than ``most``.
    """

    most: int
    windows: int = 2


def cells_out(costs: Ints, pending: Flags, most: int, forced: int) -> int:
    """How many cells go out, counted from the first. ``costs`` and ``pending`` are windows by buckets.

    The first ``forced`` windows do in any case. A cell that alone costs more than ``most`` goes out by itself, or it
    never would.

    >>> cells_out(np.array([[3, 3], [3, 3]]), np.ones((2, 2), bool), 7, 0)
    2
    """
    spent = np.cumsum(np.where(pending, costs, 0).ravel())
    count = int(np.searchsorted(spent, most, side="right"))
    if count < len(spent) and (count == 0 or spent[count - 1] == 0):
        count += 1
    return max(count, forced * int(costs.shape[1]))


def forced_to(close_to: int, smoothing: Smoothing) -> int:
    """The last window that may be kept back no longer, when the bound has closed ``close_to``."""
    return END if close_to >= END else max(START, close_to - smoothing.windows)


def held_bound(closed: int, bound: int, w: TimeWindow) -> int:
    """The bound that says as much as that windows up to ``closed`` are out: all that may be promised by ``bound``.

    >>> held_bound(1, 47, TimeWindow(10, 10, 0, "ts")), held_bound(3, 47, TimeWindow(10, 10, 0, "ts"))
    (20, 47)
    """
    if closed >= END or bound <= START or (bound < END and closed >= last_complete(bound, w)):
        return bound
    return max(START, min(bound, w.origin + (closed + 1) * w.slide))
