"""Copies of relations on disk: a folder each, in the store of a relation.

A *store* is a directory that one relation of one query has for itself, as `OWNER` says. A copy is made in a folder of a name that begins
with `MAKING`, and gets its name when it is whole; so what a driver leaves that died meanwhile is never taken for one. It consists of
Parquet files whose row groups are its segments, of an index with the keys of each, and of `ABOUT`, which says what it was made of.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.store import failpoints
from slackwater.engine.store.files import checksum, damaged, seal, unseal
from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.storage import NewFile, Storage, renaming
from slackwater.engine.store.versions import Seen, TableFile, seen_file
from slackwater.errors import CheckpointError, SetupError
from slackwater.kernels.sorted_copy import Piece, span
from slackwater.kernels.types import arrow_type
from slackwater.model.relation import Relation
from slackwater.model.schema import Field

FORMAT = 1
MAKING = "_making-"
COPY = "copy-"
OWNER = "owner.json"
ABOUT = "about.json"
INDEX = "index.arrow"

FILE_BYTES = 128 << 20
"""A file of a copy that has so many bytes is closed."""


@dataclass(frozen=True)
class About:
    """What a copy was made of, and how: ``source`` tells what was there from what is there now, if that can be told.

    ``keyed`` says by which key it is sorted (`key_digest`), ``began`` when it began, by the query's clock; ``millis`` is how long it took.
    """

    source: str | None
    keyed: str
    began: int | None
    millis: int
    rows: int


def key_digest(relation: Relation, stored: Sequence[Field | None]) -> str:
    """A short name of a relation's key: which columns of the table it is, or how it is computed of them."""
    names = [None if f is None else f.name for f in stored]
    told = repr((relation.key, relation.changes)) if None in names else repr(names)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


class CopyWriter:
    """Writes the segments of one copy, within a context. It is whole after `end`.

    ``keys`` are the columns by which the rows come sorted; those that are no fields of the table are left out of the files.
    """

    def __init__(
        self,
        storage: Storage,
        folder: PurePath,
        schema: pa.Schema,
        keys: Sequence[str],
        types: Sequence[pa.DataType],
    ):
        self._storage, self._folder, self._schema = storage, folder, schema
        self._keys, self._types = list(keys), list(types)
        self._out: NewFile | None = None
        self._parquet: pq.ParquetWriter | None = None
        self._names: list[str] = []
        self._decoded: list[dict[str, int]] = []
        self._places: list[tuple[int, int, int, int, int, bool]] = []
        self._group = self._first = 0
        self._spans: dict[str, list[pa.Table]] = {w: [] for w in _ENDS}
        self.rows = 0

    def __enter__(self) -> CopyWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        if kind is None:
            self._close()
        elif self._out is not None:
            self._out.abandon()

    def add(self, piece: Piece) -> None:
        """A segment."""
        if self._out is not None and self._out.size >= FILE_BYTES:
            self._close()
        rows = piece.rows.select(self._schema.names)
        writer = self._writer()
        keys = span(piece.rows.select(self._keys))
        number, sizes = len(self._names) - 1, self._decoded[-1]
        first, end = self._first, self._first + rows.num_rows
        self._places.append((number, self._group, first, end, piece.size, keys is None))
        self._group, self._first = self._group + 1, end
        for at, which in enumerate(_ENDS):
            made = None if keys is None else keys[at].rename_columns(self._columns(which))
            self._spans[which].append(self._empty(which) if made is None else made)
        for name, column in zip(rows.column_names, rows.columns):
            sizes[name] = sizes.get(name, 0) + column.nbytes
        writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        self.rows += rows.num_rows

    def _columns(self, end: str) -> list[str]:
        return [f"{end}_{i}" for i in range(len(self._keys))]

    def _empty(self, end: str) -> pa.Table:
        """No keys: a row of nulls."""
        nulls = [pa.nulls(1, t) for t in self._types]
        return pa.table(nulls, self._columns(end))

    def _writer(self) -> pq.ParquetWriter:
        if self._parquet is None:
            self._names.append(f"part-{len(self._names):05d}.parquet")
            self._decoded.append({})
            self._group = self._first = 0
            out = self._out = self._storage.writer(self._folder / self._names[-1])
            self._parquet = pq.ParquetWriter(
                out, self._schema, compression="zstd", write_page_checksum=True
            )
        return self._parquet

    def _close(self) -> None:
        if self._parquet is not None and self._out is not None:
            self._parquet.close()
            self._out.close()
        self._parquet = self._out = None

    def end(self, about: Callable[[int], About]) -> None:
        """Write what is said of the files, behind the context; ``about`` is given the number of rows."""
        if not self._names:
            self._writer()  # a table without rows has a file without any
            self._close()
        columns = (
            dict(zip(_PLACES, zip(*self._places))) if self._places else dict.fromkeys(_PLACES, ())
        )
        table = pa.table({n: pa.array(v, t) for (n, v), t in zip(columns.items(), _PLACE_TYPES)})
        for end in _ENDS:
            schema = pa.schema(list(zip(self._columns(end), self._types)))
            spans = pa.concat_tables([schema.empty_table(), *self._spans[end]])
            for name in schema.names:
                table = table.append_column(name, spans[name])
        told = about(self.rows)
        marks = {"format": str(FORMAT), "keyed": told.keyed}
        plain, sink = table.replace_schema_metadata(marks), pa.BufferOutputStream()
        with pa.ipc.new_file(sink, plain.schema) as writer:
            writer.write_table(plain)
        body = sink.getvalue()
        sealed = body.to_pybytes() + checksum(body).to_bytes(_CRC, "little")
        self._storage.write(self._folder / INDEX, sealed)
        files = [{"name": n, "decoded": d} for n, d in zip(self._names, self._decoded)]
        for one in files:
            sizes = one["decoded"]
            assert isinstance(sizes, dict)
            one["decoded"] = {n: sizes.get(n, 0) for n in self._schema.names}
        document = {"format": FORMAT, "files": files, **vars(told)}
        self._storage.write(self._folder / ABOUT, seal(document, kind="copy"))
        self._storage.sync(self._folder)


