"""Split sources: parquet files whose rows never pass through the JVM.

The driver cuts the batch's files into splits (ranges of rows along row groups), a task scans its splits in
the column engine. Columns are taken by name and cast to the declared schema where that loses nothing;
columns of ``key=value`` directories come from the path; a column that a file lacks is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.errors import ExecutionError
from slackwater.kernels.column_engine import connect, literal, plain, quote, sql_to_arrow
from slackwater.kernels.types import arrow_type, duck_type
from slackwater.model.schema import Field

if TYPE_CHECKING:
    from slackwater.engine.low_level import SourceTask

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
WHOLE_FILE_BYTES = 16 << 20


@dataclass(frozen=True)
class Split:
    """Rows ``first`` (inclusive) to ``end`` (exclusive; -1 = the last) of a file."""

    path: str
    first: int = 0
    end: int = -1


def plan_splits(files: Sequence[str], tasks: int) -> list[list[Split]]:
    """Cut files into about equal work for ``tasks`` tasks; big files are cut along row groups."""
    import os

    pieces: list[tuple[int, Split]] = []
    sizes = {f: os.path.getsize(f) for f in files}
    share = max(1, sum(sizes.values()) // max(1, tasks))
    for path in files:
        if sizes[path] <= min(WHOLE_FILE_BYTES, share) or sizes[path] < share // 4:
            pieces.append((sizes[path], Split(path)))
        else:
            pieces.extend(_row_groups(path, share))
    loads = [0] * tasks
    plan: list[list[Split]] = [[] for _ in range(tasks)]
    for size, split in sorted(pieces, key=lambda p: (-p[0], p[1].path, p[1].first)):
        least = min(range(tasks), key=lambda i: (loads[i], i))
        loads[least] += size + 4096
        plan[least].append(split)
    return plan


def _row_groups(path: str, share: int) -> Iterator[tuple[int, Split]]:
    """Ranges of whole row groups, each of about half a task's share."""
    metadata = read_metadata(path)
    first = row = size = 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        row += group.num_rows
        size += sum(group.column(c).total_compressed_size for c in range(group.num_columns))
        if size * 2 >= share or i == metadata.num_row_groups - 1:
            yield size, Split(path, first, row)
            first, size = row, 0


def read_metadata(path: str) -> pq.FileMetaData:
    """The footer of a parquet file, or an error that names the file."""
    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise ExecutionError(
            "BAD_FILE",
            f"'{path}' cannot be read as parquet: {error}",
            hint="remove the file from the source directory, or write it whole: write it under "
            "another name (starting with '_' or '.') and rename it when it is complete",
            path=path,
        ) from error


def base_sql(fields: Sequence[Field], splits: Sequence[Split]) -> str:
    """DuckDB SQL of the declared columns over all splits."""
    parts = []
    for split in splits:
        schema = read_metadata(split.path).schema
        rows = ""
        if split.end >= 0:
            rows = f" WHERE file_row_number >= {split.first} AND file_row_number < {split.end}"
        items = [f"{_column(f, schema, split.path)} AS {quote(f.name)}" for f in fields]
        parts.append(
            f"SELECT {', '.join(items)} FROM read_parquet({literal(split.path)}, "
            f"hive_partitioning = false, file_row_number = {str(bool(rows)).lower()}){rows}"
        )
    return " UNION ALL ".join(parts)


def _column(field: Field, schema: pq.ParquetSchema, path: str) -> str:
    names = schema.to_arrow_schema().names
    match = field.name if field.name in names else None
    if match is None:
        same = [n for n in names if n.lower() == field.name.lower()]
        if len(same) > 1:
            raise ExecutionError(
                "AMBIGUOUS_COLUMN",
                f"'{path}' has several columns like '{field.name}': {', '.join(same)}",
                hint="name them apart; column names are compared without regard to case",
                path=path,
            )
        match = same[0] if same else None
    target = duck_type(field.type)
    if match is not None:
        kind = schema.to_arrow_schema().field(match).type
        wanted = arrow_type(field.type)
        if kind.equals(wanted):
            return quote(match)
        if _widens(kind, wanted, schema, match):
            return f"CAST({quote(match)} AS {target})"
        raise ExecutionError(
            "BAD_COLUMN_TYPE",
            f"column '{field.name}' of '{path}' is {kind}, but the schema says {field.type}",
            hint="declare the type that the files have, and cast it on the stream",
            path=path,
            column=field.name,
        )
    values = partition_values(path)
    if field.name in values:
        value = values[field.name]
        return f"CAST({'NULL' if value is None else literal(value)} AS {target})"
    return f"CAST(NULL AS {target})"


