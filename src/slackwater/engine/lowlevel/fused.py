"""One pass from raw rows to partial aggregates and the summary, where a source feeds one aggregate only.

The same query text in two dialects: for the column engine over files, and for Spark's own partial
aggregation over a DataFrame. Rows that a filter drops still tell progress: they fall into the group whose
pane is null, of which only the measures (counts, newest and oldest times) are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.lowlevel.source_task import SourceTask
from slackwater.engine.lowlevel.time_ranges import TimeRange
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.lookup import FIRST, equal, further, left_sql, table_key
from slackwater.engine.paths.reports import Reads
from slackwater.engine.paths.steps import ticks_sql
from slackwater.engine.plan.guards import NO_GUARDS, Guards
from slackwater.engine.plan.plan import Operator, Path, Plan
from slackwater.engine.plan.steps import (
    FilterStep,
    GuardStep,
    LookupStep,
    PaceStep,
    ProjectStep,
    unknown_step,
)
from slackwater.kernels.aggregates import partials
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.model.aggregate import Primitive
from slackwater.model.duck_sql import quote
from slackwater.model.join import is_existence
from slackwater.model.names import PASS, SOURCE, key, ours, sub_query
from slackwater.model.node import Aggregate, Source
from slackwater.model.schema import Expr
from slackwater.model.spark_sql import quoted
from slackwater.model.time import TimeColumn
from slackwater.semantics.lateness import (
    FUTURE,
    LATE,
    enters_sql,
    has_time,
    is_beyond,
    is_late,
    late_sql,
    limit_or_end,
    usable_sql,
    verdict_sql,
)
from slackwater.semantics.partition_names import partition_name
from slackwater.semantics.settings import BoundRule, guard_limit, resolve_source
from slackwater.semantics.summary import PartitionSummary, SourceSummary, merge_partition

PART = ours("_part")
GONE = ours("_gone")
"""Which guard of feedback dropped a row, counted from 1; 0 if none did."""
ONCE = ours("_once")
"""Whether a row is the first of those that a row of the source has become, where a relation may have several partners."""

NEEDS_OLDEST = ("max_delay",)
"""Kinds of policies that need to know the oldest time of a batch."""


@dataclass(frozen=True)
class Fused:
    """The only path of a source, into an aggregate with panes."""

    source: Source
    path: Path
    operator: Operator
    settings: tuple[BoundRule, ...]

    @classmethod
    def of(cls, plan: Plan, path: int, guards: Guards = NO_GUARDS) -> Fused:
        """From the path that a reading names."""
        way = guards.guarded(plan.path(path), moving=False)
        source, operator = plan.node(way.producer), plan.operator(way.consumer)
        assert isinstance(source, Source) and operator is not None
        return cls(source, way, operator, resolve_source(source))

    @property
    def guards(self) -> list[GuardStep]:
        """The guards of feedback on its path."""
        return [s for s in self.path.steps if isinstance(s, GuardStep)]

    @property
    def paces(self) -> list[PaceStep]:
        """The paces on its path."""
        return [s for s in self.path.steps if isinstance(s, PaceStep)]

    @property
    def counted(self) -> list[GuardStep | PaceStep]:
        """The steps whose dropped rows are counted, in the order of the path."""
        return [s for s in self.path.steps if isinstance(s, GuardStep | PaceStep)]


def marks(count: int) -> list[int]:
    """What stands in Spark's text for so many `numbers`: an array that nobody else writes, as the ends of int64 are."""
    return [0x5357_6D61_726B_0000 + i for i in range(count)]


def array_sql(values: Sequence[int]) -> str:
    """An array in Spark SQL."""
    return f"array({', '.join(f'{v}L' for v in values)})"


class Dialect:
    """How the two engines spell what the fused query needs."""

    def __init__(self, duck: bool, source: int = 0):
        self.duck = duck
        self.source = source

    def name(self, name: str) -> str:
        """A quoted column name."""
        return quote(name) if self.duck else quoted(name)

    def text(self, expr: Expr) -> str:
        """An expression."""
        return str(expr.duck) if self.duck else expr.sql

    def ticks(self, time: TimeColumn) -> str:
        """Ticks of a progressing column."""
        if self.duck:
            return ticks_sql(time)
        name = self.name(time.name)
        return f"CAST({name} AS BIGINT)" if time.kind == "long" else f"unix_micros({name})"

    def number(self, values: Sequence[int], at: int) -> str:
        """A number that changes from batch to batch.

        Spark would put a literal into generated code and compile it anew; an element of an array, at an
        index that is not constant, stays data. (`SOURCE` is the source's number in every row, but
        Spark does not know that; a product with 0 it would simplify.) Spark's text has `marks` for the numbers, so that
        it is the same in each batch.
        """
        if self.duck:
            return str(values[at])
        return f"{array_sql(marks(len(values)))}[{SOURCE} + {at - self.source}]"

    def without(self, column: str) -> str:
        """All columns but one."""
        return f"* EXCLUDE ({column})" if self.duck else f"* EXCEPT ({column})"


