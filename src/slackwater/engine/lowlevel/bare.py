"""Rows of a DataFrame that nobody needs: they leave the JVM with what progress needs of them, and null in the place of the rest.

These are the rows that `given_up` leaves unread in files: they match what no path of any stream of the input needs, and are
on time by all of its streams. One that is late, without a time or implausible leaves whole, for whoever reads late rows, and
since no guard drops what is implausible. No row is left out and none moves, so progress is what it would be.

Values that take the same room as null on the way to Python stay: to put null there costs more than it saves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.engine.paths.batch import Batch
from slackwater.engine.plan.columns import read_by_progress
from slackwater.engine.plan.plan import Plan
from slackwater.engine.plan.reading import JvmPartials, RowsWithSteps
from slackwater.engine.progress.quality import quality_settings
from slackwater.kernels.translate import records as sql
from slackwater.model.join_times import leaves
from slackwater.model.names import BARE, SOURCE, ours
from slackwater.model.node import Late, Source
from slackwater.model.schema import Field
from slackwater.model.spark_sql import quoted
from slackwater.model.time import TimeColumn
from slackwater.semantics.lateness import late_sql, limit_or_end, usable_sql, verdict_sql
from slackwater.semantics.patterns import Pattern, Patterns, Test
from slackwater.semantics.settings import guard_limit, resolve_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NUMBERS = ours("_numbers")

LONGEST = 16_384
"""Characters of the longest condition: engines take seconds to read thousands of ranges. Tasks drop such rows all the same."""

FEWEST = 4
"""With fewer columns to take away, what Spark computes for each row and plans for each batch costs more than it saves."""

_AS_WIDE_AS_NULL = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "date", "timestamp",
)  # fmt: skip


@dataclass(frozen=True)
class Bare:
    """Which rows of an input are bare: the ``condition``, the columns that it ``reads``, and those that it takes from a row.

    ``numbers`` are what moves from batch to batch. In Spark's text each is an element of the array `NUMBERS`, at an
    index that is not constant, since a literal would be compiled anew (see `fused.Dialect.number`).
    """

    index: int
    condition: str
    reads: frozenset[str]
    taken: frozenset[str]
    numbers: tuple[int, ...]

    @classmethod
    def of(
        cls, batch: Batch, index: int, fields: Sequence[Field], *, duck: bool = False
    ) -> Bare | None:
        """None if no row is, or if nothing would be saved; ``fields`` are the columns that rows bring along."""
        plan = batch.plan
        sources = [s for s in plan.sources if s.input == index]
        records = batch.guards.scans.get(index, ())
        if not records or any(_must_be_whole(plan, s) for s in sources):
            return None
        there = {f.name for f in fields}
        usable = [r for r in records if sql.columns_of(sources[0], (r,)) <= there]
        needed = [c for s in sources for c in read_by_progress(plan, s, batch.states.get(s.name))]
        taken = frozenset(
            f.name for f in fields
            if not f.type.startswith(_AS_WIDE_AS_NULL) and not any(f.name in c for c in needed)
        )  # fmt: skip
        if not usable or len(taken) < FEWEST:
            return None
        text = _Text(index, duck)
        match = text.matching(sources[0], usable)
        on_time = dict.fromkeys(t for s in sources for t in text.on_time(batch, s))
        condition = " AND ".join([match, *on_time])
        if len(condition) > LONGEST:
            return None
        times = {leaf.name for s in sources for t in s.times for leaf in leaves(t)}
        reads = sql.columns_of(sources[0], tuple(usable)) | times
        return cls(index, condition, reads, taken, tuple(text.numbers))

    def marked(self, frame: DataFrame, places: Mapping[str, str]) -> DataFrame:
        """The rows with the column `BARE`, which may be there already; ``places`` has the column of each of the input's own."""
        from pyspark.sql import functions as F

        before = BARE if BARE in frame.columns else "FALSE"
        flag = f"CASE WHEN {SOURCE} = {self.index} THEN {self.condition} ELSE {before} END"
        others = [F.col(quoted(c)) for c in frame.columns if c != BARE]
        named = [F.col(quoted(places[name])).alias(name) for name in sorted(self.reads)]
        numbers = F.expr(f"array({', '.join(f'{n}L' for n in self.numbers)})").alias(NUMBERS)
        return frame.select("*", *named, numbers).select(*others, F.expr(flag).alias(BARE))


