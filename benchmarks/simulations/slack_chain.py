"""The chain of buffers below one stage while it runs, and its change while rows are in it.

A child of the stage gets a row once. Which children had it is kept with the row: comparing its time with the
newest one handed over would hold back a row that came late and still waits for the clock to advance.

Levels are absolute: the slack since the stream, and the clock is the stream's. So a row never leaves before
its time, wherever a change of buffers moves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Reuse = Literal["smart", "tail"]

Deliveries = dict[str, Ints]
"""Numbers of the rows each child gets, in order of time, then of arrival."""


@dataclass(frozen=True)
class Change:
    """What a change of buffers did: rows ``copied`` to children at once, rows ``moved`` between buffers,
    and whether all buffers could stay (``reuse``).
    """

    deliveries: Deliveries
    copied: int
    moved: int
    reuse: Reuse


class Chain:
    """Rows below one stage; ``slack`` says for each child how much lies between the stream and it.

    Buffer ``l`` ends at ``levels[l]``. A row's place is the number of buffers that it has left.
    """

    def __init__(self, slack: Mapping[str, int], above: int = 0):
        self.slack = dict(slack)
        self.above = above
        self.levels = _levels(self.slack)
        self.times = np.empty(0, np.int64)
        self.rows = np.empty(0, np.int64)
        self.place = np.empty(0, np.int64)
        self.served: dict[str, npt.NDArray[np.bool_]] = {c: np.empty(0, bool) for c in self.slack}

    @property
    def held(self) -> int:
        """How many rows are in the chain."""
        return len(self.rows)

    def index(self, child: str) -> int:
        """The buffer that a child reads."""
        return self.levels.index(self.slack[child])

    def insert(self, times: Ints, rows: Ints) -> Deliveries:
        """Rows from the stage; children that need no more slack than lies above get them at once."""
        direct = sum(1 for level in self.levels if level <= self.above)
        self.times = np.concatenate([self.times, times])
        self.rows = np.concatenate([self.rows, rows])
        self.place = np.concatenate([self.place, np.full(len(rows), direct)])
        for c, mask in self.served.items():
            self.served[c] = np.concatenate([mask, np.zeros(len(rows), bool)])
        return self._hand_over()

    def advance(self, clock: int) -> Deliveries:
        """The stream's clock has advanced, and all rows of that moment were inserted."""
        self.place = np.maximum(self.place, self._due(clock))
        return self._hand_over()

    def change(
        self, slack: Mapping[str, int], above: int, clock: int, reuse: Reuse | None = None
    ) -> Change:
        """Other slack for the children, and other children.

        All buffers stay where they are if no child moves up the chain towards a larger slack; otherwise
        (or with ``reuse="tail"``) only the last one does, and the rows of the others are put in anew.
        Either way what a child should have by now, and has not, goes to it at once, and nothing is handed
        over before its time. A child that is new here gets the rows that come after it.
        """
        old_levels, old_slack, old_place = self.levels, self.slack, self.place
        self.slack, self.above, self.levels = dict(slack), above, _levels(slack)
        if reuse is None:
            reuse = "smart" if self._in_place(old_levels, old_slack) else "tail"
        due = self._due(clock)
        if reuse == "smart":
            # A row stays in its buffer, unless by the new sizes it belongs in an earlier one.
            self.place = np.minimum(old_place, due)
            moved = int(np.count_nonzero(self.place < np.minimum(old_place, len(self.levels))))
        else:
            self.place = due
            moved = int(np.count_nonzero(old_place < len(old_levels) - 1))
        n = self.held
        self.served = {c: self.served.get(c, np.ones(n, bool)) for c in self.slack}
        deliveries = self._hand_over()
        return Change(deliveries, sum(map(len, deliveries.values())), moved, reuse)

    def _in_place(self, levels: tuple[int, ...], slack: Mapping[str, int]) -> bool:
        both = [c for c in self.slack if c in slack]
        return not any(
            self.index(c) < levels.index(slack[c]) and self.slack[c] > slack[c] for c in both
        )

    def _due(self, clock: int) -> Ints:
        """How many buffers each row should have left."""
        return np.searchsorted(np.array(self.levels, np.int64), clock - self.times, "right")

    def _hand_over(self) -> Deliveries:
        found: Deliveries = {}
        gone = np.ones(self.held, bool)
        for c, served in self.served.items():
            ready = (self.place > self.index(c)) & ~served
            if ready.any():
                here = np.flatnonzero(ready)
                found[c] = self.rows[here[np.lexsort((self.rows[here], self.times[here]))]]
                self.served[c] = served | ready
            gone &= self.served[c]
        if gone.any():
            stay = ~gone
            self.times, self.rows, self.place = self.times[stay], self.rows[stay], self.place[stay]
            self.served = {c: mask[stay] for c, mask in self.served.items()}
        return found


def _levels(slack: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sorted(set(slack.values())))
