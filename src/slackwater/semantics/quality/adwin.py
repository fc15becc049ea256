"""The span of rows that statistics are about: as long as the delays in it seem to come from one distribution.

This is ADWIN (Bifet and Gavaldà, 2007) with the exponential histogram and the test of its usual implementations.
The window is a series of *blocks* of 1, 2, 4, ... rows, oldest first, at most `PER_LEVEL` of each size. Every
`EVERY` rows each boundary between blocks is tried as a cut: if the means on its two sides differ more than chance
explains, the oldest block is dropped, and the test repeated. Each block knows the histogram of its delays, so that
histogram and window always speak of the same rows.

Values are scaled into [0, 1] by the largest delay ever seen when they are tested, not when they are stored. Rows in
order of arrival go in by `add`; a batch whose inner order is unknown goes in as one block, by `add_block`.

Bins reach as far as all delays but a few: those *beyond* are known to one per cent, and count in tests as if they were
where the bins end. So one extreme delay changes nothing. Bins grow wider when more than a few are beyond, and narrower
again when they need not be so wide any more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slackwater.semantics.quality.delays import (
    MAX_BINS,
    Floats,
    Ints,
    added,
    coarser,
    finer,
    histogram,
)
from slackwater.semantics.quality.sketch import delay_at, places

EVERY = 32
PER_LEVEL = 5
LEAST = 5
"""Rows that each side of a cut must have."""
GRACE = 10
CONFIDENCE = 0.002
LOW = 5
"""Blocks of fewer than ``2 ** LOW`` rows are not stored: they are slices of the latest rows."""

BEYOND = 0.001
"""Share of delays that may lie beyond the bins."""
FEW = 8
"""Delays that may, however few there are."""

_LOW_SIZES = 1 << np.arange(LOW)[::-1]


@dataclass
class Block:
    """``rows`` neighbouring rows: sum of their delays, squared deviations, and histogram.

    ``begin`` is the current time just before the first of them; ``sync`` the sum of what other streams' lag adds to
    their slack; ``edges`` how many batches they came in, where only that is known of their order. ``beyond`` counts
    delays that are larger than the bins reach, by their place in a sketch.
    """

    rows: int
    total: int
    deviation: float
    counts: Ints
    begin: int
    sync: int = 0
    edges: int = 0
    beyond: dict[int, int] = field(default_factory=dict)

    def merged(self, newer: Block) -> Block:
        """One block of two neighbours."""
        rows = self.rows + newer.rows
        gap = self.total / self.rows - newer.total / newer.rows
        between = gap * gap * self.rows * newer.rows / rows
        return Block(
            rows,
            self.total + newer.total,
            self.deviation + newer.deviation + between,
            added(self.counts, newer.counts),
            self.begin,
            self.sync + newer.sync,
            self.edges + newer.edges,
            {p: self.beyond.get(p, 0) + newer.beyond.get(p, 0) for p in self.beyond | newer.beyond},
        )

    @classmethod
    def of(cls, delays: Ints, begin: int, granularity: int, sync: int = 0) -> Block:
        """The block of some rows."""
        near = np.minimum(delays, granularity * MAX_BINS)
        total = int(near.sum())
        centred = near - total / len(near)
        counts, beyond = binned(delays, granularity)
        return cls(len(near), total, float(centred @ centred), counts, begin, sync, 0, beyond)

    def rebin(self, granularity: int, old: int) -> None:
        """Put delays into bins of another width, which is that of ``old`` times or over a power of two."""
        if granularity > old:
            self.counts = coarser(self.counts, granularity // old)
            delays = {p: delay_at(p) for p in self.beyond}
            for p in [p for p, d in delays.items() if d <= granularity * MAX_BINS]:
                one = np.zeros(-(-delays[p] // granularity) + 1, np.int64)
                one[-1] = self.beyond.pop(p)
                self.counts = added(self.counts, one)
            return
        counts = finer(self.counts, old // granularity)
        for b in np.flatnonzero(counts[MAX_BINS + 1 :]) + MAX_BINS + 1:
            place = int(places(np.array([int(b) * granularity]))[0])
            self.beyond[place] = self.beyond.get(place, 0) + int(counts[b])
        self.counts = counts[: MAX_BINS + 1]

    def to_json(self) -> list[Any]:
        """Plain lists; the histogram as pairs of bin and count."""
        at = np.flatnonzero(self.counts)
        pairs = [at.tolist(), self.counts[at].tolist()]
        own = [self.rows, self.total, self.deviation, pairs, self.begin, self.sync, self.edges]
        return [*own, [list(p) for p in sorted(self.beyond.items())]] if self.beyond else own

    @classmethod
    def from_json(cls, json: list[Any]) -> Block:
        """The inverse of `to_json`."""
        at, counts = json[3]
        dense = np.zeros(at[-1] + 1 if at else 0, np.int64)
        dense[at] = counts
        rows, total, deviation, _, begin, sync, edges, *beyond = json
        far = dict(beyond[0]) if beyond else {}
        return cls(rows, total, deviation, dense, begin, sync, edges, far)


def binned(
    delays: Ints, granularity: int, numbers: Ints | None = None
) -> tuple[Ints, dict[int, int]]:
    """The histogram of delays, or of delays that so many rows have each, and those beyond it by place."""
    far = delays > granularity * MAX_BINS
    beyond: dict[int, int] = {}
    for i in np.flatnonzero(far):
        place = int(places(delays[i : i + 1])[0])
        beyond[place] = beyond.get(place, 0) + (1 if numbers is None else int(numbers[i]))
    near = delays[~far] if far.any() else delays
    if numbers is None:
        return histogram(near, granularity), beyond
    at = -(-near // granularity)
    counts = np.zeros(int(at.max(initial=0)) + 1, np.int64)
    np.add.at(counts, at, numbers[~far])
    return counts, beyond


@dataclass
class Adwin:
    """The window. ``blocks`` are the stored ones, oldest first; then come ``levels[i]`` blocks of ``2 ** i`` rows,
    the larger first, whose rows are ``recent``, and rows that wait for the next test.

    ``recent`` and ``waiting`` have three rows of numbers each: delay, current time before the row, sync.
    """

    granularity: int
    confidence: float = CONFIDENCE
    blocks: list[Block] = field(default_factory=list)
    levels: list[int] = field(default_factory=lambda: [0] * LOW)
    recent: Ints = field(default_factory=lambda: np.empty((3, 0), np.int64))
    waiting: Ints = field(default_factory=lambda: np.empty((3, 0), np.int64))
    largest: int = 0
    cuts: int = 0
    base: int = 0

    def __post_init__(self) -> None:
        """The histogram of all stored blocks is kept as their sum; ``base`` is the least width of bins."""
        self.base = self.base or self.granularity
        self._counts: Ints | None = None
        self._json: dict[str, Any] | None = None
        self._stored = np.zeros(1, np.int64)
        for block in self.blocks:
            self._stored = added(self._stored, block.counts)

    # ---- rows in ----
    def add(self, delays: Ints, begins: Ints, sync: Ints | None = None) -> None:
        """Rows in order of arrival; ``begins`` is the current time before each."""
        self._counts = self._json = None
        extra = np.zeros_like(delays) if sync is None else sync
        rows = np.concatenate([self.waiting, np.stack([delays, begins, extra])], axis=1)
        whole = rows.shape[1] - rows.shape[1] % EVERY
        for start in range(0, whole, EVERY):
            chunk = rows[:, start : start + EVERY]
            self.largest = max(self.largest, int(chunk[0].max()))
            self._insert(chunk)
            self._shrink()
        self.waiting = rows[:, whole:].copy()
        if self.waiting.shape[1]:
            self.largest = max(self.largest, int(self.waiting[0].max()))
        self._fit()

    def add_block(self, block: Block, largest: int) -> None:
        """Rows whose order is not known, as one block; ``largest`` is the largest of their delays."""
        if block.rows == 0:
            return
        self._counts = self._json = None
        self.largest = max(self.largest, largest)
        self._store(block)
        self._compress()
        self._shrink()
        self._fit()

    @property
    def top(self) -> int:
        """How far the bins reach."""
        return self.granularity * MAX_BINS

    def _fit(self) -> None:
        """Bins as narrow as all delays but a few allow, and no narrower than at the beginning."""
        if self.largest <= self.base * MAX_BINS:
            return
        latest = np.concatenate([self.recent[0], self.waiting[0]])
        while not self._fits(self.granularity, latest):
            self._rebin(2 * self.granularity)
        # Only half as many may be beyond narrower ones, so that the width does not change to and fro.
        while self.granularity > self.base and self._fits(self.granularity // 2, latest, 0.5):
            self._rebin(self.granularity // 2)

    def _fits(self, granularity: int, latest: Ints, part: float = 1.0) -> bool:
        """Whether few delays would lie beyond bins that are as wide as now or half as wide; ``part`` says how few."""
        last = MAX_BINS * granularity // self.granularity
        far = int(self._stored[last + 1 :].sum()) + int((latest > MAX_BINS * granularity).sum())
        far += sum(sum(b.beyond.values()) for b in self.blocks)
        total = int(self._stored.sum()) + len(latest) + far
        return far < part * FEW or far <= part * BEYOND * total

    def _rebin(self, granularity: int) -> None:
        self._stored = np.zeros(1, np.int64)
        for block in self.blocks:
            block.rebin(granularity, self.granularity)
            self._stored = added(self._stored, block.counts)
        self.granularity = granularity
        self._counts = None

    def _insert(self, chunk: Ints) -> None:
        """As many rows as lie between two tests: the same as one by one, since only tests drop blocks."""
        self.recent = np.concatenate([self.recent, chunk], axis=1)
        arrived = chunk.shape[1]
        for level in range(LOW):
            held = self.levels[level] + arrived
            arrived = max(0, -(-(held - PER_LEVEL) // 2))
            self.levels[level] = held - 2 * arrived
        size = 1 << LOW
        for i in range(arrived):
            delays, begins, sync = self.recent[:, i * size : (i + 1) * size]
            self._store(Block.of(delays, int(begins[0]), self.granularity, int(sync.sum())))
            self._carry()
        if arrived:
            self.recent = self.recent[:, arrived * size :].copy()

    def _store(self, block: Block) -> None:
        self.blocks.append(block)
        if len(block.counts) > len(self._stored):
            self._stored = added(self._stored, block.counts)
        else:
            self._stored[: len(block.counts)] += block.counts

    def _carry(self) -> None:
        """`_compress` after one more of the smallest stored blocks, where all sizes are powers of two."""
        stop = len(self.blocks)
        while stop > PER_LEVEL:
            rows = self.blocks[stop - 1].rows
            first = stop - PER_LEVEL - 1
            if self.blocks[first].rows != rows:
                return
            self.blocks[first : first + 2] = [self.blocks[first].merged(self.blocks[first + 1])]
            stop = first + 1

    def _compress(self) -> None:
        """Merge the two oldest blocks of a size that has too many; sizes count by powers of two."""
        level = 0
        while True:
            of_level = [i for i, b in enumerate(self.blocks) if b.rows.bit_length() - 1 == level]
            if len(of_level) > PER_LEVEL:
                # Batches of uneven sizes may lie between the two: then the oldest takes its neighbour.
                at = next(
                    (i for i, j in itertools.pairwise(of_level) if j == i + 1),
                    of_level[0],
                )
                self.blocks[at : at + 2] = [self.blocks[at].merged(self.blocks[at + 1])]
                continue
            level += 1
            if not any(b.rows.bit_length() - 1 >= level for b in self.blocks):
                return

    # ---- the test ----
    def _shrink(self) -> None:
        before = self.cuts
        while self._cut():
            self.cuts = before + 1
            if self.blocks:
                counts = self.blocks.pop(0).counts
                self._stored[: len(counts)] -= counts
                continue
            level = max(k for k in range(LOW) if self.levels[k])
            self.levels[level] -= 1
            self.recent = self.recent[:, 1 << level :]

    def _cut(self) -> bool:
        """Whether any boundary between blocks separates different means."""
        rows, totals, deviations = self._parts()
        n0, u0 = rows.cumsum(), totals.cumsum()
        if len(rows) < 2 or n0[-1] <= GRACE:
            return False
        width, total = float(n0[-1]), float(u0[-1])
        # Only cuts that leave enough rows on both sides.
        first, stop = n0.searchsorted(LEAST), n0.searchsorted(width - LEAST, "right")
        n0, u0 = n0[first:stop], u0[first:stop]
        if not len(n0):
            return False
        scale = float(max(1, min(self.largest, self.top)))
        means = totals / rows - total / width
        variance = (float(deviations.sum()) + float(rows @ (means * means))) / width / scale**2
        n1 = width - n0
        gap = np.abs(u0 / n0 - (total - u0) / n1) / scale
        log = math.log(2.0 * math.log(width) / self.confidence)
        inverse = 1.0 / (n0 - (LEAST - 1)) + 1.0 / (n1 - (LEAST - 1))
        threshold = np.sqrt(inverse * (2.0 * variance * log)) + inverse * (2.0 / 3.0 * log)
        return bool((gap > threshold).any())

    def _parts(self) -> tuple[Floats, Floats, Floats]:
        """Rows, sums and squared deviations of all blocks, oldest first."""
        big = np.array([(b.rows, b.total, b.deviation) for b in self.blocks], np.float64)
        sizes = np.repeat(_LOW_SIZES, self.levels[::-1])
        if not len(sizes):
            return big[:, 0], big[:, 1], big[:, 2]
        values = np.minimum(self.recent[0], self.top).astype(np.float64)
        starts = sizes.cumsum() - sizes
        sums = np.add.reduceat(values, starts)
        centred = values - (sums / sizes).repeat(sizes)
        small = np.stack([sizes, sums, np.add.reduceat(centred * centred, starts)], axis=1)
        rows, totals, deviations = (np.concatenate([big, small]) if len(big) else small).T
        return rows, totals, deviations

    # ---- what it holds ----
    @property
    def width(self) -> int:
        """Rows in the window, those that wait for the test included."""
        latest = int(self.recent.shape[1] + self.waiting.shape[1])
        return latest + sum(b.rows for b in self.blocks)

    @property
    def counts(self) -> Ints:
        """The histogram of the window's delays; those beyond the bins are in one more."""
        if self._counts is None:
            latest = np.concatenate([self.recent[0], self.waiting[0]])
            near, far = binned(latest, self.granularity)
            out = added(self._stored, near)
            beyond = sum(sum(b.beyond.values()) for b in self.blocks) + sum(far.values())
            if beyond:
                last = np.zeros(MAX_BINS + 2, np.int64)
                last[-1] = beyond
                out = added(out, last)
            self._counts = out[: int(np.flatnonzero(out)[-1]) + 1] if out.any() else out[:1]
        return self._counts

    @property
    def total(self) -> int:
        """The sum of the window's delays."""
        latest = int(self.recent[0].sum()) + int(self.waiting[0].sum())
        return latest + sum(int(b.total) for b in self.blocks)

    @property
    def begin(self) -> int | None:
        """The current time before the window's first row."""
        if self.blocks:
            return int(self.blocks[0].begin)
        for rows in (self.recent, self.waiting):
            if rows.shape[1]:
                return int(rows[1, 0])
        return None

    @property
    def sync(self) -> float:
        """The mean of what other streams' lag adds to the slack of the window's rows."""
        total = int(self.recent[2].sum()) + int(self.waiting[2].sum())
        total += sum(b.sync for b in self.blocks)
        return total / self.width if self.width else 0.0

    @property
    def edges(self) -> int:
        """How many batches the window has, where only those tell the order of rows."""
        return sum(b.edges for b in self.blocks)

    # ---- durable ----
    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts; the same as long as no rows come, since several streams may have one window."""
        if self._json is None or self._json["base"] != self.base:
            self._json = self._to_json()
        return self._json

    def _to_json(self) -> dict[str, Any]:
        return {
            "granularity": self.granularity,
            "confidence": self.confidence,
            "blocks": [b.to_json() for b in self.blocks],
            "levels": list(self.levels),
            "recent": self.recent.tolist(),
            "waiting": self.waiting.tolist(),
            "largest": self.largest,
            "cuts": self.cuts,
            "base": self.base,
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Adwin:
        """The inverse of `to_json`."""
        arrays = {
            k: np.array(json[k], np.int64).reshape(3, len(json[k][0]))
            for k in ("recent", "waiting")
        }
        blocks = [Block.from_json(b) for b in json["blocks"]]
        return cls(**{**json, **arrays, "blocks": blocks, "levels": list(json["levels"])})
