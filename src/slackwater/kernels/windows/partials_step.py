"""Window aggregation: rows to partials, partials to state, state and a bound to results.

A table of partials has the columns ``_bucket`` (int16), the keys ``_k0``..., ``_pane`` (int64) and the state
columns of the primitives. It is sorted by (bucket, keys, pane). What a pane is depends on the plan:

======== ==============================================================================================
panes    gcd(range, slide) ticks
wids     a window
rows     as panes, over row numbers (`row_windows`)
landmark a slide (`landmark`)
ticks    one tick (`by_tuple`)
sessions the last tick of a session, or of a part of one; ``_first`` is its first (`sessions`)
custom   the end of a window; ``_wid`` is its id (`custom`)
joint    a pane of the first time; ``_pane1``... are those of the others (`joint`)
======== ==============================================================================================

`step` is for panes and wids, the other plans have their own in the modules named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.aggregates import partials as states
from slackwater.kernels.buckets import bucket_of, flat
from slackwater.kernels.order import group_codes, stable_order
from slackwater.kernels.types import arrow_type
from slackwater.kernels.windows import assemble
from slackwater.model.aggregate import Primitive
from slackwater.model.names import alone, ours, sub_query
from slackwater.model.schema import Field
from slackwater.model.window import (
    ByTuple,
    CustomWindow,
    JointWindow,
    Landmark,
    RowWindow,
    TimeWindow,
    Window,
)
from slackwater.semantics.limits import END, clamp
from slackwater.semantics.panes import Panes
from slackwater.semantics.window_types.custom import custom_wids, hull
from slackwater.semantics.window_types.rows import counted
from slackwater.semantics.windows import WindowPlan

__all__ = [
    "END", "AggregateSpec", "AggregateStep", "finished", "gap_sql", "ints", "merge_partials", "merged", "needed",
    "output_schema", "partial_select", "pane_sql", "partials", "partials_from_spark", "partials_schema",
    "spark_group", "step", "without_prefix",
]  # fmt: skip

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AggregateSpec:
    """What to compute, and by which plan.

    ``hidden`` primitives are stored beside the user's for the operator's own use, and do not come out.
    """

    keys: tuple[Field, ...]
    window: Window
    primitives: tuple[Primitive, ...]
    plan: WindowPlan
    ansi: bool
    hidden: tuple[Primitive, ...] = ()

    @property
    def stored(self) -> tuple[Primitive, ...]:
        """All primitives of which partials are kept."""
        return (*self.primitives, *self.hidden)

    @property
    def sliding(self) -> TimeWindow:
        """The windows as windows over ticks (or row numbers), where they are such."""
        if isinstance(self.window, RowWindow):
            return counted(self.window)
        assert isinstance(self.window, TimeWindow)
        return self.window

    @property
    def panes(self) -> Panes:
        """The panes of the plan; a window is its own pane in plan "wids"."""
        if isinstance(self.window, ByTuple):
            return Panes(1, self.window.range, 1)
        return Panes.of(self.sliding) if self.plan != "wids" else Panes(self.sliding.slide, 1, 1)

    @property
    def bucket_keys(self) -> list[str]:
        """The keys by which rows are split among the tasks."""
        if isinstance(self.window, RowWindow):
            named = [k.name for k in self.keys]
            return [f"_k{named.index(p)}" for p in self.window.per]
        return self.key_names

    @property
    def group_names(self) -> list[str]:
        """Columns that, with the pane, tell partials apart."""
        wid = ["_wid"] if self.plan == "custom" else []
        return ["_bucket", *self.key_names, *self.other_panes, *wid]

    @property
    def other_panes(self) -> list[str]:
        """Columns of the panes of further times, where groups are on the windows of several."""
        more = len(self.window.windows) - 1 if isinstance(self.window, JointWindow) else 0
        return [f"_pane{i + 1}" for i in range(more)]

    @property
    def key_names(self) -> list[str]:
        """Names of the key columns in partials and output."""
        return [f"_k{i}" for i in range(len(self.keys))]


class AggregateStep(NamedTuple):
    """``output``: closed windows that have rows; ``keep``: what to store of the new partials;
    ``dropped_rows``: how many of the new partials (not rows) no open window needs; ``complete``: how many
    partials are of panes that no earlier step could count, each pane once in the life of a query.
    """

    output: pa.Table
    keep: pa.Table
    dropped_rows: int
    complete: int = 0


def partials_schema(spec: AggregateSpec) -> pa.Schema:
    """Columns of a table of partials."""
    fields = [pa.field("_bucket", pa.int16())]
    fields += [pa.field(n, arrow_type(k.type)) for n, k in zip(spec.key_names, spec.keys)]
    fields += [pa.field(n, pa.int64()) for n in spec.other_panes]
    if spec.plan == "custom":
        fields.append(pa.field("_wid", pa.int64()))
    fields.append(pa.field("_pane", pa.int64()))
    if spec.plan == "sessions":
        fields.append(pa.field("_first", pa.int64()))
    for p in spec.stored:
        fields += states.state_fields(p)
    return pa.schema(fields)


def output_schema(spec: AggregateSpec) -> pa.Schema:
    """Columns of the results; sessions have their start and end instead of an id."""
    fields = [pa.field(n, arrow_type(k.type)) for n, k in zip(spec.key_names, spec.keys)]
    ids = ("_start", "_end") if spec.plan == "sessions" else ("_wid",)
    fields += [pa.field(n, pa.int64()) for n in ids]
    fields += [pa.field(p.name, arrow_type(p.type)) for p in spec.primitives]
    return pa.schema(fields)


def partial_select(
    spec: AggregateSpec,
    key_sqls: Sequence[str],
    time_sql: str,
    relation_sql: str,
    extra: Sequence[tuple[str, str]] = (),
    floor: str | None = None,
) -> str:
    """SQL of the column engine that pre-aggregates a relation; feed its result to ``partials``.

    The names of its columns are `ours`, since users' expressions are in the text. ``time_sql`` is a BIGINT expression of ticks that is not null; ``extra`` are further group columns
    as (name, expression); ``floor`` (plan "wids" only) is an expression of the first window that a row may
    enter. Rows that belong to no window vanish.
    """
    relation = relation_sql
    assert floor is None or spec.plan == "wids"
    if spec.plan in ("ticks", "sessions", "custom"):
        pane, where = f"({time_sql})", ""
    elif isinstance(spec.window, Landmark):
        ticks = f"(({time_sql}) - {_int(spec.window.origin)})"
        pane, where = _floor(ticks, spec.window.slide), f" WHERE {ticks} >= 0"
    elif spec.plan == "wids":
        window = spec.sliding
        ticks = f"(({time_sql}) - {_int(window.origin)})"
        low = _floor(ticks, window.slide)
        high = _floor(f"({ticks} + {_int(window.range)})", window.slide)
        low = low if floor is None else f"greatest({low}, {floor})"
        relation = f"SELECT *, unnest(range({low}, {high})) AS {ours('_pane')} FROM {relation_sql}"
        relation, pane, where = sub_query(relation), ours("_pane"), ""
    else:
        window = spec.sliding
        ticks = f"(({time_sql}) - {_int(window.origin)})"
        pane, gap = _floor(ticks, spec.panes.width), gap_sql(spec, time_sql)
        where = f" WHERE {gap}" if gap else ""
    groups = [*zip(spec.key_names, key_sqls), ("_pane", pane), *extra]
    items = [f"{sql} AS {ours(name)}" for name, sql in groups]
    for p in spec.stored:
        items += states.duck_partials(p)
    by = ", ".join(str(i + 1) for i in range(len(groups)))
    return f"SELECT {', '.join(items)} FROM {relation}{where} GROUP BY {by}"


def gap_sql(spec: AggregateSpec, ticks: str) -> str:
    """The condition that a time lies in a window at all; empty where all times do."""
    window = spec.sliding
    if window.range >= window.slide:
        return ""
    slide, since = _int(window.slide), f"(({ticks}) - {_int(window.origin)})"
    into = f"((({since} % {slide}) + {slide}) % {slide})"
    return f"{into} >= {_int(window.slide - window.range)}"


def pane_sql(spec: AggregateSpec, ticks: str, *, duck: bool, least: int | None = None) -> str:
    """The pane of a BIGINT expression of ticks (null for null), for plan "panes" of gapless windows.

    Of plan "landmark" too: null for rows before the origin. ``least``: no ticks are below, if that is known.
    """
    if isinstance(spec.window, Landmark):
        slides = _slides(spec)
        return f"CASE WHEN ({ticks}) >= {spec.window.origin} THEN {pane_sql(slides, ticks, duck=duck)} END"
    if duck:
        origin = spec.sliding.origin
        whole = f"({ticks})" if origin == 0 else f"(({ticks}) - {_int(origin)})"
        if least is not None and least >= origin:
            return f"({whole} // {_int(spec.panes.width)})"
        return _floor(whole, spec.panes.width)
    return spark_group(spec, ticks)[0]


def _slides(spec: AggregateSpec) -> AggregateSpec:
    """The aggregation itself, or that over the slides of its landmark window, which are its panes."""
    w = spec.window
    if not isinstance(w, Landmark):
        return spec
    return replace(spec, window=TimeWindow(w.slide, w.slide, w.origin, w.on), plan="panes")


def spark_group(spec: AggregateSpec, time_sql: str) -> tuple[str, str | None]:
    """(pane, filter) in Spark SQL, for partials of plan "panes" computed by the row engine.

    A pane is given by its first tick as a rule, and `partials_from_spark` makes its number of that: a division less for
    each row. And Spark's hash of numbers that follow on each other is poor: with 100 keys and 800 panes, four of five groups
    would not find a place in its fast map (`tests/kernels/test_spark_groups.py`).
    """
    window = spec.sliding
    ticks = f"(({time_sql}) - {window.origin}L)"
    size = Panes.of(window).width
    pane = f"({ticks} - pmod({ticks}, {size}L))"
    if not _is_by_first_tick(size):
        pane = f"({pane} div {size}L)"
    if window.range >= window.slide:
        return pane, None
    return pane, f"pmod({ticks}, {window.slide}L) >= {window.slide - window.range}L"


def _is_by_first_tick(width: int) -> bool:
    """Whether `spark_group` gives a pane by its first tick. Spark's hash takes the lowest bits, so some must differ."""
    return width % (1 << 16) != 0


