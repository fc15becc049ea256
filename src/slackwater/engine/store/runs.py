"""State runs: immutable Arrow files, written by a task, named for ever.

Because the name is the version, a worker may keep what it decoded: the cache needs no invalidation. It is a
bounded LRU; no plan counts on a hit.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.store import failpoints
from slackwater.engine.store.files import checksum
from slackwater.engine.store.manifest import PREFIXED_NAMES, Run
from slackwater.engine.store.storage import Folder
from slackwater.errors import CheckpointError
from slackwater.kernels.buckets import bucket_range, buckets_of
from slackwater.kernels.room import room_for
from slackwater.model.names import alone, is_ours

CACHE_BYTES = 256 << 20

_cache: OrderedDict[str, pa.Table] = OrderedDict()
_cached_bytes = 0


def write_run(
    folder: Folder,
    prefix: str,
    table: pa.Table,
    order: str,
    setting: str | None = None,
    part: str = "",
) -> Run:
    """Write the rows of ``table`` (sorted here by bucket) as one run; ``order`` is its pane/time column."""
    failpoints.hit("task.run.before", setting)
    # Buckets are 16 bits wide: a stable sort of them is a radix sort.
    order_of = np.argsort(buckets_of(table).to_numpy(), kind="stable")
    table = table.take(pa.array(order_of)).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    name = f"{prefix}-{os.urandom(6).hex()}.arrow"
    with room_for(f"file '{name}'", folder.path, data.size), folder.writer(name) as out:
        failpoints.hit("disk.run", setting)
        out.write(data)
    extremes = pc.min_max(table[order])
    buckets = buckets_of(table)
    run = Run(
        name,
        table.num_rows,
        data.size,
        out.crc,
        extremes["min"].as_py(),
        extremes["max"].as_py(),
        (buckets[0].as_py(), buckets[-1].as_py() + 1),
        part,
    )
    _remember(str(folder.path / name), table)
    failpoints.hit("task.run.after", setting)
    return run


def read_run(folder: Folder, run: Run, buckets: tuple[int, int], schema: pa.Schema) -> pa.Table:
    """The rows of a run that lie in the half-open range of buckets, under the names of ``schema``."""
    table = _named(_load(folder, run), run, schema)
    first, end = max(run.buckets[0], buckets[0]), min(run.buckets[1], buckets[1])
    column = buckets_of(table).to_numpy()
    low, high = np.searchsorted(column, first), np.searchsorted(column, end)
    return table.slice(int(low), int(high - low))


def read_runs(
    folder: Folder, runs: Sequence[Run], buckets: tuple[int, int], schema: pa.Schema
) -> pa.Table:
    """All rows of several runs in the range of buckets."""
    tables = [read_run(folder, r, buckets, schema) for r in runs]
    # A run has the columns of the aggregates that shared it when it was written, in their order then.
    tables = [t if t.column_names == schema.names else t.select(schema.names) for t in tables]
    # Runs must have these columns; a table without rows, which has them, is a chunk more in every column.
    known = bool(tables) and tables[0].schema.equals(schema)
    return pa.concat_tables(tables if known else [schema.empty_table(), *tables])


def _named(table: pa.Table, run: Run, schema: pa.Schema) -> pa.Table:
    """A run's table with columns of ours called as they are today.

    In runs of the first kind they had no prefix, and no user's column could have their names.
    """
    if run.kind >= PREFIXED_NAMES:
        return table
    today = {alone(name): name for name in schema.names if is_ours(name)}
    return table.rename_columns([today.get(name, name) for name in table.column_names])


def regroup(groups: Sequence[Sequence[Run]], count: int) -> list[list[Run]]:
    """The same state for another number of groups, without touching a file.

    Each group's entry is narrowed to the buckets it owns: a piece of a file belongs to one group only, so
    that one group may rewrite its piece while another still reads its own. Pieces that meet again are one entry.
    """
    if len(groups) == count:
        return [list(g) for g in groups]
    pieces = [r for g in groups for r in g]
    return [
        _united(
            [
                _narrow(r, bucket_range(g, count))
                for r in pieces
                if overlaps(r, bucket_range(g, count))
            ]
        )
        for g in range(count)
    ]


def _united(pieces: Sequence[Run]) -> list[Run]:
    """The pieces, those of one file that lie side by side as one. What lies between two is no longer theirs."""
    done: dict[str, list[Run]] = {}
    for piece in sorted(pieces, key=lambda r: r.buckets):
        same = done.setdefault(piece.name, [])
        if same and same[-1] == replace(piece, buckets=same[-1].buckets) and (
            same[-1].buckets[1] >= piece.buckets[0]
        ):  # fmt: skip
            same[-1] = replace(piece, buckets=(same[-1].buckets[0], piece.buckets[1]))
        else:
            same.append(piece)
    names = dict.fromkeys(r.name for r in pieces)
    return [r for name in names for r in done[name]]


def _narrow(run: Run, buckets: tuple[int, int]) -> Run:
    first, end = max(run.buckets[0], buckets[0]), min(run.buckets[1], buckets[1])
    return replace(run, buckets=(first, end))


def overlaps(run: Run, buckets: tuple[int, int]) -> bool:
    """Whether a run may hold rows of the half-open range of buckets."""
    return run.buckets[0] < buckets[1] and buckets[0] < run.buckets[1]


def reaches(run: Run, first: int) -> bool:
    """Whether a run may hold rows at or above ``first``, in the order that it is cut by."""
    return run.high >= first


def _load(folder: Folder, run: Run) -> pa.Table:
    key = str(folder.path / run.name)
    if key in _cache:
        _cache.move_to_end(key)
        return _cache[key]
    try:
        data = folder.read(run.name)
    except FileNotFoundError:
        data = b""
    if len(data) != run.bytes or checksum(data) != run.crc:
        raise CheckpointError(
            "DAMAGED_FILE",
            f"state file '{run.name}' is damaged: {len(data)} bytes where {run.bytes} were written, "
            "or another checksum",
            hint="restore the checkpoint from a backup, or start with a new checkpointLocation",
            path=run.name,
        )
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    _remember(key, table)
    return table


def _remember(key: str, table: pa.Table) -> None:
    global _cached_bytes
    if table.nbytes > CACHE_BYTES:
        return
    _cache[key] = table
    _cached_bytes += table.nbytes
    while _cached_bytes > CACHE_BYTES:
        _, old = _cache.popitem(last=False)
        _cached_bytes -= old.nbytes
