"""Window aggregates in which each group is kept as rows (lazy) or as partial aggregates (eager).

Rows that are kept have the columns ``_bucket``, the keys ``_k0``..., ``_time`` and the distinct arguments of the
primitives, ``_x0``... Partials are those of `aggregate`, by pane where the slide divides the range and by window
otherwise: whichever are fewer. Each has, hidden, how many rows expire with it. A group is eager if it is listed.

Results do not depend on who is eager: when windows close, rows of lazy groups are reduced just for them, and merged with
what partials there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.buckets import bucket_of, flat
from slackwater.kernels.column_engine import Connection, connect, sql_to_arrow
from slackwater.kernels.order import dense, group_codes
from slackwater.kernels.types import arrow_type
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import AggregateSpec, ints
from slackwater.model.aggregate import Primitive
from slackwater.model.duck_sql import quote
from slackwater.model.names import TIME, ours
from slackwater.model.schema import Expr, column
from slackwater.model.window import TimeWindow
from slackwater.semantics.adaptive import MARK, ModeRules, Sizes, next_modes
from slackwater.semantics.limits import clamp
from slackwater.semantics.window_ids import wid_range

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

EXPIRING = "_expiring"
SAMPLE = 512
_ROWS = "_rows"


class AdaptiveStep(NamedTuple):
    """``rows`` and ``items`` are to be stored; of ``rows`` and ``eager``, all of them if the flag says so.

    ``late``: rows that no open window needs. ``complete``: as in `aggregate.AggregateStep`. ``groups``: eager, lazy, and lazy
    with partials left over.
    """

    output: pa.Table
    rows: pa.Table
    all_rows: bool
    items: pa.Table
    eager: pa.Table
    all_eager: bool
    late: int
    complete: int
    groups: Mapping[str, int]


def unit(spec: AggregateSpec) -> AggregateSpec:
    """The spec of the partials: per pane or per window, with the count of rows that expire with each."""
    w = spec.sliding
    plan: Any = "panes" if w.range % w.slide == 0 else "wids"
    return replace(spec, plan=plan, hidden=(_expiring(w, plan),))


def rows_schema(spec: AggregateSpec) -> pa.Schema:
    """Columns of rows that are kept."""
    fields = [*_keys(spec), pa.field("_time", pa.int64())]
    fields += [pa.field(f"_x{i}", arrow_type(a.type)) for i, a in enumerate(arguments(spec))]
    return pa.schema(fields)


def eager_schema(spec: AggregateSpec) -> pa.Schema:
    """Columns of the list of eager groups; ``_since`` is the last window closed when they became so."""
    return pa.schema([*_keys(spec), pa.field("_since", pa.int64())])


def arguments(spec: AggregateSpec) -> list[Expr]:
    """The primitives' arguments, each once."""
    return list({(a.sql, a.type): a for p in spec.primitives for a in p.args}.values())


def sizes_of(spec: AggregateSpec) -> Sizes:
    """Bytes of a row and of a partial, from the types alone: text and tables count as 16 bytes."""
    row = sum(_width(f.type) for f in rows_schema(spec))
    item = sum(_width(f.type) for f in aggregate.partials_schema(unit(spec)))
    return Sizes(row, item, _mark(spec))


def rows_select(
    spec: AggregateSpec, key_sqls: Sequence[str], time_sql: str, relation_sql: str
) -> str:
    """SQL of the column engine that gives rows to keep; feed its result to `rows`."""
    items = [f"{sql} AS {ours(n)}" for n, sql in zip(spec.key_names, key_sqls, strict=True)]
    items += [f"{time_sql} AS {TIME}"]
    items += [f"{a.duck} AS {ours(f'_x{i}')}" for i, a in enumerate(arguments(spec))]
    return f"SELECT {', '.join(items)} FROM {relation_sql}"


def rows(table: pa.Table, spec: AggregateSpec) -> pa.Table:
    """Rows from the result of `rows_select`."""
    schema = rows_schema(spec)
    table = aggregate.without_prefix(table)
    table = table.select(schema.names[1:]).cast(pa.schema(list(schema)[1:]))
    keys = [aggregate.one_zero(flat(table.column(n))) for n in spec.key_names]
    for at, key in enumerate(keys):
        table = table.set_column(at, schema.field(at + 1), key)
    bucket = pa.array(bucket_of(keys, rows=table.num_rows), pa.int16())
    return table.add_column(0, schema.field(0), bucket)