def partials(table: pa.Table, spec: AggregateSpec) -> pa.Table:
    """Partials from the result of ``partial_select``; other columns of it are left out."""
    table = without_prefix(table)
    return _partials(table, spec, [c for p in spec.stored for c in states.from_duck(p, table)])


def partials_from_spark(table: pa.Table, spec: AggregateSpec) -> pa.Table:
    """Partials from keys, pane (as `spark_group` gives it) and the columns of ``kernels.partials.spark_partials``."""
    table = without_prefix(table)
    width = Panes.of(_slides(spec).sliding).width
    if _is_by_first_tick(width):
        at = table.column_names.index("_pane")
        table = table.set_column(at, "_pane", pc.divide(table["_pane"], width))
    return _partials(table, spec, [c for p in spec.stored for c in states.from_spark(p, table)])


def merge_partials(spec: AggregateSpec, tables: Sequence[pa.Table]) -> pa.Table:
    """One sorted table in which each (keys, pane) occurs once.

    Null keys group together, NaN equals NaN and -0.0 equals 0.0.
    """
    schema = partials_schema(spec)
    tables = [t for t in tables if t.num_rows]
    if not tables:
        return schema.empty_table()
    return merged(spec, tables)[0]


def step(
    spec: AggregateSpec, new: pa.Table, state: pa.Table, closed: int, close_to: int
) -> AggregateStep:
    """Close the windows in (closed, close_to].

    ``state`` holds the stored partials that these windows may need; partials of panes they do not need are
    harmless. ``keep`` is sorted and merged, and holds what windows after ``close_to`` need of ``new``.
    """
    panes = spec.panes
    done = max(closed, close_to)
    new = merge_partials(spec, [new])
    pane = ints(new, "_pane")
    ends = panes.end_window(pane)
    dropped = int(np.count_nonzero(ends <= clamp(closed + 1)))
    keep = new.filter(pa.array(ends > clamp(done + 1)))
    if close_to <= closed:
        return AggregateStep(output_schema(spec).empty_table(), keep, dropped)
    first, end = clamp(panes.first_pane(closed + 1)), clamp(panes.end_pane(close_to))
    wanted = [t.filter(pa.array(_between(ints(t, "_pane"), first, end))) for t in (new, state)]
    table, key = merged(spec, wanted)
    if table.num_rows == 0:
        return AggregateStep(output_schema(spec).empty_table(), keep, dropped)
    frame = assemble.frame(key, ints(table, "_pane"), panes, closed, close_to)
    fresh = _between(ints(table, "_pane"), clamp(panes.end_pane(closed)), end)
    return AggregateStep(finished(spec, table, frame), keep, dropped, int(np.count_nonzero(fresh)))


