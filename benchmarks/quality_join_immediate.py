"""Joins of two streams whose results leave at once: slack bounds what is kept, and late rows look for partners too.

Counted row for row, as in ``quality_join_run``: a row that arrives finds the rows of the other stream that came before it,
lie near enough in time, and have not been given up. A row is given up when the other stream's newest time, less the slack,
has passed its time by more than its window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_join_data import SECOND, Floats, Ints, JoinData
from benchmarks.quality_join_run import recall_at

Policy = Callable[[int], int]
"""From the tick to the slack from there on."""


def two(data: JoinData) -> JoinData:
    """The first two streams only."""
    which = np.flatnonzero(data.stream < 2)
    return JoinData(
        f"{data.name}, 2 streams",
        data.kind,
        data.windows[:2],
        data.stream[which],
        data.time[which],
        data.arrival[which],
        tuple(k[which] for k in data.keys),
        data.reach,
    )


def matches(data: JoinData, rows: Ints, others: Ints) -> NDArray[np.bool_]:
    """Which rows and others hold the condition, times aside."""
    if data.kind == "same":
        return np.asarray(data.keys[0][rows][:, None] == data.keys[0][others][None, :])
    apart = np.zeros((len(rows), len(others)), np.float32)
    for axis in data.keys:
        axis = axis.astype(np.float32)
        apart += np.square(axis[rows][:, None] - axis[others][None, :])
    return np.asarray(apart < np.float32(data.reach) ** 2)


@dataclass(frozen=True, eq=False)
class Kept:
    """Results by time, rows held on the mean, and the mean wait of a result after its time."""

    times: Ints
    counts: Ints
    held: float
    latency: float
    slack: float

    def recall(self, data: JoinData, true: Ints, period: int) -> Floats:
        """Recall of each period, a second apart, the first one left out; what came late counts as well."""
        ends = np.arange(data.time.min() + 2 * period, data.time.max() - period, SECOND)
        found = recall_at(self.times, self.counts, data.time, true, ends, period)
        return np.asarray(found[~np.isnan(found)])


def run(data: JoinData, cuts: Ints, policy: Policy) -> Kept:
    """The whole stream; ``cuts`` are the numbers of the first arrivals of the ticks."""
    held = [np.empty(0, np.int64), np.empty(0, np.int64)]
    clock = [np.iinfo(np.int64).min // 2] * 2
    times, counts, sizes, slacks = [], [], [], []
    waited = 0.0
    slack = 0
    for tick, (low, high) in enumerate(pairwise(cuts.tolist())):
        new = np.arange(low, high)
        gone = _bounds(data, new, clock, slack)
        for i in (0, 1):
            rows = new[data.stream[low:high] == i]
            if not len(rows):
                continue
            others = np.concatenate([held[1 - i], new[data.stream[low:high] == 1 - i]])
            there = matches(data, rows, others)
            there &= others[None, :] < rows[:, None]
            mine, theirs = data.time[rows][:, None], data.time[others][None, :]
            there &= (mine - theirs <= data.windows[1 - i]) & (theirs - mine <= data.windows[i])
            # Given up: this stream had passed the other row by more than its window and the slack.
            there &= theirs + data.windows[1 - i] >= gone[i][rows - low][:, None]
            left, right = np.nonzero(there)
            time = np.maximum(data.time[rows[left]], data.time[others[right]])
            found, at = np.unique(time, return_inverse=True)
            times.append(found)
            counts.append(np.bincount(at, minlength=len(found)))
            waited += float((data.arrival[rows[left]] - time).sum())
        for i in (0, 1):
            clock[i] = max(
                clock[i], int(data.time[new[data.stream[new] == i]].max(initial=clock[i]))
            )
        for i in (0, 1):
            both = np.concatenate([held[i], new[data.stream[new] == i]])
            held[i] = both[data.time[both] + data.windows[i] >= clock[1 - i] - slack]
        sizes.append(sum(map(len, held)))
        slacks.append(slack)
        slack = policy(tick)
    count = np.concatenate(counts).astype(np.int64)
    return Kept(
        np.concatenate(times),
        count,
        float(np.mean(sizes)),
        waited / max(1, count.sum()) / SECOND,
        float(np.mean(slacks)) / SECOND,
    )


def _bounds(data: JoinData, new: Ints, clock: list[int], slack: int) -> list[Ints]:
    """At each arrival, how far each stream has come by then, less the slack."""
    out = []
    for i in (0, 1):
        seen = np.where(data.stream[new] == i, data.time[new], clock[i])
        out.append(np.maximum(np.maximum.accumulate(seen), clock[i]) - slack)
    return out
