"""Row operators above a stateful operator that only Spark SQL can evaluate.

The operator's rows, which travel as blobs, are opened into columns, Spark evaluates the steps, and the result
is packed again on its way to the consumer. No shuffle is added; other blobs pass by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.analysis.analyse import struct_of
from slackwater.engine.lowlevel.tasks import CHUNK_ROWS
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.delivery import Delivery
from slackwater.engine.paths.reports import TaskReport
from slackwater.engine.paths.wire import (
    Task,
    pack_control,
    routes,
    spark_schema,
    to_batches,
    unpack,
)
from slackwater.engine.plan.plan import Path
from slackwater.engine.plan.steps import FilterStep, LookupStep, PaceStep, ProjectStep, unknown_step
from slackwater.kernels.types import arrow_schema, cast_table
from slackwater.model.codec import to_json
from slackwater.model.names import ours
from slackwater.model.schema import Field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROUTE, BLOB = ours("_route"), ours("_blob")
_HEAD = [pa.field(ROUTE, pa.int32()), pa.field(BLOB, pa.binary())]


def row_steps(current: DataFrame, batch: Batch, path: Path, *, begun: bool = False) -> DataFrame:
    """Evaluate in Spark SQL what it must of one path; ``begun``: it has done so where the rows were read, up to a relation."""
    path = batch.guards.guarded(path, soft=False)
    while path.blocked_by is not None:
        if path.begins_in_spark and not begun:
            current = _row_step(current, batch, path)
        begun, path = False, path.behind_first
    return current


def _row_step(current: DataFrame, batch: Batch, path: Path) -> DataFrame:
    """Evaluate the first steps of a path."""
    from pyspark.sql import functions as F

    head = (Field(ROUTE, "int"), Field(BLOB, "binary"))
    # Beside a passing blob every column is null, also those that never are in rows.
    columns = tuple(replace(f, nullable=True) for f in path.fields)
    opened = current.mapInArrow(_open_task(path), struct_of((*head, *columns)))
    shown = path.fields
    for step in path.stretches[0].steps:
        match step:
            case FilterStep():
                test = f"CASE WHEN `{BLOB}` IS NULL THEN {step.condition.sql} ELSE TRUE END"
                opened = opened.where(F.expr(test))
            case ProjectStep():
                items = [
                    F.expr(f"CASE WHEN `{BLOB}` IS NULL THEN {c.expr.sql} END").alias(c.name)
                    for c in step.columns
                ]
                opened = opened.select(ROUTE, BLOB, *items)
                shown = tuple(Field(c.name, c.expr.type) for c in step.columns)
            case LookupStep():
                raise TypeError("a table of a relation is with the column engine")
            case PaceStep():
                raise TypeError("the limit of a pace is with the column engine")
            case _:
                raise unknown_step(step)
    # mapInArrow looks columns up by name, and would take a dot in one for a field of a struct.
    plain = opened.toDF(ROUTE, BLOB, *(f"c{i}" for i in range(len(shown))))
    return plain.mapInArrow(_pack_task(batch, path.behind_first), spark_schema())


def _open_task(path: Path) -> Task:
    schema = pa.schema([*_HEAD, *arrow_schema(path.fields)])

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for received in batches:
            others = []
            for row, value in enumerate(received.column("blob")):
                key, body = unpack(value.as_buffer())
                if key != path.id:
                    others.append(row)
                    continue
                table = cast_table(body, path.fields)
                n = table.num_rows
                columns = [pa.nulls(n, pa.int32()), pa.nulls(n, pa.binary()), *table.columns]
                yield from pa.table(columns, schema=schema).to_batches(max_chunksize=65_536)
            if others:
                kept = received.take(pa.array(others))
                rest = [pa.nulls(len(others), f.type) for f in list(schema)[2:]]
                yield pa.record_batch([kept.column(0), kept.column(1), *rest], schema=schema)

    return run


def _pack_task(batch: Batch, path: Path) -> Task:
    names = [f.name for f in path.fields]
    # Rows that come together read a segment of a relation once.
    chunk = CHUNK_ROWS if path.lookups else 1

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        delivery = Delivery(batch, f"r{path.id}t{task}")
        pending: list[pa.RecordBatch] = []
        count = 0

        def send() -> None:
            nonlocal count
            rows = pa.Table.from_batches(pending)
            delivery.send(path, rows.drop_columns([ROUTE, BLOB]).rename_columns(names))
            pending.clear()
            count = 0

        for received in batches:
            is_blob = pc.is_valid(received.column(BLOB))
            passing = received.filter(is_blob)
            if passing.num_rows:
                yield pa.record_batch(
                    [passing.column(ROUTE), passing.column(BLOB)], names=["route", "blob"]
                )
            rows = received.filter(pc.invert(is_blob))
            if rows.num_rows:
                pending.append(rows)
                count += rows.num_rows
            if pending and count >= chunk:
                send()
        if pending:
            send()
        delivery.finish()
        messages = list(delivery.messages)
        if delivery.files or delivery.dropped or delivery.relations:
            report = TaskReport.of_files(delivery.files, delivery.dropped, delivery.relations)
            messages.append((routes(batch.groups)[0], pack_control("descriptor", to_json(report))))
        yield from to_batches(messages)

    return run
