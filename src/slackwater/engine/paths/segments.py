"""Relations that are read in segments: of the rows of a version those that some rows need, segment by segment.

A segment is a row group of a file. What is kept of it is named by what it was made of, as files of whole relations are
(`relation_tables`), and nothing depends on what is kept. A task holds one decoded segment at a time, and of it only the rows whose
keys are asked for: so it makes no difference to a join that it sees a part of the table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from slackwater.engine.parquet.columns import read_metadata
from slackwater.engine.parquet.row_groups import Bounds, RowGroup, row_groups
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.lookup import table_key
from slackwater.engine.paths.relation_files import (
    check_file,
    copy_damaged,
    empty_table,
    file_damaged,
    file_rows,
    group_rows,
    kept_name,
    of_relation,
    segment_name,
    stored_names,
)
from slackwater.engine.paths.reports import Reads
from slackwater.engine.plan.relations import TableForm, stored_keys
from slackwater.engine.store.copies import CopyIndex, key_digest, read_index
from slackwater.engine.store.kept import KeptFiles, kept_files, kept_size
from slackwater.engine.store.versions import TableFile, read_version
from slackwater.errors import CheckpointError, ExecutionError
from slackwater.kernels.cold_keys import first_in
from slackwater.kernels.key_search import FoundKeys, KeySearch
from slackwater.kernels.segments import KeyRange, WantedKeys
from slackwater.kernels.types import arrow_type
from slackwater.model.relation import Relation

MOST_INDEXES = 16
"""Lists of segments that a process holds on to, the latest."""


@dataclass(frozen=True)
class Segment:
    """Rows of a file, from ``first`` to before ``end``: its row group ``number``, if it has one. ``is_empty``: none of them has a key."""

    file: TableFile
    number: int | None
    first: int
    end: int
    is_empty: bool = False

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.end - self.first


@dataclass(frozen=True)
class SegmentIndex:
    """The segments of a version, and what is known of the keys in each: ``ranges`` by part of the key, or in a copy the one
    segment that has a key.
    """

    segments: tuple[Segment, ...]
    ranges: tuple[KeyRange, ...]
    search: KeySearch | None = None
    _names: dict[str, list[str]] = field(default_factory=dict, repr=False, compare=False)

    def names(self, form: TableForm) -> list[str]:
        """What each segment is called where it is kept in a form; a segment without a key has none."""
        known = self._names.get(form.digest)
        if known is None:
            files = {s.file: "" for s in self.segments}
            files = {file: kept_name(file, form) for file in files}
            known = [
                "" if s.is_empty else segment_name(files[s.file], s.first) for s in self.segments
            ]
            self._names[form.digest] = known
        return known

    def first_of(self, keys: pa.Table, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The first segment, of those that ``which`` marks, that may have each key; -1 if none may."""
        if self.search is None:
            return first_in(keys, self.ranges, which)
        found = self.search.segment_of(keys)
        return np.where((found >= 0) & which[found], found, -1)

    @property
    def rows(self) -> NDArray[np.int64]:
        """How many rows each has."""
        return np.array([s.rows for s in self.segments], np.int64)

    def wanted(self, keys: pa.Table, rows: NDArray[np.int64]) -> WantedKeys | FoundKeys:
        """Which segments some keys ask for."""
        if self.search is not None:
            return FoundKeys(keys, rows, self.search, len(self.segments))
        return WantedKeys(keys, rows, self.ranges)


