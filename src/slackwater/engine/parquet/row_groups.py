"""The row groups of a Parquet file with what its footer says of a column's values.

What a footer says is a bound: texts may be truncated, and nothing is said of numbers that are not equal to themselves. Where it is
not sure that the footer means the values as they are read, it says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.parquet.columns import FileColumns, read_metadata
from slackwater.engine.parquet.damage import ROW_NUMBER
from slackwater.engine.parquet.types import matches
from slackwater.kernels.types import arrow_type
from slackwater.model.schema import Field

Bounds = tuple[Any, Any] | None
"""The least and the greatest value, or None if nothing is known."""


@dataclass(frozen=True)
class RowGroup:
    """Rows ``first`` to before ``end`` of a file; ``bounds`` are those of some columns. ``is_empty``: one of these has nulls alone.

    ``number`` is that of the row group; None if the file cannot be read by row groups.
    """

    number: int | None
    first: int
    end: int
    bounds: tuple[Bounds, ...]
    is_empty: bool = False


def row_groups(
    path: str, folders: Sequence[tuple[str, str]], fields: Sequence[Field]
) -> list[RowGroup]:
    """The row groups of a file that have rows, with the bounds of ``fields``."""
    columns = FileColumns(path, folders)
    footer = read_metadata(path)
    places = [_place(columns, footer, f) for f in fields]
    if any(s.name.lower() == ROW_NUMBER for s in columns.stored):
        # The column engine could not tell the file's column from its own, so the file is read as one.
        return [RowGroup(None, 0, footer.num_rows, (None,) * len(fields))]
    made, first = [], 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        if not group.num_rows:
            continue
        bounds, is_empty = [], False
        for place, field in zip(places, fields, strict=True):
            statistics = None if place is None else group.column(place).statistics
            bounds.append(_bounds(statistics, field))
            if statistics is not None and statistics.has_null_count:
                is_empty = is_empty or statistics.null_count == group.num_rows
        made.append(RowGroup(number, first, first + group.num_rows, tuple(bounds), is_empty))
        first += group.num_rows
    return made


def is_ordered(kind: pa.DataType) -> bool:
    """Whether a footer can bound values of a type, as they are compared."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_boolean(kind)
    )


def _place(columns: FileColumns, footer: pq.FileMetaData, field: Field) -> int | None:
    """The number of a column whose values are read as they are stored."""
    if field.name.lower() in {name.lower() for name in columns.folders}:
        return None
    same = matches(columns.stored, field.name)
    if len(same) != 1:
        return None
    wanted, stored = arrow_type(field.type), footer.schema.to_arrow_schema()
    at = stored.get_field_index(same[0].name)
    if at < 0 or not _alike(stored.field(at).type, wanted, columns):
        return None
    for number in range(len(footer.schema)):
        # A struct's part may have the same path: `a.b` is a column, or b inside a.
        leaf = footer.schema.column(number)
        if leaf.path == leaf.name == same[0].name:
            return number
    return None


def _alike(stored: pa.DataType, wanted: pa.DataType, columns: FileColumns) -> bool:
    if not is_ordered(wanted):
        return False
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(stored))
    if pa.types.is_timestamp(wanted):
        return bool(
            pa.types.is_timestamp(stored)
            and not columns.old_calendar
            and stored.unit in ("ms", "us")
            and (stored.tz is None) == (wanted.tz is None)
        )
    if pa.types.is_date(wanted):
        return bool(pa.types.is_date(stored)) and not columns.old_calendar
    return bool(stored == wanted)


def _bounds(statistics: Any, field: Field) -> Bounds:
    if statistics is None or not statistics.has_min_max:
        return None
    kind = arrow_type(field.type)
    try:
        pair = statistics.min, statistics.max
        pa.array(pair, kind)
    except (pa.ArrowException, ValueError, OverflowError, UnicodeDecodeError):
        return None
    return None if None in pair else pair
