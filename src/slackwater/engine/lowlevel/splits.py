"""Split sources: parquet files whose rows never pass through the JVM.

The driver cuts the batch's files into splits (ranges of rows along row groups), a task scans its splits in
the column engine. What a file's columns and folders mean is said in ``file_columns`` and ``partition_folders``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.engine.parquet.columns import FileColumns, read_metadata
from slackwater.engine.parquet.damage import ROW_NUMBER, blamed, parquet_sql
from slackwater.engine.parquet.folders import Folders
from slackwater.engine.plan.columns import carried
from slackwater.engine.store.exact_paths import engine_paths
from slackwater.kernels.column_engine import connect, plain
from slackwater.model.schema import Field

if TYPE_CHECKING:
    from slackwater.engine.lowlevel.source_task import SourceTask

WHOLE_FILE_BYTES = 16 << 20


@dataclass(frozen=True)
class Split:
    """Rows ``first`` (inclusive) to ``end`` (exclusive; -1 = the last) of a file.

    ``folders`` are the columns that the names of its folders give.
    """

    path: str
    first: int = 0
    end: int = -1
    folders: Folders = ()


def plan_splits(
    files: Sequence[str] | Mapping[str, Folders],
    tasks: int,
    parts: Mapping[str, Sequence[tuple[int, Split]]] | None = None,
) -> list[list[Split]]:
    """Cut files into about equal work for ``tasks`` tasks; big files are cut along row groups.

    Of the files of ``parts`` only these row groups are read, each with its bytes.
    """
    parts = parts or {}
    folders = files if isinstance(files, Mapping) else dict.fromkeys(files, ())
    pieces: list[tuple[int, Split]] = []
    sizes = {
        f: sum(size for size, _ in parts[f]) if f in parts else os.path.getsize(f) for f in files
    }
    share = max(1, sum(sizes.values()) // max(1, tasks))
    for path in files:
        whole = sizes[path] <= min(WHOLE_FILE_BYTES, share) or sizes[path] < share // 4
        if path in parts:
            pieces.extend(_ranges(parts[path], None if whole else share))
        elif whole:
            pieces.append((sizes[path], Split(path, folders=folders[path])))
        else:
            pieces.extend(_ranges(_row_groups(path, folders[path]), share))
    loads = [0] * tasks
    plan: list[list[Split]] = [[] for _ in range(tasks)]
    for size, split in sorted(pieces, key=lambda p: (-p[0], p[1].path, p[1].first)):
        least = min(range(tasks), key=lambda i: (loads[i], i))
        loads[least] += size + 4096
        plan[least].append(split)
    return plan


def _row_groups(path: str, folders: Folders) -> Iterator[tuple[int, Split]]:
    """The row groups of a file, each with its bytes."""
    metadata = read_metadata(path)
    if any(n.lower() == ROW_NUMBER for n in metadata.schema.to_arrow_schema().names):
        # The column engine could not tell the file's column from its own, so the file stays whole.
        yield os.path.getsize(path), Split(path, folders=folders)
        return
    row = 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        first, row = row, row + group.num_rows
        size = sum(group.column(c).total_compressed_size for c in range(group.num_columns))
        yield size, Split(path, first, row, folders)


def _ranges(groups: Iterable[tuple[int, Split]], share: int | None) -> Iterator[tuple[int, Split]]:
    """Neighbours together: ranges of about half a task's share, or as long as they come."""
    size, range_ = 0, None
    for more, group in groups:
        is_full = share is not None and size * 2 >= share
        if range_ is not None and range_.end == group.first and not is_full:
            size, range_ = size + more, replace(range_, end=group.end)
            continue
        if range_ is not None:
            yield size, range_
        size, range_ = more, group
    if range_ is not None:
        yield size, range_


@contextmanager
def scanned(fields: Sequence[Field], splits: Sequence[Split], memory: str) -> Iterator[str]:
    """DuckDB SQL of the declared columns over all splits, valid in this context.

    If what is done with it fails, and one of the files is the reason, the error names the file.
    """
    files = [FileColumns(s.path, s.folders) for s in splits]
    with engine_paths([s.path for s in splits]) as paths, blamed(fields, files, paths, memory):
        parts = []
        for number, (split, file) in enumerate(zip(splits, files, strict=True)):
            rows = ""
            if split.end >= 0:
                rows = f" WHERE {ROW_NUMBER} >= {split.first} AND {ROW_NUMBER} < {split.end}"
            table = parquet_sql(paths[split.path], rows=bool(rows))
            names = None
            if file.has_like_names:
                names = list(connect(memory).sql(f"SELECT * FROM {table}").columns)
            items = file.selected(fields, names, number)
            parts.append(f"SELECT {', '.join(items)} FROM {table}{rows}")
        yield " UNION ALL ".join(parts)


def scan_rows(sql: str, memory: str, chunk: int) -> Iterator[pa.Table]:
    """The rows of a statement over splits, in chunks."""
    cursor = connect(memory).cursor()
    cursor.execute("SET TimeZone = 'UTC'")
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in cursor.sql(sql).to_arrow_reader(chunk):
        pending.append(batch)
        rows += batch.num_rows
        if rows >= chunk:
            yield plain(pa.Table.from_batches(pending))
            pending, rows = [], 0
    if pending:
        yield plain(pa.Table.from_batches(pending))


def row_count(splits: Sequence[Split]) -> int:
    """The rows of all splits, as footers count them."""
    ends = (s.end if s.end >= 0 else read_metadata(s.path).num_rows for s in splits)
    return sum(end - s.first for s, end in zip(splits, ends, strict=True))


def read_fields(task: SourceTask) -> tuple[Field, ...]:
    """The columns that anybody reads of the input, as they are of rows: others may be of any type in a file."""
    return carried(task.batch.plan, task.source.input, task.source.schema)
