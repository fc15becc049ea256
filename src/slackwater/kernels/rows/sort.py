"""Sorting by time, unblocked by bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.kernels.buckets import flat
from slackwater.model.names import TIME
from slackwater.semantics.lateness import is_late
from slackwater.semantics.limits import clamp


class Sorted(NamedTuple):
    """``ordered`` rows that are complete, rows of the batch to ``keep``, how many were late."""

    ordered: pa.Table
    keep: pa.Table
    late: int


def step(
    new: pa.Table, state: pa.Table, old_bound: int, new_bound: int, time: str = TIME
) -> Sorted:
    """Emit the rows with old_bound <= time < new_bound in order of time.

    Rows of equal time come in the order of ``state``, then of ``new``. Rows of ``new`` older than
    ``old_bound`` are late; rows of ``state`` outside the span are left alone.
    """
    low, high = clamp(old_bound), clamp(max(old_bound, new_bound))
    parts = []
    for table in (state, new):
        times = _times(table, time)
        parts.append(table.filter(pa.array(~is_late(times, low) & (times < high))))
    fresh = _times(new, time)
    keep = new.filter(pa.array(fresh >= high))
    late = int(np.count_nonzero(is_late(fresh, low)))
    ready = pa.concat_tables([parts[0].select(new.column_names).cast(new.schema), parts[1]])
    order = np.argsort(_times(ready, time), kind="stable")
    return Sorted(ready.take(pa.array(order)), keep, late)


def _times(table: pa.Table, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.asarray(flat(table.column(name)).cast(pa.int64()).to_numpy(zero_copy_only=False))