def query(
    batch: Batch,
    fused: Fused,
    base: str,
    dialect: Dialect,
    ranges: Sequence[TimeRange | None] | None = None,
    *,
    measured: bool = True,
) -> tuple[list[str], list[str], str]:
    """(group columns, aggregate columns, relation) of the fused query, as SQL items.

    Group columns: keys, pane (null: the row only counts), the source's partition, and per time column a
    verdict (`lateness.verdict_sql`), so that the counts of the groups are the counts of the verdicts. ``ranges`` is what is known of each time column before the scan.
    Without ``measured`` the rows are only counted: their times are measured elsewhere.
    """
    node, spec = fused.operator.node, fused.operator.aggregation
    assert isinstance(node, Aggregate)
    source, path = fused.source, fused.path
    at = next(i for i, t in enumerate(source.times) if t.name == path.time)
    picky = path.has_filter or source.late != "admit"
    ticks = _ticks(at) if not path.shift else f"({_ticks(at)} + {path.shift})"
    if picky:
        ticks = f"CASE WHEN {PASS} THEN {ticks} END"
    groups = [
        f"{_guard(dialect.text(k.expr), path.has_filter)} AS {key(i)}"
        for i, k in enumerate(node.keys)
    ]
    known = ranges[at] if ranges is not None else None
    least = None if known is None else known.least + path.shift
    groups.append(
        f"{aggregate.pane_sql(spec, ticks, duck=dialect.duck, least=least)} AS {ours('_pane')}"
    )
    groups += _kinds(source)
    items: list[str] = []
    for primitive in spec.primitives:
        guarded = _guarded(primitive, path.has_filter)
        if dialect.duck:
            items.extend(partials.duck_partials(guarded))
        else:
            counts = _counts_of_all(fused, guarded)
            items.extend(
                f"{'count(1)' if sql in counts else sql} AS {ours(name)}"
                for name, sql in partials.spark_partials(guarded) or ()
            )
    multiplies = any(not is_existence(s.how) for s in path.lookups)
    counted = f"count(1) FILTER (WHERE {ONCE})" if multiplies else "count(1)"
    items.append(f"{counted} AS {ours('_n')}")
    if measured:
        items += _extremes(batch, fused, ranges or ())
    first = f" AND {ONCE}" if multiplies else ""
    for n, step in enumerate(path.lookups):
        if step.counts:
            items.append(f"count(CASE WHEN {_lost(n)}{first} THEN 1 END) AS {_lost(n)}")
    for n, _ in enumerate(fused.counted, 1):
        items.append(f"count(CASE WHEN {GONE} = {n} THEN 1 END) AS {ours(f'_gone{n}')}")
    whole = ranges if ranges is not None else [None] * len(source.times)
    return groups, items, _relation(batch, fused, base, dialect, at if picky else None, whole)


def measures_sql(batch: Batch, fused: Fused, base: str, ranges: Sequence[TimeRange | None]) -> str:
    """The statement for the column engine that measures rows and reduces none: by partition and verdicts, what `_summary` takes.

    Of ``base`` it reads times and partitions alone.
    """
    bare = replace(fused, path=replace(fused.path, steps=()))
    relation = _relation(batch, bare, base, Dialect(duck=True), None, ranges)
    items = [f"count(1) AS {ours('_n')}", *_extremes(batch, bare, ranges)]
    return f"SELECT {', '.join([*_kinds(fused.source), *items])} FROM {sub_query(relation)} GROUP BY ALL"


def _kinds(source: Source) -> list[str]:
    """The columns by which measures are told apart: the partition, and the verdict on each time."""
    part = [] if source.partition is None else [f"{PART} AS {PART}"]
    return part + [f"{_judged(i)} AS {ours(f'_verdict{i}')}" for i in range(len(source.times))]


