"""Tables of the kernel executor: a row's place in the batch (``_i``), and for each time column ``t`` whether the row is
kept out of the operators that progress on it (``_out:t``). Times are integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.types import arrow_type
from slackwater.model.duck_sql import quote
from slackwater.model.names import TIME
from slackwater.model.node import Node, Union
from slackwater.model.schema import Expr
from slackwater.model.time import TimeColumn
from slackwater.model.unnamed_time import UNNAMED

Row = dict[str, Any]
PLACE = "_i"


def to_table(node: Node, rows: Sequence[Row], outs: Sequence[frozenset[str]] | None) -> pa.Table:
    """A node's rows as a table; ``outs`` says for each on which columns it is kept out."""
    columns: dict[str, Any] = {
        f.name: pa.array([r.get(f.name) for r in rows], arrow_type(plain(f.type)))
        for f in node.schema
    }
    for t in node.times:
        flags = [t.name in o for o in outs] if outs is not None else [False] * len(rows)
        columns[f"_out:{t.name}"] = pa.array(flags, pa.bool_())
    return numbered(pa.table(columns))


def united(node: Union, inputs: Sequence[pa.Table]) -> pa.Table:
    """Inputs one after the other, under the names of the first."""
    names = [f.name for f in node.schema] + [f"_out:{t.name}" for t in node.times]
    tables = []
    for child, table in zip(node.inputs, inputs, strict=True):
        mine = [f.name for f in child.schema]
        mine += [f"_out:{t.name}" for t in child.times[: len(node.times)]]
        tables.append(table.select(mine).rename_columns(names))
    return pa.concat_tables([t.cast(tables[0].schema) for t in tables])


def numbered(table: pa.Table) -> pa.Table:
    """The table with its rows' places as they stand."""
    if PLACE in table.column_names:
        table = table.drop_columns([PLACE])
    return table.append_column(PLACE, pa.array(range(table.num_rows), pa.int64()))


def entering(table: pa.Table, on: str) -> pa.Table:
    """The rows that are not kept out on a column; on a time that was left out, if anything follows it."""
    if on == UNNAMED and f"_out:{on}" not in table.column_names:
        return table
    return table.filter(pc.invert(table[f"_out:{on}"]))


def timed(child: Node, table: pa.Table, on: str) -> pa.Table:
    """The table with the rows' times as `TIME`."""
    time = next(t for t in child.times if t.name == on)
    if time.parts or time.kind == "window":
        sql = f"SELECT *, {_ticks(time)} AS {TIME} FROM t ORDER BY {PLACE}"
        return query(sql, table)
    return table.append_column(TIME, table[on].cast(pa.int64()))


def ticks_of(child: Node, on: str) -> str:
    """The time of a row as BIGINT; that of a window's result is the last tick of its window."""
    return _ticks(next(t for t in child.times if t.name == on))


def _ticks(time: TimeColumn) -> str:
    if time.parts:
        parts = [_ticks(p) for p in time.parts]
        return f"{time.kind}({', '.join(parts)})"  # both leave nulls out
    return f'{quote(time.name)}."end" - 1' if time.kind == "window" else quote(time.name)


def query(sql: str, table: pa.Table) -> pa.Table:
    """What a query over ``t`` gives."""
    return sql_to_arrow(connect(), sql, {"t": table})


def cast(e: Expr) -> str:
    """An expression's SQL, with its type where the column engine might choose another."""
    simple = {"bigint": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN", "string": "VARCHAR"}
    type = simple.get(plain(e.type))
    return f"({e.duck})" if type is None else f"CAST(({e.duck}) AS {type})"


def flag(column: str) -> str:
    """The column that says whether a row is kept out."""
    return quote(f"_out:{column}")


def plain(type: str) -> str:
    """Times are integers here."""
    return type.replace("timestamp_ntz", "bigint").replace("timestamp", "bigint")


def to_rows(node: Node, table: pa.Table) -> list[Row]:
    """The rows of a node's own columns."""
    rows: list[Row] = table.select([f.name for f in node.schema]).to_pylist()
    return rows
