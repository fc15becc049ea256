"""Take a producer's rows along a path to its consumer: row operators, then what the consumer needs.

An aggregate gets partial aggregates, other operators get rows with their time and bucket, an output gets a
file. This is the same for rows of a source and for results of an operator.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.paths.batch import Batch, Staging
from slackwater.engine.paths.join_rows import InputRows, plain_time
from slackwater.engine.paths.partition_dirs import partition_tables
from slackwater.engine.paths.wire import Message, pack, routes
from slackwater.engine.plan.plan import Operator, Path, Step
from slackwater.engine.store import failpoints
from slackwater.engine.store.files import file_checksum, make_file, make_folders
from slackwater.engine.store.manifest import OutputFile
from slackwater.kernels.buckets import bucket_of, buckets_of, group_of
from slackwater.kernels.column_engine import Connection, connect, quote, sql_to_arrow
from slackwater.kernels.room import room_for
from slackwater.kernels.types import cast_table
from slackwater.kernels.windows import adaptive, joint
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.counting import counted_rows, counted_select
from slackwater.model.names import BUCKET, FLOOR, FOR, ROWS, TIME, key, sub_query
from slackwater.model.node import Aggregate, Dedup, Join, SharedSort
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.semantics.windows import keeps_rows, needs_rows

MAX_PENDING_BYTES = 64 << 20
"""Results beyond this are written at once: a join's may be larger than memory."""

MAX_DICTIONARY_BYTES = 128 << 10
"""A column with more distinct values than fit is written without a dictionary: at a megabyte, the usual limit,
numbers and times that hardly recur take three times as long to write, and more room."""


def ticks_sql(time: TimeColumn) -> str:
    """DuckDB expression of a progressing column's time in ticks."""
    if time.parts:
        whole = [ticks_sql(p) for p in time.parts]
        # Where a part is null, which an outer join makes it, the others decide.
        filled = [f"coalesce({', '.join([one, *whole])})" for one in whole]
        return f"{time.kind}({', '.join(filled)})"
    name = quote(time.name)
    if time.kind == "window":
        end = f"struct_extract({name}, 'end')"
        return f"({end} - 1)" if time.integer else f"(epoch_us({end}) - 1)"
    return f"CAST({name} AS BIGINT)" if time.kind == "long" else f"epoch_us({name})"


def relation(steps: tuple[Step, ...], base: str) -> str:
    """The SQL of a path's row operators over a base relation."""
    sql = base
    for step in steps:
        if step.condition is not None:
            sql = f"SELECT * FROM {sub_query(sql)} WHERE {step.condition.duck}"
        else:
            items = ", ".join(f"{c.expr.duck} AS {quote(c.name)}" for c in step.columns)
            sql = f"SELECT {items} FROM {sub_query(sql)}"
    return sql


def carrying(steps: tuple[Step, ...], name: str) -> tuple[Step, ...]:
    """The same steps with one more column taken along as it is."""
    extra = Named(name, column(name, "bigint"))
    return tuple(
        step if step.condition is not None else replace(step, columns=(*step.columns, extra))
        for step in steps
    )


def renamed(steps: tuple[Step, ...], table: pa.Table) -> pa.Table | None:
    """The table after row operators that only choose and rename columns; None if one does more."""
    for step in steps:
        places = {quote(c): c for c in table.column_names}
        chosen = [places.get(str(c.expr.duck)) for c in step.columns]
        if step.condition is not None or None in chosen:
            return None
        table = table.select(chosen).rename_columns([c.name for c in step.columns])
    return table


def _wanted_by(node: SharedSort) -> str:
    """DuckDB expression of the bits of the sorts whose filters let a row through."""
    terms = []
    for filters, bit in zip(node.filters, node.bits, strict=True):
        term = str(bit)
        for condition in reversed(filters):
            # A later filter sees only what the ones before it let through.
            term = f"CASE WHEN {condition.duck} THEN {term} ELSE 0 END"
        terms.append(f"CAST({term} AS BIGINT)")
    return f"({' | '.join(terms)})"


