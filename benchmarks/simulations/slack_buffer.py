"""A slack buffer over a stream in order of arrival: which rows it lets go, and when.

The clock of a stream is the greatest time seen. A buffer of slack ``k`` lets a row go when the clock has
reached the row's time plus ``k``; it looks only when the clock advances, so that a row which comes in
overdue waits for the next advance. What leaves together leaves in order of time, then of arrival.

Buffers in a row add up as long as each runs by the clock of the stream less the slack in front of it. A
buffer that took its clock from the rows it receives would lag wherever times have gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackwater.semantics.limits import START

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Release:
    """What a batch of arrivals does to a buffer.

    ``at`` says for each row (those held before first) at which arrival of the batch it leaves, -1 if it
    stays. ``order`` are the rows that leave, in the order in which they do. ``clock`` is the clock after.
    """

    at: Ints
    order: Ints
    clock: int

    @property
    def stays(self) -> Ints:
        """The rows that are still held."""
        return np.flatnonzero(self.at < 0)


def release(held: Ints, arriving: Ints, slack: int, clock: int = START) -> Release:
    """Times ``held`` so far, in order of arrival, and a batch of times ``arriving`` after them.

    ``slack`` is all that lies between the stream's clock and the buffer's output.

    >>> found = release(np.array([], np.int64), np.array([1, 4, 3, 5, 7, 8, 6]), 1)
    >>> found.at.tolist(), found.order.tolist(), found.clock
    ([1, 3, 3, 4, 5, -1, -1], [0, 2, 1, 3, 4], 8)
    """
    before = len(held)
    ts = np.concatenate([held, arriving])
    if not len(arriving):
        return Release(np.full(before, -1), np.empty(0, np.int64), clock)
    clocks = np.maximum(np.maximum.accumulate(arriving), clock)
    rises = np.diff(clocks, prepend=np.int64(clock)) > 0
    arrival = np.concatenate([np.zeros(before, np.int64), np.arange(len(arriving))])
    # The clock reaches ts + slack at a rise. If that was before the row came, the next rise will do.
    due = np.maximum(np.searchsorted(clocks, ts + slack, "left"), arrival)
    steps = np.append(np.flatnonzero(rises), len(arriving))
    at = steps[np.searchsorted(steps, due, "left")]
    at = np.where(at < len(arriving), at, -1)
    leaving = np.flatnonzero(at >= 0)
    order = leaving[np.lexsort((leaving, ts[leaving], at[leaving]))]
    return Release(at, order, int(clocks[-1]))


def delays(ts: Ints, clock: int = START) -> Ints:
    """How far each arrival lies behind the clock, its own time counted in.

    >>> delays(np.array([1, 4, 3, 5, 7, 8, 6])).tolist()
    [0, 0, 1, 0, 0, 0, 2]
    """
    return np.asarray(np.maximum(np.maximum.accumulate(ts), clock) - ts)


def residual(delay: Ints, slack: int) -> Ints:
    """What is left of delays behind a buffer.

    >>> residual(np.array([0, 1, 2]), 1).tolist()
    [0, 0, 1]
    """
    return np.maximum(delay - slack, 0)