def needed(spec: AggregateSpec, closed: int) -> int:
    """First pane that a window after ``closed`` needs."""
    return clamp(spec.panes.first_pane(closed + 1))


def finished(
    spec: AggregateSpec,
    table: pa.Table,
    frame: assemble.Frame,
    extents: tuple[Ints, Ints] | None = None,
) -> pa.Table:
    """The results of a frame over a table of partials; ``extents`` instead of ids, for sessions."""
    rows = pa.array(frame.kept[frame.a])
    columns = [table.column(n).take(rows) for n in spec.key_names]
    columns += [pa.array(c) for c in extents or (frame.wid,)]
    for p in spec.primitives:
        kind = states.kind_of(p)
        arrays, memory = kind.load(table)
        value = kind.finish(frame.fold(kind, arrays), memory, spec.ansi)
        columns.append(states.typed(p, value))
    return pa.table(columns, schema=output_schema(spec))


def _partials(table: pa.Table, spec: AggregateSpec, columns: Sequence[pa.Array]) -> pa.Table:
    schema = partials_schema(spec)
    keys = [
        one_zero(flat(table.column(n)).cast(arrow_type(k.type)))
        for n, k in zip(spec.key_names, spec.keys)
    ]
    pane = flat(table.column("_pane")).cast(pa.int64())
    split = [keys[spec.key_names.index(n)] for n in spec.bucket_keys]
    bucket = pa.array(bucket_of(split, rows=table.num_rows))
    if spec.plan == "sessions":
        return pa.table([bucket, *keys, pane, pane, *columns], schema=schema)
    if isinstance(spec.window, CustomWindow):
        places, wids = custom_wids(np.asarray(pane.to_numpy()), spec.window)
        ends = hull(wids, spec.window)[1]
        rows = pa.array(places)
        whole = pa.table([bucket, *keys, *columns], schema=_without(schema, "_wid", "_pane"))
        taken = whole.take(rows)
        made = {"_wid": pa.array(wids), "_pane": pa.array(ends)}
        arrays = [made[n] if n in made else taken.column(n) for n in schema.names]
        return merged(spec, [pa.table(arrays, schema=schema)])[0]
    others = [flat(table.column(n)).cast(pa.int64()) for n in spec.other_panes]
    return pa.table([bucket, *keys, *others, pane, *columns], schema=schema)


