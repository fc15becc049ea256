"""Rows that nobody needs, in a scan that hands rows on: of them only what progress needs is read, and they make no rows.

These are rows that match what no path of any stream of the input needs, and that are on time by all of its streams: a row that
is late, without a time or implausible is read whole, so that whoever wants late rows gets them. Where footers tell that there
are none of these and how old the rows are, nothing but the columns that records test is read of the others; else one
more statement measures their times. Where punctuation tells progress, that statement hands over what progress reads of each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from slackwater.engine.lowlevel.apart import progress_fields
from slackwater.engine.lowlevel.source_task import SourceTask
from slackwater.engine.lowlevel.splits import Split, read_fields, row_count, scan_rows, scanned
from slackwater.engine.lowlevel.time_ranges import TimeRange, time_ranges
from slackwater.engine.paths.steps import ticks_sql
from slackwater.engine.plan.columns import read_by_progress
from slackwater.engine.progress.quality import quality_settings
from slackwater.kernels.column_engine import connect, scan_to_arrow
from slackwater.kernels.listed import Listed
from slackwater.kernels.translate import records as sql
from slackwater.kernels.types import arrow_schema
from slackwater.model.duck_sql import quote
from slackwater.model.names import BARE, ours, sub_query
from slackwater.model.node import Source
from slackwater.model.same import Same
from slackwater.semantics.lateness import has_time, is_beyond, is_late, usable_sql, verdict_sql
from slackwater.semantics.lateness import limit_or_end as end_of
from slackwater.semantics.partition_names import partition_name
from slackwater.semantics.patterns import Patterns
from slackwater.semantics.settings import guard_limit, resolve_source
from slackwater.semantics.summary import PartitionSummary, SourceSummary

_PART, _ROWS = ours("_part"), ours("_n")
CHUNK_ROWS = 1_000_000
_NAMED = ("string", "tinyint", "smallint", "int", "bigint")
"""Types of partitions that both engines call by the same name."""


@dataclass(frozen=True)
class GivenUp:
    """What need not be read whole of the splits of a task; ``spans`` are by stream, if footers tell all of its times.

    ``lists`` are those that ``match`` names: they must be there when it is run.
    """

    readers: Sequence[SourceTask]
    splits: Sequence[Split]
    match: str
    lists: Sequence[Listed]
    tested: frozenset[str]
    spans: Sequence[Sequence[TimeRange] | None]

    @classmethod
    def of(cls, readers: Sequence[SourceTask], splits: Sequence[Split]) -> GivenUp | None:
        """None if there is no feedback on the rows of the input, or its streams must see all rows."""
        first = readers[0]
        records = first.batch.guards.scans.get(first.source.input, ())
        if not records or not all(_may_lack_columns(r) for r in readers):
            return None
        there = frozenset(f.name for f in read_fields(first))
        made = _condition(first.source, there, Same(records))
        if made is None:
            return None
        match, lists, tested = made
        return cls(readers, splits, match, lists, tested, [_spans(r, splits) for r in readers])

    @contextmanager
    def others(self) -> Iterator[str]:
        """The statement that reads all other rows, valid in this context."""
        first = self.readers[0]
        with scanned(read_fields(first), self.splits, first.batch.settings.memory) as base:
            yield f"SELECT * FROM {sub_query(base)} WHERE NOT ({self._condition})"

    def tell(self, others: int) -> None:
        """Tell progress of the rows that were given up, and count them; so many ``others`` there were."""
        for reader, spans in zip(self.readers, self.spans, strict=True):
            if not _is_plain(reader.source):
                self._hand_over(reader)
                continue
            rows = self._from_footers(reader, spans, others) if spans else self._measured(reader)
            for path in reader.paths:
                guard = next((g for at, g in reader.batch.guards.of(path) if not at and g.soft), None)  # fmt: skip
                if guard is not None:
                    reader.delivery.drop(guard.place, rows)

    @property
    def _condition(self) -> str:
        """Which rows are given up; never null."""
        on_time = [
            f"coalesce({verdict} = 0, FALSE)"
            for reader, spans in zip(self.readers, self.spans, strict=True) if spans is None
            for verdict in _verdicts(reader)
        ]  # fmt: skip
        return " AND ".join([self.match, *dict.fromkeys(on_time)])

    def _from_footers(self, reader: SourceTask, spans: Sequence[TimeRange], others: int) -> int:
        rows = row_count(self.splits) - others
        if rows:
            _count_in(reader, "", rows, spans)
        return rows

    def _hand_over(self, reader: SourceTask) -> None:
        """Hand over the rows with the columns that progress reads, and null in the others: punctuation is among them."""
        source, batch = reader.source, reader.batch
        needed = read_by_progress(batch.plan, source, batch.states.get(source.name))
        there = read_fields(reader)
        read = [f for f in there if any(f.name in columns for columns in needed)]
        fields = [f for f in there if f in read or f.name in self.tested]
        schema, memory = arrow_schema(there), batch.settings.memory
        with scanned(fields, self.splits, memory) as base:
            items = ", ".join(quote(f.name) for f in read)
            text = f"SELECT {items} FROM {sub_query(base)} WHERE {self._condition}"
            for chunk in scan_rows(text, memory, CHUNK_ROWS):
                n = chunk.num_rows
                columns = [
                    chunk[f.name] if f.name in chunk.column_names else pa.nulls(n, f.type)
                    for f in schema
                ]
                table = pa.table(columns, names=schema.names)
                reader.rows(table.append_column(BARE, pa.array(np.ones(n, bool))))

    def _measured(self, reader: SourceTask) -> int:
        """By partition the rows with the extremes of their times, by a statement that reads no column besides."""
        first, source = self.readers[0], reader.source
        wanted = {f.name for r in self.readers for f in progress_fields(r.source, r.source.schema)}
        fields = [f for f in read_fields(first) if f.name in wanted | self.tested]
        times = [usable_sql(ticks_sql(t)) for t in source.times]
        items = [f"count(1) AS {_ROWS}"]
        for i, time in enumerate(times):
            items += [f"max({time}) AS {ours(f'_hi{i}')}", f"min({time}) AS {ours(f'_lo{i}')}"]
        part = "''" if source.partition is None else quote(source.partition)
        memory = reader.batch.settings.memory
        with scanned(fields, self.splits, memory) as base:
            text = f"SELECT {part} AS {_PART}, {', '.join(items)} FROM {sub_query(base)} WHERE {self._condition} GROUP BY ALL"
            found = scan_to_arrow(connect(memory), text, {})
        found = found.set_column(0, _PART, found[_PART].cast(pa.string()))
        total = 0
        for row in found.to_pylist():
            if not row[_ROWS]:
                continue  # no row at all is a group, too, where nothing but a constant tells groups apart
            total += row[_ROWS]
            spans = [TimeRange(row[ours(f"_lo{i}")], row[ours(f"_hi{i}")]) for i in range(len(times))]  # fmt: skip
            name = "" if source.partition is None else partition_name(row[_PART])
            _count_in(reader, name, row[_ROWS], spans)
        return total


@lru_cache(maxsize=16)
def _condition(
    source: Source, there: frozenset[str], records: Same[Patterns]
) -> tuple[str, tuple[Listed, ...], frozenset[str]] | None:
    """What is true for rows that match those records which test columns that are ``there``, the lists that its text names, and
    the columns tested. It is made once in each worker: from batch to batch records are mostly the same.
    """
    usable = tuple(r for r in records.it if sql.columns_of(source, (r,)) <= there)
    if not usable:
        return None
    match, lists = sql.listing(source, usable)
    return str(match.duck), lists, sql.columns_of(source, usable)


def _may_lack_columns(reader: SourceTask) -> bool:
    """Whether rows on time may be read apart from the others, and not whole.

    Where the order of rows tells something, or sums are made of their values, they must come among the others: of chunks that
    overlap in order, delays are not exact.
    """
    source = reader.source
    if source.order or quality_settings(source):
        return False
    late_rows = bool(reader.late_names) or source.late == "raise"
    return not (late_rows and any(s.patterns for s in reader.settings))


def _is_plain(source: Source) -> bool:
    """Whether progress needs nothing of rows on time but their number, times and partitions."""
    settings = resolve_source(source)
    if any(s.kind == "punctuated" or s.patterns for s in settings):
        return False
    if source.partition is None:
        return True
    return any(f.name == source.partition and f.type in _NAMED for f in source.schema)


def _verdicts(reader: SourceTask) -> list[str]:
    batch, source = reader.batch, reader.source
    return [
        verdict_sql(
            f"({usable_sql(ticks_sql(time))})",
            str(batch.bound(source.name, time.name)),
            str(end_of(guard_limit(setting, batch.now))),
        )
        for time, setting in zip(source.times, reader.settings, strict=True)
    ]


def _spans(reader: SourceTask, splits: Sequence[Split]) -> list[TimeRange] | None:
    """The range of each time, if footers tell that all rows are on time; None if they do not."""
    source = reader.source
    if source.partition is not None:
        return None
    found = []
    for time, setting, span in zip(
        source.times, reader.settings, time_ranges(source.times, source.schema, splits), strict=True
    ):
        if span is None or not (has_time(span.least) and has_time(span.greatest)):
            return None
        late = is_late(span.least, reader.batch.bound(source.name, time.name))
        if late or is_beyond(span.greatest, guard_limit(setting, reader.batch.now)):
            return None
        found.append(span)
    return found


def _count_in(reader: SourceTask, partition: str, rows: int, spans: Sequence[TimeRange]) -> None:
    """Add rows of a partition to what a reader knows of progress, with the range of each of their times."""
    columns = {
        time.name: {partition: PartitionSummary(rows, span.greatest, span.least, 0)}
        for time, span in zip(reader.source.times, spans, strict=True)
    }
    none = dict.fromkeys(columns, 0)
    reader.summaries.append(SourceSummary(columns, rows, none, none))
