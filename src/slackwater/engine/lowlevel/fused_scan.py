"""Fused scans: a task's splits reduced by the column engine, in one statement or, behind a guard, in what `apart` makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from slackwater.engine.lowlevel.apart import Apart, progress_fields
from slackwater.engine.lowlevel.fused import (
    Dialect,
    Fused,
    deliver_fused,
    query,
    times_of_footers,
    without_marks,
)
from slackwater.engine.lowlevel.source_task import SourceTask
from slackwater.engine.lowlevel.splits import Split, read_fields, scanned
from slackwater.engine.lowlevel.time_ranges import TimeRange, time_ranges
from slackwater.engine.paths.relation_tables import relation_tables
from slackwater.kernels.column_engine import connect, scan_to_arrow
from slackwater.model.names import sub_query

Ranges = Sequence[TimeRange | None]


def reduce_splits(task: SourceTask, fused: Fused, splits: Sequence[Split]) -> None:
    """Send on the partial aggregates of the splits, and take in what they tell of progress."""
    ranges = time_ranges(task.source.times, task.source.schema, splits)
    parted = Apart.of(fused)
    if parted is None:
        with scanned(read_fields(task), splits, task.batch.settings.memory) as base:
            partials = _partials(task, fused, base, ranges)
        footers = times_of_footers(task.batch, fused, ranges)
        deliver_fused(task, fused, _with_times(partials, footers), from_spark=False)
        return
    measures = _measures(task, parted, splits, ranges)
    with scanned(read_fields(task), splits, task.batch.settings.memory) as base:
        kept = parted.kept(task.batch, base, ranges)
        partials = _partials(task, parted.rest, kept, ranges, measured=False)
    task.delivery.drop(parted.guard.place, parted.dropped(measures, without_marks(partials)))
    deliver_fused(task, parted.rest, partials, from_spark=False, measures=measures)


def _partials(
    task: SourceTask, fused: Fused, base: str, ranges: Ranges, *, measured: bool = True
) -> pa.Table:
    duck = Dialect(duck=True)
    groups, items, relation = query(task.batch, fused, base, duck, ranges, measured=measured)
    sql = f"SELECT {', '.join([*groups, *items])} FROM {sub_query(relation)} GROUP BY ALL"
    reads = task.delivery.relations
    tables = relation_tables(task.batch, fused.path.steps, {}, reads, base=base, counted=True)
    return scan_to_arrow(connect(task.batch.settings.memory), sql, tables)


def _measures(task: SourceTask, parted: Apart, splits: Sequence[Split], ranges: Ranges) -> pa.Table:
    """What progress needs of all rows, by partition and verdicts."""
    known = parted.measures_of_footers(task.batch, splits, ranges)
    if known is not None:
        return known
    memory = task.batch.settings.memory
    with scanned(progress_fields(task.source, read_fields(task)), splits, memory) as base:
        sql = parted.measures(task.batch, base, ranges)
        measures = without_marks(scan_to_arrow(connect(memory), sql, {}))
    return _with_times(measures, times_of_footers(task.batch, parted.rest, ranges))


def _with_times(table: pa.Table, footers: Mapping[int, tuple[int, int]]) -> pa.Table:
    """With the oldest and newest times that footers tell."""
    for i, (least, greatest) in footers.items():
        for name, value in ((f"_hi{i}", greatest), (f"_lo{i}", least)):
            table = table.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), len(table)))
    return table
