"""Spark, played in one process: a host that hands the batch loop its input and runs a batch's tasks one by one.

The loop, the checkpoint and the task functions are those of production; the shuffle is a list of messages. An input is
a list of Parquet files per batch: tasks read them as splits, or the host reads them and hands the rows to row tasks, as
Spark would. What Spark itself would have to compute is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.engine.driver.job import check_reports
from slackwater.engine.lowlevel.bare import Bare
from slackwater.engine.lowlevel.inputs import Input, places, row_fields
from slackwater.engine.lowlevel.splits import Split
from slackwater.engine.lowlevel.tasks import RowInput, row_task, split_task
from slackwater.engine.operators.group_task import group_task
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.reports import TaskReport
from slackwater.engine.paths.task_errors import errors_here
from slackwater.engine.paths.wire import Message, pack_control, routes, to_batches, unpack
from slackwater.engine.plan.plan import Plan
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.kept import forget
from slackwater.engine.store.manifest import Manifest
from slackwater.errors import ExecutionError
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.types import arrow_schema
from slackwater.model.codec import from_json
from slackwater.model.names import BARE, ROWS, SOURCE

Files = Mapping[int, Sequence[str]]
"""The files of a batch, by the number of the input; one without files had nothing new."""


class LocalHost:
    """See the module's text. It outlives a crash of the query, as Spark's logs do."""

    def __init__(self, inputs: int = 1):
        self.inputs = inputs
        self.batches: list[Files] = []

    def offsets(self, location: Path, batch: int) -> list[Any] | None:
        """Of each input the number of batches that had files of it; then the batch, as the heartbeat counts."""
        if batch < 0:
            return None
        done = self.batches[: batch + 1]
        return [*(sum(bool(b.get(i)) for b in done) for i in range(self.inputs)), batch]

    def new_files(self, location: Path, source: int, batch: int) -> list[str]:
        return list(self.batches[batch].get(source, ()))

    def row_files(self, location: Path, source: int, batch: int) -> list[str]:
        return list(self.batches[batch].get(source, ()))

    def check_logs(self, checkpoint: Checkpoint, last: Manifest | None) -> None:
        """The host has no log on disk."""
        return

    def run_job(
        self,
        frame: Any,
        batch: Batch,
        inputs: Sequence[Input],
        splits: dict[int, dict[str, list[Split]]],
        has_rows: bool,
    ) -> list[TaskReport]:
        """The job of a batch, task after task. ``frame`` is not used."""
        check_local(batch.plan)
        with errors_here():
            sent = _split_messages(batch, splits)
            if has_rows:
                sent += _row_messages(batch, inputs, self.batches[batch.id])
            bodies = [unpack(blob)[1] for _, blob in shuffled(batch, sent)]
            reports = [from_json(TaskReport, body) for body in bodies]
        check_reports(batch, reports)
        return reports

    def forget(self, root: str) -> None:
        forget(root)


def check_local(plan: Plan) -> None:
    """Refuse a plan with an expression that only the JVM can evaluate; the error names it."""
    for path in plan.paths:
        blocked = path.blocked_by
        if blocked is not None:
            raise ExecutionError(
                "NEEDS_SPARK",
                f"only Spark can evaluate {blocked.sql} ({blocked.why}), "
                "and a local run has no Spark",
                hint="run this job on Spark: slackwater.testing.run(job, ..., spark=spark)",
                expression=blocked.sql,
            )


def shuffled(batch: Batch, sent: Iterable[Message]) -> list[Message]:
    """What the group tasks of all levels make of what the tasks of the low level sent."""
    messages = list(sent)
    for level in range(1, batch.plan.top + 1):
        made: list[Message] = []
        for group, route in enumerate(routes(batch.groups)):
            mine = [m for m in messages if m[0] == route]
            mine.append((route, pack_control("group", group)))
            made += _messages(group_task(batch, level)(to_batches(mine)))
        messages = made
    return messages


def _split_messages(batch: Batch, splits: dict[int, dict[str, list[Split]]]) -> list[Message]:
    sent = []
    for number in splits:
        numbers = iter([pa.record_batch([pa.array([number])], names=["id"])])
        sent += _messages(split_task(batch, splits)(numbers))
    return sent


def _row_messages(batch: Batch, inputs: Sequence[Input], files: Files) -> list[Message]:
    """What row tasks send: one task per file, or one in all where rows are judged in order of arrival.

    Rows have the shape of `engine.lowlevel.inputs.united`. Partial aggregates that the JVM would make are not made: their
    rows are read as where Spark cannot make them.
    """
    held = places(batch.plan, inputs)
    schemas = {i: arrow_schema(row_fields(batch.plan, inputs, i)) for i in held}
    described = [RowInput(i, tuple(schemas[i].names), columns) for i, columns in held.items()]
    types = {
        column: field.type
        for i, columns in held.items()
        for column, field in zip(columns, schemas[i], strict=True)
    }
    parts = []
    bare = {i: Bare.of(batch, i, row_fields(batch.plan, inputs, i), duck=True) for i in held}
    for index, columns in held.items():
        for name in files.get(index, ()):
            table = small_parquet(name).select(schemas[index].names).cast(schemas[index])
            made = {SOURCE: pa.array([index] * table.num_rows, pa.int32())}
            if any(bare.values()):
                table, made[BARE] = _emptied(bare[index], table)
            there = dict(zip(columns, table.columns, strict=True))
            for column, type in types.items():
                made[column] = there.get(column, pa.nulls(table.num_rows, type))
            parts.append(pa.table(made).to_batches())
    if any(batch.plan.readings[i].in_one_task for i in held):
        parts = [[b for part in parts for b in part]]
    return [m for part in parts for m in _messages(row_task(batch, described)(iter(part)))]


def _emptied(bare: Bare | None, table: pa.Table) -> tuple[pa.Table, pa.ChunkedArray]:
    """The rows as the JVM would hand them over, and which of them are bare."""
    marked = sql_to_arrow(
        connect(), f"SELECT {'FALSE' if bare is None else bare.condition} AS {BARE} FROM {ROWS}", {ROWS: table}
    )[BARE]  # fmt: skip
    for at, field in enumerate(table.schema):
        if bare is not None and field.name in bare.taken:
            column = pc.if_else(marked, pa.scalar(None, field.type), table[field.name])
            table = table.set_column(at, field, column)
    return table, marked


def small_parquet(path: str | Path) -> pa.Table:
    """A Parquet file of a few rows: other threads and reading ahead would cost more than they bring."""
    return pq.ParquetFile(path, pre_buffer=False).read(use_threads=False)


def _messages(batches: Iterable[pa.RecordBatch]) -> list[Message]:
    return [
        (route.as_py(), blob.as_py())
        for b in batches
        for route, blob in zip(b.column(0), b.column(1), strict=True)
    ]
