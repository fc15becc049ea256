"""Delays of the rows of the latest stretch of a stream, by the rows' own times.

Rows of an old regime are still under way when a new one begins. By order of arrival they hide the new one for as long
as the largest delays last; by their own times they are told from its rows at once. Of a stretch that began just now only short delays can be known, so
what it tells is a lower bound until it is long against them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from slackwater.semantics.quality.delays import Ints
from slackwater.semantics.quality.sketch import DelaySketch

PIECES = 8
"""Blocks that a stretch is cut into, at least."""
PER_OCTAVE = 8
"""Bins of delays by factor of two: a delay is known to some nine per cent."""
ROWS = 2_000
"""Rows without which a stretch tells nothing of the latest of a thousand."""
_ROOM = 1 << 9
"""Bins of delay, and one for no delay."""


@dataclass(eq=False)
class RecentDelays:
    """Rows with times in the last ``stretch`` of time: by block of ``length`` ticks of their times, and by bin of delay.

    Rows with times from ``begun`` on are known. The stretch is ``times`` as long as asked for, so that it holds enough rows.
    """

    times: int = 1
    stretch: int = 0
    length: int = 1
    begun: int | None = None
    blocks: dict[int, Ints] = field(default_factory=dict)

    def add(self, times: Ints, delays: Ints, counts: Ints | None = None) -> None:
        """Rows with their delays, or with the number of rows that have each; a delay of 0 is none."""
        if self.begun is None:
            return
        some = times >= self.begun
        if not some.any():
            return
        blocks = times[some] // self.length
        # Place 0 is that of no delay.
        places = np.ceil(PER_OCTAVE * np.log2(np.maximum(delays[some], 1))).astype(np.int64)
        places = np.where(delays[some] > 0, places + 1, 0)
        weights = np.ones(len(places), np.int64) if counts is None else counts[some]
        for block in np.unique(blocks).tolist():
            mine = blocks == block
            # Exact, however many rows a batch has.
            np.add.at(self._block(block), places[mine], weights[mine])

    def _block(self, block: int) -> Ints:
        """The rows of a block by bin of delay."""
        return self.blocks.setdefault(block, np.zeros(_ROOM, np.int64))

    def keep(self, newest: int, span: int) -> None:
        """Keep the last ``span`` of time at least; more of it if that holds too few rows."""
        if self.begun is None:
            self.stretch, self.length, self.begun = span, max(1, span // PIECES), newest
            return
        half = (newest - self.times * span // 2) // self.length
        if self.times > 1 and self._from(half) >= 2 * ROWS:
            self.times //= 2
        self.stretch = self.times * span
        first = (newest - self.stretch) // self.length
        if first * self.length > self.begun:
            if self._from(first) < ROWS:
                self.times, self.stretch = 2 * self.times, 2 * self.stretch
            else:
                self.begun = first * self.length
                for old in [k for k in self.blocks if k < first]:
                    del self.blocks[old]
        while 2 * PIECES * self.length <= self.stretch:
            self._double()

    def _from(self, block: int) -> int:
        return sum(int(b.sum()) for k, b in self.blocks.items() if k >= block)

    @property
    def rows(self) -> int:
        """Rows that are known, late or not."""
        return sum(int(b.sum()) for b in self.blocks.values())

    def whole(self, newest: int) -> bool:
        """Whether the stretch is known to its beginning, and holds enough rows."""
        return self.begun is not None and newest - self.begun >= self.stretch and self.rows >= ROWS

    def _double(self) -> None:
        narrow, self.blocks, self.length = self.blocks, {}, 2 * self.length
        for k, block in sorted(narrow.items()):
            self._block(k // 2)[:] += block

    def _half(self) -> list[Ints]:
        middle = (min(self.blocks, default=0) + max(self.blocks, default=0)) / 2
        return [block for k, block in self.blocks.items() if k >= middle]

    def sketch(self, *, half: bool = False) -> DelaySketch:
        """The delays of all of them, or of those in the second half of the blocks."""
        by = np.zeros(_ROOM, np.int64)
        for block in self._half() if half else self.blocks.values():
            by += block
        late = np.flatnonzero(by[1:])
        out = DelaySketch()
        out.add_counts(np.array([_delay(p) for p in late.tolist()], np.int64), by[1:][late])
        return out

    def copied(self) -> RecentDelays:
        """The same, to go on by itself."""
        return replace(self, blocks={k: rows.copy() for k, rows in self.blocks.items()})

    def to_json(self) -> list[Any]:
        """Plain lists."""
        blocks = [
            [k, [[int(p), int(b[p])] for p in np.flatnonzero(b)]]
            for k, b in sorted(self.blocks.items())
        ]
        return [self.times, self.stretch, self.length, self.begun, blocks]

    @classmethod
    def from_json(cls, json: list[Any]) -> RecentDelays:
        """The inverse of `to_json`."""
        times, stretch, length, begun, blocks = json
        own = cls(times, stretch, length, begun)
        for k, pairs in blocks:
            for place, n in pairs:
                own._block(k)[place] = n
        return own


@cache
def _delay(octaves: int) -> int:
    """The least delay of a bin."""
    return math.floor(2 ** (octaves / PER_OCTAVE))
