"""Take a producer's rows along a path to its consumer: row operators, then what the consumer needs.

An aggregate gets partial aggregates, other operators get rows with their time and bucket, an output gets a
file. This is the same for rows of a source and for results of an operator.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path as FilePath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine import failpoints
from slackwater.engine.batch import Batch
from slackwater.engine.manifest import OutputFile
from slackwater.engine.partition_dirs import partition_tables
from slackwater.engine.plan import Operator, Path, Step
from slackwater.engine.wire import Message, pack, routes
from slackwater.kernels import aggregate
from slackwater.kernels.buckets import bucket_of, group_of
from slackwater.kernels.column_engine import Connection, connect, quote, sql_to_arrow
from slackwater.kernels.counting import counted_rows, counted_select
from slackwater.kernels.types import arrow_type, cast_table
from slackwater.model.node import Aggregate, Dedup, Join
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.windows import needs_rows

ROWS = "_rows"

MAX_PENDING_BYTES = 64 << 20
"""Results beyond this are written at once: a join's may be larger than memory."""


def ticks_sql(time: TimeColumn) -> str:
    """DuckDB expression of a progressing column's time in ticks."""
    if time.parts:
        whole = [ticks_sql(p) for p in time.parts]
        # Where a part is null, which an outer join makes it, the others decide.
        filled = [f"coalesce({', '.join([one, *whole])})" for one in whole]
        return f"{time.kind}({', '.join(filled)})"
    name = quote(time.name)
    if time.kind == "window":
        return f'({name}."end" - 1)' if time.integer else f'(epoch_us({name}."end") - 1)'
    return f"CAST({name} AS BIGINT)" if time.kind == "long" else f"epoch_us({name})"


def relation(steps: tuple[Step, ...], base: str) -> str:
    """The SQL of a path's row operators over a base relation."""
    sql = base
    for step in steps:
        if step.condition is not None:
            sql = f"SELECT * FROM ({sql}) WHERE {step.condition.duck}"
        else:
            items = ", ".join(f"{c.expr.duck} AS {quote(c.name)}" for c in step.columns)
            sql = f"SELECT {items} FROM ({sql})"
    return sql


