"""What the order of arrival tells of a chunk of rows: tails, delays inside the batch, broken order.

Only sources with ``order`` come here. A task finds the delays among its own rows; for those across tasks it
sends chunks, runs of its rows in order of arrival with their extreme times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.model.node import Source
from slackwater.semantics.lateness import Verdicts
from slackwater.semantics.progress import SourceState
from slackwater.semantics.settings import BoundRule
from slackwater.semantics.summary import Chunk, Order, PartitionSummary, SourceSummary

MAX_CHUNKS = 64


def arrival_summaries(
    source: Source,
    settings: Sequence[BoundRule],
    table: pa.Table,
    data: NDArray[np.bool_],
    codes: NDArray[np.int64],
    names: Sequence[str],
    judged: Sequence[Verdicts],
    state: SourceState | None,
) -> SourceSummary:
    """The parts of the summary that need order: delay, tail, rest_hi, violations, greatest order."""
    if not source.order or table.num_rows == 0:
        return SourceSummary()
    keys = [sortable(table[c]) for c in source.order]
    ranked = np.lexsort((*reversed(keys), codes))
    starts = np.flatnonzero(np.diff(codes[ranked], prepend=-1))
    ends = np.append(starts[1:], len(ranked))
    columns: dict[str, dict[str, PartitionSummary]] = {s.column: {} for s in settings}
    orders: dict[str, Order] = {}
    violations = 0
    before = {} if state is None else state.orders
    for low, high in zip(starts, ends, strict=True):
        rows = ranked[low:high]
        name = names[int(codes[rows[0]])]
        orders[name] = tuple(_plain(k[rows[-1]]) for k in keys)
        if name in before:
            violations += _at_or_below(keys, rows, before[name])
        for setting, verdict in zip(settings, judged, strict=True):
            usable = rows[(data & verdict.plausible)[rows]]
            columns[setting.column][name] = _partition(setting, keys, usable, verdict.ticks)
    return SourceSummary(columns, 0, {}, {}, violations, orders)


def _partition(
    setting: BoundRule,
    keys: Sequence[NDArray[Any]],
    rows: NDArray[np.int64],
    ticks: NDArray[np.int64],
) -> PartitionSummary:
    """``rows`` are the usable rows of one partition in order of arrival."""
    if len(rows) == 0:
        return PartitionSummary()
    times = ticks[rows]
    delay = delay_time = None
    chunks: tuple[Chunk, ...] = ()
    if setting.kind == "max_delay":
        chunks = _chunks(keys, rows, times)
        behind = np.maximum.accumulate(times) - times
        at = int(behind.argmax())
        if behind[at] > 0:
            delay, delay_time = int(behind[at]), int(times[at])
    tail: tuple[Order, ...] = ()
    rest_hi = None
    if setting.kind == "rows":
        cut = max(0, len(rows) - setting.rows)
        tail = tuple(
            (*(_plain(k[r]) for k in keys), int(t))
            for r, t in zip(rows[cut:], times[cut:], strict=True)
        )
        rest_hi = int(times[:cut].max()) if cut else None
    return PartitionSummary(
        delay=delay, delay_time=delay_time, tail=tail, rest_hi=rest_hi, chunks=chunks
    )


def _chunks(
    keys: Sequence[NDArray[Any]], rows: NDArray[np.int64], times: NDArray[np.int64]
) -> tuple[Chunk, ...]:
    """At most `MAX_CHUNKS` runs of equal length."""
    size = max(1, -(-len(rows) // MAX_CHUNKS))
    starts = np.arange(0, len(rows), size)
    highs = np.maximum.reduceat(times, starts)
    lows = np.minimum.reduceat(times, starts)
    ends = np.append(starts[1:], len(rows)) - 1
    return tuple(
        (_order(keys, rows[a]), _order(keys, rows[b]), int(hi), int(lo))
        for a, b, hi, lo in zip(starts, ends, highs, lows, strict=True)
    )


def _order(keys: Sequence[NDArray[Any]], row: int) -> Order:
    return tuple(_plain(k[row]) for k in keys)


def _at_or_below(keys: Sequence[NDArray[Any]], rows: NDArray[np.int64], limit: Order) -> int:
    """Rows whose order does not rise above the greatest of earlier batches."""
    equal = np.ones(len(rows), bool)
    below = np.zeros(len(rows), bool)
    for key, value in zip(keys, limit, strict=True):
        here = key[rows]
        below |= equal & (here < value)
        equal &= here == value
    return int((below | equal).sum())


def sortable(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column whose values compare as the order of arrival does."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return np.asarray(column.to_numpy())


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
