"""What a join needs of rows, and how they are sent and stored: no column that no result shows, and none twice.

The time column is left out, since `TIME` says the same; so is a key that is one of the columns anyway. Kernels
get them back for nothing: an Arrow column can stand in a table under two names.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from slackwater.engine.paths.steps import Queried, relation, renamed, ticks_sql
from slackwater.engine.plan.plan import Operator, Path
from slackwater.kernels.buckets import bucket_of
from slackwater.kernels.types import arrow_type
from slackwater.model import names
from slackwater.model.duck_sql import quote
from slackwater.model.names import BUCKET, TIME, sub_query
from slackwater.model.node import Join, raw_name
from slackwater.model.time import TimeColumn


class InputRows:
    """The shape of input ``i``: ``lean`` is what is sent and stored, ``full`` what kernels take."""

    def __init__(self, node: Join, i: int) -> None:
        self.index = i
        child, on = node.inputs[i], node.on[i]
        kinds = {f.name: arrow_type(f.type) for f in child.schema}
        mine = node.used[i]
        used = [f.name for f in child.schema if f.name in mine]
        self.time = next(t for t in child.times if t.name == on)
        """The progressing column."""
        self._shown = kinds[on] if on in used and plain_time(self.time, kinds) else None
        self.columns = tuple(c for c in used if c != on or self._shown is None)
        """The columns that are kept as they are."""
        self.keys = tuple(str(k.expr.duck) for k in node.keys[i])
        """The keys in the column engine's words."""
        places = {quote(c): c for c in self.columns}
        fields = [pa.field(c, kinds[c]) for c in self.columns] + [pa.field(TIME, pa.int64())]
        self._same: dict[str, str] = {}
        for n, key in enumerate(node.keys[i]):
            kind, column = arrow_type(key.expr.type), places.get(self.keys[n])
            fields.append(pa.field(names.key(n), kind))
            if column is not None and kinds[column].equals(kind):
                self._same[names.key(n)] = column
        own = map(names.key, range(len(node.keys[i])))
        self.key_names = tuple(self._same.get(name, name) for name in own)
        """The lean columns that hold the keys."""
        self.full = pa.schema([*fields, pa.field(BUCKET, pa.int16())])
        self.lean = pa.schema([f for f in self.full if f.name not in self._same])

    def widened(self, table: pa.Table) -> pa.Table:
        """A table of at least the lean columns with the keys that were left out."""
        for key, column in self._same.items():
            if key not in table.column_names:
                table = table.append_column(key, table.column(column))
        return table

    def narrowed(self, table: pa.Table) -> pa.Table:
        """The table without what `widened` gives back."""
        return table.drop_columns(list(self._same)) if self._same else table

    def arrived(self, table: pa.Table) -> pa.Table:
        """New rows, as kernels take them."""
        return _as(self.widened(table), self.full)

    def arrived_lean(self, table: pa.Table) -> pa.Table:
        """New rows with their lean columns, for kernels that know of `key_names`."""
        return _as(table, self.lean)

    def shown(self, results: pa.Table) -> pa.Table:
        """A kernel's results with the time column of this input."""
        if self._shown is None:
            return results
        ticks = results.column(raw_name(self.index, TIME))
        name = raw_name(self.index, self.time.name)
        return results.append_column(name, ticks.cast(self._shown))


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    table = table.select(schema.names)
    return table if table.schema.equals(schema) else table.cast(schema)


def plain_time(time: TimeColumn, kinds: Mapping[str, pa.DataType]) -> bool:
    """Whether ticks are just another name for the values of a column; ``kinds`` are the types of columns."""
    kind = kinds.get(time.name)
    if kind is None or time.parts or time.kind == "window":
        return False
    return bool(pa.types.is_int64(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"))


def admit(operator: Operator, path: Path, table: pa.Table, queried: Queried) -> pa.Table:
    """Rows of one input of a join."""
    assert isinstance(operator.node, Join)
    shape = InputRows(operator.node, path.input)
    rows = renamed(path.steps, table)
    kinds = {} if rows is None else {f.name: f.type for f in rows.schema}
    places = {quote(c): c for c in kinds}
    if (
        rows is None
        or not plain_time(shape.time, kinds)
        or not all(sql in places for sql in shape.keys)
    ):
        items = [quote(c) for c in shape.columns] + [f"{ticks_sql(shape.time)} AS {TIME}"]
        items += [f"{sql} AS {names.key(i)}" for i, sql in enumerate(shape.keys)]
        sql = f"SELECT {', '.join(items)} FROM {sub_query(relation(path.steps))}"
        rows = queried(sql, table)
    else:
        # Nothing to compute: the table's columns under other names.
        keys = [rows[places[sql]] for sql in shape.keys]
        columns = [*(rows[c] for c in shape.columns), rows[shape.time.name], *keys]
        rows = pa.table(columns, names=[f.name for f in shape.full][:-1])
    rows = rows.cast(pa.schema(list(shape.full)[:-1]))
    own = [names.key(i) for i in range(len(shape.keys))]
    buckets = bucket_of([rows[c] for c in own], rows=rows.num_rows)
    return shape.narrowed(rows.append_column(BUCKET, pa.array(buckets, pa.int16())))
