"""Groups on the windows of several times: cells in, and out what the frontier has closed.

A partial belongs to a **cell**: a pane of each time (``_pane`` of the first, ``_pane1``... of the others). A **box** is
one window of each time, and a cell lies in a run of windows per time. Points are those of `semantics.frontier`; a box
is closed when none of them is below all of its ends. Later ends close later, so the first box of a cell is closed
before its others, and a cell is of no more use when its last box is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import AggregateSpec, ints
from slackwater.model.names import sub_query
from slackwater.model.schema import Field
from slackwater.model.window import JointWindow, TimeWindow
from slackwater.semantics.frontier import Points
from slackwater.semantics.limits import END
from slackwater.semantics.panes import Panes
from slackwater.semantics.window_ids import closed_by, extent

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class JointStep(NamedTuple):
    """``output``: boxes closed now; ``keep``: what to store of the new cells; ``alive``: which of the stored cells
    are still of use; ``dropped``: how many new cells came too late for all of their boxes.
    """

    output: pa.Table
    keep: pa.Table
    alive: Mask
    dropped: int


def partial_select(
    spec: AggregateSpec, key_sqls: Sequence[str], time_sqls: Sequence[str], relation: str
) -> str:
    """SQL of the column engine that reduces a relation to cells; feed its result to `aggregate.partials`."""
    windows = _windows(spec)
    extra = []
    for name, w, ticks in zip(spec.other_panes, windows[1:], time_sqls[1:], strict=True):
        one = replace(spec, window=w, plan="panes")
        extra.append((name, aggregate.pane_sql(one, ticks, duck=True)))
        if where := aggregate.gap_sql(one, ticks):
            relation = sub_query(f"SELECT * FROM {relation} WHERE {where}")
    return aggregate.partial_select(_first(spec), key_sqls, time_sqls[0], relation, extra)


def needed(spec: AggregateSpec, bound: int) -> int:
    """First pane of the first time that rows above its bound may share a box with."""
    first = _first(spec)
    return aggregate.needed(first, closed_by(bound, first.sliding))


def step(
    spec: AggregateSpec, new: pa.Table, state: pa.Table, before: Points, after: Points
) -> JointStep:
    """Close the boxes that ``after`` closes and ``before`` did not, from all stored cells and the new ones.

    A late row enters those of its boxes that are still open.
    """
    new = aggregate.merge_partials(spec, [new])
    too_late = _last_closed(spec, new, before)
    alive = ~_last_closed(spec, state, after)
    keep = new.filter(pa.array(~_last_closed(spec, new, after)))
    output = output_schema(spec).empty_table()
    if before != after:
        pool = pa.concat_tables([new.filter(pa.array(~too_late)), state])
        pool = pool.filter(pa.array(_closed(spec, _first_windows(spec, pool), after)))
        output = _boxes(spec, pool)
        wids = [ints(output, n) for n in _wid_names(spec)]
        now = _closed(spec, wids, after) & ~_closed(spec, wids, before)
        output = output.filter(pa.array(now))
    return JointStep(output, keep, alive, int(too_late.sum()))


def living(spec: AggregateSpec, cells: pa.Table, after: Points) -> pa.Table:
    """The cells that some open box holds."""
    return cells.filter(pa.array(~_last_closed(spec, cells, after)))


def output_schema(spec: AggregateSpec) -> pa.Schema:
    """Keys, the window of each time (``_wid``, ``_wid1``...), the primitives."""
    fields = list(aggregate.output_schema(_first(spec)))
    at = len(spec.keys) + 1
    fields[at:at] = [pa.field(n, pa.int64()) for n in _wid_names(spec)[1:]]
    return pa.schema(fields)


def _boxes(spec: AggregateSpec, pool: pa.Table) -> pa.Table:
    """The results of all boxes that hold a cell of the pool, closed or not."""
    wids: list[Ints] = []
    rows = np.arange(pool.num_rows)
    for name, w in zip(spec.other_panes, _windows(spec)[1:], strict=True):
        panes, pane = Panes.of(w), ints(pool, name)[rows]
        first = panes.first_window(pane)
        count = np.maximum(panes.end_window(pane) - first, 0)
        wids = [np.repeat(one, count) for one in wids]
        offset = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        wids.append(np.repeat(first, count) + offset)
        rows = np.repeat(rows, count)
    # The windows of all times but the first are as good as keys.
    fields = tuple(Field(n, "bigint") for n in _wid_names(spec)[1:])
    flat = replace(_first(spec), keys=(*spec.keys, *fields))
    cells = pool.take(pa.array(rows))
    arrays = [cells.column(n) for n in ["_bucket", *spec.key_names]]
    arrays += [pa.array(one) for one in wids] + [cells.column("_pane")]
    arrays += cells.columns[len(arrays) :]
    table = pa.table(arrays, schema=aggregate.partials_schema(flat))
    done = aggregate.step(flat, table.slice(0, 0), table, -END, END).output
    names = [*spec.key_names, *_wid_names(spec)[1:]]
    done = done.rename_columns([*names, *done.column_names[len(names) :]])
    return done.select(output_schema(spec).names)


def _closed(spec: AggregateSpec, wids: Sequence[Ints], points: Points) -> Mask:
    """Which boxes are closed: those that no later row can be in."""
    ends = [extent(wid, w)[1] for wid, w in zip(wids, _windows(spec), strict=True)]
    done = np.ones(len(wids[0]), bool)
    for point in points:
        above = np.zeros(len(done), bool)
        for v, end in zip(point, ends, strict=True):
            above |= np.int64(v) >= end
        done &= above
    return done


def _last_closed(spec: AggregateSpec, cells: pa.Table, points: Points) -> Mask:
    """Which cells lie in closed boxes only."""
    places = zip(_windows(spec), ["_pane", *spec.other_panes], strict=True)
    last = [Panes.of(w).end_window(ints(cells, name)) - 1 for w, name in places]
    return _closed(spec, last, points)


def _first_windows(spec: AggregateSpec, cells: pa.Table) -> list[Ints]:
    places = zip(_windows(spec), ["_pane", *spec.other_panes], strict=True)
    return [Panes.of(w).first_window(ints(cells, name)) for w, name in places]


def _wid_names(spec: AggregateSpec) -> list[str]:
    return ["_wid", *(f"_wid{i + 1}" for i in range(len(spec.other_panes)))]


def _windows(spec: AggregateSpec) -> tuple[TimeWindow, ...]:
    assert isinstance(spec.window, JointWindow)
    return spec.window.windows


def _first(spec: AggregateSpec) -> AggregateSpec:
    """The same aggregate over windows of the first time alone."""
    return replace(spec, window=_windows(spec)[0], plan="panes")