def _extremes(batch: Batch, fused: Fused, ranges: Sequence[TimeRange | None]) -> list[str]:
    """The newest and, where it is needed, the oldest times, of columns of which no footer tells them."""
    items = []
    footers = times_of_footers(batch, fused, ranges)
    for i, setting in enumerate(fused.settings):
        if i not in footers:
            items.append(f"max({_ticks(i)}) AS {ours(f'_hi{i}')}")
            if setting.kind in NEEDS_OLDEST:
                items.append(f"min({_ticks(i)}) AS {ours(f'_lo{i}')}")
    return items


def _counts_of_all(fused: Fused, primitive: Primitive) -> set[str]:
    """Counts of values that are never null, which are those of the rows: Spark then counts once.

    Spark itself cannot know: beside other inputs, all columns of the united DataFrame may be null.
    """
    if fused.path.steps:
        return set()
    never = {quoted(f.name) for f in fused.source.schema if not f.nullable}
    return {f"count({a.sql})" for a in primitive.args if a.sql in never}


def times_of_footers(
    batch: Batch, fused: Fused, ranges: Sequence[TimeRange | None]
) -> dict[int, tuple[int, int]]:
    """Time columns whose oldest and newest plausible times are known before the scan, and these; not by partition."""
    if fused.source.partition is not None:
        return {}
    limits = numbers_of(batch, fused)[len(fused.source.times) :]
    return {
        i: (known.least, known.greatest)
        for i, (known, limit) in enumerate(zip(ranges, limits, strict=False))
        if known is not None and _usable(known) and not is_beyond(known.greatest, limit)
    }


def _relation(
    batch: Batch,
    fused: Fused,
    base: str,
    dialect: Dialect,
    passing: int | None,
    ranges: Sequence[TimeRange | None],
) -> str:
    """The rows of ``base`` through the path's steps, with columns of ours carried along.

    ``passing`` is the time column that decides whether a row may pass at all, if some may not.
    """
    source = fused.source
    numbers = numbers_of(batch, fused)
    times = range(len(source.times))
    items = [
        f"{dialect.ticks(t) if _usable(known) else usable_sql(dialect.ticks(t))} AS {_ticks(i)}"
        for i, (t, known) in enumerate(zip(source.times, ranges, strict=True))
    ]
    carried = [_ticks(i) for i in times] + [_judged(i) for i in times]
    if source.partition is not None:
        kind = "VARCHAR" if dialect.duck else "STRING"
        column = dialect.name(source.partition)
        items.append(f"CAST({column} AS {kind}) AS {PART}")
        carried.append(PART)
    if not dialect.duck:
        carried.append(SOURCE)
    sql = f"SELECT *, {', '.join(items)} FROM {sub_query(base)}"
    verdicts = [
        f"{_verdict(dialect, numbers, i, len(times), ranges[i], decides=i == passing or bool(fused.guards))} AS {_judged(i)}"
        for i in times
    ]
    sql = f"SELECT *, {', '.join(verdicts)} FROM {sub_query(sql)}"
    if passing is not None:
        passes = enters_sql(_judged(passing), source.late)
        sql = f"SELECT *, {passes} AS {PASS} FROM {sub_query(sql)}"
        carried.append(PASS)
    if fused.counted:
        sql = f"SELECT *, 0 AS {GONE} FROM {sub_query(sql)}"
        carried.append(GONE)
    filtered, guards, paces, joins = False, 0, 0, 0
    for step in fused.path.steps:
        match step:
            case GuardStep():
                guards += 1
                # A row whose time is not plausible is spared: nobody could say for how long it would be missed.
                near = [
                    f"coalesce({_judged(i)} NOT IN ({FUTURE}, {LATE + FUTURE}), TRUE)"
                    for i in times
                ]
                gone = f"CASE WHEN {PASS} THEN {dialect.text(step.match)} AND {' AND '.join(near)} ELSE FALSE END"
                items = [
                    f"{PASS} AND NOT ({gone}) AS {PASS}",
                    f"CASE WHEN {gone} THEN {guards} ELSE {GONE} END AS {GONE}",
                ]
                sql = f"SELECT {dialect.without(f'{PASS}, {GONE}')}, {', '.join(items)} FROM {sub_query(sql)}"
                filtered = True
            case PaceStep():
                guards, paces = guards + 1, paces + 1
                number = dialect.number(numbers, 2 * len(times) + paces - 1)
                passes = f"CASE WHEN {PASS} THEN {step.passes(dialect.ticks(step.time), number)} ELSE FALSE END"
                items = [
                    f"{passes} AS {PASS}",
                    f"CASE WHEN {PASS} AND NOT ({passes}) THEN {guards} ELSE {GONE} END AS {GONE}",
                ]
                sql = f"SELECT {dialect.without(f'{PASS}, {GONE}')}, {', '.join(items)} FROM {sub_query(sql)}"
                filtered = True
            case FilterStep():
                # A later filter must not be evaluated for rows that an earlier one dropped.
                test = f"coalesce({dialect.text(step.condition)}, FALSE)"
                test = f"CASE WHEN {PASS} THEN {test} ELSE FALSE END"
                sql = f"SELECT {dialect.without(PASS)}, {test} AS {PASS} FROM {sub_query(sql)}"
                filtered = True
            case ProjectStep():
                columns = [
                    f"{_guard(dialect.text(c.expr), filtered)} AS {dialect.name(c.name)}"
                    for c in step.columns
                ]
                sql = f"SELECT {', '.join([*columns, *carried])} FROM {sub_query(sql)}"
            case LookupStep():
                lost = _lost(joins) if step.counts else None
                sql = _met(step, sql, carried, passing is not None, filtered, lost)
                if not is_existence(step.how) and ONCE not in carried:
                    carried.append(ONCE)
                carried += [] if lost is None else [lost]
                joins += 1
                filtered = filtered or step.drops_rows
            case _:
                raise unknown_step(step)
    return sql


