"""The join that trusts in global order: what is in the two buffers at the same time belongs together.

It never looks at the times of a pair. That is right if rows of both inputs arrive in one order of time, and wrong
as soon as one input is late against the other: some pairs are missed, others are made up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Row(NamedTuple):
    """A row of either input; ``id`` tells it from its like."""

    time: int
    key: int
    id: int


class GlobalOrderJoin:
    """``ranges[i]`` is how long a row of input i stays in its buffer, its end included.

    With ``purge_both`` an arriving row's time is taken for the time of both inputs, else each buffer goes by the
    newest time of its own input.
    """

    def __init__(self, ranges: tuple[int, int], *, purge_both: bool = True) -> None:
        self.ranges = ranges
        self.purge_both = purge_both
        self.buffers: tuple[deque[Row], deque[Row]] = (deque(), deque())

    def arrive(self, side: int, row: Row) -> Iterator[tuple[Row, Row]]:
        """The pairs of a row with the other buffer; then it is stored."""
        for i in (0, 1) if self.purge_both else (side,):
            buffer = self.buffers[i]
            while buffer and buffer[0].time < row.time - self.ranges[i]:
                buffer.popleft()
        for other in self.buffers[1 - side]:
            if other.key == row.key:
                yield (row, other) if side == 0 else (other, row)
        self.buffers[side].append(row)


def run(
    arrivals: Iterable[tuple[int, Row]], ranges: tuple[int, int], *, purge_both: bool = True
) -> list[tuple[Row, Row]]:
    """All pairs that come of (side, row) in the order of arrival."""
    join = GlobalOrderJoin(ranges, purge_both=purge_both)
    return [pair for side, row in arrivals for pair in join.arrive(side, row)]
