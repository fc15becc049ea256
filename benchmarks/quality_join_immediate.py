"""Joins of two streams whose results leave at once: slack bounds what is kept, and late rows look for partners too.

Counted row for row, as in ``quality_join_run``: a row that arrives finds the rows of the other stream that came before it,
lie near enough in time, and have not been given up. A row is given up when the other stream's newest time, less the slack,
has passed its time by more than its window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_join_data import SECOND, Floats, Ints, JoinData
from benchmarks.quality_join_run import recall_at, truth
from slackwater.semantics.quality.delays import histogram
from slackwater.semantics.quality.join_kept import KeptSlack, lost
from slackwater.semantics.quality.join_slack import RecallTarget
from slackwater.semantics.quality.recall import StreamDelays

Policy = Callable[[int], int]
"""From the tick to the slack from there on."""


def two(data: JoinData) -> JoinData:
    """The first two streams only."""
    part = data.part(np.flatnonzero(data.stream < 2))
    return replace(part, name=f"{data.name}, 2 streams", windows=data.windows[:2])


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


def by_delays(
    data: JoinData, cuts: Ints, known: Sequence[Sequence[StreamDelays]], target: RecallTarget
) -> Policy:
    """Ours: the model of delays, corrected by what rows must have missed so far."""
    state = KeptSlack(target)
    delay = np.empty(len(data), np.int64)
    for i in (0, 1):
        mine = data.stream == i
        delay[mine] = np.maximum.accumulate(data.time[mine]) - data.time[mine]

    def policy(tick: int) -> int:
        part = slice(int(cuts[tick]), int(cuts[tick + 1]))
        clock = (tick + 1) * target.interval
        counts = [
            histogram(delay[part][data.stream[part] == i], target.granularity) for i in (0, 1)
        ]
        gone = [
            lost(c, data.windows, i, target.granularity, state.slack) for i, c in enumerate(counts)
        ]
        state.arrived(clock, [int(c.sum()) for c in counts], gone)
        streams = [
            replace(s, sync=0, rows=int(s.counts.sum()) / (tick + 1) * target.intervals)
            for s in known[tick][:2]
        ]
        largest = max((len(s.counts) - 1) * s.granularity for s in streams)
        return state.adapt(streams, largest, clock)

    return policy


def at_once(
    whole: JoinData,
    ticks: Ints,
    known: Sequence[Sequence[StreamDelays]],
    largest: Sequence[int],
    targets: Sequence[RecallTarget],
) -> list[dict[str, Any]]:
    """The first two streams: recall, and what is kept for it. ``known`` and ``largest`` are by tick."""
    data = two(whole)
    cuts = np.concatenate([[0], np.searchsorted(data.arrival, ticks)])
    true = truth(data)
    most = run(data, cuts, lambda tick: largest[tick])
    none = run(data, cuts, lambda tick: 0)
    lines = []
    for target in targets:
        ours = run(data, cuts, by_delays(data, cuts, known, target))
        for how, found in (("ours", ours), ("no slack", none), ("max delay", most)):
            recall = found.recall(data, true, target.period)
            lines.append(
                {
                    "data": data.name,
                    "target": target.recall,
                    "method": how,
                    "slack": found.slack,
                    "held": found.held,
                    "against_max": 1 - found.held / most.held,
                    "latency": found.latency,
                    "recall": float(np.mean(recall)),
                    "least": float(np.min(recall)),
                    "kept": float(np.mean(recall >= target.recall)),
                    "kept99": float(np.mean(recall >= 0.99 * target.recall)),
                }
            )
    return lines
