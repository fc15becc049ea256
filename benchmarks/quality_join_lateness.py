"""The lateness of a data set's results, from a sample of rows.

A running join has it for nothing, since it finds late results too. Here results are only counted, so it is computed
beforehand: for each sampled row, all results in which it is the newest row, by the slack that they need.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.quality_join_data import VALUES, Floats, Ints, JoinData
from slackwater.semantics.quality.recall_lateness import EDGES, ResultLateness, lateness_bins


@dataclass(frozen=True, eq=False)
class Lateness:
    """Sampled results by interval of their times (from ``first`` on) and bin of lateness."""

    first: int
    counts: Ints
    interval: int
    granularity: int

    def feed(self, to: ResultLateness, clock: int, before: int) -> None:
        """What has become known in full while the slowest stream went from ``before`` to ``clock``."""
        edges = EDGES[: self.counts.shape[1]] * self.granularity
        oldest = (before - int(edges[-1])) // self.interval - 1
        for key in range(max(self.first, oldest), clock // self.interval):
            if key - self.first >= len(self.counts):
                break
            end = (key + 1) * self.interval
            low, high = np.searchsorted(edges, [before - end, clock - end], side="right")
            fresh = np.zeros(high, np.int64)
            fresh[low:high] = self.counts[key - self.first, low:high]
            if fresh.any():
                to.put(key, np.trim_zeros(fresh, "b"), 0)

    def left(self, key: int, slack: int) -> int:
        """How many of an interval's results leave in time with a slack."""
        if not 0 <= key - self.first < len(self.counts):
            return 0
        bins = int(np.searchsorted(EDGES * self.granularity, slack, side="right"))
        return int(self.counts[key - self.first, :bins].sum())


def slowest(data: JoinData) -> Ints:
    """How far the slowest stream has come, at each arrival."""
    low = np.iinfo(np.int64).min // 2
    clocks = [
        np.maximum.accumulate(np.where(data.stream == i, data.time, low))
        for i in range(data.streams)
    ]
    return np.asarray(np.minimum.reduce(clocks))


def sampled(data: JoinData, interval: int, granularity: int, share: float, seed: int) -> Lateness:
    """The lateness of the results of a share of the rows."""
    rng = np.random.default_rng(seed)
    clock = slowest(data)
    bins = int(lateness_bins(np.array([60_000_000]), granularity)[0]) + 1
    first = int(data.time.min()) // interval
    table = np.zeros((int(data.time.max()) // interval - first + 1, bins), np.int64)
    sides = _sides(data, clock)
    for row in np.flatnonzero(rng.random(len(data)) < share):
        found = _results(data, sides, int(row), granularity, bins)
        if found is not None:
            own = int(lateness_bins(clock[row : row + 1] - data.time[row], granularity)[0])
            found[: min(own, bins - 1)] = 0
            table[int(data.time[row]) // interval - first] += np.diff(found, prepend=0)
    return Lateness(first, table, interval, granularity)


class _Sorted:
    """A stream's rows by time, and the slowest stream's time when each arrived."""

    def __init__(self, data: JoinData, rows: Ints, clock: Ints) -> None:
        self.rows = rows[np.argsort(data.time[rows], kind="stable")]
        self.times = data.time[self.rows]
        self.clocks = clock[self.rows]

    def between(self, low: int, high: int) -> slice:
        start, stop = np.searchsorted(self.times, [low, high + 1])
        return slice(int(start), int(stop))


def _sides(data: JoinData, clock: Ints) -> list[list[_Sorted]]:
    """Rows of each stream; for a common key those of each value apart."""
    out = []
    for j in range(data.streams):
        mine = np.flatnonzero(data.stream == j)
        values = range(VALUES) if data.kind == "same" else [None]
        parts = [mine if v is None else mine[data.keys[0][mine] == v] for v in values]
        out.append([_Sorted(data, p, clock) for p in parts])
    return out


def _up_to(clocks: Ints, time: int, granularity: int, bins: int) -> Ints:
    """How many rows have come by each bin of lateness."""
    at = np.minimum(lateness_bins(clocks - time, granularity), bins - 1)
    return np.asarray(np.cumsum(np.bincount(at, minlength=bins)))


def _results(
    data: JoinData, sides: list[list[_Sorted]], row: int, granularity: int, bins: int
) -> Ints | None:
    """Results with ``row`` as the newest that are complete by each bin, itself aside; None if there are none."""
    time, i = int(data.time[row]), int(data.stream[row])
    if data.kind == "star":
        return _star(data, sides, row, granularity, bins)
    total: Ints | None = None
    for j in range(data.streams):
        if j == i:
            continue
        side = sides[j][int(data.keys[0][row]) if data.kind == "same" else 0]
        part = side.between(time - data.windows[j], time)
        clocks = side.clocks[part]
        if data.kind == "near":
            near = np.zeros(len(clocks), np.float64)
            for axis in data.keys:
                near += np.square((axis[side.rows[part]] - axis[row]).astype(np.float64))
            clocks = clocks[near < data.reach**2]
        if not len(clocks):
            return None
        one = _up_to(clocks, time, granularity, bins)
        total = one if total is None else total * one
    return total


def _star(
    data: JoinData, sides: list[list[_Sorted]], row: int, granularity: int, bins: int
) -> Ints | None:
    time, i = int(data.time[row]), int(data.stream[row])
    leaves: dict[int, Ints] = {}
    for j in range(1, data.streams):
        if j == i:
            continue
        side = sides[j][0]
        part = side.between(time - data.windows[j], time)
        at = np.minimum(lateness_bins(side.clocks[part] - time, granularity), bins - 1)
        cells = np.bincount(data.keys[0][side.rows[part]] * bins + at, minlength=VALUES * bins)
        leaves[j] = np.cumsum(cells.reshape(VALUES, bins), axis=1)
    if i == 0:
        total = np.ones(bins, np.int64)
        for j, leaf in leaves.items():
            total = total * leaf[data.keys[j - 1][row]]
        return total
    centre = sides[0][0]
    part = centre.between(time - data.windows[0], time)
    rows, clocks = centre.rows[part], centre.clocks[part]
    match = data.keys[i - 1][rows] == data.keys[0][row]
    rows, clocks = rows[match], clocks[match]
    if not len(rows):
        return None
    at = np.minimum(lateness_bins(clocks - time, granularity), bins - 1)
    there = (at[:, None] <= np.arange(bins)[None, :]).astype(np.int64)
    for j, leaf in leaves.items():
        there *= leaf[data.keys[j - 1][rows]]
    return np.asarray(there.sum(axis=0))


def shares(table: Lateness) -> Floats:
    """The share of all sampled results up to each bin."""
    totals = table.counts.sum(axis=0)
    return np.asarray(np.cumsum(totals) / max(1, totals.sum()))
