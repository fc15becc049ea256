"""What the footers of parquet files say of a time column, before a row is read.

A footer has the least and the greatest value of each column in each row group. Where these tell that no row can be
late, lie too far ahead or have no time, the scan need not ask so of every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

from slackwater.engine.lowlevel.splits import Split
from slackwater.engine.parquet.columns import read_metadata
from slackwater.kernels.types import arrow_type
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn


@dataclass(frozen=True)
class TimeRange:
    """All times are from ``least`` to ``greatest``, both included, and none is missing."""

    least: int
    greatest: int


def time_ranges(
    times: Sequence[TimeColumn], fields: Sequence[Field], splits: Sequence[Split]
) -> list[TimeRange | None]:
    """The range of each time column over the splits; None if the footers do not tell it."""
    kinds = {f.name: f.type for f in fields}
    footers = [read_metadata(s.path) for s in splits]
    return [_range(t, kinds.get(t.name), splits, footers) for t in times]


def _range(
    time: TimeColumn, kind: str | None, splits: Sequence[Split], footers: Sequence[pq.FileMetaData]
) -> TimeRange | None:
    if kind is None or time.parts or time.kind not in ("timestamp", "timestamp_ntz", "long"):
        return None
    ranges = []
    for split, footer in zip(splits, footers, strict=True):
        schema = footer.schema.to_arrow_schema()
        at = schema.get_field_index(time.name)
        if time.name in dict(split.folders):
            return None  # the folder's value counts, not the file's
        # Values of another type or unit are converted by the scan, so the footer's are not those of the rows.
        if at < 0 or not schema.field(at).type.equals(arrow_type(kind)):
            return None
        ranges += _groups(footer, time.name, split)
    if not ranges or any(f is None for f in ranges):
        return None
    known = [f for f in ranges if f is not None]
    return TimeRange(min(f.least for f in known), max(f.greatest for f in known))


def _groups(footer: pq.FileMetaData, name: str, split: Split) -> list[TimeRange | None]:
    """The ranges of the row groups that a split touches."""
    columns = [i for i in range(footer.num_columns) if footer.schema.column(i).path == name]
    if len(columns) != 1:  # a field of a struct may have a path that is another column's name
        return [None]
    ranges: list[TimeRange | None] = []
    row = 0
    for i in range(footer.num_row_groups):
        group = footer.row_group(i)
        first, row = row, row + group.num_rows
        if group.num_rows == 0 or row <= split.first or 0 <= split.end <= first:
            continue
        statistics = group.column(columns[0]).statistics
        usable = (
            statistics is not None and statistics.has_min_max and statistics.physical_type == "INT64"
            and statistics.has_null_count and statistics.null_count == 0
        )  # fmt: skip
        ranges.append(TimeRange(statistics.min_raw, statistics.max_raw) if usable else None)
    return ranges