def segment_index(relation: Relation, files: Sequence[TableFile]) -> SegmentIndex:
    """The segments of some files, from their footers."""
    keys = stored_keys(relation)
    if files and files[0].index is not None:
        copied = read_index(files[0].index)
        if copied.keyed == key_digest(relation, keys):
            return _of_copy(copied, files)
    fields = [f for f in keys if f is not None]
    segments: list[Segment] = []
    bounds: list[tuple[Bounds, ...]] = []
    for file in files:
        for group in row_groups(file.path, file.folders, fields):
            segments.append(Segment(file, group.number, group.first, group.end, group.is_empty))
            bounds.append(_by_key(group, [f is not None for f in keys]))
    types = {f.name: arrow_type(f.type) for f in relation.schema}
    ranges = []
    for i, name in enumerate(relation.key):
        pairs = [b[i] or (None, None) for b in bounds]
        least, greatest = (pa.array([p[side] for p in pairs], types[name]) for side in (0, 1))
        ranges.append(KeyRange(least, greatest))
    return SegmentIndex(tuple(segments), tuple(ranges))


def _of_copy(copied: CopyIndex, files: Sequence[TableFile]) -> SegmentIndex:
    """The segments of a copy, whose own index says exactly which keys each has."""
    names = ("file", "group", "begin", "end", "empty")
    rows = zip(*(copied.numbers(n).tolist() for n in names), strict=True)
    segments = tuple(
        Segment(files[at], number, first, end, is_empty)
        for at, number, first, end, is_empty in rows
    )
    with_keys = np.flatnonzero(~copied.numbers("empty").astype(bool))
    first, last = (copied.keys(end).take(pa.array(with_keys)) for end in ("first", "last"))
    return SegmentIndex(segments, (), KeySearch(first, last, with_keys))


def _by_key(group: RowGroup, stored: Sequence[bool]) -> tuple[Bounds, ...]:
    known = iter(group.bounds)
    return tuple(next(known) if is_stored else None for is_stored in stored)


_indexes: OrderedDict[tuple[str, str, str, Relation], SegmentIndex] = OrderedDict()


def _index(batch: Batch, form: TableForm, version: str) -> SegmentIndex:
    place = (batch.root, batch.plan.zone, version, form.relation)
    known = _indexes.get(place)
    if known is None:
        listed = read_version(batch.settings.storage, PurePath(batch.root), form.name, version)
        for file in listed.files:
            check_file(file, form.name, version)
        try:
            with of_relation(listed.files, form.name, version):
                known = segment_index(form.relation, listed.files)
        except CheckpointError as error:
            raise copy_damaged(listed.files[0], error.message, form.name, version) from error
    _indexes[place] = known
    _indexes.move_to_end(place)
    while len(_indexes) > MOST_INDEXES:
        _indexes.popitem(last=False)
    return known


@dataclass(frozen=True)
class Cold:
    """Keys of rows against the segments of a version that are not at hand: ``first`` is the first that may have each, -1 if
    none may, and ``names`` what segments are called.
    """

    names: list[str]
    first: NDArray[np.int64]


def cold_keys(batch: Batch, form: TableForm, version: str, keys: pa.Table, ready: Set[str]) -> Cold:
    """What the rows with ``keys``, which have no null, must wait for, if the segments ``ready`` are at hand."""
    index = _index(batch, form, version)
    names = index.names(form)
    which = np.array([n != "" and n not in ready for n in names], bool)
    return Cold(names, index.first_of(_typed(form, keys), which))


def asked_segments(batch: Batch, form: TableForm, version: str, keys: pa.Table) -> set[str]:
    """The names of the segments that may have one of ``keys``."""
    index = _index(batch, form, version)
    names = index.names(form)
    asking = index.wanted(_typed(form, keys), np.ones(keys.num_rows, np.int64)).asking()
    return {names[i] for i in np.flatnonzero(asking).tolist() if names[i]}


def _typed(form: TableForm, keys: pa.Table) -> pa.Table:
    """Keys in the types of the relation's, under the names that they have in its table."""
    schema = empty_table(form).schema
    names = [table_key(i) for i in range(len(form.relation.key))]
    return pa.table([keys[i].cast(schema.field(n).type) for i, n in enumerate(names)], names)


Asked = tuple[pa.Table, NDArray[np.int64]]
"""Keys, each once and without nulls, and how many rows ask for each."""