def _met(
    step: LookupStep,
    rows: str,
    carried: Sequence[str],
    passing: bool,
    filtered: bool,
    lost: str | None,
) -> str:
    """The rows after a join with a relation: none is left out, since each tells progress; `PASS` says which would be.

    ``lost`` is a column that says which have no partner.
    """
    guard = PASS if passing else None
    taken = [c for c in carried if c not in (PASS, ONCE)]
    along = "".join(f", {c}" for c in carried)
    left = f"({left_sql(step, sub_query(rows), guard, along)}) AS {ours('_l')}"
    made = [f"{_guard(str(c.expr.duck), filtered)} AS {quote(c.name)}" for c in step.columns]
    test = further(step)
    condition = equal(step) if test is None else f"{equal(step)} AND {test}"
    is_there = f"EXISTS (SELECT 1 FROM {step.table} WHERE {condition})"
    if lost is not None:
        # Of several partners any may be the one that satisfies a condition.
        has = (
            is_there
            if is_existence(step.how) or test is not None
            else f"{table_key(0)} IS NOT NULL"
        )
        made.append(f"{f'{PASS} AND ' if passing else ''}NOT ({has}) AS {lost}")
    if is_existence(step.how):
        wanted = is_there if step.how == "left_semi" else f"NOT {is_there}"
        made.append(f"CASE WHEN {PASS} THEN {wanted} ELSE FALSE END AS {PASS}")
        taken += [c for c in carried if c == ONCE]
        return f"SELECT {', '.join([*made, *taken])} FROM {left}"
    first = f"coalesce({FIRST}, TRUE)"
    made.append(f"{f'({ONCE} AND {first})' if ONCE in carried else first} AS {ONCE}")
    if step.how == "inner":
        met = f"{table_key(0)} IS NOT NULL" + ("" if test is None else f" AND {test}")
        made.append(f"CASE WHEN {PASS} THEN {met} ELSE FALSE END AS {PASS}")
    elif passing:
        taken.append(PASS)
    joined = f"{left} LEFT JOIN {step.table} ON {equal(step)}"
    return f"SELECT {', '.join([*made, *taken])} FROM {joined}"


def _lost(n: int) -> str:
    """The column that says which rows have no partner in join ``n`` of the path."""
    return ours(f"_lost{n}")


def _ticks(i: int) -> str:
    """The column of the ticks of time column ``i``."""
    return ours(f"_t{i}")


def _judged(i: int) -> str:
    """The column of the verdicts on time column ``i``."""
    return ours(f"_v{i}")


def _usable(known: TimeRange | None) -> bool:
    return known is not None and has_time(known.least) and has_time(known.greatest)


def _verdict(
    dialect: Dialect,
    numbers: Sequence[int],
    i: int,
    times: int,
    known: TimeRange | None,
    *,
    decides: bool,
) -> str:
    """The verdict on time column ``i``; what need not be asked is not, which a scan of millions of rows feels."""
    bound, limit = dialect.number(numbers, i), dialect.number(numbers, times + i)
    if decides or known is None or not _usable(known):
        return verdict_sql(_ticks(i), bound, limit)
    if is_beyond(known.greatest, numbers[times + i]):
        return verdict_sql(_ticks(i), bound, limit)
    # As a boolean, which is cheaper to group by; `deliver_fused` reads it as 0 or `LATE`.
    return late_sql(_ticks(i), bound) if is_late(known.least, numbers[i]) else "FALSE"


