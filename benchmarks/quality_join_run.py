"""A join behind slack buffers over whole data sets: rows and results are counted, not made.

What happens is what one row after the other would do (tests compare it with the oracle of ``slackwater.testing``), a second of
arrivals at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_join_data import VALUES, Floats, Ints, JoinData
from benchmarks.simulations.join_order import Rows
from slackwater.semantics.limits import START


@dataclass(frozen=True, eq=False)
class Probed:
    """Per row at the join: whether it was in order, combinations looked at, results. Late rows look at nothing."""

    rows: Rows
    in_order: NDArray[np.bool_]
    cross: Ints
    joined: Ints


class Counting:
    """The join: rows in, counts out. Windows hold numbers of rows of ``data``."""

    def __init__(self, data: JoinData) -> None:
        self.data = data
        self.now = START
        self.held = [np.empty(0, np.int64) for _ in data.windows]

    def receive(self, rows: Rows) -> Probed:
        """Rows in the order in which they reach the join."""
        data = self.data
        clock = np.maximum.accumulate(np.concatenate([[self.now], rows.time]))
        in_order = rows.time >= clock[:-1]
        probes = np.flatnonzero(in_order)
        times = rows.time[probes]
        sides = []
        for j, window in enumerate(data.windows):
            mine = np.flatnonzero(rows.stream == j)
            held = np.concatenate([self.held[j], rows.number[mine]])
            place = np.concatenate([np.full(len(self.held[j]), -1), mine])
            # A row is there from the first probe after it to the last one that is not too far ahead.
            first = np.searchsorted(probes, place, side="right")
            last = np.searchsorted(times, data.time[held] + window, side="right")
            sides.append(_Side(held, first, np.maximum(first, last), len(probes)))
            self.held[j] = held[data.time[held] >= clock[-1] - window]
        cross = np.zeros(len(rows), np.int64)
        joined = np.zeros(len(rows), np.int64)
        for i in range(data.streams):
            which = np.flatnonzero(rows.stream[probes] == i)
            others = [side for j, side in enumerate(sides) if j != i]
            cross[probes[which]] = np.prod([s.count()[which] for s in others], axis=0)
            joined[probes[which]] = self._joined(i, which, rows.number[probes], sides)
        self.now = int(clock[-1])
        return Probed(rows, in_order, cross, joined)

    def _joined(self, i: int, which: Ints, number: Ints, sides: list[_Side]) -> Ints:
        data, mine = self.data, number[which]
        if data.kind == "same":
            key = data.keys[0]
            found = [
                s.by_value(key[s.held])[which, key[mine]] for j, s in enumerate(sides) if j != i
            ]
            return np.asarray(np.prod(found, axis=0), np.int64)
        if data.kind == "near":
            return _near(data, mine, which, sides[1 - i])
        leaves = [side.by_value(data.keys[0][side.held]) for side in sides[1:]]
        if i == 0:
            found = [leaf[which, data.keys[k][mine]] for k, leaf in enumerate(leaves)]
            return np.asarray(np.prod(found, axis=0), np.int64)
        centre = sides[0]
        there = (centre.first[None, :] <= which[:, None]) & (which[:, None] < centre.last[None, :])
        there &= data.keys[i - 1][centre.held][None, :] == data.keys[0][mine][:, None]
        probe, row = np.nonzero(there)
        each = np.ones(len(probe), np.int64)
        for k, leaf in enumerate(leaves):
            if k != i - 1:
                each *= leaf[which[probe], data.keys[k][centre.held[row]]]
        return np.bincount(probe, each, len(which)).astype(np.int64)


class _Side:
    """Rows of a stream, and the probes [first, last) that see each of them."""

    def __init__(self, held: Ints, first: Ints, last: Ints, probes: int) -> None:
        self.held, self.first, self.last, self.probes = held, first, last, probes

    def count(self) -> Ints:
        """How many rows each probe sees."""
        n = self.probes + 1
        steps = np.bincount(self.first, minlength=n) - np.bincount(self.last, minlength=n)
        return np.cumsum(steps)[:-1]

    def by_value(self, values: Ints) -> Ints:
        """How many rows of each value each probe sees."""
        n = self.probes + 1
        steps = np.bincount(self.first * VALUES + values, minlength=n * VALUES)
        steps = steps - np.bincount(self.last * VALUES + values, minlength=n * VALUES)
        return np.cumsum(steps.reshape(n, VALUES), axis=0)[:-1]


def _near(data: JoinData, mine: Ints, which: Ints, other: _Side) -> Ints:
    x, y = (k.astype(np.float32) for k in (data.keys[0], data.keys[1]))
    apart = np.square(x[mine][:, None] - x[other.held][None, :])
    apart += np.square(y[mine][:, None] - y[other.held][None, :])
    there = apart < np.float32(data.reach) ** 2
    there &= other.first[None, :] <= which[:, None]
    there &= which[:, None] < other.last[None, :]
    return np.asarray(there.sum(axis=1), np.int64)


def truth(data: JoinData, chunk: int = 400) -> Ints:
    """The number of true results that each row completes when all come in order of time; by row number."""
    order = np.argsort(data.time, kind="stable")
    out = np.zeros(len(data), np.int64)
    join = Counting(data)
    zeros = np.zeros(len(order), np.int64)
    for at in range(0, len(order), chunk):
        part = order[at : at + chunk]
        some = zeros[: len(part)]
        found = join.receive(Rows(data.stream[part], data.time[part], part, some, some))
        out[part] = found.joined
    return out


def recall_at(produced_time: Ints, produced: Ints, true_time: Ints, true: Ints, at: Ints, period: int) -> Floats:  # fmt: skip
    """Recall over the ``period`` up to each time in ``at`` (its start excluded); NaN where there is nothing to find."""
    found = _sum_between(produced_time, produced, at - period, at)
    wanted = _sum_between(true_time, true, at - period, at)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(wanted > 0, found / wanted, np.nan)


def _sum_between(time: Ints, count: Ints, low: Ints, high: Ints) -> Floats:
    """The sum of counts at times in (low, high]."""
    order = np.argsort(time, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(count[order].astype(np.float64))])
    ends = np.searchsorted(time[order], high, side="right")
    return np.asarray(sums[ends] - sums[np.searchsorted(time[order], low, side="right")])