def segment_rows(
    batch: Batch, form: TableForm, keys: pa.Table, rows: NDArray[np.int64], reads: Reads
) -> pa.Table:
    """The rows of a relation that have one of ``keys``, and maybe others. ``rows`` says how many rows ask for each."""
    version = batch.relations[form.name].version
    return rows_of_versions(batch, form, {version: (keys, rows)}, reads)[version]


def rows_of_versions(
    batch: Batch, form: TableForm, asked: Mapping[str, Asked], reads: Reads
) -> dict[str, pa.Table]:
    """The rows of several versions that have the keys that are asked for in each. What they share is read once."""
    at = batch.relations[form.name]
    parts = {version: [empty_table(form)] for version in asked}
    names = [table_key(i) for i in range(len(form.relation.key))]
    uses: dict[str, list[_Use]] = {}
    for version, (keys, rows) in asked.items():
        index = _index(batch, form, version)
        reads.rows += int(rows.sum())
        if not keys.num_rows or not index.segments:
            continue
        wanted = index.wanted(_typed(form, keys), rows)
        called, asking = index.names(form), wanted.asking()
        for i in np.flatnonzero(asking).tolist():
            if called[i]:
                one = _Use(version, index.segments[i], i, int(asking[i]), wanted)
                uses.setdefault(called[i], []).append(one)
    turn = f"{batch.id}-{batch.epoch}"
    kept = kept_files(batch.root, f"segments-{form.relation.name}", at.memory)
    if kept is not None:
        kept.begin(turn, lambda: lambda name, _: name in at.stay)

    def take(users: Sequence[_Use], there: pa.Table) -> None:
        for use in users:
            parts[use.version].append(use.wanted.met(use.number, there, names))

    with _Reader(batch, form, kept, reads) as reader:
        cold = []
        for name, users in uses.items():
            there = reader.found(users)
            if there is None:
                cold.append(name)
            else:
                take(users, there)
        # Meanwhile another task may have decoded what it could keep.
        for name in _in_turn(cold, kept, turn):
            take(uses[name], reader.decoded(uses[name]))
    return {version: pa.concat_tables(tables) for version, tables in parts.items()}


@dataclass(frozen=True)
class _Use:
    """Rows of a version that ask for a segment, of which it is the ``number``: so many, with keys that are ``wanted``."""

    version: str
    segment: Segment
    number: int
    asking: int
    wanted: WantedKeys | FoundKeys


def _in_turn(cold: Sequence[str], kept: KeptFiles | None, turn: str) -> Sequence[str]:
    """The segments that a task has to decode, from where those that other tasks of the executor began with are far."""
    if kept is None or len(cold) < 2:
        return cold
    start = int(_spread(kept.number(turn)) * len(cold))
    return [*cold[start:], *cold[:start]]


def _spread(number: int) -> float:
    """Points in [0, 1), each far from those before it: 0, 1/2, 1/4, 3/4, 1/8, ...

    >>> [_spread(n) for n in range(5)]
    [0.0, 0.5, 0.25, 0.75, 0.125]
    """
    point, part = 0.0, 0.5
    while number:
        number, bit = divmod(number, 2)
        point += bit * part
        part /= 2
    return point