def partition_values(path: str) -> dict[str, str | None]:
    """Values that the directories of a path give.

    >>> partition_values("/data/day=2026-01-01/host=a%20b/part.parquet")
    {'day': '2026-01-01', 'host': 'a b'}
    """
    found: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals and name:
            text = unquote(value)
            found[unquote(name)] = None if text == NULL_DIRECTORY else text
    return found


_INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]


def _widens(kind: pa.DataType, wanted: pa.DataType, schema: pq.ParquetSchema, name: str) -> bool:
    """Whether the cast loses nothing."""
    if kind in _INTS and wanted in _INTS:
        return _INTS.index(kind) <= _INTS.index(wanted)
    if kind in _INTS[:3] and pa.types.is_float64(wanted):
        return True
    if pa.types.is_float32(kind) and pa.types.is_float64(wanted):
        return True
    if pa.types.is_decimal(kind) and pa.types.is_decimal(wanted):
        whole = wanted.precision - wanted.scale >= kind.precision - kind.scale
        return bool(whole and wanted.scale >= kind.scale)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted):
        if (kind.tz is None) == (wanted.tz is None):
            return kind.unit in ("us", "ms", "s") or _is_int96(schema, name)
        return wanted.tz is not None and _is_int96(schema, name)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return bool(pa.types.is_string(wanted))
    if pa.types.is_nested(kind) and pa.types.is_nested(wanted):
        return bool(kind.equals(wanted, check_metadata=False) or str(kind) == str(wanted)) or (
            type(kind) is type(wanted)
        )
    return False


def _is_int96(schema: pq.ParquetSchema, name: str) -> bool:
    return any(
        schema.column(i).path == name and schema.column(i).physical_type == "INT96"
        for i in range(len(schema.names))
    )


def scan_fused(task: SourceTask, splits: Sequence[Split]) -> pa.Table:
    """Partial aggregates and measures of the splits, in one scan."""
    from slackwater.engine.fused import Dialect, fusible, query, told
    from slackwater.sources.time_ranges import time_ranges

    fused = fusible(task.batch.plan, task.source)
    assert fused is not None
    base = base_sql(task.source.schema, splits)
    ranges = time_ranges(task.source.times, task.source.schema, splits)
    groups, items, relation = query(task.batch, fused, base, Dialect(duck=True), ranges)
    sql = f"SELECT {', '.join([*groups, *items])} FROM ({relation}) AS q GROUP BY ALL"
    found = sql_to_arrow(connect(task.batch.settings.memory), sql, {})
    for i, (least, greatest) in told(task.batch, fused, ranges).items():
        for name, value in ((f"_hi{i}", greatest), (f"_lo{i}", least)):
            found = found.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), len(found)))
    return found


def scan_rows(task: SourceTask, splits: Sequence[Split], chunk: int) -> Iterator[pa.Table]:
    """Raw rows of the splits, in chunks."""
    connection = connect(task.batch.settings.memory)
    cursor = connection.cursor()
    cursor.execute("SET TimeZone = 'UTC'")
    reader = cursor.sql(base_sql(task.source.schema, splits)).to_arrow_reader(chunk)
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in reader:
        pending.append(batch)
        rows += batch.num_rows
        if rows >= chunk:
            yield plain(pa.Table.from_batches(pending))
            pending, rows = [], 0
    if pending:
        yield plain(pa.Table.from_batches(pending))
