"""Relations that are read in segments: of the rows of a version those that some rows need, segment by segment.

A segment is a row group of a file. What is kept of it is named by what it was made of, as files of whole relations are
(`relation_tables`), and nothing depends on what is kept. A task holds one decoded segment at a time, and of it only the rows whose
keys are asked for: so it makes no difference to a join that it sees a part of the table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from slackwater.engine.parquet.columns import bad_file, read_metadata
from slackwater.engine.parquet.row_groups import Bounds, RowGroup, row_groups
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.lookup import table_key
from slackwater.engine.paths.relation_files import (
    check_file,
    copy_damaged,
    empty_table,
    file_rows,
    group_rows,
    kept_name,
    segment_name,
    stored_names,
)
from slackwater.engine.paths.reports import Reads
from slackwater.engine.plan.relations import TableForm, stored_keys
from slackwater.engine.store.copies import CopyIndex, key_digest, read_index
from slackwater.engine.store.kept import KeptFiles, kept_files, kept_size
from slackwater.engine.store.versions import TableFile, read_version
from slackwater.errors import CheckpointError, ExecutionError
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


_indexes: OrderedDict[tuple[str, str, Relation], SegmentIndex] = OrderedDict()


def _index(batch: Batch, form: TableForm, version: str) -> SegmentIndex:
    place = (batch.root, version, form.relation)
    known = _indexes.get(place)
    if known is None:
        listed = read_version(batch.settings.storage, PurePath(batch.root), form.name, version)
        for file in listed.files:
            check_file(file, form.name, version)
        try:
            known = segment_index(form.relation, listed.files)
        except CheckpointError as error:
            raise copy_damaged(listed.files[0], error.message, form.name, version) from error
    _indexes[place] = known
    _indexes.move_to_end(place)
    while len(_indexes) > MOST_INDEXES:
        _indexes.popitem(last=False)
    return known


def segment_rows(
    batch: Batch, form: TableForm, keys: pa.Table, rows: NDArray[np.int64], reads: Reads
) -> pa.Table:
    """The rows of a relation that have one of ``keys``, and maybe others. ``rows`` says how many rows ask for each."""
    at = batch.relations[form.name]
    index = _index(batch, form, at.version)
    reads.rows += int(rows.sum())
    if not keys.num_rows or not index.segments:
        return empty_table(form)
    schema = empty_table(form).schema
    names = [table_key(i) for i in range(len(form.relation.key))]
    typed = pa.table([keys[i].cast(schema.field(n).type) for i, n in enumerate(names)], names)
    wanted = index.wanted(typed, rows)
    turn = f"{batch.id}-{batch.epoch}"
    kept = kept_files(batch.root, f"segments-{form.relation.name}", at.memory)
    if kept is not None:
        kept.begin(turn, lambda: lambda name, _: name in at.stay)
    parts = [empty_table(form)]
    asking = wanted.asking()
    with _Reader(batch, form, at.version, kept, reads) as reader:
        cold = []
        for i in np.flatnonzero(asking).tolist():
            segment = index.segments[i]
            if segment.is_empty:
                continue
            there = reader.found(segment, int(asking[i]))
            if there is None:
                cold.append(i)
            else:
                parts.append(wanted.met(i, there, names))
        # Meanwhile another task may have decoded what it could keep.
        for i in _in_turn(cold, kept, turn):
            made = reader.decoded(index.segments[i], int(asking[i]))
            parts.append(wanted.met(i, made, names))
    return pa.concat_tables(parts)


def _in_turn(cold: Sequence[int], kept: KeptFiles | None, turn: str) -> Sequence[int]:
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

    def __init__(
        self, batch: Batch, form: TableForm, version: str, kept: KeptFiles | None, reads: Reads
    ):
        self._batch, self._form, self._version = batch, form, version
        self._kept, self._reads = kept, reads
        self._stay = batch.relations[form.name].stay
        self._open = ExitStack()
        self._opened: dict[TableFile, tuple[pq.ParquetFile, list[str]] | None] = {}
        self._names: dict[TableFile, str] = {}

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def found(self, segment: Segment, asking: int) -> pa.Table | None:
        """The rows of a segment, for which ``asking`` rows ask, if an executor has kept them."""
        name = self._name(segment)
        data = None if self._kept is None else self._kept.find(name)
        if data is None:
            return None
        self._reads.hits += 1
        self._ask(name, asking, data.size)
        return pa.ipc.open_file(data).read_all()

    def decoded(self, segment: Segment, asking: int) -> pa.Table:
        """The rows of a segment, for which ``asking`` rows ask."""
        there = self.found(segment, asking)
        if there is not None:
            return there
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
        self._ask(name, asking, size)
        return rows

    def _name(self, segment: Segment) -> str:
        if segment.file not in self._names:
            self._names[segment.file] = kept_name(segment.file, self._form)
        return segment_name(self._names[segment.file], segment.first)

    def _ask(self, name: str, asking: int, size: int) -> None:
        rows, _ = self._reads.asked.get(name, (0, 0))
        self._reads.asked[name] = (rows + asking, kept_size(size))

    def _read(self, segment: Segment) -> pa.Table:
        file, form = segment.file, self._form
        check_file(file, form.name, self._version)
        opened = self._file(file)
        is_group = segment.number is not None
        memory = self._batch.settings.memory
        if opened is None or not is_group:
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
        if file.index is None:
            return bad_file(file.path, error)
        return copy_damaged(file, error, self._form.name, self._version)

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