class Delivery:
    """Collects what one task sends on: messages to groups, and files of outputs."""

    def __init__(self, batch: Batch, task: str):
        self.batch = batch
        self.task = task
        self.messages: list[Message] = []
        self.files: dict[str, list[OutputFile]] = {}
        self._pending: dict[str, list[pa.Table]] = {}
        self._pending_bytes = 0

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
        if operator.spec is not None:
            self._route(path, self._reduced(operator, path, table))
        elif isinstance(operator.node, Join):
            self._route(path, self._join_rows(operator.node, path, table))
        else:
            self._route(path, self._keyed_rows(operator, path, table))

    def send_partials(self, path: Path, partials: pa.Table) -> None:
        """Send an aggregate's partials, already cut by bucket, to their groups."""
        self._route(path, partials)

    def _reduced(self, operator: Operator, path: Path, table: pa.Table) -> pa.Table:
        """What an aggregate needs of the rows: partials, or where its plan asks for them the rows themselves."""
        node, spec = operator.node, operator.spec
        assert isinstance(node, Aggregate) and spec is not None
        times = {t.name: t for t in node.child.times}
        time = times[operator.on]
        keys = [str(k.expr.duck) for k in node.keys]
        rows = sub_query(relation(path.steps, f"SELECT * FROM {ROWS}"))
        floor = {"floor": quote(FLOOR)} if FLOOR in table.column_names else {}
        select: Callable[..., str] = aggregate.partial_select
        made: Callable[[pa.Table, aggregate.AggregateSpec], pa.Table] = aggregate.partials
        if needs_rows(spec.window):
            select, made = counted_select, counted_rows
        elif keeps_rows(spec.plan):
            select, made = adaptive.rows_select, adaptive.rows
        sql = (
            joint.partial_select(spec, keys, [ticks_sql(times[w.on]) for w in node.windows], rows)
            if spec.plan == "joint"
            else select(spec, keys, ticks_sql(time), rows, **floor)
        )
        return made(sql_to_arrow(self._connection(), sql, {ROWS: table}), spec)

    def _keyed_rows(self, operator: Operator, path: Path, table: pa.Table) -> pa.Table:
        node = operator.node
        child = node.children[path.input]
        time = next(t for t in child.times if t.name == operator.columns[path.input])
        rows = relation(path.steps, f"SELECT * FROM {ROWS}")
        sql = f"SELECT *, {ticks_sql(time)} AS {TIME} FROM {sub_query(rows)}"
        added = [TIME]
        if isinstance(node, SharedSort):
            # A row that no sort wants waits nowhere.
            sql = f"SELECT *, {_wanted_by(node)} AS {FOR} FROM {sub_query(sql)}"
            sql = f"SELECT * FROM {sub_query(sql)} WHERE {FOR} <> 0"
            added.append(FOR)
        found = sql_to_arrow(self._connection(), sql, {ROWS: table})
        result = cast_table(found.drop_columns(added), child.schema)
        for name in added:
            result = result.append_column(name, found[name].cast(pa.int64()))
        if isinstance(node, Dedup):
            buckets = bucket_of([result[c] for c in node.subset])
        else:  # a sort is global: one bucket
            buckets = np.zeros(result.num_rows, np.int16)
        return result.append_column(BUCKET, pa.array(buckets, pa.int16()))

    def _join_rows(self, node: Join, path: Path, table: pa.Table) -> pa.Table:
        shape = InputRows(node, path.input)
        rows = renamed(path.steps, table)
        kinds = {} if rows is None else {f.name: f.type for f in rows.schema}
        places = {quote(c): c for c in kinds}
        if (
            rows is None
            or not plain_time(shape.time, kinds)
            or not all(sql in places for sql in shape.keys)
        ):
            items = [quote(c) for c in shape.columns] + [f"{ticks_sql(shape.time)} AS {TIME}"]
            items += [f"{sql} AS {key(i)}" for i, sql in enumerate(shape.keys)]
            base = relation(path.steps, f"SELECT * FROM {ROWS}")
            sql = f"SELECT {', '.join(items)} FROM {sub_query(base)}"
            rows = sql_to_arrow(self._connection(), sql, {ROWS: table})
        else:
            # Nothing to compute: the table's columns under other names.
            keys = [rows[places[sql]] for sql in shape.keys]
            columns = [*(rows[c] for c in shape.columns), rows[shape.time.name], *keys]
            rows = pa.table(columns, names=[f.name for f in shape.full][:-1])
        rows = rows.cast(pa.schema(list(shape.full)[:-1]))
        names = [key(i) for i in range(len(shape.keys))]
        buckets = bucket_of([rows[c] for c in names], rows=rows.num_rows)
        return shape.narrowed(rows.append_column(BUCKET, pa.array(buckets, pa.int16())))

    def _route(self, path: Path, table: pa.Table) -> None:
        """Cut a table by bucket and address each part to its group."""
        if table.num_rows == 0:
            return
        groups = self.batch.groups
        if groups == 1:
            self.messages.extend((routes(1)[0], blob) for blob in pack(path.id, table))
            return
        owner = group_of(buckets_of(table).to_numpy(), groups)
        for g in range(groups):
            mask = owner == g
            if not mask.any():
                continue
            part = table if mask.all() else table.filter(pa.array(mask))
            self.messages.extend((routes(groups)[g], blob) for blob in pack(path.id, part))

    def _to_output(self, path: Path, table: pa.Table) -> None:
        name = path.consumer.removeprefix("out:")
        rows = renamed(path.steps, table)
        if rows is None:
            sql = relation(path.steps, f"SELECT * FROM {ROWS}")
            rows = sql_to_arrow(self._connection(), sql, {ROWS: table})
        self.keep_output(name, rows)

    def keep_output(self, name: str, table: pa.Table) -> None:
        """Rows of an output, already in its schema's shape; written by `finish`."""
        if table.num_rows:
            table = cast_table(table, self._output_fields(name))
            self._pending.setdefault(name, []).append(table)
            self._pending_bytes += table.nbytes
            if self._pending_bytes > MAX_PENDING_BYTES:
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
            plan = self.batch.plan
            for directory, part in partition_tables(
                whole, staging.partition_by, zone=plan.zone, ansi=plan.ansi
            ):
                self.files.setdefault(name, []).append(self._write(staging, directory, part))
        self._pending.clear()
        self._pending_bytes = 0

    def _write(self, staging: Staging, directory: str, table: pa.Table) -> OutputFile:
        failpoints.hit("task.output.before", self.batch.failpoints)
        name = f"{self.batch.prefix('part')}-{self.task}-{os.urandom(4).hex()}.parquet"
        path = FilePath(staging.folder) / name
        make_folders(path.parent, staging.rights)
        make_file(path, staging.rights)
        try:
            with room_for("results", path.parent, table.nbytes):
                failpoints.hit("disk.output", self.batch.failpoints)
                pq.write_table(
                    table,
                    path,
                    compression=self.batch.settings.compression,
                    store_schema=False,
                    dictionary_pagesize_limit=MAX_DICTIONARY_BYTES,
                )
                with open(path, "rb") as written:
                    os.fsync(written.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        size, crc = file_checksum(path)
        failpoints.hit("task.output.after", self.batch.failpoints)
        return OutputFile(name, table.num_rows, size, directory, crc)

    def _output_fields(self, name: str) -> tuple[Field, ...]:
        return next(o.node.schema for o in self.batch.plan.outputs if o.name == name)

    def _connection(self) -> Connection:
        return connect(self.batch.settings.memory)
