"""Fixed delays beside quality targets: Spark's native watermark as it is, and the least slack with hindsight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.quality_data import Rows
from benchmarks.quality_join_data import SECOND, Floats, Ints, JoinData
from benchmarks.quality_join_run import truth
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.delays import delays
from slackwater.semantics.window_ids import wid_range

TRAINING = 60 * SECOND
"""The first stretch of a stream: fixed delays are chosen by it, and no figure counts it."""
TRIGGER = SECOND // 10
"""Length of the native watermark's batches. Spark's are hardly ever shorter, and longer ones would only add to its wait."""
CHOICES = ("p99", "p99.9", "max")


def careful(found: Ints) -> dict[str, int]:
    """Delays that a careful user would choose after a look at these."""
    p99, p999 = (int(q) for q in np.quantile(found, [0.99, 0.999]))
    return dict(zip(CHOICES, (p99, p999, int(found.max())), strict=True))


def cut(arrival: Ints, trigger: int = TRIGGER) -> Ints:
    """The number of the first row of each batch that has rows, and the number of rows at the end."""
    batch = arrival // trigger
    return np.concatenate([[0], np.flatnonzero(np.diff(batch)) + 1, [len(arrival)]])


def watermarks(newest: Ints, delay: int) -> Ints:
    """Per batch the watermark that closes windows in it: by the newest time (``newest``) of all batches before it.

    A row is late if its window was closed in an earlier batch; one that comes in the batch that closes it still counts.
    """
    reach = np.maximum.accumulate(newest) - delay
    return np.concatenate([[START], reach[:-1]])


def native_bounds(data: Rows, delay: int, trigger: int = TRIGGER) -> Ints:
    """The native watermark by which each row is judged: that of the batch before the row's own."""
    arrival = np.arange(len(data.times)) * SECOND // data.rate
    starts = cut(arrival, trigger)
    newest = np.maximum.reduceat(data.times, starts[:-1])
    before = np.concatenate([[START], watermarks(newest, delay)[:-1]])
    return np.repeat(before, np.diff(starts))


def needs(data: Rows, width: int, slide: int, errors: Sequence[float]) -> tuple[Ints, list[Ints]]:
    """Ends of windows with rows after the training, and per error the slack that each window's sum needs.

    Judged row by row, for values above 0: a row is missing if the current time had passed the window's end by the slack when
    it came. Windows at the end of the stream that the largest delay would not close are left out.
    """
    first, stop = wid_range(data.times, TimeWindow(width, slide, 0, "t"))
    base, size = int(first.min()), int(stop.max() - first.min()) + 1
    totals = _covered(first - base, stop - base, data.values, size)
    rows = _covered(first - base, stop - base, np.ones(len(first)), size)
    seen = delays(data.times)
    before = np.concatenate([[START], seen.clocks[:-1]])
    sizes = np.maximum(np.minimum(before // slide, stop) - first, 0)
    row = np.repeat(np.arange(len(first)), sizes)
    wid = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes - first, sizes)
    slack = before[row] - (wid + 1) * slide + 1
    order = np.lexsort((-slack, wid))
    row, wid, slack = row[order], wid[order] - base, slack[order]
    missing = np.cumsum(data.values[row])
    starts = np.flatnonzero(np.diff(wid, prepend=-1))
    missing -= np.repeat(np.concatenate([[0.0], missing])[starts], np.diff([*starts, len(wid)]))
    ends = (np.arange(size) + base + 1) * slide
    judged = (rows > 0.5) & (ends > data.times.min() + TRAINING)
    judged &= ends <= seen.clocks[-1] - seen.delays.max()
    found = []
    for error in errors:
        wrong = np.flatnonzero(missing > (error + 1e-12) * totals[wid])
        need = np.zeros(size, np.int64)
        # The first row that is one too many, going from those that need most.
        at, place = np.unique(wid[wrong], return_index=True)
        need[at] = slack[wrong[place]]
        found.append(need[judged])
    return ends[judged], found


def least(need: Ints, wanted: float) -> int:
    """The least fixed slack with which the share ``wanted`` of windows would have kept the target."""
    return int(np.sort(need)[max(0, int(np.ceil(wanted * len(need))) - 1)])


# ---- joins ----


@dataclass(frozen=True, eq=False)
class NativeJoin:
    """Results by row that completes them, when each leaves, and per batch how far all results have left."""

    joined: Ints
    leaves: Ints
    reached: Ints
    starts: Ints


def native_join(data: JoinData, delay: Sequence[int], trigger: int = TRIGGER) -> NativeJoin:
    """Native joins under a watermark, results given out in order (as by windows over the join).

    ``delay`` is by stream. The watermark is that of the stream that is the furthest behind. A row behind the one that the batch before went by is
    dropped, whatever it could still join; nothing else is lost. A result leaves in the first batch whose watermark has
    passed its time; if none has, it counts as lost.
    """
    starts = cut(data.arrival, trigger)
    low = np.iinfo(np.int64).min // 2
    slowest = np.minimum.reduce(
        [
            np.maximum.accumulate(
                np.maximum.reduceat(np.where(data.stream == i, data.time, low), starts[:-1])
            )
            - d
            for i, d in enumerate(delay)
        ]
    )
    closing = watermarks(slowest, 0)
    judged = np.repeat(np.concatenate([[START], closing[:-1]]), np.diff(starts))
    kept = np.flatnonzero(data.time >= judged)
    joined = np.zeros(len(data), np.int64)
    joined[kept] = truth(data.part(kept))
    batch = np.searchsorted(closing, data.time, side="right")
    out = batch < len(closing)
    joined[~out] = 0
    ends = data.arrival[starts[1:] - 1]
    return NativeJoin(
        joined, np.where(out, ends[np.minimum(batch, len(ends) - 1)], 0), closing, starts
    )


def _covered(starts: Ints, stops: Ints, values: Floats, size: int) -> Floats:
    change = np.bincount(starts, values, size + 1) - np.bincount(stops, values, size + 1)
    return np.asarray(np.cumsum(change)[:size])
