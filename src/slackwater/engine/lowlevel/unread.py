"""Row groups that nobody needs: they are not opened, if their footer tells all that progress must know.

That is: all times are there, none late, none implausible, and the stream has no partitions, no order and no punctuation. A footer
has bounds of the values, not the values: what lies inside a record by its bounds matches it. It knows nothing of NaN, so for
a float a greatest value proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.parquet as pq

from slackwater.engine.lowlevel.splits import Split
from slackwater.engine.lowlevel.time_ranges import TimeRange
from slackwater.engine.parquet.columns import is_old_calendar, read_metadata
from slackwater.engine.parquet.damage import ROW_NUMBER
from slackwater.engine.parquet.folders import Folders
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.reports import SourceReport
from slackwater.engine.progress.quality import quality_settings
from slackwater.kernels.column_engine import connect
from slackwater.kernels.hulls import hulls
from slackwater.kernels.types import arrow_type
from slackwater.model.node import Source
from slackwater.model.same import Same
from slackwater.model.schema import Field
from slackwater.semantics.feedback import order
from slackwater.semantics.lateness import has_time, is_beyond, is_late
from slackwater.semantics.patterns import Pattern, Patterns, Test
from slackwater.semantics.settings import guard_limit, resolve_source
from slackwater.semantics.summary import PartitionSummary, SourceSummary

_FOOTERS = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "string")
"""Types of which a footer's values are those of the rows."""
_MANY = 16
"""So many records are looked at all at once: that takes as long as some ten one by one."""


@dataclass(frozen=True)
class Unread:
    """What is not read of the files of a batch: rows and bytes, what sources report of the rows, and what is left.

    ``dropped`` are the rows by source, ``spared`` the bytes: sources that read the same files have the same. ``kept`` has, for files of which a part is not read, the ranges of rows that are, with their bytes.
    """

    rows: int = 0
    bytes: int = 0
    reports: tuple[SourceReport, ...] = ()
    kept: Mapping[str, tuple[tuple[int, int, int], ...]] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    spared: Mapping[str, int] = field(default_factory=dict)

    def pieces(self, files: Mapping[str, Folders]) -> dict[str, list[tuple[int, Split]]]:
        """The row groups that are left of files of which a part is not read, each with its bytes."""
        return {
            path: [(size, Split(path, first, end, files[path])) for first, end, size in left]
            for path, left in self.kept.items()
        }


NOTHING = Unread()


@dataclass(frozen=True)
class _Group:
    """A row group: its rows from ``first`` to ``end``, its bytes, and what its columns hold."""

    first: int
    end: int
    bytes: int
    held: Mapping[str, Test]
    times: Mapping[str, TimeRange]


def can_tell(source: Source) -> bool:
    """Whether footers can tell what the progress of a source needs."""
    plain = not source.order and source.partition is None
    settings = resolve_source(source)
    known = all(s.kind != "punctuated" and not s.patterns for s in settings)
    return plain and known and not quality_settings(source)


def unread(batch: Batch, index: int, files: Mapping[str, Folders]) -> Unread:
    """What need not be read of the files of an input."""
    records = batch.guards.scans.get(index, ())
    sources = [s for s in batch.plan.sources if s.input == index]
    if not records or not all(map(can_tell, sources)):
        return NOTHING
    tested = hulls(Same(records)).columns
    fields = {f.name: f for f in sources[0].schema}
    rows = size = 0
    spans: dict[str, dict[str, TimeRange]] = {s.name: {} for s in sources}
    kept: dict[str, tuple[tuple[int, int, int], ...]] = {}
    limits = [_limits(batch, s) for s in sources]
    for path, folders in files.items():
        groups = list(_groups(path, folders, fields, tested, sources))
        split: dict[bool, list[_Group]] = {True: [], False: []}
        for g in groups:
            split[_is_gone(limits, records, g)].append(g)
        if not split[True]:
            continue
        kept[path] = tuple((g.first, g.end, g.bytes) for g in split[False])
        for g in split[True]:
            rows, size = rows + g.end - g.first, size + g.bytes
            for s in sources:
                for t in s.times:
                    spans[s.name][t.name] = _wider(spans[s.name].get(t.name), g.times[t.name])
    if not rows:
        return NOTHING
    reports = tuple(SourceReport(s.name, _summary(s, rows, spans[s.name])) for s in sources)
    names = [s.name for s in sources]
    return Unread(rows, size, reports, kept, dict.fromkeys(names, rows), dict.fromkeys(names, size))


def joined(parts: Sequence[Unread]) -> Unread:
    """What is not read of all inputs."""
    whole = NOTHING
    for part in parts:
        whole = replace(
            whole, rows=whole.rows + part.rows, bytes=whole.bytes + part.bytes,
            reports=(*whole.reports, *part.reports), kept={**whole.kept, **part.kept},
            dropped={**whole.dropped, **part.dropped}, spared={**whole.spared, **part.spared},
        )  # fmt: skip
    return whole