def needed_time(spec: AggregateSpec, closed: int) -> int:
    """First time that a window after ``closed`` holds."""
    w = spec.sliding
    return clamp(w.origin + (closed + 2) * w.slide - w.range)


def step(
    spec: AggregateSpec,
    new: pa.Table,
    kept: pa.Table,
    items: pa.Table,
    eager: pa.Table,
    closed: int,
    close_to: int,
    rules: ModeRules | None = None,
    connection: Connection | None = None,
) -> AdaptiveStep:
    """All new rows, then close the windows in (closed, close_to], then see who changes sides.

    ``kept``, ``items`` and ``eager`` are all that is stored and that windows after ``closed`` may need.
    """
    con = connection or connect()
    inner = unit(spec)
    done = max(closed, close_to)
    first, last = _windows(spec, new)
    useful = (last > closed) & (first <= last)
    late = int(np.count_nonzero((first <= last) & ~useful))
    new = new.filter(pa.array(useful))
    kept = kept.filter(pa.array(_windows(spec, kept)[1] > closed))

    codes = _codes(spec, [new, kept, eager])
    listed = codes[2]
    hot = np.isin(codes[0], listed)
    fresh = _reduced(spec, new.filter(pa.array(hot)), con)
    pool = pa.concat_tables([kept, new.filter(pa.array(~hot))])
    first, last = _windows(spec, pool)

    output, complete = aggregate.output_schema(spec).empty_table(), 0
    if close_to > closed:
        now = _reduced(spec, pool.filter(pa.array(first <= close_to)), con)
        reduced_step = aggregate.step(
            inner, pa.concat_tables([now, fresh]), items, closed, close_to
        )
        output, complete = reduced_step.output, reduced_step.complete

    alive = last > done
    living, first, last = pool.filter(pa.array(alive)), first[alive], last[alive]
    fresh = _open(inner, fresh, done)
    items = _open(inner, aggregate.merge_partials(inner, [items, fresh]), done)
    if inner.plan == "panes":
        first = (ints(living, "_time") - np.int64(spec.sliding.origin)) // inner.panes.width
        last = first
    else:
        first = np.maximum(first, done + 1)

    at_rows, at_items, at_eager = _codes(spec, [living, items, eager])
    count = 1 + max((int(c.max()) for c in (at_rows, at_items, at_eager) if len(c)), default=-1)
    was = np.zeros(count, np.bool_)
    was[at_eager] = True
    volume = np.bincount(at_rows, minlength=count)
    parts = np.bincount(at_items, minlength=count)
    expiring = np.bincount(at_items, ints(items, f"{EXPIRING}_n"), count).astype(np.int64)
    will = next_modes(
        was, volume, _becoming(at_rows, first, last + 1, count), expiring, parts,
        _sizes(spec, living, items, con), bound_moved=close_to > closed, rules=rules,
    )  # fmt: skip
    groups = {
        "eager": int(np.count_nonzero(will)),
        "lazy": int(np.count_nonzero(~will & (volume > 0))),
        "transition": int(np.count_nonzero(~will & (parts > 0))),
    }

    eager = _listed(eager, at_eager, living, at_rows, was, will, done)
    moved = will[at_rows]
    switching = bool(moved.any())
    if switching:
        more = _reduced(spec, living.filter(pa.array(moved)), con)
        fresh = pa.concat_tables([fresh, _open(inner, more, done)])
        living = living.filter(pa.array(~moved))
    stored = int(np.count_nonzero(alive[: kept.num_rows]))
    anew = switching or 2 * stored < kept.num_rows
    return AdaptiveStep(
        output, living if anew else living.slice(stored), anew,
        aggregate.merge_partials(inner, [fresh]), eager, bool((was != will).any()),
        late, complete, groups,
    )  # fmt: skip


def _keys(spec: AggregateSpec) -> list[pa.Field]:
    named = zip(spec.key_names, spec.keys, strict=True)
    return [pa.field("_bucket", pa.int16()), *(pa.field(n, arrow_type(k.type)) for n, k in named)]


def _expiring(w: TimeWindow, plan: str) -> Primitive:
    """Counts the rows whose last window is that of the partial: all rows of a pane expire together."""
    if plan == "panes":
        return Primitive(EXPIRING, "count", (), "bigint")
    into = f'(("_time") - CAST({w.origin - w.range} AS BIGINT))'
    size = f"CAST({w.slide} AS BIGINT)"
    end = f"({into} // {size} - CAST({into} % {size} < 0 AS BIGINT))"
    sql = f"CASE WHEN {ours('_pane')} = {end} - 1 THEN true END"
    return Primitive(EXPIRING, "count", (Expr("_expiring", "boolean", sql),), "bigint")


