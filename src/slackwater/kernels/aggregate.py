"""Window aggregation: rows to partials, partials to state, state and a bound to results.

A table of partials has the columns ``_bucket`` (int16), the keys ``_k0``..., ``_pane`` (int64: the pane, or
in plan "wids" the window) and the state columns of the primitives. It is sorted by (bucket, keys, pane).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels import assemble
from slackwater.kernels import partials as states
from slackwater.kernels.buckets import bucket_of, flat
from slackwater.kernels.column_engine import quote
from slackwater.kernels.order import group_codes, stable_order
from slackwater.kernels.panes import END, Panes, clamp
from slackwater.kernels.types import arrow_type
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import Field
from slackwater.model.window import TimeWindow

__all__ = [
    "END", "AggregateSpec", "Step", "merge_partials", "needed", "output_schema", "partial_select",
    "pane_sql", "partials", "partials_from_spark", "partials_schema", "spark_group", "step",
]  # fmt: skip

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AggregateSpec:
    """What to compute: ``plan`` "panes" stores partials per pane, "wids" per window."""

    keys: tuple[Field, ...]
    window: TimeWindow
    primitives: tuple[Primitive, ...]
    plan: Literal["panes", "wids"]
    ansi: bool

    @property
    def panes(self) -> Panes:
        """The panes of the plan; a window is its own pane in plan "wids"."""
        return Panes.of(self.window) if self.plan == "panes" else Panes(self.window.slide, 1, 1)

    @property
    def key_names(self) -> list[str]:
        """Names of the key columns in partials and output."""
        return [f"_k{i}" for i in range(len(self.keys))]


class Step(NamedTuple):
    """``output``: closed windows that have rows; ``keep``: what to store of the new partials;
    ``dropped_rows``: how many of the new partials (not rows) no open window needs.
    """

    output: pa.Table
    keep: pa.Table
    dropped_rows: int


def partials_schema(spec: AggregateSpec) -> pa.Schema:
    """Columns of a table of partials."""
    fields = [pa.field("_bucket", pa.int16())]
    fields += [pa.field(n, arrow_type(k.type)) for n, k in zip(spec.key_names, spec.keys)]
    fields.append(pa.field("_pane", pa.int64()))
    for p in spec.primitives:
        fields += states.state_fields(p)
    return pa.schema(fields)


def output_schema(spec: AggregateSpec) -> pa.Schema:
    """Columns of the output of ``step``."""
    fields = [pa.field(n, arrow_type(k.type)) for n, k in zip(spec.key_names, spec.keys)]
    fields.append(pa.field("_wid", pa.int64()))
    fields += [pa.field(p.name, arrow_type(p.type)) for p in spec.primitives]
    return pa.schema(fields)


def partial_select(
    spec: AggregateSpec,
    key_sqls: Sequence[str],
    time_sql: str,
    relation_sql: str,
    extra: Sequence[tuple[str, str]] = (),
) -> str:
    """SQL of the column engine that pre-aggregates a relation; feed its result to ``partials``.

    ``time_sql`` is a BIGINT expression of ticks that is not null; ``extra`` are further group columns
    as (name, expression). Rows that belong to no window vanish.
    """
    window = spec.window
    ticks = f"(({time_sql}) - {_int(window.origin)})"
    relation = relation_sql
    if spec.plan == "wids":
        low = _floor(ticks, window.slide)
        high = _floor(f"({ticks} + {_int(window.range)})", window.slide)
        relation = (
            f"(SELECT *, unnest(range({low}, {high})) AS {quote('_pane')} FROM {relation_sql})"
        )
        pane, where = quote("_pane"), ""
    else:
        panes = Panes.of(window)
        pane, where = _floor(ticks, panes.size), ""
        if window.range < window.slide:
            slide = _int(window.slide)
            into = f"((({ticks} % {slide}) + {slide}) % {slide})"
            where = f" WHERE {into} >= {_int(window.slide - window.range)}"
    groups = [*zip(spec.key_names, key_sqls), ("_pane", pane), *extra]
    items = [f"{sql} AS {quote(name)}" for name, sql in groups]
    for p in spec.primitives:
        items += states.duck_partials(p)
    by = ", ".join(str(i + 1) for i in range(len(groups)))
    return f"SELECT {', '.join(items)} FROM {relation}{where} GROUP BY {by}"


def pane_sql(spec: AggregateSpec, ticks: str, *, duck: bool) -> str:
    """The pane of a BIGINT expression of ticks (null for null), for plan "panes" of gapless windows."""
    if duck:
        return _floor(f"(({ticks}) - {_int(spec.window.origin)})", spec.panes.size)
    return spark_group(spec, ticks)[0]


def spark_group(spec: AggregateSpec, time_sql: str) -> tuple[str, str | None]:
    """(pane, filter) in Spark SQL, for partials of plan "panes" computed by the row engine."""
    window = spec.window
    ticks = f"(({time_sql}) - {window.origin}L)"
    size = Panes.of(window).size
    pane = f"(({ticks} - pmod({ticks}, {size}L)) div {size}L)"
    if window.range >= window.slide:
        return pane, None
    return pane, f"pmod({ticks}, {window.slide}L) >= {window.slide - window.range}L"


def partials(table: pa.Table, spec: AggregateSpec) -> pa.Table:
    """Partials from the result of ``partial_select``; other columns of it are left out."""
    return _partials(table, spec, [c for p in spec.primitives for c in states.from_duck(p, table)])


def partials_from_spark(table: pa.Table, spec: AggregateSpec) -> pa.Table:
    """Partials from ``_k0``..., ``_pane`` and the columns of ``kernels.partials.spark_partials``."""
    return _partials(table, spec, [c for p in spec.primitives for c in states.from_spark(p, table)])


def merge_partials(spec: AggregateSpec, tables: Sequence[pa.Table]) -> pa.Table:
    """One sorted table in which each (keys, pane) occurs once.

    Null keys group together, NaN equals NaN and -0.0 equals 0.0.
    """
    schema = partials_schema(spec)
    tables = [t for t in tables if t.num_rows]
    if not tables:
        return schema.empty_table()
    return _merged(spec, pa.concat_tables([t.select(schema.names).cast(schema) for t in tables]))[0]


def step(spec: AggregateSpec, new: pa.Table, state: pa.Table, closed: int, close_to: int) -> Step:
    """Close the windows in (closed, close_to].

    ``state`` holds the stored partials that these windows may need; partials of panes they do not need are
    harmless. ``keep`` is sorted and merged, and holds what windows after ``close_to`` need of ``new``.
    """
    panes = spec.panes
    done = max(closed, close_to)
    new = merge_partials(spec, [new])
    pane = _ints(new, "_pane")
    ends = panes.end_window(pane)
    dropped = int(np.count_nonzero(ends <= clamp(closed + 1)))
    keep = new.filter(pa.array(ends > clamp(done + 1)))
    if close_to <= closed:
        return Step(output_schema(spec).empty_table(), keep, dropped)
    first, end = clamp(panes.first_pane(closed + 1)), clamp(panes.end_pane(close_to))
    wanted = [t.filter(pa.array(_between(_ints(t, "_pane"), first, end))) for t in (new, state)]
    table, key = _merged(spec, pa.concat_tables(_conform(spec, wanted)))
    frame = assemble.frame(key, _ints(table, "_pane"), panes, closed, close_to)
    return Step(_output(spec, table, frame), keep, dropped)


def needed(spec: AggregateSpec, closed: int) -> int:
    """First pane that a window after ``closed`` needs."""
    return clamp(spec.panes.first_pane(closed + 1))


def _output(spec: AggregateSpec, table: pa.Table, frame: assemble.Frame) -> pa.Table:
    rows = pa.array(frame.kept[frame.a])
    columns = [table.column(n).take(rows) for n in spec.key_names]
    columns.append(pa.array(frame.wid))
    for p in spec.primitives:
        kind = states.kind_of(p)
        arrays, memory = kind.load(table)
        value = kind.finish(frame.fold(kind, arrays), memory, spec.ansi)
        columns.append(states.typed(p, value))
    return pa.table(columns, schema=output_schema(spec))


def _partials(table: pa.Table, spec: AggregateSpec, columns: Sequence[pa.Array]) -> pa.Table:
    schema = partials_schema(spec)
    keys = [
        _one_zero(flat(table.column(n)).cast(arrow_type(k.type)))
        for n, k in zip(spec.key_names, spec.keys)
    ]
    pane = flat(table.column("_pane")).cast(pa.int64())
    bucket = pa.array(bucket_of(keys, rows=table.num_rows))
    return pa.table([bucket, *keys, pane, *columns], schema=schema)


def _merged(spec: AggregateSpec, table: pa.Table) -> tuple[pa.Table, Ints]:
    """The table sorted and merged, and codes of its keys."""
    names = ["_bucket", *spec.key_names]
    n = table.num_rows
    key = group_codes([table.column(c) for c in names], n).codes
    pane = _ints(table, "_pane")
    codes = group_codes([key, pane], n)
    code = codes.codes
    if bool((code[1:] > code[:-1]).all()):
        return table, key
    order = stable_order(codes)
    code = code[order]
    table = table.take(pa.array(order))
    starts = np.flatnonzero(np.diff(code, prepend=np.int64(-1)))
    if len(starts) == n:
        return table, key[order]
    groups = table.select([*names, "_pane"]).take(pa.array(starts))
    merged = states.merge_groups(spec.primitives, table, starts)
    columns = [*groups.columns, *merged.columns]
    return pa.table(columns, schema=partials_schema(spec)), key[order][starts]


def _conform(spec: AggregateSpec, tables: Sequence[pa.Table]) -> list[pa.Table]:
    schema = partials_schema(spec)
    return [t if t.schema.equals(schema) else t.select(schema.names).cast(schema) for t in tables]


def _between(values: Ints, first: int, end: int) -> npt.NDArray[np.bool_]:
    return np.asarray((values >= first) & (values < end))


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(flat(table.column(name)).to_numpy(zero_copy_only=False))


def _one_zero(array: pa.Array) -> pa.Array:
    """Float keys with one zero, as Spark shows them."""
    if not pa.types.is_floating(array.type):
        return array
    return pc.add(array, pa.scalar(0.0, array.type))


def _floor(ticks: str, size: int) -> str:
    """Division rounding down (the engine's own rounds towards zero)."""
    n = _int(size)
    return f"({ticks} // {n} - CAST({ticks} % {n} < 0 AS BIGINT))"


def _int(value: int) -> str:
    return f"CAST({value} AS BIGINT)"
