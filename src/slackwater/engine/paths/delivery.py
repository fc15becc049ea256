"""Take a producer's rows along a path to its consumer: row operators, then what the consumer needs.

An operator gets what its admission makes of the rows (`registry`), an output gets a file. This is the same for rows of a
source and for results of an operator.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.paths.batch import Batch, Staging
from slackwater.engine.paths.partition_dirs import partition_tables
from slackwater.engine.paths.registry import admitted
from slackwater.engine.paths.relation_tables import relation_tables
from slackwater.engine.paths.reports import RelationReads
from slackwater.engine.paths.steps import Queried, relation, renamed
from slackwater.engine.paths.wire import Message, pack, routes
from slackwater.engine.plan.guards import Placed, with_guards
from slackwater.engine.plan.plan import Path
from slackwater.engine.plan.steps import GuardStep, PaceStep, Step, fields_after
from slackwater.engine.store import failpoints
from slackwater.engine.store.manifest import OutputFile
from slackwater.kernels.buckets import buckets_of, group_of
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.room import room_for
from slackwater.kernels.types import cast_table
from slackwater.model.names import ROWS
from slackwater.model.schema import Field

MAX_PENDING_BYTES = 64 << 20
"""Results beyond this are written at once: a join's may be larger than memory."""

MAX_DICTIONARY_BYTES = 128 << 10
"""A column with more distinct values than fit is written without a dictionary: at a megabyte, the usual limit,
numbers and times that hardly recur take three times as long to write, and more room."""


class Delivery:
    """Collects what one task sends on: messages to groups, and files of outputs."""

    def __init__(self, batch: Batch, task: str):
        self.batch = batch
        self.task = task
        self.messages: list[Message] = []
        self.files: dict[str, list[OutputFile]] = {}
        self.relations = RelationReads()
        self._pending: dict[str, list[pa.Table]] = {}
        self._pending_bytes = 0
        self.dropped: dict[str, int] = {}

    def drop(self, place: str, rows: int) -> None:
        """Count rows that a guard of feedback dropped, or a pace; without a name of a place nobody does."""
        if rows and place:
            self.dropped[place] = self.dropped.get(place, 0) + rows

    def send_guarded(self, path: Path, table: pa.Table, placed: Sequence[Placed]) -> None:
        """Take rows along ``path``, past guards.

        Where Spark evaluates some of the steps, guards that are not soft are steps among them (`row_step`), and the others
        are left out.
        """
        if path.blocked_by is not None:
            self.send(with_guards(path, [(at, g) for at, g in placed if not g.soft]), table)
            return
        done = 0
        for at, guard in placed:
            if at > done:
                rows = self._taken(path, path.steps[done:at], table)
                table, done = self._as_rows_of(guard, rows), at
            left = self.queried(f"SELECT * FROM {ROWS} WHERE {guard.condition.duck}", table)
            self.drop(guard.place, table.num_rows - left.num_rows)
            table = left
        self.send(replace(path, steps=path.steps[done:]), table)

    def _as_rows_of(self, guard: GuardStep, table: pa.Table) -> pa.Table:
        """Rows that are half the way, in Spark's types: further steps read these."""
        return _in_types(self.batch.plan.node(guard.node).schema, table)

    def send(self, path: Path, table: pa.Table) -> None:
        """Take the rows of ``table`` (the producer's columns) along ``path``.

        Steps that only Spark can evaluate are not run here: the rows leave as they are then, for `row_step`.
        """
        if path.blocked_by is not None:
            if not path.begins_in_spark:
                steps = path.stretches[0].steps
                table, path = self._taken(path, steps, table), path.behind_first
            table = cast_table(table, path.fields)
            self.messages.extend((routes(self.batch.groups)[0], b) for b in pack(path.id, table))
            return
        paces = [at for at, step in enumerate(path.steps, 1) if isinstance(step, PaceStep)]
        if paces:
            table = self._taken(path, path.steps[: paces[-1]], table)
            path = replace(path, steps=path.steps[paces[-1] :])
        if path.consumer.startswith("out:"):
            self._to_output(path, table)
            return
        operator = self.batch.plan.operator(path.consumer)
        assert operator is not None
        self._route(path, admitted(operator, path, table, self._queried(path.steps)))

    def _taken(self, path: Path, steps: tuple[Step, ...], table: pa.Table) -> pa.Table:
        """The rows behind some steps of a path; those that a pace drops are counted."""
        done = 0
        for at, step in enumerate(steps):
            if isinstance(step, PaceStep):
                if at > done:
                    between = steps[done:at]
                    rows = self._queried(between)(relation(between), table)
                    table = _in_types(fields_after(steps[:at], path.fields), rows)
                left = self.queried(relation((step,)), table)
                if not step.keeps_old:
                    self.drop(step.place, table.num_rows - left.num_rows)
                table, done = left, at + 1
        rest = steps[done:]
        return self._queried(rest)(relation(rest), table) if rest else table

    def send_partials(self, path: Path, partials: pa.Table) -> None:
        """Send an aggregate's partials, already cut by bucket, to their groups."""
        self._route(path, partials)

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
            rows = self._queried(path.steps)(sql, table)
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
        storage, folder = staging.storage, PurePath(staging.folder)
        storage.make_folder(folder)
        with room_for("results", folder, table.nbytes), storage.writer(folder / name) as out:
            failpoints.hit("disk.output", self.batch.failpoints)
            pq.write_table(
                table,
                out,
                compression=self.batch.settings.compression,
                store_schema=False,
                dictionary_pagesize_limit=MAX_DICTIONARY_BYTES,
            )
        failpoints.hit("task.output.after", self.batch.failpoints)
        return OutputFile(name, table.num_rows, out.size, directory, out.crc)

    def _output_fields(self, name: str) -> tuple[Field, ...]:
        return next(o.node.schema for o in self.batch.plan.outputs if o.name == name)

    def queried(self, sql: str, table: pa.Table) -> pa.Table:
        """What a statement over rows gives that needs no relation."""
        return _queried(self.batch.settings.memory, {}, sql, table)

    def _queried(self, steps: tuple[Step, ...]) -> Queried:
        """What runs statements of ``steps`` over rows: they may read the tables that these hold rows against."""
        known: list[tuple[pa.Table, dict[str, pa.Table]]] = []

        def run(sql: str, rows: pa.Table) -> pa.Table:
            if not known or known[0][0] is not rows:
                tables = relation_tables(self.batch, steps, {ROWS: rows}, self.relations, lost=True)
                known[:] = [(rows, tables)]
            return _queried(self.batch.settings.memory, known[0][1], sql, rows)

        return run


def _in_types(schema: Sequence[Field], table: pa.Table) -> pa.Table:
    """Columns in Spark's types, as far as they are of a schema."""
    fields = [f for f in schema if f.name in table.column_names]
    own = cast_table(table.select([f.name for f in fields]), tuple(fields))
    for name in table.column_names:
        if name not in own.column_names:
            own = own.append_column(name, table[name])
    return own


def _queried(memory: str, tables: dict[str, pa.Table], sql: str, rows: pa.Table) -> pa.Table:
    return sql_to_arrow(connect(memory), sql, {ROWS: rows, **tables})
