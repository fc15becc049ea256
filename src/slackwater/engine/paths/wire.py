"""What travels between the tasks of a batch: rows ``(route int, blob binary)``.

A blob is an Arrow table for one path (its id in front) or a control message (JSON). Whole tables move as
one value each, so that the JVM never converts rows. ``route`` is a number that Spark's hash partitioning
sends exactly to the task of the wanted group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ARROW_SCHEMA = pa.schema([("route", pa.int32()), ("blob", pa.binary())])
MAX_BLOB_BYTES = 64 << 20

Message = tuple[int, bytes]

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What Spark runs in each partition, through ``mapInArrow``."""


@lru_cache(maxsize=1)
def spark_schema() -> StructType:
    """The rows' Spark schema; not as text, which Spark would parse in every batch."""
    from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

    return StructType([StructField("route", IntegerType()), StructField("blob", BinaryType())])


def _murmur3_int(value: int, seed: int = 42) -> int:
    """Spark's hash of one int column (Murmur3, 32 bit), as a signed int."""
    m = 0xFFFFFFFF
    k = (value * 0xCC9E2D51) & m
    k = ((k << 15) | (k >> 17)) & m
    k = (k * 0x1B873593) & m
    h = seed ^ k
    h = ((h << 13) | (h >> 19)) & m
    h = (h * 5 + 0xE6546B64) & m
    h ^= 4
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & m
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & m
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


@lru_cache(maxsize=64)
def routes(groups: int) -> tuple[int, ...]:
    """For each group a number that ``repartition(groups, "route")`` sends to that partition.

    >>> [_murmur3_int(r) % 3 for r in routes(3)]
    [0, 1, 2]
    """
    route_of: dict[int, int] = {}
    candidate = 0
    while len(route_of) < groups:
        route_of.setdefault(_murmur3_int(candidate) % groups, candidate)
        candidate += 1
    return tuple(route_of[g] for g in range(groups))


def pack(path: int, table: pa.Table) -> Iterator[bytes]:
    """An Arrow table of one path as blobs of bounded size."""
    if table.num_rows == 0:
        return
    pieces = max(1, -(-table.nbytes // MAX_BLOB_BYTES))
    size = max(1, -(-table.num_rows // pieces))
    for start in range(0, table.num_rows, size):
        sink = pa.BufferOutputStream()
        sink.write(b"A" + path.to_bytes(4, "little"))
        part = table.slice(start, size).combine_chunks()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
        yield sink.getvalue().to_pybytes()


def pack_control(kind: str, body: Any) -> bytes:
    """A control message as a blob."""
    return b"J" + json.dumps([kind, body], separators=(",", ":")).encode()


def unpack(blob: Any) -> tuple[int, pa.Table] | tuple[str, Any]:
    """What a blob holds: (path, table) or (kind, body)."""
    view = memoryview(blob)
    if view[0] == ord("J"):
        kind, body = json.loads(bytes(view[1:]))
        return kind, body
    if view[0] != ord("A"):
        raise ValueError(
            f"a blob starts with {bytes(view[:1])!r}: no table, and no control message"
        )
    path = int.from_bytes(view[1:5], "little")
    return path, pa.ipc.open_stream(pa.py_buffer(view[5:])).read_all()


def to_batches(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as the record batches a task yields, a few blobs each."""
    rows: list[Message] = []
    size = 0
    for message in messages:
        rows.append(message)
        size += len(message[1])
        if size > MAX_BLOB_BYTES:
            yield _batch(rows)
            rows, size = [], 0
    if rows:
        yield _batch(rows)


def _batch(rows: list[Message]) -> pa.RecordBatch:
    blobs = [blob for _, blob in rows]
    ends = np.cumsum([0, *map(len, blobs)])
    # One copy: a builder that grows with each blob would copy large ones several times.
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(blobs))]
    values = pa.Array.from_buffers(pa.binary(), len(blobs), buffers)
    routes = pa.array([route for route, _ in rows], pa.int32())
    return pa.record_batch([routes, values], schema=ARROW_SCHEMA)


def from_batches(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[int, pa.Table] | tuple[str, Any]]:
    """The contents of all blobs a task received."""
    for batch in batches:
        for value in batch.column("blob"):
            yield unpack(value.as_buffer())
