"""Landmark windows: everything since the origin, reported every slide.

A pane is a slide, numbered as the first window that holds it. A result is the fold of all panes of its key up
to the window: nothing is ever dropped, but panes that all open windows share are merged when runs are
(`folded`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.kernels.windows import assemble
from slackwater.kernels.windows.partials_step import (
    AggregateSpec,
    AggregateStep,
    finished,
    ints,
    merge_partials,
    merged,
    output_schema,
)
from slackwater.semantics.limits import END, clamp


def step(
    spec: AggregateSpec, new: pa.Table, state: Sequence[pa.Table], closed: int, close_to: int
) -> AggregateStep:
    """Close the windows in (closed, close_to]; ``state`` is all that was ever kept, in any pieces.

    A key is reported from the window of its first row on. At the end of the stream (``close_to`` = `END`)
    it is reported up to the window of its last row. Late rows enter the windows still open.
    """
    keep = merge_partials(spec, [new])
    if close_to <= closed:
        return AggregateStep(output_schema(spec).empty_table(), keep, 0)
    table, key = merged(spec, [keep, *state])
    pane = ints(table, "_pane")
    starts = np.flatnonzero(np.diff(key, prepend=np.int64(-1)))
    ends = np.append(starts[1:], len(pane))[: len(starts)]
    first = np.maximum(pane[starts], np.int64(clamp(closed + 1)))
    last = pane[ends - 1] if close_to >= END else np.full(len(starts), np.int64(close_to))
    count = np.maximum(last - first + 1, 0)
    total = np.cumsum(count)
    wid = np.arange(int(total[-1]) if len(total) else 0) + np.repeat(first - (total - count), count)
    a = np.repeat(starts, count)
    b = _up_to(pane, starts, np.repeat(np.arange(len(starts)), count), wid)
    return AggregateStep(finished(spec, table, assemble.frame_of(wid, a, b, key)), keep, 0)


def folded(spec: AggregateSpec, rows: pa.Table, closed: int) -> pa.Table:
    """The same state with all panes up to ``closed`` merged into that one: no open window tells them apart."""
    at = rows.schema.get_field_index("_pane")
    pane = np.maximum(ints(rows, "_pane"), np.int64(clamp(closed)))
    return merge_partials(spec, [rows.set_column(at, rows.schema.field(at), pa.array(pane))])


def _up_to(
    pane: assemble.Ints,
    starts: assemble.Ints,
    group: assemble.Ints,
    wid: assemble.Ints,
) -> assemble.Ints:
    """For each result how many entries lie in earlier keys, or in its own with a pane <= ``wid``.

    ``group`` is the number of a result's key, ``starts`` where keys begin. Results rise by (key, window).
    """
    if not len(wid):
        return wid
    # (key, pane) as one rising integer: panes as ranks among all panes and windows, so that it fits.
    distinct = np.unique(np.concatenate([pane, wid]))
    width = np.int64(len(distinct) + 1)
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(pane))))
    places = number * width + np.searchsorted(distinct, pane)
    wanted = group * width + np.searchsorted(distinct, wid)
    return np.asarray(np.searchsorted(places, wanted, side="right"))
