"""What a low-level task gathers for a quality target, in the one pass over its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.relation_tables import relation_tables
from slackwater.engine.paths.reports import RelationReads
from slackwater.engine.paths.steps import carrying, relation
from slackwater.engine.plan.plan import Path
from slackwater.engine.plan.steps import Step
from slackwater.engine.progress.quality import Reader, quality_settings, readers
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.model.names import PASS, PLACE, ROWS, ours, sub_query
from slackwater.model.node import Source
from slackwater.semantics.lateness import Verdicts
from slackwater.semantics.limits import START
from slackwater.semantics.quality.gathered import MAX_GROUPS, Gathered, GatheredRows
from slackwater.semantics.quality.late_sums import LateSums
from slackwater.semantics.quality.measure import tally
from slackwater.semantics.quality.moments import Moments
from slackwater.semantics.quality.statistics import Bag, StreamStatistics, merged_bags
from slackwater.semantics.quality.strict import Feed
from slackwater.semantics.settings import BoundRule
from slackwater.semantics.window_ids import closed_by

Mask = NDArray[np.bool_]

_HASH = ours("_hash")

Value = TypeVar("Value")


@dataclass(frozen=True)
class UsableRows:
    """A chunk of rows: those whose time is ``usable``, and the rows of paths whose steps Spark has done (``ready``)."""

    table: pa.Table
    usable: Mask
    ready: Mapping[int, pa.Table] | None

    def lacks_steps(self, path: Path) -> bool:
        """Whether Spark must do steps of a path that it has not done."""
        done = self.ready is not None and path.id in self.ready
        return (path.behind_first if done else path).blocked_by is not None

    def along(self, path: Path) -> tuple[pa.Table, tuple[Step, ...], Mask]:
        """The rows of a path, the steps that are left to do, and which of the rows go along."""
        if self.ready is None or path.id not in self.ready:
            return self.table, path.steps, self.usable
        rows = self.ready[path.id]
        left = path.behind_first.steps
        return rows, left, self.usable & rows[PASS].to_numpy(zero_copy_only=False)


class Observed:
    """What has been observed of the chunk of rows at hand: streams that differ in their policy alone observe it once."""

    def __init__(self) -> None:
        self._chunk: tuple[int, int] | None = None
        self._known: list[tuple[Any, Any]] = []
        self._masks: list[Mask] = []

    def begin(self, chunk: tuple[int, int]) -> None:
        """Rows of the chunk of that number of an input come next; what is known of another one is of no use any more."""
        if chunk != self._chunk:
            self._chunk, self._known, self._masks = chunk, [], []

    def mask(self, mask: Mask) -> int:
        """A number for all masks of the chunk that are equal."""
        for i, known in enumerate(self._masks):
            if np.array_equal(known, mask):
                return i
        self._masks.append(mask)
        return len(self._masks) - 1

    def once(self, key: tuple[Any, ...], find: Callable[[], Value]) -> Value:
        """What was found under an equal key, or is found now."""
        for known, value in self._known:
            if known == key:
                return cast("Value", value)
        value = find()
        self._known.append((key, value))
        return value


class QualityRows:
    """One source in one task; empty where none of its columns has a target that needs rows."""

    def __init__(self, batch: Batch, source: Source, observed: Observed):
        self.batch = batch
        self.source = source
        self.observed = observed
        self.chunks = 0
        self.settings = [s for s in quality_settings(source) if not s.strict]
        self.readers = {s.column: readers(batch.plan, source, s.column) for s in self.settings}

    def gathered(
        self,
        table: pa.Table,
        data: Mask,
        codes: NDArray[np.int64],
        names: Sequence[str],
        judged: Sequence[Verdicts],
        ready: dict[int, pa.Table] | None,
    ) -> dict[str, Gathered]:
        """What one chunk of rows tells, by time column."""
        by_column = {}
        self.observed.begin((self.source.input, self.chunks))
        self.chunks += 1
        columns = [t.name for t in self.source.times]
        for setting in self.settings:
            verdict = judged[columns.index(setting.column)]
            usable = data & verdict.plausible
            granularity, edges = self._known(setting, names)
            ticks = verdict.ticks
            # Two streams whose keys are equal see the same rows with the same delays.
            which = (setting.column, self.source.partition, names, self.observed.mask(usable))
            delays = (*which, granularity, edges)
            bag = self.observed.once(
                ("bag", *delays), partial(_bag, edges, usable, codes, ticks, granularity)
            )
            clocks = np.array([e[-1] if e else START for e in edges], np.int64)[codes]
            chunk = UsableRows(table, usable, ready)
            rows = [
                self._rows(reader, setting, chunk, ticks, clocks, granularity, delays)
                for reader in self.readers[setting.column]
            ]
            by_column[setting.column] = Gathered(bag, tuple(rows))
        return by_column

    def _known(self, setting: BoundRule, names: Sequence[str]) -> tuple[int, list[list[int]]]:
        """The width of bins, and by partition the newest times after earlier batches."""
        assert setting.target is not None
        known = self.batch.quality(self.source.name, setting.column)
        if known is None or known.adaptation is None:
            return setting.target.granularity, [[] for _ in names]
        granularity = StreamStatistics.granularity_in(known.adaptation.statistics)
        return granularity, [known.adaptation.edges.get(name, []) for name in names]

    def _rows(
        self,
        reader: Reader,
        setting: BoundRule,
        chunk: UsableRows,
        ticks: NDArray[np.int64],
        clocks: NDArray[np.int64],
        granularity: int,
        delays: tuple[Any, ...],
    ) -> GatheredRows:
        window = reader.consumer.window
        way = (reader.path.steps, reader.values)
        bound = self.batch.bound(self.source.name, setting.column)
        times = ticks[chunk.usable]
        counted = {} if window is None else tally(times, closed_by(bound, window), window)
        seen = Moments.ones(len(times))
        if chunk.lacks_steps(reader.path):
            return GatheredRows(counted, (seen, seen, *[Moments()] * len(reader.values)))
        fed = self.observed.once(
            ("rows", *delays[:-2], *way), partial(feed, self.batch, reader, chunk)
        )
        values = [v[fed.passed] for v in fed.values]
        passed = Moments.ones(int(fed.passed.sum()))
        late = LateSums()
        if window is not None and setting.target is not None:
            at = clocks[chunk.usable][fed.passed]
            late = self.observed.once(
                ("late", *delays, *way, window),
                partial(LateSums.of, times[fed.passed], at, values, window, granularity),
            )
        groups = self._groups(reader, setting, chunk)
        moments = self.observed.once(
            ("moments", *delays[:-2], *way), lambda: [Moments.of(v) for v in values]
        )
        return GatheredRows(counted, (seen, passed, *moments), groups, late)

    def _groups(
        self, reader: Reader, setting: BoundRule, chunk: UsableRows
    ) -> dict[int, tuple[Moments, ...]]:
        """Moments of a sample of groups, where the error is that of each."""
        if setting.target is None or setting.target.per != "group" or not reader.keys:
            return {}
        rows, steps, kept = chunk.along(reader.path)
        rows = rows if kept.all() else rows.filter(pa.array(kept))
        base = relation(steps, f"SELECT * FROM {ROWS}")
        tables = relation_tables(self.batch, steps, {ROWS: rows}, RelationReads())
        key = f"hash({', '.join(reader.keys)})"
        return dict(self._moments({ROWS: rows, **tables}, base, reader.values, key))

    def _moments(
        self, tables: Mapping[str, pa.Table], base: str, values: Sequence[str], key: str
    ) -> list[tuple[int, tuple[Moments, ...]]]:
        """Moments of the rows and of each column of values by group, for those with the least hash."""
        items = ["count(*)"]
        for text in values:
            finite = f"FILTER (WHERE isfinite({text}))"
            items += [f"count({text}) {finite}", f"sum({text}) {finite}"]
            items.append(f"sum({text} * {text}) {finite}")
        named = ", ".join(f"{sql} AS {ours(f'_c{i}')}" for i, sql in enumerate(items))
        sql = f"SELECT {key} AS {_HASH}, {named} FROM {sub_query(base)} GROUP BY 1 ORDER BY 1"
        sql = f"{sql} LIMIT {MAX_GROUPS}"
        sums = sql_to_arrow(connect(self.batch.settings.memory), sql, tables)
        out = []
        for row in sums.to_pylist():
            numbers = [row[ours(f"_c{i}")] or 0 for i in range(len(items))]
            parts = [Moments.ones(int(numbers[0]))]
            for i in range(len(values)):
                n, total, squares = numbers[1 + 3 * i : 4 + 3 * i]
                parts.append(Moments(int(n), float(total), float(squares)))
            out.append((int(row[_HASH]), tuple(parts)))
        return out


def feed(batch: Batch, reader: Reader, chunk: UsableRows) -> Feed:
    """Which of the usable rows reach a consumer, and their values."""
    rows, steps, kept = chunk.along(reader.path)
    passed = np.zeros(rows.num_rows, bool)
    values = [np.full(rows.num_rows, np.nan) for _ in reader.values]
    rows = rows.append_column(PLACE, pa.array(np.arange(rows.num_rows)))
    base = relation(carrying(steps, PLACE), f"SELECT * FROM {ROWS}")
    items = [PLACE, *(f"{v} AS {ours(f'_v{i}')}" for i, v in enumerate(reader.values))]
    sql = f"SELECT {', '.join(items)} FROM {sub_query(base)}"
    rows = rows if kept.all() else rows.filter(pa.array(kept))
    tables = relation_tables(batch, steps, {ROWS: rows}, RelationReads())
    passing = sql_to_arrow(connect(batch.settings.memory), sql, {ROWS: rows, **tables})
    at = passing[PLACE].to_numpy()
    passed[at] = True
    for i, column in enumerate(values):
        column[at] = passing[ours(f"_v{i}")].to_numpy(zero_copy_only=False)
    return Feed(passed[chunk.usable], [v[chunk.usable] for v in values])


def _bag(
    edges: Sequence[list[int]],
    usable: Mask,
    codes: NDArray[np.int64],
    ticks: NDArray[np.int64],
    granularity: int,
) -> Bag | None:
    """Delays behind the newest times of each partition after earlier batches."""
    parts = []
    for i, mine in enumerate(edges):
        times = ticks[usable & (codes == i)] if len(edges) > 1 else ticks[usable]
        if len(times):
            parts.append(Bag.of(times, mine, granularity))
    return merged_bags(parts)
