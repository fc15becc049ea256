"""Delays of the rows of the latest stretch of a stream, by the rows' own times.

Rows of an old regime are still under way when a new one begins. By order of arrival they hide the new one for as long
as the largest delays last; by their own times they are told from its rows at once. Of a stretch that began just now only short delays can be known, so
what it tells is a lower bound until it is long against them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
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
_ROOM = 1 << 10
"""More than there are bins of delay."""


@dataclass
class RecentDelays:
    """Rows with times in the last ``stretch`` of time: by block of ``length`` ticks of their times, and by bin of delay.

    Rows with times from ``begun`` on are known. The stretch is ``times`` as long as asked for, so that it holds enough rows.
    """

    times: int = 1
    stretch: int = 0
    length: int = 1
    begun: int | None = None
    blocks: dict[int, dict[int, int]] = field(default_factory=dict)

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
        codes, at = np.unique(blocks * _ROOM + places, return_inverse=True)
        weights = None if counts is None else counts[some]
        for code, n in zip(codes.tolist(), np.bincount(at, weights).tolist(), strict=True):
            block = self.blocks.setdefault(code // _ROOM, {})
            block[code % _ROOM] = block.get(code % _ROOM, 0) + int(n)

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
        return sum(sum(b.values()) for k, b in self.blocks.items() if k >= block)

    @property
    def rows(self) -> int:
        """Rows that are known, late or not."""
        return sum(sum(b.values()) for b in self.blocks.values())

    def whole(self, newest: int) -> bool:
        """Whether the stretch is known to its beginning, and holds enough rows."""
        return self.begun is not None and newest - self.begun >= self.stretch and self.rows >= ROWS

    def _double(self) -> None:
        wide: dict[int, dict[int, int]] = {}
        for k, block in sorted(self.blocks.items()):
            into = wide.setdefault(k // 2, {})
            for place, n in block.items():
                into[place] = into.get(place, 0) + n
        self.blocks, self.length = wide, 2 * self.length

    def _half(self) -> list[dict[int, int]]:
        middle = (min(self.blocks, default=0) + max(self.blocks, default=0)) / 2
        return [block for k, block in self.blocks.items() if k >= middle]

    def sketch(self, *, half: bool = False) -> DelaySketch:
        """The delays of all of them, or of those in the second half of the blocks."""
        by: dict[int, int] = {}
        for block in self._half() if half else self.blocks.values():
            for place, n in block.items():
                by[place] = by.get(place, 0) + n
        out = DelaySketch()
        by.pop(0, None)
        delays = [math.floor(2 ** ((p - 1) / PER_OCTAVE)) for p in sorted(by)]
        out.add_counts(np.array(delays, np.int64), np.array([by[p] for p in sorted(by)], np.int64))
        return out

    def to_json(self) -> list[Any]:
        """Plain lists."""
        blocks = [[k, [list(p) for p in sorted(b.items())]] for k, b in sorted(self.blocks.items())]
        return [self.times, self.stretch, self.length, self.begun, blocks]

    @classmethod
    def from_json(cls, json: list[Any]) -> RecentDelays:
        """The inverse of `to_json`."""
        times, stretch, length, begun, blocks = json
        return cls(times, stretch, length, begun, {k: dict(b) for k, b in blocks})