def _plain(spec: AggregateSpec) -> AggregateSpec:
    """The spec of the partials, over the columns of rows that are kept."""
    inner = unit(spec)
    at = {(a.sql, a.type): i for i, a in enumerate(arguments(spec))}
    made = [
        replace(p, args=tuple(column(f"_x{at[a.sql, a.type]}", a.type) for a in p.args))
        for p in spec.primitives
    ]
    return replace(inner, primitives=tuple(made))


def _reduced(spec: AggregateSpec, table: pa.Table, con: Connection) -> pa.Table:
    plain = _plain(spec)
    if not table.num_rows:
        return aggregate.partials_schema(plain).empty_table()
    sql = aggregate.partial_select(plain, [quote(n) for n in spec.key_names], '"_time"', _ROWS)
    return aggregate.partials(sql_to_arrow(con, sql, {_ROWS: table}), plain)


def _open(inner: AggregateSpec, items: pa.Table, done: int) -> pa.Table:
    """Partials that windows after ``done`` need."""
    return items.filter(pa.array(inner.panes.end_window(ints(items, "_pane")) > clamp(done + 1)))


def _windows(spec: AggregateSpec, table: pa.Table) -> tuple[Ints, Ints]:
    """First and last window of each row; the last is before the first for a row in no window."""
    first, end = wid_range(ints(table, "_time"), spec.sliding)
    return np.asarray(first), np.asarray(end) - 1


def _codes(spec: AggregateSpec, tables: Sequence[pa.Table]) -> list[Ints]:
    """Numbers of the groups of each table's rows, the same in all of them, from 0 without gaps."""
    names = ["_bucket", *spec.key_names]
    whole = pa.concat_tables([t.select(names) for t in tables])
    codes = dense(group_codes([whole.column(n) for n in names], whole.num_rows)).codes
    ends = np.cumsum([t.num_rows for t in tables])
    return np.split(codes, ends[:-1])


def _becoming(code: Ints, low: Ints, high: Ints, groups: int) -> Ints:
    """How many partials the rows of each group would become, [low, high) being those of a row."""
    order = np.lexsort((high, low, code))
    code, low, high = code[order], low[order], high[order]
    same = code[1:] == code[:-1]
    low[1:] = np.where(same, np.maximum(low[1:], high[:-1]), low[1:])
    added = np.maximum(high - low, 0)
    return np.bincount(code, added, groups).astype(np.int64)


def _listed(
    eager: pa.Table,
    at_eager: Ints,
    living: pa.Table,
    at_rows: Ints,
    was: Flags,
    will: Flags,
    done: int,
) -> pa.Table:
    """The groups that are eager from now on: those that stay, and those that their rows make so."""
    stay = eager.filter(pa.array(will[at_eager]))
    codes, places = np.unique(at_rows, return_index=True)
    risen = places[(will & ~was)[codes]]
    added = living.select(eager.column_names[:-1]).take(pa.array(risen))
    added = added.append_column(
        eager.schema.field("_since"), pa.array(np.full(len(risen), done, np.int64))
    )
    return pa.concat_tables([stay, added])


def _sizes(spec: AggregateSpec, living: pa.Table, items: pa.Table, con: Connection) -> Sizes:
    """Bytes as measured where the types do not tell them."""
    sizes = sizes_of(spec)
    if living.num_rows and not all(_fixed(f.type) for f in living.schema):
        sizes = replace(sizes, row=living.nbytes / living.num_rows)
    if not all(_fixed(f.type) for f in items.schema):
        some = items if items.num_rows else _reduced(spec, living.slice(0, SAMPLE), con)
        if some.num_rows:
            sizes = replace(sizes, item=some.nbytes / some.num_rows)
    return sizes


def _mark(spec: AggregateSpec) -> float:
    return MARK + sum(_width(arrow_type(k.type)) for k in spec.keys)


def _fixed(t: pa.DataType) -> bool:
    try:
        return int(t.bit_width) > 0
    except ValueError:
        return False


def _width(t: pa.DataType) -> float:
    return t.bit_width / 8 if _fixed(t) else 16.0