def numbers_of(batch: Batch, fused: Fused) -> list[int]:
    """Bounds in force, then plausible limits, of the source's time columns, then limits of paces: what changes from batch to batch."""
    bounds = [batch.bound(fused.source.name, s.column) for s in fused.settings]
    limits = [guard_limit(s, batch.now) for s in fused.settings]
    return [*bounds, *(limit_or_end(v) for v in limits), *(s.limit for s in fused.paces)]


def deliver_fused(
    task: SourceTask,
    fused: Fused,
    table: pa.Table,
    *,
    from_spark: bool,
    measures: pa.Table | None = None,
) -> None:
    """Summarise and send on what the fused query gave. Progress goes by ``measures`` if that did not see all rows."""
    spec = fused.operator.aggregation
    table = without_marks(table)
    task.summaries.append(_summary(fused, table if measures is None else measures))
    for n, lookup in enumerate(fused.path.lookups):
        if lookup.counts:
            count = pc.sum(table[f"_lost{n}"]).as_py() or 0
            task.delivery.relations.add(lookup.form.name, Reads(unmatched=count))
            table = table.drop_columns([f"_lost{n}"])
    for n, step in enumerate(fused.counted, 1):
        if not (isinstance(step, PaceStep) and step.keeps_old):
            task.delivery.drop(step.place, pc.sum(table[f"_gone{n}"]).as_py() or 0)
        table = table.drop_columns([f"_gone{n}"])
    pane = table["_pane"]
    rows = table.filter(pc.is_valid(pane)) if pane.null_count else table
    if from_spark:
        done = aggregate.partials_from_spark(rows, spec)
    else:
        done = aggregate.partials(rows, spec)
    task.delivery.send_partials(fused.path, done)


def without_marks(table: pa.Table) -> pa.Table:
    """What a statement gave, without our prefix, its verdicts as numbers."""
    table = aggregate.without_prefix(table)
    for i, column in enumerate(table.column_names):
        if column.startswith("_verdict") and pa.types.is_boolean(table[column].type):
            table = table.set_column(i, column, table[column].cast(pa.int32()))
    return table


def _summary(fused: Fused, table: pa.Table) -> SourceSummary:
    partition = [] if fused.source.partition is None else ["_part"]
    columns: dict[str, dict[str, PartitionSummary]] = {}
    late: dict[str, int] = {}
    null: dict[str, int] = {}
    for i, setting in enumerate(fused.settings):
        wanted = [("_n", "sum"), (f"_hi{i}", "max")]
        if f"_lo{i}" in table.column_names:
            wanted.append((f"_lo{i}", "min"))
        grouped = table.group_by([*partition, f"_verdict{i}"], use_threads=False).aggregate(wanted)
        parts: dict[str, list[PartitionSummary]] = {}
        late[setting.column] = null[setting.column] = 0
        for row in grouped.to_pylist():
            n, verdict = row["_n_sum"], row[f"_verdict{i}"]
            late_rows, far = (bool((verdict or 0) & part) for part in (LATE, FUTURE))
            name = partition_name(row["_part"]) if partition else ""
            parts.setdefault(name, []).append(
                PartitionSummary(
                    n,
                    None if far else row[f"_hi{i}_max"],
                    None if far else row.get(f"_lo{i}_min"),
                    n if far else 0,
                )
            )
            late[setting.column] += n if late_rows else 0
            null[setting.column] += n if verdict is None else 0
        columns[setting.column] = {p: merge_partition(s, 0) for p, s in parts.items()}
    rows = pc.sum(table["_n"]).as_py() or 0
    return SourceSummary(columns, rows, late, null)


def _guard(text: str, filtered: bool) -> str:
    return f"CASE WHEN {PASS} THEN {text} END" if filtered else text


def _guarded(primitive: Primitive, filtered: bool) -> Primitive:
    """The primitive with arguments that are evaluated only for rows that pass."""
    if not filtered:
        return primitive
    args = tuple(
        replace(a, sql=_guard(a.sql, True), duck=None if a.duck is None else _guard(a.duck, True))
        for a in primitive.args
    )
    return replace(primitive, args=args)
