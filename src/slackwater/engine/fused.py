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

from slackwater.engine.batch import Batch
from slackwater.engine.deliver import ticks_sql
from slackwater.engine.low_level import SourceTask
from slackwater.engine.plan import Operator, Path, Plan
from slackwater.kernels import aggregate, partials
from slackwater.kernels.column_engine import quote
from slackwater.model.aggregate import Primitive
from slackwater.model.node import Aggregate, Late, Source
from slackwater.model.schema import Expr
from slackwater.semantics.settings import Settings, guard_limit, resolve_source
from slackwater.semantics.summary import PartitionSummary, SourceSummary

PASS = "__sw_pass"
PART = "__sw_part"


@dataclass(frozen=True)
class Fused:
    """The only path of a source, into an aggregate with panes."""

    source: Source
    path: Path
    operator: Operator
    settings: tuple[Settings, ...]


def fusible(plan: Plan, source: Source) -> Fused | None:
    """The one path that can be reduced in the first pass, or None if rows are needed as such."""
    paths = list(plan.paths_from(source.name))
    settings = resolve_source(source)
    others = [s for s in plan.sources if s.input == source.input and s is not source]
    if len(paths) != 1 or others or source.order or source.late == "raise":
        return None
    if any(isinstance(n, Late) and n.source is source for n in plan.nodes):
        return None
    if any(s.kind == "punctuated" or s.future == "side" for s in settings):
        return None
    operator = plan.operator(paths[0].consumer)
    if operator is None or operator.spec is None or operator.spec.plan != "panes":
        return None
    if operator.spec.window.range < operator.spec.window.slide:
        return None  # rows between windows vanish in the kernel, but tell progress
    return Fused(source, paths[0], operator, settings)


class Dialect:
    """How the two engines spell what the fused query needs."""

    def __init__(self, duck: bool):
        self.duck = duck

    def name(self, name: str) -> str:
        """A quoted column name."""
        return quote(name) if self.duck else "`" + name.replace("`", "``") + "`"

    def text(self, expr: Expr) -> str:
        """An expression."""
        return str(expr.duck) if self.duck else expr.sql

    def ticks(self, time) -> str:  # type: ignore[no-untyped-def]
        """Ticks of a progressing column."""
        if self.duck:
            return ticks_sql(time)
        name = self.name(time.name)
        return f"CAST({name} AS BIGINT)" if time.kind == "long" else f"unix_micros({name})"

    def number(self, values: Sequence[int], at: int) -> str:
        """A number that changes from batch to batch. Spark would put a literal into generated code and
        compile it anew; an element of an array, at an index that is not constant, stays data."""
        if self.duck:
            return str(values[at])
        items = ", ".join(f"{v}L" for v in values)
        return f"array({items})[CAST(__src * 0 AS INT) + {at}]"


def relation(batch: Batch, fused: Fused, base: str, dialect: Dialect) -> str:
    """The rows of ``base`` through the path's steps, with ``__sw_*`` columns carried along."""
    source = fused.source
    numbers = _numbers(batch, fused)
    items = ["*"]
    carried = [PASS]
    for i, time in enumerate(source.times):
        items.append(f"{dialect.ticks(time)} AS __sw_t{i}")
        carried.append(f"__sw_t{i}")
    if source.partition is not None:
        items.append(f"coalesce(CAST({dialect.name(source.partition)} AS {_text_type(dialect)}), '') AS {PART}")
        carried.append(PART)
    at = next(i for i, t in enumerate(source.times) if t.name == fused.path.time)
    on = f"__sw_t{at}"
    condition = f"{on} IS NOT NULL"
    if source.late != "admit":
        condition = f"coalesce({on} >= {dialect.number(numbers, at)}, FALSE)"
    if not dialect.duck:
        carried.append("__src")
    sql = f"SELECT {', '.join(items)} FROM ({base}) AS r0"
    sql = f"SELECT *, {condition} AS {PASS} FROM ({sql}) AS r1"
    filtered = False
    for n, step in enumerate(fused.path.steps):
        if step.condition is not None:
            test = dialect.text(step.condition)
            # A later filter must not be evaluated for rows that an earlier one dropped.
            guarded = f"CASE WHEN {PASS} THEN coalesce({test}, FALSE) ELSE FALSE END"
            rest = "* EXCLUDE (" + PASS + ")" if dialect.duck else f"* EXCEPT ({PASS})"
            sql = f"SELECT {rest}, {guarded} AS {PASS} FROM ({sql}) AS s{n}"
            filtered = True
        else:
            columns = [
                f"{_guard(dialect.text(c.expr), filtered)} AS {dialect.name(c.name)}"
                for c in step.columns
            ]
            sql = f"SELECT {', '.join([*columns, *carried])} FROM ({sql}) AS s{n}"
    return sql


