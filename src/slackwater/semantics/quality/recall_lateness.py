"""How late the results of a join come, and what follows for its recall under any slack.

Our joins need no order: a result is found when the last of its rows arrives, however late that is. How far the slowest
stream had come by then, less the result's time, is the slack the result would have needed to leave in order: its
*lateness*. So the share of results up to a lateness is the recall with that slack, whatever makes some rows yield more
than others; no model of delays or of selectivity is needed.

Of recent results only those that came soon are known. Shares are therefore put together from the late end, each step from
those times for which it is known in full: of the results up to one bin, how many came up to the bin before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slackwater.semantics.quality.delays import Floats, Ints

__all__ = ["LateInterval", "ResultLateness", "lateness_bins", "lateness_edges"]


def _grid(most: int) -> Ints:
    """Ends of bins in granules: each the next number, from 40 on some 5 % more than the last."""
    edges = [0]
    while edges[-1] < most:
        edges.append(max(edges[-1] + 1, edges[-1] * 21 // 20))
    return np.array(edges, np.int64)


EDGES = _grid(1 << 40)


def lateness_bins(late: Ints, granularity: int) -> Ints:
    """The bin of each lateness; bin 0 is for results that need no slack.

    >>> lateness_bins(np.array([-5, 0, 1, 10, 11, 400, 410]), 10).tolist()
    [0, 0, 1, 1, 2, 40, 41]
    """
    granules = -(-np.maximum(late, 0) // granularity)
    return np.asarray(np.searchsorted(EDGES, granules), np.int64)


def lateness_edges(bins: int, granularity: int) -> Ints:
    """The greatest lateness of each bin: the slack that is enough for it."""
    return np.asarray(EDGES[:bins] * granularity)


LATELY = 6
"""The last part of the span is the span divided by this."""


def _shares(sums: Ints, ends: Ints, length: int) -> Floats:
    """Shares from running sums, each step over the ``length`` intervals before its end (excluded)."""
    last, bins = len(sums) - 1, len(ends)
    high, low = np.clip(ends, 0, last)[1:], np.clip(ends - length, 0, last)[1:]
    at = np.arange(1, bins)
    whole = (sums[high, at] - sums[low, at]).astype(np.float64)
    before = (sums[high, at - 1] - sums[low, at - 1]).astype(np.float64)
    steps = np.divide(before, whole, out=np.ones(bins - 1), where=whole > 0)
    return np.append(np.cumprod(steps[::-1])[::-1], 1.0)


class LateInterval(NamedTuple):
    """Results with times in one interval: its number, those that left in time, and all by bin of lateness."""

    key: int
    made: int
    counts: list[int]


@dataclass
class ResultLateness:
    """Results by time and lateness. ``found`` and ``made`` are by interval of result times (a multiple of ``interval``).

    ``found`` counts all results by bin of lateness, ``made`` those that left in time. ``span`` is how long a stretch
    of times each step of the shares is taken from.
    """

    granularity: int
    interval: int
    span: int
    by_bin: dict[int, Ints] = field(default_factory=dict)
    made: dict[int, int] = field(default_factory=dict)

    def record(
        self, times: Ints, late: Ints, in_time: NDArray[np.bool_], counts: Ints | None = None
    ) -> None:
        """Results that were found: their times, lateness, and whether they left in time; ``counts`` of each."""
        if not len(times):
            return
        weights = np.ones(len(times), np.int64) if counts is None else counts
        where = times // self.interval
        at = lateness_bins(late, self.granularity)
        size = int(at.max()) + 1
        known, group = np.unique(where, return_inverse=True)
        table = np.zeros(len(known) * size, np.int64)
        np.add.at(table, group * size + at, weights)
        left = np.zeros(len(known), np.int64)
        np.add.at(left, group, np.where(in_time, weights, 0))
        rows = table.reshape(len(known), size)
        for key, row, made in zip(known.tolist(), rows, left.tolist(), strict=True):
            self.put(key, row, made)

    def put(self, key: int, counts: Ints, made: int) -> None:
        """Results of one interval of times, by bin of lateness."""
        have = self.by_bin.get(key, np.zeros(0, np.int64))
        size = max(len(have), len(counts))
        total = np.zeros(size, np.int64)
        total[: len(have)] += have
        total[: len(counts)] += counts
        self.by_bin[key] = total
        self.made[key] = self.made.get(key, 0) + made

    def purge(self, clock: int) -> None:
        """Forget what is too old for any step, once the slowest stream has reached ``clock``."""
        if not self.by_bin:
            return
        bins = max(map(len, self.by_bin.values()))
        keep = clock - int(EDGES[bins - 1]) * self.granularity - self.span
        first = keep // self.interval - 1
        for key in [k for k in self.by_bin if k < first]:
            del self.by_bin[key]
            del self.made[key]

    @property
    def bins(self) -> int:
        """How many bins of lateness are known."""
        return max(map(len, self.by_bin.values()), default=1)

    def shares(self, clock: int) -> Floats:
        """The share of results up to each bin of lateness, when the slowest stream has reached ``clock``.

        Taken over the whole span and over its last part, and the lesser one counts: so slack grows soon after disorder
        has, and does not follow each lull.
        """
        bins = self.bins
        if not self.by_bin or bins < 2:
            return np.ones(bins)
        first, sums = self._sums(bins)
        ends = (clock - lateness_edges(bins, self.granularity)) // self.interval - first
        whole = _shares(sums, ends, self.span // self.interval)
        return np.minimum(whole, _shares(sums, ends, max(1, self.span // self.interval // LATELY)))

    def past(self, clock: int, low: int, high: int, shares: Floats) -> tuple[float, float]:
        """Results that left in time, and about how many there are, with times in [low, high), whole intervals."""
        made = true = 0.0
        edges = lateness_edges(len(shares), self.granularity)
        for key in range(-(-low // self.interval), high // self.interval):
            counts = self.by_bin.get(key)
            if counts is None:
                continue
            # So much of it is known for sure; the rest is judged by the shares.
            known = int(np.searchsorted(edges, clock - (key + 1) * self.interval, side="right"))
            reached = max(0, min(known, len(shares)) - 1)
            true += max(float(counts[: reached + 1].sum()) / max(shares[reached], 1e-6), float(counts.sum()))  # fmt: skip
            made += self.made.get(key, 0)
        return made, true

    def _sums(self, bins: int) -> tuple[int, Ints]:
        """The first interval, and running sums over intervals of the counts up to each bin."""
        first, last = min(self.by_bin), max(self.by_bin)
        table = np.zeros((last - first + 2, bins), np.int64)
        for key, counts in self.by_bin.items():
            table[key - first + 1, : len(counts)] = counts
        return first, np.cumsum(np.cumsum(table, axis=1), axis=0)

    @property
    def intervals(self) -> tuple[LateInterval, ...]:
        """What is known of each interval."""
        return tuple(
            LateInterval(k, self.made[k], self.by_bin[k].tolist()) for k in sorted(self.by_bin)
        )