_CRC = 4
_ENDS = ("first", "last")
_PLACES = ("file", "group", "begin", "end", "bytes", "empty")
_PLACE_TYPES = (pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.bool_())


@dataclass(frozen=True)
class CopyIndex:
    """The segments of a copy: the file of each by its number, row group, rows and bytes, and its first and last key."""

    keyed: str
    table: pa.Table

    def keys(self, end: str) -> pa.Table:
        """The first or the last keys of the segments; null where one has none."""
        names = [n for n in self.table.column_names if n.startswith(f"{end}_")]
        return self.table.select(names)

    def numbers(self, name: str) -> np.ndarray[Any, Any]:
        """A column of places."""
        return np.asarray(self.table[name])

    @property
    def largest(self) -> int:
        """What the largest segment takes in memory."""
        return int(max(self.numbers("bytes"), default=0))


def read_index(index: Seen) -> CopyIndex:
    """The index of a copy."""
    path, what = PurePath(index[0]), "index of a relation's copy"
    try:
        data = PRIVATE.read(path)
    except OSError as error:
        raise damaged(path, what, str(error.strerror)) from error
    body = data[:-_CRC]
    if int.from_bytes(data[-_CRC:], "little") != checksum(body):
        raise damaged(path, what, f"its checksum does not match ({len(data)} bytes)")
    table = pa.ipc.open_file(pa.py_buffer(body)).read_all()
    marks = table.schema.metadata or {}
    if marks.get(b"format") != str(FORMAT).encode():
        raise damaged(path, what, "another version of Slackwater wrote it")
    return CopyIndex(marks[b"keyed"].decode(), table)


@dataclass(frozen=True)
class Copy:
    """A whole copy: its files as a version lists them."""

    files: tuple[TableFile, ...]
    about: About


