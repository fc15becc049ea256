"""The functions that Spark runs at the low level: over rows of a DataFrame, or over splits of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.lowlevel.fused import Fused, deliver_fused
from slackwater.engine.lowlevel.fused_scan import reduce_splits
from slackwater.engine.lowlevel.given_up import GivenUp
from slackwater.engine.lowlevel.quality_rows import Observed
from slackwater.engine.lowlevel.source_task import SourceTask, broadcast_summaries
from slackwater.engine.lowlevel.splits import Split, read_fields, scan_rows, scanned
from slackwater.engine.operators.low_table import LowDelivery
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.delivery import Delivery
from slackwater.engine.paths.reports import TaskReport
from slackwater.engine.paths.wire import Message, Task, pack_control, routes, to_batches
from slackwater.engine.plan.plan import Plan
from slackwater.engine.plan.reading import (
    FusedScan,
    JvmPartials,
    Rows,
    RowsWithSteps,
    Scan,
    unknown,
)
from slackwater.model.codec import to_json
from slackwater.model.names import BARE, SOURCE
from slackwater.model.node import Source
from slackwater.model.schema import Field

CHUNK_ROWS = 1_000_000


@dataclass(frozen=True)
class RowInput:
    """A streaming DataFrame as its task sees it: column ``columns[i]`` holds the source's column
    ``names[i]``; ``paths`` are those whose row operators Spark has run, with the struct column of each.
    """

    index: int
    names: tuple[str, ...]
    columns: tuple[str, ...]
    paths: tuple[tuple[int, str], ...] = ()


def row_task(batch: Batch, inputs: Sequence[RowInput]) -> Task:
    """Raw rows, tagged with their input's index (`SOURCE`)."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        delivery = LowDelivery(batch, f"l0r{_partition_id()}")
        observed = Observed()
        tasks = [SourceTask(batch, s, delivery, observed) for s in batch.plan.sources]
        for chunk in _chunks(batches):
            for item in inputs:
                _take(item, tasks, chunk)
        for task in tasks:
            task.finish()
        delivery.flow_over()
        delivery.finish()
        used = [t for t in tasks if t.source.input in {i.index for i in inputs}]
        yield from to_batches([*delivery.messages, *_closing(batch, delivery, used)])

    return run


def _take(item: RowInput, tasks: Sequence[SourceTask], chunk: pa.Table) -> None:
    flag = [c for c in (BARE,) if c in chunk.column_names]
    rows = chunk.select([*item.columns, *flag, *(column for _, column in item.paths)])
    if SOURCE in chunk.column_names:
        ends = pc.min_max(chunk[SOURCE]).as_py()
        if not ends["min"] == ends["max"] == item.index:  # a partition is of one input, as a rule
            rows = rows.filter(pc.equal(chunk[SOURCE], item.index))
    if rows.num_rows == 0:
        return
    table = rows.select(list(item.columns)).rename_columns(list(item.names))
    if BARE in rows.column_names:
        table = table.append_column(BARE, rows[BARE])
    ready = {}
    for path, column in item.paths:
        struct = rows[column].combine_chunks()
        if isinstance(struct, pa.ChunkedArray):
            struct = pa.concat_arrays(struct.chunks)
        ready[path] = pa.Table.from_batches([pa.RecordBatch.from_struct_array(struct)])
    for task in tasks:
        if task.source.input == item.index:
            task.rows(table, ready)


def partial_task(batch: Batch, fused: Fused, columns: tuple[tuple[str, str], ...]) -> Task:
    """Partial aggregates that Spark's own map-side aggregation made of the only path of a source.

    ``columns`` are pairs of the name that is wanted and the column that holds it.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        delivery = LowDelivery(batch, f"l0p{_partition_id()}")
        task = SourceTask(batch, fused.source, delivery, Observed())
        received = list(batches)
        if received:
            table = pa.Table.from_batches(received)
            table = pa.table({name: table[column] for name, column in columns})
            deliver_fused(task, fused, table, from_spark=True)
        delivery.flow_over()
        delivery.finish()
        yield from to_batches([*delivery.messages, *_closing(batch, delivery, [task])])

    return run


def split_task(batch: Batch, splits: dict[int, dict[str, list[Split]]]) -> Task:
    """Files: the task's number says which splits of which sources are its own."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in batches:
            for number in numbers.column(0).to_pylist():
                delivery = LowDelivery(batch, f"l0s{number}")
                tasks = []
                for alike in _alike(batch.plan.sources):
                    mine = splits.get(number, {}).get(str(alike[0].input), [])
                    if not mine:
                        continue
                    observed = Observed()
                    readers = [SourceTask(batch, source, delivery, observed) for source in alike]
                    tasks += readers
                    _scan(batch.plan, readers, mine)
                delivery.flow_over()
                delivery.finish()
                yield from to_batches([*delivery.messages, *_closing(batch, delivery, tasks)])

    return run


def _scan(plan: Plan, readers: Sequence[SourceTask], splits: Sequence[Split]) -> None:
    """Read splits for streams that want the same columns of them."""
    first = readers[0]
    reading = plan.readings[first.source.input]
    match reading:
        case FusedScan():
            fused = Fused.of(plan, reading.path, first.batch.guards)
            reduce_splits(first, fused, splits)
        case Scan():
            _scan_rows(readers, splits)
            for task in readers:
                task.finish()
        case Rows() | RowsWithSteps() | JvmPartials():
            raise TypeError(f"input {first.source.input} is read by Spark, not by splits")
        case _:
            raise unknown(reading)


def _scan_rows(readers: Sequence[SourceTask], splits: Sequence[Split]) -> None:
    memory = readers[0].batch.settings.memory
    given_up = GivenUp.of(readers, splits)
    if given_up and len(readers) == 1:  # what is late for one stream may be on time for another
        readers[0].left_out = given_up.match
    rows = 0
    with given_up.others() if given_up else scanned(read_fields(readers[0]), splits, memory) as sql:
        for chunk in scan_rows(sql, memory, CHUNK_ROWS):
            rows += chunk.num_rows
            for task in readers:
                task.rows(chunk)
    if given_up:
        given_up.tell(rows)


def _alike(sources: Sequence[Source]) -> list[list[Source]]:
    """Sources that read the same columns of the same files; one scan serves them all."""
    by_schema: dict[tuple[int, tuple[Field, ...]], list[Source]] = {}
    for source in sources:
        by_schema.setdefault((source.input, source.schema), []).append(source)
    return list(by_schema.values())


def _closing(batch: Batch, delivery: Delivery, tasks: Sequence[SourceTask]) -> list[Message]:
    """Summaries to all groups, and this task's own files to group 0."""
    messages = broadcast_summaries(batch, tasks)
    if delivery.files or delivery.dropped or delivery.relations:
        report = TaskReport.of_files(delivery.files, delivery.dropped, delivery.relations)
        messages.append((routes(batch.groups)[0], pack_control("descriptor", to_json(report))))
    return messages


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        if rows >= CHUNK_ROWS:
            yield pa.Table.from_batches(pending)
            pending, rows = [], 0
    if pending:
        yield pa.Table.from_batches(pending)


def _partition_id() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