def query(batch: Batch, fused: Fused, base: str, dialect: Dialect) -> tuple[list[str], list[str], str]:
    """(group columns, aggregate columns, relation) of the fused query, as SQL items."""
    operator, source = fused.operator, fused.source
    node, spec = operator.node, operator.spec
    assert isinstance(node, Aggregate) and spec is not None
    filtered = fused.path.has_filter
    time = next(t for t in node.child.times if t.name == operator.on)
    ticks = f"CASE WHEN {PASS} THEN {dialect.ticks(time)} END"
    width, origin = spec.panes.size, spec.window.origin
    shifted = f"({ticks} - {origin})"
    if dialect.duck:
        pane = f"CAST(({shifted} - (({shifted} % {width}) + {width}) % {width}) // {width} AS BIGINT)"
    else:
        pane = f"CAST(({shifted} - pmod({shifted}, {width}L)) div {width}L AS BIGINT)"
    groups = [
        f"{_guard(dialect.text(k.expr), filtered)} AS _k{i}" for i, k in enumerate(node.keys)
    ]
    groups.append(f"{pane} AS _pane")
    if source.partition is not None:
        groups.append(f"{PART} AS _part")
    items: list[str] = []
    for primitive in spec.primitives:
        guarded = _guarded(primitive, filtered)
        if dialect.duck:
            items.extend(partials.duck_partials(guarded))
        else:
            items.extend(f"{sql} AS {name}" for name, sql in partials.spark_partials(guarded) or ())
    items.extend(_measures(batch, fused, dialect))
    return groups, items, relation(batch, fused, base, dialect)


def _measures(batch: Batch, fused: Fused, dialect: Dialect) -> list[str]:
    numbers = _numbers(batch, fused)
    count = len(fused.source.times)
    items = ["count(*) AS _n"]
    for i in range(count):
        t = f"__sw_t{i}"
        late, limit = dialect.number(numbers, i), dialect.number(numbers, count + i)
        plausible = f"CASE WHEN {t} <= {limit} THEN {t} END"
        items += [
            f"max({plausible}) AS _hi{i}",
            f"min({plausible}) AS _lo{i}",
            f"count(CASE WHEN {t} < {late} THEN 1 END) AS _late{i}",
            f"count(CASE WHEN {t} > {limit} THEN 1 END) AS _future{i}",
            f"count({t}) AS _times{i}",
        ]
    return items


def _numbers(batch: Batch, fused: Fused) -> list[int]:
    """Bounds in force, then plausible limits, of the source's time columns."""
    bounds = [batch.bound(fused.source.name, s.column) for s in fused.settings]
    limits = [guard_limit(s, batch.now) for s in fused.settings]
    return [*bounds, *((1 << 62) if v is None else v for v in limits)]


def deliver_fused(task: SourceTask, table: pa.Table, *, from_spark: bool) -> None:
    """Summarise and send on what the fused query gave."""
    fused = fusible(task.batch.plan, task.source)
    assert fused is not None and fused.operator.spec is not None
    spec = fused.operator.spec
    task.summaries.append(_summary(fused, table))
    rows = table.filter(pc.is_valid(table["_pane"]))
    if from_spark:
        done = aggregate.partials_from_spark(rows, spec)
    else:
        done = aggregate.partials(rows, spec)
    task.delivery.send_partials(fused.path, done)


def _summary(fused: Fused, table: pa.Table) -> SourceSummary:
    if "_part" not in table.column_names:
        table = table.append_column("_part", pa.array([""] * table.num_rows, pa.string()))
    wanted = [("_n", "sum")]
    for i in range(len(fused.settings)):
        wanted += [
            (f"_hi{i}", "max"), (f"_lo{i}", "min"), (f"_late{i}", "sum"),
            (f"_future{i}", "sum"), (f"_times{i}", "sum"),
        ]  # fmt: skip
    grouped = table.group_by("_part", use_threads=False).aggregate(wanted).to_pylist()
    columns: dict[str, dict[str, PartitionSummary]] = {s.column: {} for s in fused.settings}
    late = {s.column: 0 for s in fused.settings}
    null = {s.column: 0 for s in fused.settings}
    rows = 0
    for part in grouped:
        rows += part["_n_sum"]
        for i, s in enumerate(fused.settings):
            columns[s.column][part["_part"]] = PartitionSummary(
                part["_n_sum"], part[f"_hi{i}_max"], part[f"_lo{i}_min"], part[f"_future{i}_sum"]
            )
            late[s.column] += part[f"_late{i}_sum"]
            null[s.column] += part["_n_sum"] - part[f"_times{i}_sum"]
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


def _text_type(dialect: Dialect) -> str:
    return "VARCHAR" if dialect.duck else "STRING"