def without_prefix(table: pa.Table) -> pa.Table:
    """What a text with users' expressions gave, as a table of ours alone."""
    return table.rename_columns([alone(c) for c in table.column_names])


def _without(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([f for f in schema if f.name not in names])


def merged(spec: AggregateSpec, tables: Sequence[pa.Table]) -> tuple[pa.Table, Ints]:
    """Tables of partials as one, sorted, each (keys, pane) once; and codes of its keys, which rise."""
    table = _together(spec, tables)
    names = spec.group_names
    n = table.num_rows
    if n == 0:
        return table, np.empty(0, np.int64)
    key = group_codes([table.column(c) for c in names], n).codes
    pane = ints(table, "_pane")
    codes = group_codes([key, pane], n)
    code = codes.codes
    if bool((code[1:] > code[:-1]).all()):
        return table, key
    order = stable_order(codes)
    code = code[order]
    table = table.take(pa.array(order))
    starts = np.flatnonzero(np.diff(code, prepend=np.int64(-1)))
    if len(starts) == n:
        return table, key[order]
    groups = table.select([*names, "_pane"]).take(pa.array(starts))
    columns = [*groups.columns, *states.merge_groups(spec.stored, table, starts).columns]
    return pa.table(columns, schema=partials_schema(spec)), key[order][starts]


def _together(spec: AggregateSpec, tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables; a table without rows would be a chunk more in every column."""
    schema = partials_schema(spec)
    some = [t for t in tables if t.num_rows]
    if not some:
        return schema.empty_table()
    return pa.concat_tables(
        [t if t.schema.equals(schema) else t.select(schema.names).cast(schema) for t in some]
    )


def _between(values: Ints, first: int, end: int) -> npt.NDArray[np.bool_]:
    return np.asarray((values >= first) & (values < end))


def ints(table: pa.Table, name: str) -> Ints:
    """A column of integers as NumPy."""
    return np.asarray(flat(table.column(name)).to_numpy(zero_copy_only=False))


def one_zero(array: pa.Array) -> pa.Array:
    """Float keys with one zero, as Spark shows them."""
    if not pa.types.is_floating(array.type):
        return array
    return pc.add(array, pa.scalar(0.0, array.type))


def _floor(ticks: str, size: int) -> str:
    """Division rounding down (the engine's own rounds towards zero)."""
    n = _int(size)
    return f"({ticks} // {n} - CAST({ticks} % {n} < 0 AS BIGINT))"


def _int(value: int) -> str:
    return f"CAST({value} AS BIGINT)"