class Store:
    """The directory of a relation's copies."""

    def __init__(self, storage: Storage, path: PurePath, epoch: int):
        self._storage, self.path, self._epoch = storage, path, epoch

    def claim(self, relation: str, query: str) -> None:
        """Take the directory for a relation, and remove what dead drivers were making there."""
        owner = {"relation": relation, "query": query}
        try:
            self._storage.make_folder(self.path)
            there = self._storage.list(self.path)
            if OWNER not in there.files:
                if there.files or there.folders:
                    raise _taken(self.path, "has files of others")
                self._storage.write(self.path / OWNER, json.dumps(owner).encode())
        except OSError as error:
            raise SetupError(
                "NOT_WRITABLE",
                f"the store of relation '{relation}', '{self.path}', cannot be written: {error.strerror}",
                hint="give a store= that this user may create and write",
                path=str(self.path),
                relation=relation,
            ) from error
        try:
            known = json.loads(self._storage.read(self.path / OWNER))
        except ValueError:
            raise _taken(self.path, f"has a file {OWNER} that is none of ours") from None
        if known != owner:
            whose = f"relation '{known.get('relation')}'" if isinstance(known, dict) else "another"
            if isinstance(known, dict) and known.get("relation") == relation:
                whose = "another query, or of this one on another checkpoint"
            raise _taken(self.path, f"is that of {whose}")
        for name in there.folders:
            if name.startswith(MAKING):
                self._storage.delete_folder(self.path / name)

    def making(self) -> PurePath:
        """A new folder in which a copy is made."""
        folder = self.path / f"{MAKING}{self._epoch:06d}-{os.urandom(4).hex()}"
        self._storage.make_folder(folder)
        failpoints.hit("copy.begun")
        return folder

    def finished(self, folder: PurePath) -> Copy:
        """Give a copy that is whole its name."""
        failpoints.hit("copy.written")
        target = self.path / f"{COPY}{folder.name.removeprefix(MAKING)}"
        renaming(self._storage).rename(folder, target)
        self._storage.sync(self.path)
        failpoints.hit("copy.finished")
        return read_copy(self._storage, target)

    def forget(self, folder: PurePath) -> None:
        """Remove a copy that was not finished."""
        self._storage.delete_folder(folder)

    @property
    def count(self) -> int:
        """How many copies there are."""
        return sum(n.startswith(COPY) for n in self._storage.list(self.path).folders)

    def sweep(self, needed: set[PurePath]) -> None:
        """Remove all copies but those in ``needed`` folders."""
        for name in self._storage.list(self.path).folders:
            if name.startswith(COPY) and self.path / name not in needed:
                failpoints.hit("copy.swept")
                self._storage.delete_folder(self.path / name)


def _taken(path: PurePath, why: str) -> SetupError:
    return SetupError(
        "STORE_TAKEN",
        f"the store '{path}' {why}",
        hint="give each relation of each query a store= of its own, a directory that is new or empty; the store of a checkpoint "
        "that was removed can be removed as well",
        path=str(path),
    )


def read_copy(storage: Storage, folder: PurePath) -> Copy:
    """A copy that is whole."""
    told = unseal(storage, folder / ABOUT, what="description of a copy", kind="copy")
    index = seen_file(folder / INDEX)
    files = tuple(
        TableFile(*seen_file(folder / one["name"]), (), dict(one["decoded"]), index)
        for one in told["files"]
    )
    names = ("source", "keyed", "began", "millis", "rows")
    return Copy(files, About(**{n: told[n] for n in names}))


def copy_of(storage: Storage, files: Sequence[TableFile]) -> About | None:
    """What is said of the copy that a version lists; None if it is none, or gone."""
    if not files or files[0].index is None:
        return None
    try:
        return read_copy(storage, PurePath(files[0].path).parent).about
    except (CheckpointError, OSError):
        return None


def folder_of(files: Sequence[TableFile]) -> PurePath | None:
    """The folder of the copy that a version lists, if it is one."""
    return PurePath(files[0].path).parent if files and files[0].index is not None else None


def key_types(relation: Relation) -> list[pa.DataType]:
    """The types of a relation's key."""
    types = {f.name: f.type for f in relation.schema}
    return [arrow_type(types[k]) for k in relation.key]