def emptied(
    frame: DataFrame, bare: Sequence[Bare], places: Mapping[int, Mapping[str, str]]
) -> DataFrame:
    """The rows, `BARE` marking which are, with null in place of what these do not keep; ``places`` as in `Bare.marked`, by input."""
    from pyspark.sql import functions as F

    taken = {b.index: {places[b.index][name] for name in b.taken} for b in bare}
    items = []
    for column in frame.columns:
        losing = [index for index, columns in taken.items() if column in columns]
        item = F.col(quoted(column))
        if losing:
            # What one input does not keep another may, in the same place.
            some = len(losing) < len(taken)
            own = f" AND {SOURCE} IN ({', '.join(map(str, losing))})" if some else ""
            item = F.expr(f"CASE WHEN NOT ({BARE}{own}) THEN {quoted(column)} END").alias(column)
        items.append(item)
    return frame.select(*items)


def _must_be_whole(plan: Plan, source: Source) -> bool:
    """Whether no row of a stream can be bare: what makes one late is not known yet, or steps of all rows tell a target."""
    reading, settings = plan.readings[source.input], resolve_source(source)
    if any(s.strict or s.patterns for s in settings):
        late_rows = any(isinstance(n, Late) and n.source is source for n in plan.nodes)
        if late_rows or source.late == "raise":
            return True
    rows = reading.otherwise if isinstance(reading, JvmPartials) else reading
    return isinstance(rows, RowsWithSteps) and bool(quality_settings(source))


class _Text:
    """Writes a condition for one of the engines, and collects the numbers that it is told apart from the text."""

    def __init__(self, index: int, duck: bool):
        self.index = index
        self.duck = duck
        self.numbers: list[int] = []

    def number(self, value: int) -> str:
        """A number that changes from batch to batch."""
        if self.duck:
            return str(value)
        self.numbers.append(value)
        # `SOURCE` is the number of the input in every row that this is evaluated for, but Spark does not know that.
        return f"{NUMBERS}[{SOURCE} + {len(self.numbers) - 1 - self.index}]"

    def matching(self, source: Source, records: Sequence[Pattern]) -> str:
        """What is true for rows with times that match a record. Limits of times may move with each batch, others stay."""
        times = {t.name: t for t in source.times}
        still = tuple(r for r in records if not any(c in times for c in r.columns))
        parts = [self._written(source, still)] if still else []
        for record in records:
            tests = [self._time(times[c], t) for c, t in record.tests if c in times]
            rest = Pattern(tuple((c, t) for c, t in record.tests if c not in times))
            if tests:
                own = [self._written(source, (rest,))] if rest.tests else []
                parts.append(f"({' AND '.join([*own, *tests])})")
        return f"({' OR '.join(parts)})"

    def on_time(self, batch: Batch, source: Source) -> list[str]:
        """That a row is on time, by each of the times of a stream."""
        return [
            f"coalesce({self._verdict(time, batch.bound(source.name, time.name), limit)} = 0, FALSE)"
            for time, setting in zip(source.times, resolve_source(source), strict=True)
            for limit in [limit_or_end(guard_limit(setting, batch.now))]
        ]

    def _verdict(self, time: TimeColumn, bound: int, limit: int) -> str:
        ticks = f"({usable_sql(sql.ticks(time, self.duck))})"
        return verdict_sql(ticks, self.number(bound), self.number(limit))

    def _written(self, source: Source, records: Patterns) -> str:
        match = sql.matching(source, records)
        return str(match.duck) if self.duck else match.sql

    def _time(self, time: TimeColumn, test: Test) -> str:
        ticks = sql.ticks(time, self.duck)
        spans = []
        for low, high in test.spans:
            ends = [f"NOT {late_sql(ticks, self.number(low))}"] if isinstance(low, int) else []
            ends += [late_sql(ticks, self.number(high))] if isinstance(high, int) else []
            spans.append(" AND ".join(ends) or f"{ticks} IS NOT NULL")
        return f"coalesce({' OR '.join(spans) or 'FALSE'}, FALSE)"
