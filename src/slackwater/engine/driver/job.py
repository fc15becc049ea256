"""The one Spark job of a batch: low-level tasks, a shuffle by group, then group tasks level by level."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.engine.driver.row_step import row_steps
from slackwater.engine.driver.workers import in_worker
from slackwater.engine.lowlevel.fused import Fused
from slackwater.engine.lowlevel.inputs import Input, row_frame
from slackwater.engine.lowlevel.map_side import partial_frame
from slackwater.engine.lowlevel.splits import Split
from slackwater.engine.lowlevel.tasks import partial_task, row_task, split_task
from slackwater.engine.operators.group_task import group_task
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.reports import TaskReport
from slackwater.engine.paths.task_errors import task_errors
from slackwater.engine.paths.wire import pack_control, routes, spark_schema, unpack
from slackwater.engine.plan.reading import (
    FusedScan,
    JvmPartials,
    Rows,
    RowsWithSteps,
    Scan,
    unknown,
)
from slackwater.engine.store.kept import forget
from slackwater.errors import ExecutionError
from slackwater.model.codec import from_json
from slackwater.model.node import Late, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_ARROW_BATCH = 131_072

# The same rows in every batch of a query, analysed once. A frame keeps its session, so that no other has its hash code.
CONTROL_FRAMES = 16
_control: dict[tuple[int, int], DataFrame] = {}


def run_job(
    frame: DataFrame,
    batch: Batch,
    inputs: Sequence[Input],
    splits: dict[int, dict[str, list[Split]]],
    has_rows: bool,
) -> list[TaskReport]:
    """Run a batch and return the reports of its tasks, exactly one per group and level."""
    spark = frame.sparkSession
    # Adaptive execution would drop the group tasks when no row survives, and reroute the others.
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(ROWS_PER_ARROW_BATCH))
    current = _low_level(spark, frame, batch, inputs, splits, has_rows)
    for path in batch.plan.paths:
        producer = batch.plan.node(path.producer)
        if isinstance(producer, Source | Late):
            current = row_steps(current, batch, path, begun=isinstance(producer, Source))
    for level in range(1, batch.plan.top + 1):
        control = _group_rows(spark, batch.groups)
        current = current.unionAll(control).repartition(batch.groups, "route")
        current = current.mapInArrow(in_worker(group_task(batch, level)), spark_schema())
        for operator in batch.plan.at(level):
            for path in (p for n in operator.producers for p in batch.plan.paths_from(n)):
                current = row_steps(current, batch, path)
    with task_errors():
        bodies = [unpack(bytes(row.blob))[1] for row in current.collect()]
    reports = [from_json(TaskReport, body) for body in bodies]
    check_reports(batch, reports)
    return reports


def run_forgetting(spark: SparkSession, root: str) -> None:
    """Let the executors remove the blocks that they keep for a query."""
    tasks = max(1, spark.sparkContext.defaultParallelism)
    spark.range(0, tasks, 1, tasks).mapInArrow(partial(_forget, root), "id long").collect()


def _forget(root: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    forget(root)
    for batch in batches:
        yield batch.slice(0, 0)


def _low_level(
    spark: SparkSession,
    frame: DataFrame,
    batch: Batch,
    inputs: Sequence[Input],
    splits: dict[int, dict[str, list[Split]]],
    has_rows: bool,
) -> DataFrame:
    parts = []
    if splits:
        tasks = max(splits) + 1
        parts.append(
            spark.range(0, tasks, 1, tasks).mapInArrow(
                in_worker(split_task(batch, splits)), spark_schema()
            )
        )
    if has_rows:
        parts.append(_row_part(frame, batch, inputs))
    if not parts:
        return _group_rows(spark, batch.groups).where("false")
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return whole


def _row_part(frame: DataFrame, batch: Batch, inputs: Sequence[Input]) -> DataFrame:
    one_task = False
    for reading in batch.plan.readings:
        match reading:
            case Scan() | FusedScan():
                continue
            case JvmPartials():
                fused = Fused.of(batch.plan, reading.path, batch.guards)
                partials = partial_frame(frame, batch, inputs, fused)
                if partials is not None:
                    made, columns = partials
                    task = partial_task(batch, fused, columns)
                    return made.mapInArrow(in_worker(task), spark_schema())
                one_task |= reading.otherwise.in_one_task
            case Rows() | RowsWithSteps():
                one_task |= reading.in_one_task
            case _:
                raise unknown(reading)
    read = row_frame(frame, batch, inputs)
    assert read is not None
    rows, described = read
    if one_task:
        rows = rows.coalesce(1)
    return rows.mapInArrow(in_worker(row_task(batch, described)), spark_schema())


def _group_rows(spark: SparkSession, groups: int) -> DataFrame:
    """One row per group that tells each task which group it is; makes every task run."""
    key = (spark._jsparkSession.hashCode(), groups)
    control = _control.get(key)
    if control is None:
        values = ", ".join(
            f"({route}, X'{pack_control('group', g).hex()}')"
            for g, route in enumerate(routes(groups))
        )
        control = spark.sql(f"SELECT * FROM VALUES {values} AS t(route, blob)").coalesce(1)
        # Other queries may do the same at this moment, in threads of their own.
        for old in list(_control)[: max(0, len(_control) + 1 - CONTROL_FRAMES)]:
            _control.pop(old, None)
        _control[key] = control
    return control


def check_reports(batch: Batch, reports: list[TaskReport]) -> None:
    """Refuse a batch in which a group did not answer, or in which two computed different bounds."""
    seen = sorted((r.level, r.group) for r in reports if r.level > 0)
    wanted = [(level, g) for level in range(1, batch.plan.top + 1) for g in range(batch.groups)]
    if seen != wanted:
        raise ExecutionError(
            "MISSING_DESCRIPTOR",
            f"batch {batch.id} got results of {json.dumps(seen)} where one of each of {len(wanted)} "
            "(level, group) pairs was expected",
            hint="report this; nothing of the batch was committed",
        )
    digests = {r.digest for r in reports if r.level > 0}
    if len(digests) != 1:
        raise ExecutionError(
            "PROGRESS_DISAGREES",
            f"the group tasks of batch {batch.id} computed {len(digests)} different bounds",
            hint="report this; nothing of the batch was committed",
        )