class _Reader:
    """Reads segments one after the other; files stay open in between."""

    def __init__(self, batch: Batch, form: TableForm, kept: KeptFiles | None, reads: Reads):
        self._batch, self._form, self._version = batch, form, ""
        self._kept, self._reads = kept, reads
        self._stay = batch.relations[form.name].stay
        self._open = ExitStack()
        self._opened: dict[TableFile, tuple[pq.ParquetFile, list[str]] | None] = {}
        self._names: dict[TableFile, str] = {}

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def found(self, users: Sequence[_Use]) -> pa.Table | None:
        """The rows of a segment, if an executor has kept them."""
        name = self._name(users[0].segment)
        data = None if self._kept is None else self._kept.find(name)
        if data is None:
            return None
        self._reads.hits += 1
        self._ask(name, users, data.size)
        return pa.ipc.open_file(data).read_all()

    def decoded(self, users: Sequence[_Use]) -> pa.Table:
        """The rows of a segment."""
        there = self.found(users)
        if there is not None:
            return there
        segment, self._version = users[0].segment, users[0].version
        self._reads.misses += 1
        rows = self._read(segment)
        name, size = self._name(segment), _file_size(rows)
        stays = name in self._stay
        if self._kept is not None and (stays or self._kept.has_room(size)):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
            may_go = (lambda other: other not in self._stay) if stays else None
            self._kept.keep_in_room(name, sink.getvalue(), may_go)
        self._ask(name, users, size)
        return rows

    def _name(self, segment: Segment) -> str:
        if segment.file not in self._names:
            self._names[segment.file] = kept_name(segment.file, self._form)
        return segment_name(self._names[segment.file], segment.first)

    def _ask(self, name: str, users: Sequence[_Use], size: int) -> None:
        rows, _ = self._reads.asked.get(name, (0, 0))
        self._reads.asked[name] = (rows + sum(u.asking for u in users), kept_size(size))

    def _read(self, segment: Segment) -> pa.Table:
        file, form = segment.file, self._form
        check_file(file, form.name, self._version)
        opened = self._file(file)
        is_group = segment.number is not None
        memory = self._batch.settings.memory
        if opened is None or not is_group:
            with of_relation([file], form.name, self._version):
                rows = file_rows(form, file, memory, (segment.first, segment.end))
        else:
            rows = self._group(segment, *opened)
        check_file(file, form.name, self._version)  # meanwhile it may have been replaced
        self._reads.files += 1
        whole = max(1, self._rows_of(file))
        self._reads.bytes += file.size * segment.rows // whole
        return rows

    def _file(self, file: TableFile) -> tuple[pq.ParquetFile, list[str]] | None:
        """A file whose columns can be taken as they are stored, with their names in it; None for others."""
        if file not in self._opened:
            copied = file.index is not None
            try:
                made = pq.ParquetFile(file.path, page_checksum_verification=copied)
                opened = self._open.enter_context(made)
            except (pa.ArrowException, OSError) as error:
                raise self._damaged(file, error) from error
            if copied:  # as it was written, to the type
                names: list[str] | None = [f.name for f in self._form.fields]
            else:
                names = stored_names(self._form, file, opened.schema_arrow)
            self._opened[file] = None if names is None else (opened, names)
        return self._opened[file]

    def _group(self, segment: Segment, opened: pq.ParquetFile, names: list[str]) -> pa.Table:
        try:
            raw = opened.read_row_group(segment.number, columns=names, use_threads=False)
            raw.validate(full=True)  # texts that are none, which the column engine refuses
        except pa.ArrowMemoryError:
            raise  # no fault of the file
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(segment.file, error) from error
        made = raw.select(names).rename_columns([f.name for f in self._form.fields])
        return group_rows(self._form, made, self._batch.settings.memory)

    def _damaged(self, file: TableFile, error: Exception) -> ExecutionError:
        check_file(file, self._form.name, self._version)  # meanwhile it may have been replaced
        return file_damaged(file, error, self._form.name, self._version)

    def _rows_of(self, file: TableFile) -> int:
        opened = self._opened[file]
        if opened is not None:
            return int(opened[0].metadata.num_rows)
        return int(read_metadata(file.path).num_rows)


def _file_size(rows: pa.Table) -> int:
    """The bytes of rows as a file; nothing is copied."""
    sink = pa.MockOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return int(sink.size())


def null_free(keys: pa.Table) -> pa.Table:
    """Rows without a null."""
    keep = pa.array(np.ones(keys.num_rows, bool))
    for column in keys.columns:
        keep = pc.and_(keep, pc.is_valid(column))
    return keys.filter(keep)
