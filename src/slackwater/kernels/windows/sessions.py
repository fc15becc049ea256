"""Sessions: rows of a key that follow each other by less than a gap.

The state are parts of open sessions: first tick, last tick (``_pane``), partial aggregates. A part is alive
while the bound is below its last tick plus the gap (a tick more, if sessions are closed). Where the session goes on after that, because of later
rows, the part is written again with the session's last tick: so what is alive can be told from the bound
alone, and dead parts leave with their run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.aggregates import partials as states
from slackwater.kernels.order import group_codes, stable_order
from slackwater.kernels.windows import assemble
from slackwater.kernels.windows.partials_step import (
    AggregateSpec,
    AggregateStep,
    finished,
    ints,
    output_schema,
    partials_schema,
)
from slackwater.model.window import SessionWindow
from slackwater.semantics.limits import clamp

Ints = npt.NDArray[np.int64]


def needed(w: SessionWindow, bound: int) -> int:
    """Least last tick of a part that is alive at ``bound``."""
    return clamp(bound - w.reach + 1)


def step(
    spec: AggregateSpec, new: pa.Table, state: pa.Table, old: int, bound: int
) -> AggregateStep:
    """Close the sessions whose last tick plus the gap the bound has reached, or passed if they are closed.

    ``state`` holds all parts that are alive at ``old`` (dead ones are left out here). Late rows join open
    sessions, or make one if it is not closed already; those that can do neither are dropped.
    """
    w = spec.window
    assert isinstance(w, SessionWindow)
    done = max(old, bound)
    alive = needed(w, old)
    state = state.filter(pa.array(ints(state, "_pane") >= alive))
    table, session, stored = _sessions(spec, [state, new], w.reach)
    if not table.num_rows:
        return AggregateStep(
            output_schema(spec).empty_table(), partials_schema(spec).empty_table(), 0
        )
    first, last = ints(table, "_first"), ints(table, "_pane")
    starts = np.flatnonzero(np.diff(session, prepend=np.int64(-1)))
    ends = np.append(starts[1:], len(session))
    begin, finish = first[starts], np.maximum.reduceat(last, starts)
    late = finish < alive
    closing = ~late & (finish < needed(w, done))
    dropped = int((ends - starts)[late].sum())

    chosen = np.flatnonzero(closing)
    frame = assemble.frame_of(chosen, starts[chosen], ends[chosen], session)
    output = finished(spec, table, frame, (begin[chosen], finish[chosen] + w.gap))

    # New rows, and stored parts that die although their session goes on.
    going = np.repeat(finish >= needed(w, done), ends - starts)
    write = going & (~stored | (last < needed(w, done)))
    rows = np.flatnonzero(write)
    kept = table.take(pa.array(rows))
    place = kept.schema.get_field_index("_pane")
    reach = np.where(last[rows] < needed(w, done), finish[session[rows]], last[rows])
    kept = kept.set_column(place, kept.schema.field(place), pa.array(reach))
    return AggregateStep(output, _folded(spec, kept, session[rows]), dropped)


def merge_parts(spec: AggregateSpec, rows: pa.Table, first: int) -> pa.Table:
    """Living parts, with those that touch put together."""
    w = spec.window
    assert isinstance(w, SessionWindow)
    rows = rows.filter(pa.array(ints(rows, "_pane") >= first))
    table, session, _ = _sessions(spec, [rows], w.reach)
    return _folded(spec, table, session)


def _sessions(
    spec: AggregateSpec, tables: Sequence[pa.Table], reach: int
) -> tuple[pa.Table, Ints, npt.NDArray[np.bool_]]:
    """Parts sorted by key and first tick, the number of the session of each, and which are of the first table."""
    schema = partials_schema(spec)
    table = pa.concat_tables([t.select(schema.names).cast(schema) for t in tables])
    n = table.num_rows
    key = group_codes([table.column(c) for c in spec.group_names], n).codes
    order = stable_order(group_codes([key, ints(table, "_first")], n))
    table, key = table.take(pa.array(order)), key[order]
    if not n:
        return table, key, np.zeros(0, np.bool_)
    first, last = ints(table, "_first"), ints(table, "_pane")
    fresh = np.ones(n, np.bool_)
    fresh[1:] = key[1:] != key[:-1]
    # The greatest last tick so far within the key: as a rank, so that a key's number can go before it.
    ticks, rank = np.unique(last, return_inverse=True)
    number = np.cumsum(fresh) - 1
    newest = np.maximum.accumulate(number * np.int64(len(ticks)) + rank) % len(ticks)
    fresh[1:] |= first[1:] >= ticks[newest[:-1]] + reach
    return table, np.cumsum(fresh) - 1, order < tables[0].num_rows


def _folded(spec: AggregateSpec, table: pa.Table, session: Ints) -> pa.Table:
    """One part per session."""
    if not table.num_rows:
        return table
    starts = np.flatnonzero(np.diff(session, prepend=np.int64(-1)))
    made = {
        "_first": pa.array(np.minimum.reduceat(ints(table, "_first"), starts)),
        "_pane": pa.array(np.maximum.reduceat(ints(table, "_pane"), starts)),
    }
    heads = table.select(spec.group_names).take(pa.array(starts))
    merged = states.merge_groups(spec.stored, table, starts)
    columns = {**dict(zip(heads.column_names, heads.columns, strict=True)), **made}
    columns |= dict(zip(merged.column_names, merged.columns, strict=True))
    schema = partials_schema(spec)
    return pa.table([columns[n] for n in schema.names], schema=schema)