def _wider(one: TimeRange | None, other: TimeRange) -> TimeRange:
    if one is None:
        return other
    return TimeRange(min(one.least, other.least), max(one.greatest, other.greatest))


def _summary(source: Source, rows: int, times: Mapping[str, TimeRange]) -> SourceSummary:
    columns = {
        c: {"": PartitionSummary(rows, span.greatest, span.least, 0)} for c, span in times.items()
    }
    return SourceSummary(columns, rows, dict.fromkeys(columns, 0), dict.fromkeys(columns, 0))


_Limits = Sequence[tuple[str, int, int | None]]
"""Of each time of a stream its name, the bound in force, and the greatest time that is plausible."""


def _limits(batch: Batch, source: Source) -> _Limits:
    settings = resolve_source(source)
    return [
        (t.name, batch.bound(source.name, t.name), guard_limit(setting, batch.now))
        for t, setting in zip(source.times, settings, strict=True)
    ]


def _is_gone(limits: Sequence[_Limits], records: Patterns, group: _Group) -> bool:
    for each in limits:
        for name, bound, limit in each:
            span = group.times.get(name)
            if span is None or not (has_time(span.least) and has_time(span.greatest)):
                return False
            if is_late(span.least, bound) or is_beyond(span.greatest, limit):
                return False
    if len(records) < _MANY:
        return any(_is_within(group, r) for r in records)
    may = hulls(Same(records)).candidates(group.held)
    return any(_is_within(group, records[i]) for i in may)


def _is_within(group: _Group, record: Pattern) -> bool:
    return all(c in group.held and group.held[c].within(t) for c, t in record.tests)


def _groups(
    path: str,
    folders: Folders,
    fields: Mapping[str, Field],
    tested: frozenset[str],
    sources: Sequence[Source],
) -> Iterator[_Group]:
    footer = read_metadata(path)
    schema = footer.schema.to_arrow_schema()
    if any(n.lower() == ROW_NUMBER for n in schema.names) or is_old_calendar(footer):
        return  # the file is read whole
    fixed = {
        n: v for n, sql in folders if n in fields and (v := _folder(fields[n], sql)) is not None
    }
    times = {
        t.name for s in sources for t in s.times if t.kind in ("timestamp", "timestamp_ntz", "long")
    }
    wanted = (tested | times) - {n for n, _ in folders}
    places = {n: i for n in wanted if (i := _place(footer, schema, fields.get(n))) is not None}
    row = 0
    for i in range(footer.num_row_groups):
        group = footer.row_group(i)
        first, row = row, row + group.num_rows
        if not group.num_rows:
            continue
        size = sum(group.column(c).total_compressed_size for c in range(group.num_columns))
        held, spans = dict(fixed), {}
        for name, at in places.items():
            statistics = group.column(at).statistics
            test = _held(statistics, fields[name].type)
            if test is not None:
                held[name] = test
            if name in times and test is not None and not test.null:
                spans[name] = TimeRange(statistics.min_raw, statistics.max_raw)
        yield _Group(first, row, size, held, spans)


def _place(footer: pq.FileMetaData, schema: Any, column: Field | None) -> int | None:
    """The number of a plain column whose stored values are those that rows have; None if there is none."""
    if column is None or (column.type not in _FOOTERS and column.type not in order.FLOATS):
        return None
    alike = [n for n in schema.names if n.lower() == column.name.lower()]
    at = schema.get_field_index(column.name)
    if len(alike) != 1 or at < 0 or not schema.field(at).type.equals(arrow_type(column.type)):
        return None
    columns = [i for i in range(footer.num_columns) if footer.schema.column(i).path == column.name]
    return columns[0] if len(columns) == 1 else None


def _held(statistics: Any, type: str) -> Test | None:
    """Which values a column of a row group may hold; None if the footer does not tell."""
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count:
        return None
    null = statistics.null_count > 0
    if type in order.FLOATS:
        # NaN is above all, and no footer tells whether there is one.
        low = statistics.min
        return None if low != low else Test(((order.first_from(float(low), type), None),), null)
    if type == "string":
        try:
            low, high = statistics.min, statistics.max
        except UnicodeDecodeError:
            return None  # no text at all, or cut within a character
        if not isinstance(low, str) or not isinstance(high, str):
            return None
        return Test(((low, high + "\0"),), null)
    return Test(((statistics.min_raw, statistics.max_raw + 1),), null)


def _folder(column: Field, sql: str) -> Test | None:
    """The value that a folder's name gives a column; of times nothing is said."""
    if not order.is_testable(column.type) or column.type in order.TIMES:
        return None
    ((value,),) = connect().execute(f"SELECT {sql}").fetchall()
    try:
        code = order.code(value, column.type)
    except (TypeError, ValueError):
        return None
    return Test.among([code])
