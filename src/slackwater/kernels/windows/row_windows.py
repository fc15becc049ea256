"""Windows over rows that are counted, for the whole stream or per key.

The rows of a batch are numbered first (`numbering`); windows over the numbers are then put together from
panes, as those over time. A window closes when its last row has been counted, so each key closes its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.windows import assemble
from slackwater.kernels.windows.numbering import counts_of
from slackwater.kernels.windows.partials_step import (
    AggregateSpec,
    finished,
    ints,
    merge_partials,
    merged,
)
from slackwater.semantics.limits import END
from slackwater.semantics.limits import END as LAST

Ints = npt.NDArray[np.int64]


class RowStep(NamedTuple):
    """Results, and what to keep of the new partials."""

    output: pa.Table
    keep: pa.Table


def step(
    spec: AggregateSpec,
    new: pa.Table,
    state: pa.Table,
    before: pa.Table,
    after: pa.Table,
    bound: int,
) -> RowStep:
    """Close the windows that the rows counted since ``before`` (``after``: all counters) have filled.

    ``state`` are all stored partials of these keys. At the end of the stream (``bound``) every window that
    has rows closes.
    """
    new = merge_partials(spec, [new])
    table, key = merged(spec, [new, state])
    closed = _closed(spec, counts_of(spec, table, [before]))
    close_to = _closed(spec, counts_of(spec, table, [after]))
    if bound >= LAST:
        close_to = np.full(len(closed), END)
    frame = assemble.frame(key, ints(table, "_pane"), spec.panes, closed, close_to)
    output = finished(spec, table, frame)
    return RowStep(output, living(spec, new, after) if bound < LAST else new.slice(0, 0))


def living(spec: AggregateSpec, rows: pa.Table, counters: pa.Table) -> pa.Table:
    """Partials that a window needs which is still open, given all counters."""
    closed = _closed(spec, counts_of(spec, rows, [counters]))
    ends = spec.panes.end_window(ints(rows, "_pane"))
    return rows.filter(pa.array(ends > closed + 1))


def _closed(spec: AggregateSpec, count: Ints) -> Ints:
    """The last window that ``count`` rows fill."""
    return np.asarray(count // np.int64(spec.sliding.slide) - 1)