class Delivery:
    """Collects what one task sends on: messages to groups, and files of outputs."""

    def __init__(self, batch: Batch, task: str):
        self.batch = batch
        self.task = task
        self.messages: list[Message] = []
        self.files: dict[str, list[OutputFile]] = {}
        self._pending: dict[str, list[pa.Table]] = {}

    def send(self, path: Path, table: pa.Table) -> None:
        """Take the rows of ``table`` (the producer's columns) along ``path``.

        Steps that only Spark can evaluate are not run here: the rows leave as they are, for `row_step`.
        """
        if path.blocked_by is not None:
            table = cast_table(table, path.fields)
            self.messages.extend((routes(self.batch.groups)[0], b) for b in pack(path.id, table))
            return
        if path.consumer.startswith("out:"):
            self._to_output(path, table)
            return
        operator = self.batch.plan.operator(path.consumer)
        assert operator is not None
        if operator.spec is not None and needs_rows(operator.spec.window):
            self._route(path, self._counted_rows(operator, path, table))
        elif operator.spec is not None:
            self.send_partials(path, self._partials(operator, path, table))
        else:
            self._route(path, self._keyed_rows(operator, path, table))

    def send_partials(self, path: Path, partials: pa.Table) -> None:
        """Send an aggregate's partials, already cut by bucket, to their groups."""
        self._route(path, partials)

    def _partials(self, operator: Operator, path: Path, table: pa.Table) -> pa.Table:
        node, spec = operator.node, operator.spec
        assert isinstance(node, Aggregate) and spec is not None
        time = next(t for t in node.child.times if t.name == operator.on)
        sql = aggregate.partial_select(
            spec,
            [str(k.expr.duck) for k in node.keys],
            ticks_sql(time),
            f"({relation(path.steps, f'SELECT * FROM {ROWS}')}) AS q",
        )
        raw = sql_to_arrow(self._connection(), sql, {ROWS: table})
        return aggregate.partials(raw, spec)

    def _counted_rows(self, operator: Operator, path: Path, table: pa.Table) -> pa.Table:
        node, spec = operator.node, operator.spec
        assert isinstance(node, Aggregate) and spec is not None
        time = next(t for t in node.child.times if t.name == operator.on)
        keys = [str(k.expr.duck) for k in node.keys]
        rows = f"({relation(path.steps, f'SELECT * FROM {ROWS}')}) AS q"
        sql = counted_select(spec, keys, ticks_sql(time), rows)
        return counted_rows(sql_to_arrow(self._connection(), sql, {ROWS: table}), spec)

    def _keyed_rows(self, operator: Operator, path: Path, table: pa.Table) -> pa.Table:
        node = operator.node
        child = node.children[path.input]
        time = next(t for t in child.times if t.name == operator.columns[path.input])
        rows = relation(path.steps, f"SELECT * FROM {ROWS}")
        keys = node.keys[path.input] if isinstance(node, Join) else ()
        extra = [f"{ticks_sql(time)} AS _time"]
        extra += [f"{k.expr.duck} AS _k{i}" for i, k in enumerate(keys)]
        sql = f"SELECT *, {', '.join(extra)} FROM ({rows})"
        found = sql_to_arrow(self._connection(), sql, {ROWS: table})
        added = ["_time", *(f"_k{i}" for i in range(len(keys)))]
        result = cast_table(found.drop_columns(added), child.schema)
        result = result.append_column("_time", found["_time"].cast(pa.int64()))
        for i, k in enumerate(keys):
            result = result.append_column(f"_k{i}", found[f"_k{i}"].cast(arrow_type(k.expr.type)))
        if isinstance(node, Dedup):
            buckets = bucket_of([result[c] for c in node.subset])
        elif isinstance(node, Join):
            names = [f"_k{i}" for i in range(len(keys))]
            buckets = bucket_of([result[c] for c in names], rows=result.num_rows)
        else:  # a sort is global: one bucket
            buckets = np.zeros(result.num_rows, np.int16)
        return result.append_column("_bucket", pa.array(buckets, pa.int16()))

    def _route(self, path: Path, table: pa.Table) -> None:
        """Cut a table by its ``_bucket`` column and address each part to its group."""
        if table.num_rows == 0:
            return
        groups = self.batch.groups
        if groups == 1:
            self.messages.extend((routes(1)[0], blob) for blob in pack(path.id, table))
            return
        owner = group_of(table["_bucket"].to_numpy(), groups)
        for g in range(groups):
            mask = owner == g
            if not mask.any():
                continue
            part = table if mask.all() else table.filter(pa.array(mask))
            self.messages.extend((routes(groups)[g], blob) for blob in pack(path.id, part))

    def _to_output(self, path: Path, table: pa.Table) -> None:
        name = path.consumer.removeprefix("out:")
        if path.steps:
            sql = relation(path.steps, f"SELECT * FROM {ROWS}")
            table = sql_to_arrow(self._connection(), sql, {ROWS: table})
        self.keep_output(name, table)

    def keep_output(self, name: str, table: pa.Table) -> None:
        """Rows of an output, already in its schema's shape; written by `finish`."""
        if table.num_rows:
            table = cast_table(table, self._output_fields(name))
            self._pending.setdefault(name, []).append(table)
            if sum(t.nbytes for t in self._pending[name]) > MAX_PENDING_BYTES:
                self.finish()

    def finish(self) -> None:
        """Write one file per output (and partition directory) that got rows."""
        for name, tables in self._pending.items():
            staging = self.batch.staging.get(name)
            if staging is None:
                rows = sum(t.num_rows for t in tables)
                self.files.setdefault(name, []).append(OutputFile("", rows, 0))
                continue
            whole = pa.concat_tables(tables)
            for directory, part in partition_tables(whole, staging.partition_by):
                self.files.setdefault(name, []).append(self._write(staging.folder, directory, part))
        self._pending.clear()

    def _write(self, folder: str, directory: str, table: pa.Table) -> OutputFile:
        failpoints.hit("task.output.before", self.batch.failpoints)
        name = f"{self.batch.prefix('part')}-{self.task}-{os.urandom(4).hex()}.parquet"
        path = FilePath(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, compression=self.batch.settings.compression, store_schema=False)
        with open(path, "rb") as written:
            os.fsync(written.fileno())
        failpoints.hit("task.output.after", self.batch.failpoints)
        return OutputFile(name, table.num_rows, path.stat().st_size, directory)

    def _output_fields(self, name: str) -> tuple[Field, ...]:
        return next(o.node.schema for o in self.batch.plan.outputs if o.name == name)

    def _connection(self) -> Connection:
        return connect(self.batch.settings.memory)


def descriptors(files: dict[str, list[OutputFile]]) -> Iterator[tuple[str, OutputFile]]:
    """All (output, file) pairs."""
    for name, items in files.items():
        for item in items:
            yield name, item
