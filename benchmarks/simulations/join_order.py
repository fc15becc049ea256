"""The order in which rows reach a join behind slack buffers, for whole batches of arrivals.

Each stream has a buffer that holds a row back until the stream's own time has passed it by the slack; rows leave only when
that time advances. One buffer behind them waits for the slowest stream. Both are sorted searches in running maxima,
so a batch costs a few array operations per stream, and the outcome is that of one row after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulations.slack_buffer import release
from slackwater.semantics.limits import START
from slackwater.semantics.quality.delays import delays

__all__ = ["Ints", "Rows", "SlackOrder"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Columns of rows. ``number`` counts arrivals over all streams; ``delay`` is how far a row was behind its own stream.

    ``at`` is the number of the arrival that set the row free.
    """

    stream: Ints
    time: Ints
    number: Ints
    delay: Ints
    at: Ints

    def __len__(self) -> int:
        return len(self.time)

    def take(self, which: Ints) -> Rows:
        """The rows at these positions."""
        return Rows(
            self.stream[which],
            self.time[which],
            self.number[which],
            self.delay[which],
            self.at[which],
        )

    @classmethod
    def concat(cls, parts: Sequence[Rows]) -> Rows:
        """All rows of the parts, one part after the other."""
        if not parts:
            none = np.empty(0, np.int64)
            return cls(none, none, none, none, none)
        names = ("stream", "time", "number", "delay", "at")
        return cls(*(np.concatenate([getattr(p, n) for p in parts]) for n in names))


class SlackOrder:
    """Buffers of ``streams`` streams; `advance` takes arrivals in and gives what reaches the join, in order."""

    def __init__(self, streams: int) -> None:
        self.streams = streams
        self.now = np.full(streams, START, np.int64)
        """Newest time that each stream has brought."""
        self.passed = np.full(streams, START, np.int64)
        """Newest time of each stream behind its slack."""
        self.held = [Rows.concat([]) for _ in range(streams)]
        self.waiting = Rows.concat([])

    @property
    def buffered(self) -> int:
        """Rows in all buffers."""
        return sum(map(len, self.held)) + len(self.waiting)

    def advance(self, stream: Ints, time: Ints, number: Ints, slack: Sequence[int]) -> Rows:
        """Take rows in, in order of arrival, with one slack per stream while they come."""
        out = [self._past(i, stream, time, number, slack[i]) for i in range(self.streams)]
        rows = Rows.concat(out)
        return self._synchronised(rows.take(np.lexsort((rows.number, rows.time, rows.at))))

    def flush(self) -> Rows:
        """All that is held, at the end."""
        rows = Rows.concat(self.held)
        rows = self._synchronised(rows.take(np.lexsort((rows.number, rows.time))))
        rest = self.waiting.take(np.argsort(self.waiting.time, kind="stable"))
        self.held = [Rows.concat([]) for _ in self.held]
        self.waiting = Rows.concat([])
        return Rows.concat([rows, rest])

    def _past(self, i: int, stream: Ints, time: Ints, number: Ints, slack: int) -> Rows:
        """What leaves the buffer of stream i, with the arrival at which it does."""
        mine = np.flatnonzero(stream == i)
        new, numbers = time[mine], number[mine]
        same = np.full(len(new), i, np.int64)
        late = delays(new, int(self.now[i])).delays
        rows = Rows.concat([self.held[i], Rows(same, new, numbers, late, numbers)])
        found = release(self.held[i].time, new, slack, int(self.now[i]))
        self.now[i] = found.clock
        self.held[i] = rows.take(found.stays)
        out = rows.take(found.order)
        return Rows(out.stream, out.time, out.number, out.delay, numbers[found.at[found.order]])

    def _synchronised(self, new: Rows) -> Rows:
        """What leaves the buffer in front of the join, in order."""
        slowest = np.full(len(new), np.iinfo(np.int64).max)
        for i in range(self.streams):
            seen = np.where(new.stream == i, new.time, START)
            clock = np.maximum.accumulate(np.concatenate([self.passed[i : i + 1], seen]))
            self.passed[i] = clock[-1]
            slowest = np.minimum(slowest, clock[1:])
        rows = Rows.concat([self.waiting, new])
        own = np.concatenate([np.full(len(self.waiting), -1), np.arange(len(new))])
        step = np.maximum(own, np.searchsorted(slowest, rows.time))
        leaves = np.flatnonzero(step < len(new))
        self.waiting = rows.take(np.flatnonzero(step >= len(new)))
        leaves = leaves[np.lexsort((leaves, rows.time[leaves], step[leaves]))]
        out = rows.take(leaves)
        at = new.at[step[leaves]] if len(new) else out.at
        return Rows(out.stream, out.time, out.number, out.delay, at)
