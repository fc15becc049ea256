"""Window aggregates whose closed windows leave a part at a time: `aggregate.step` with a place per bucket."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.windows import assemble
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import AggregateSpec, ints
from slackwater.semantics.limits import clamp
from slackwater.semantics.smoothing import Smoothing, cells_out, forced_to

Ints = npt.NDArray[np.int64]

MOST_CELLS = 1 << 22
"""With more (window, bucket) pairs or panes than this, all goes out at once: a stream that leaps needs no smoothing."""


class SmoothStep(NamedTuple):
    """``closed``: the last window that is out, by bucket; ``held``: partials of closed windows that wait.

    The others are those of `aggregate.AggregateStep`.
    """

    output: pa.Table
    keep: pa.Table
    closed: Ints
    held: int
    dropped_rows: int
    complete: int


def step(
    spec: AggregateSpec,
    new: pa.Table,
    state: pa.Table,
    buckets: tuple[int, int],
    closed: Ints,
    close_to: int,
    smoothing: Smoothing | None,
) -> SmoothStep:
    """Close windows up to ``close_to``, as far as ``smoothing`` allows (None: all of them).

    ``closed`` has the last window that is out for each bucket of the half-open range ``buckets``. ``state`` holds the
    stored partials that later windows may need.
    """
    panes = spec.panes
    new = aggregate.merge_partials(spec, [new])
    at = ints(new, "_bucket").astype(np.int64) - buckets[0]
    ends = panes.end_window(ints(new, "_pane"))
    dropped = int(np.count_nonzero(ends <= closed[at] + 1))
    empty = aggregate.output_schema(spec).empty_table()
    if not (closed < close_to).any():
        return SmoothStep(empty, new.filter(pa.array(ends > closed[at] + 1)), closed, 0, dropped, 0)
    pool = pa.concat_tables([new, state])
    bucket = ints(pool, "_bucket").astype(np.int64) - buckets[0]
    pane = ints(pool, "_pane")
    useful = (panes.end_window(pane) > closed[bucket] + 1) & (
        pane < clamp(panes.end_pane(close_to))
    )
    after = _after(spec, bucket[useful], pane[useful], closed, close_to, smoothing)
    # What stays is not even sorted: that is most of the work saved.
    now = useful & (after[bucket] > closed[bucket])
    first = np.array([clamp(panes.first_pane(int(c) + 1)) for c in closed])
    end = np.array([clamp(panes.end_pane(int(c))) for c in after])
    now &= (pane >= first[bucket]) & (pane < end[bucket])
    table, key = aggregate.merged(spec, [pool.filter(pa.array(now))])
    bucket = ints(table, "_bucket").astype(np.int64) - buckets[0]
    pane = ints(table, "_pane")
    frame = assemble.frame(key, pane, panes, closed[bucket], after[bucket])
    before = np.array([clamp(panes.end_pane(int(c))) for c in closed])
    return SmoothStep(
        aggregate.finished(spec, table, frame),
        new.filter(pa.array(ends > after[at] + 1)),
        after,
        int(np.count_nonzero(useful)) - int(np.count_nonzero(now)),
        dropped,
        int(np.count_nonzero(pane >= before[bucket])),
    )


def _after(
    spec: AggregateSpec,
    bucket: Ints,
    pane: Ints,
    closed: Ints,
    close_to: int,
    smoothing: Smoothing | None,
) -> Ints:
    """The last window that is out, by bucket, after this batch."""
    everything = np.maximum(closed, close_to)
    if smoothing is None or not len(pane):
        return everything
    panes = spec.panes
    low, high = int(pane.min()), int(pane.max())
    first = max(int(closed.min()) + 1, int(panes.first_window(pane.min())))
    last = min(close_to, int(panes.end_window(pane.max())) - 1)
    windows, size = last - first + 1, len(closed)
    if windows * size > MOST_CELLS or (high - low + 1) * size > MOST_CELLS or windows <= 0:
        return everything
    # Entries by bucket and pane, then by bucket and window.
    entries = np.bincount(
        bucket * (high - low + 1) + (pane - low), minlength=size * (high - low + 1)
    )
    sums = np.zeros((size, high - low + 2), np.int64)
    np.cumsum(entries.reshape(size, -1), axis=1, out=sums[:, 1:])
    wids = np.arange(first, last + 1)
    end = (wids + 1) * panes.per_slide
    begin = np.clip(end - panes.per_window - low, 0, high - low + 1)
    costs = (sums[:, np.clip(end - low, 0, high - low + 1)] - sums[:, begin]).T
    pending = wids[:, None] > closed[None, :]
    forced = min(max(0, forced_to(close_to, smoothing) - first + 1), windows)
    count = cells_out(costs, pending, smoothing.most, forced)
    if count >= windows * size:
        return everything
    whole, part = divmod(count, size)
    return np.asarray(np.maximum(closed, first + whole - 1 + (np.arange(size) < part)))
