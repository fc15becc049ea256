"""Rows on their way to an operator that counts them, and partial aggregates of what it counted.

A table of such rows has the keys ``_k0``..., the arguments of the primitives ``_x0``..., the order of arrival
``_o0``..., ``_pass`` where rows may count without doing more, ``_time`` and ``_bucket``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.buckets import bucket_of, flat
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.types import arrow_type
from slackwater.kernels.windows.numbering import numbered
from slackwater.kernels.windows.partials_step import (
    AggregateSpec,
    partial_select,
    partials,
    without_prefix,
)
from slackwater.model.aggregate import Primitive
from slackwater.model.duck_sql import quote
from slackwater.model.names import PASS, TIME, ours
from slackwater.model.schema import Expr, column
from slackwater.model.window import ByTuple, RowWindow

ROWS = "_rows"


def counted_select(
    spec: AggregateSpec, key_sqls: Sequence[str], time_sql: str, relation_sql: str
) -> str:
    """SQL of the column engine that gives these rows; feed its result to `counted_rows`."""
    w = spec.window
    assert isinstance(w, RowWindow | ByTuple)
    passing = w.passing if isinstance(w, RowWindow) else None

    def guard(sql: str) -> str:
        return sql if passing is None else f"CASE WHEN {quote(passing)} THEN {sql} END"

    # A key by which rows are counted is needed of every row.
    items = [
        f"{sql if name in spec.bucket_keys else guard(sql)} AS {ours(name)}"
        for name, sql in zip(spec.key_names, key_sqls, strict=True)
    ]
    items += [f"{guard(str(a.duck))} AS {ours(f'_x{i}')}" for i, a in enumerate(_arguments(spec))]
    items += [f"{quote(c)} AS {ours(f'_o{i}')}" for i, c in enumerate(w.order)]
    if passing is not None:
        items.append(f"{quote(passing)} AS {PASS}")
    return f"SELECT {', '.join([*items, f'{time_sql} AS {TIME}'])} FROM {relation_sql}"


def counted_rows(table: pa.Table, spec: AggregateSpec) -> pa.Table:
    """The rows with their buckets: all rows that are counted together are in one."""
    table = without_prefix(table)
    for name, key in zip(spec.key_names, spec.keys, strict=True):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, flat(table.column(name)).cast(arrow_type(key.type)))
    split = [table.column(n) for n in spec.bucket_keys]
    bucket = bucket_of(split, rows=table.num_rows)
    return table.append_column("_bucket", pa.array(bucket, pa.int16()))


def count_and_reduce(
    spec: AggregateSpec,
    rows: pa.Table,
    counters: pa.Table,
) -> tuple[pa.Table, pa.Table]:
    """Partials of the rows by their numbers (`RowWindow`) or times (`ByTuple`), and counters to add."""
    w = spec.window
    assert isinstance(w, RowWindow | ByTuple)
    order = [f"_o{i}" for i in range(len(w.order))] or ["_time"]
    rows, added = numbered(spec, rows, counters, order)
    if "_pass" in rows.column_names:
        rows = rows.filter(rows["_pass"])
    if isinstance(w, ByTuple):
        turn = pc.equal(_modulo(pc.add(rows["_row"], 1), w.every), 0)
        nth = pc.if_else(turn, pa.scalar(True), pa.scalar(None, pa.bool_()))
        rows = rows.append_column("_mark", nth)
    plain = replace(spec, primitives=_by_columns(spec))
    keys = [quote(n) for n in spec.key_names]
    time = '"_row"' if isinstance(w, RowWindow) else '"_time"'
    sql = partial_select(plain, keys, time, ROWS)
    raw = sql_to_arrow(connect(), sql, {ROWS: rows})
    return partials(raw, plain), added


def _modulo(values: pa.ChunkedArray, n: int) -> pa.ChunkedArray:
    return pc.subtract(values, pc.multiply(pc.divide(values, n), n))


def _arguments(spec: AggregateSpec) -> list[Expr]:
    return [a for p in spec.primitives for a in p.args]


def _by_columns(spec: AggregateSpec) -> tuple[Primitive, ...]:
    """The primitives over the columns that hold their arguments."""
    made, at = [], 0
    for p in spec.primitives:
        args = tuple(column(f"_x{at + i}", a.type) for i, a in enumerate(p.args))
        made.append(replace(p, args=args))
        at += len(args)
    return tuple(made)
