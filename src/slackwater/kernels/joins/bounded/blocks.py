"""Block files: Arrow IPC files whose record batches can be read one at a time, by their place.

A run is written once, block by block. Each block's place (offset, length) and checksum are told to
the writer's caller, so that no footer is needed to read it, and a block can be read while its file is still being
written. What is read and how often the disk head would have to move is counted.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from slackwater.errors import CheckpointError
from slackwater.kernels.files import Files, Reader, Writer
from slackwater.kernels.kept import Kept, Located
from slackwater.kernels.room import room_for

__all__ = ["BlockStore", "Counts", "FileBlockStore", "Located", "RunFile"]

_MAGIC = 8  # "ARROW1" and padding


class RunFile(NamedTuple):
    """A finished file: what a manifest has to know of it."""

    name: str
    rows: int
    bytes: int
    crc: int


@dataclass
class Counts:
    """Disk work. A read that begins where the last one of the same store ended costs no seek.

    What is mapped because the executor had kept it (``kept_bytes``) is not read.
    """

    reads: int = 0
    read_bytes: int = 0
    kept_bytes: int = 0
    seeks: int = 0
    writes: int = 0
    written_bytes: int = 0


class BlockStore(Protocol):
    """What the join needs of a disk."""

    counts: Counts

    def append(self, kind: str, table: pa.Table, *, keep: bool = False) -> Located:
        """Write one block at the end of the open run of a kind (one per side and schema).

        With ``keep`` it will be asked for again, and need not be read then.
        """
        ...

    def read(self, at: Located, schema: pa.Schema, *, keep: bool = False) -> pa.Table:
        """One block. Nothing else of its file is read. ``keep`` as for `append`."""
        ...

    def release(self, at: Located) -> None:
        """A block need not be kept any longer; it stays on disk."""
        ...

    def finish(self) -> list[RunFile]:
        """Close the open runs, make them durable, and tell what has been written since the last call."""
        ...

    def close(self) -> None:
        """Let go of all files; runs that are not finished are worth nothing then."""
        ...


@dataclass
class _OpenRun:
    name: str
    file: Writer
    writer: pa.RecordBatchFileWriter
    schema: pa.Schema
    sink: _Summing
    rows: int = 0


@dataclass
class FileBlockStore:
    """Runs as files of a folder.

    Parameters
    ----------
    files
        The folder. A block may be read before its file is closed.
    name
        Gives a file name for a new run of a kind, never the same twice.
    before_run, after_run
        Called around the closing of each run, e.g. for failpoints.
    before_block
        Called before each block is written.
    kept
        What the executor keeps of the blocks; None: nothing.
    """

    files: Files
    name: Callable[[str], str] = field(default=lambda kind: f"{kind}-{os.urandom(6).hex()}.arrow")
    before_run: Callable[[], None] = field(default=lambda: None)
    after_run: Callable[[], None] = field(default=lambda: None)
    before_block: Callable[[], None] = field(default=lambda: None)
    kept: Kept | None = None
    counts: Counts = field(default_factory=Counts)
    _open: dict[str, _OpenRun] = field(default_factory=dict)
    _finished: list[RunFile] = field(default_factory=list)
    _reading: tuple[str, Reader] | None = None
    _head: tuple[str, int] = ("", -1)

    def append(self, kind: str, table: pa.Table, *, keep: bool = False) -> Located:
        """Write one block at the end of the open run of a kind."""
        run = self._open.get(kind)
        if run is not None and run.schema != table.schema:
            self._close(kind)
            run = None
        if run is None:
            with room_for("rows that a join keeps", self.files.path, table.nbytes):
                run = self._begin(kind, table.schema)
        batch = _as_batch(table)
        # The writer puts magic bytes and schema in front of the first block.
        offset = run.file.size or _MAGIC + run.schema.serialize().size
        run.sink.part_from = offset
        with room_for("rows that a join keeps", self.files.path, table.nbytes):
            self.before_block()
            run.writer.write_batch(batch)
            run.file.flush()
        length = run.file.size - offset
        run.rows += table.num_rows
        self.counts.writes += 1
        self.counts.written_bytes += length
        at = Located(run.name, offset, length, run.sink.part_crc)
        if keep and self.kept is not None:
            self.kept.put(at, batch.serialize())
        return at

    def read(self, at: Located, schema: pa.Schema, *, keep: bool = False) -> pa.Table:
        """One block. Nothing else of its file is read."""
        if keep and self.kept is not None:
            known = self.kept.get(at)
            if known is not None:
                self.counts.kept_bytes += at.length
                return _decoded(known, schema)
        data = self._checked(at)
        if keep and self.kept is not None:
            self.kept.put(at, data)
        return _decoded(data, schema)

    def release(self, at: Located) -> None:
        """A block need not be kept any longer."""
        if self.kept is not None:
            self.kept.drop(at)

    def _checked(self, at: Located) -> pa.Buffer:
        data = self._bytes(at)
        if len(data) != at.length or zlib.crc32(data) != at.crc:
            raise CheckpointError(
                "DAMAGED_FILE",
                f"state file '{at.run}' is damaged: the block at byte {at.offset} has {len(data)} of "
                f"{at.length} bytes, or another checksum",
                hint="restore the checkpoint from a backup, or start with a new checkpointLocation",
                path=at.run,
            )
        return pa.py_buffer(data)

    def finish(self) -> list[RunFile]:
        """Close the open runs, make them durable, and tell what has been written since the last call."""
        for kind in list(self._open):
            self._close(kind)
        self._stop_reading()
        done, self._finished = self._finished, []
        return done

    def close(self) -> None:
        """Let go of all files; runs that are not finished are worth nothing, and removed."""
        for run in self._open.values():
            run.file.abandon()
        self._open.clear()
        self._stop_reading()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading[1].close()
            self._reading = None
        self._head = ("", -1)

    def _begin(self, kind: str, schema: pa.Schema) -> _OpenRun:
        name = self.name(kind)
        file = self.files.writer(name)
        sink = _Summing(file)
        writer = pa.ipc.new_file(pa.PythonFile(sink, "w"), schema)
        run = _OpenRun(name, file, writer, schema, sink)
        self._open[kind] = run
        return run

    def _close(self, kind: str) -> None:
        run = self._open[kind]
        self.before_run()
        with room_for("rows that a join keeps", self.files.path, run.file.size):
            run.writer.close()
            run.file.close()
        del self._open[kind]
        self._finished.append(RunFile(run.name, run.rows, run.file.size, run.file.crc))
        self.after_run()

    def _bytes(self, at: Located) -> bytes:
        if self._reading is None or self._reading[0] != at.run:
            self._stop_reading()
            try:
                self._reading = (at.run, self.files.reader(at.run))
            except FileNotFoundError:
                return b""
        self.counts.seeks += self._head != (at.run, at.offset)
        data = self._reading[1].read(at.offset, at.length)
        self._head = (at.run, at.offset + at.length)
        self.counts.reads += 1
        self.counts.read_bytes += len(data)
        return data


class _Summing:
    """A file that sums up what goes into it, from ``part_from`` on."""

    closed = False

    def __init__(self, file: Writer) -> None:
        self._file = file
        self.part_crc = 0
        self.part_from = 0

    def write(self, data: bytes) -> int:
        if self._file.size == self.part_from:
            self.part_crc = 0
        self.part_crc = zlib.crc32(data, self.part_crc)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self._file.size

    def close(self) -> None:
        """The owner closes the file, after syncing it."""


def _decoded(data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([pa.ipc.read_record_batch(pa.ipc.read_message(data), schema)])


def _as_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if batches:
        return batches[0]
    return pa.RecordBatch.from_arrays(
        [pa.array([], type=f.type) for f in table.schema], schema=table.schema
    )
