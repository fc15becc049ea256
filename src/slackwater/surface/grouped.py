"""``groupBy(...).agg(...)``: from groups and a window to an aggregate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slackwater.engine.analysis.aggregates import Text
from slackwater.engine.plan.reserved import check_names, check_twice
from slackwater.errors import AnalysisError
from slackwater.model.aggregate import Primitive
from slackwater.model.join_times import leaves
from slackwater.model.names import ours
from slackwater.model.node import Aggregate, Node
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.spark_sql import quoted
from slackwater.model.time import TimeColumn, window_time
from slackwater.model.window import JointWindow, RowWindow, SessionWindow
from slackwater.semantics.pattern_rules import plain_column
from slackwater.surface.joint_windows import joint_window, told_apart
from slackwater.surface.stream_columns import Origin
from slackwater.surface.timeless import stands_still
from slackwater.surface.ungrouped import completed_by_punctuation
from slackwater.surface.unsupported_names import ON_GROUPS, Advising
from slackwater.surface.window_types import group_keys, resolve
from slackwater.surface.windows import AllTimeSpec, Windowing

if TYPE_CHECKING:
    from pyspark.sql import Column

    from slackwater.surface.stream import Stream

WID = "wid"


class GroupedStream(Advising):
    """A stream with its groups; made by ``groupBy``."""

    _kind = "a grouped stream"
    _advice = ON_GROUPS

    def __init__(self, stream: Stream, keys: Sequence[Column | str | Windowing]):
        flat: list[Any] = []
        for item in keys:
            flat.extend(item if isinstance(item, (list, tuple)) else [item])
        windows = [k for k in flat if isinstance(k, Windowing)]
        if len(windows) > 1:
            windows = told_apart(windows, stream)
        self._stream = stream
        self._windows = windows
        self._window = windows[0] if windows else None
        self._keys = [k for k in flat if not isinstance(k, Windowing)]

    def agg(self, *columns: Column | str | dict[str, str]) -> Stream:
        """Aggregate columns: Columns, SQL texts (``"count(*) AS n"``), or a dict as in PySpark."""
        if len(columns) == 1 and isinstance(columns[0], dict):
            columns = tuple(f"{f}(`{c}`)" if c != "*" else f"{f}(*)" for c, f in columns[0].items())
        if not columns:
            raise AnalysisError(
                "NO_AGGREGATE",
                "agg() has no aggregates",
                hint='give at least one, e.g. "count(*) AS n"',
            )
        stream, node = self._stream, self._stream._node
        if self._window is None:
            whole = GroupedStream(stream, [*self._keys, AllTimeSpec()]).agg(*columns)
            return completed_by_punctuation(whole)
        times = [self._time_of(w) for w in self._windows]
        time = times[0]
        stream, window, carried = resolve(self._window, stream, time)
        if len(times) > 1:
            window = joint_window(self._windows, stream, times)
        node = stream._node

        def analysed(extra: list[str]) -> Any:
            return stream._analyser.aggregates(
                node.schema,
                [*(self._stream._placed(k) for k in self._keys), *extra],
                [self._stream._placed(c) for c in columns],
                _time_text(time, node),
            )

        keys, primitives, outputs = analysed([])
        if more := group_keys(window, [k.name for k in keys]):
            keys, primitives, outputs = analysed(more)
        same = [k.name for k in keys if plain_column(k.expr) == k.name]
        stream, keys, primitives = _evaluated(stream, times, keys, primitives, carried)
        node = stream._node
        names = [w.name for w in self._windows]
        has_id = not isinstance(window, SessionWindow | JointWindow)
        taken = [k.name for k in keys] + [o.name for o in outputs]
        for fixed, way in (
            *([(WID, "rename the column with .alias(...)")] if has_id else []),
            *((n, 'rename the column, or the window: sw.window(...).alias("w")') for n in names),
        ):
            if fixed.lower() in [n.lower() for n in taken]:
                raise AnalysisError(
                    "DUPLICATE_COLUMN",
                    f"the result has a column '{fixed}' of its own, besides yours",
                    hint=way,
                    name=fixed,
                )
        check_names([k.name for k in keys] + [o.name for o in outputs])
        check_twice(
            [*taken, *([WID] if has_id else []), *names],
            "give each group and aggregate a name of its own with .alias(...)",
        )
        if self._window.emit_empty and keys:
            raise AnalysisError(
                "BAD_OPTION",
                "emitEmpty=True needs a window without group columns: which groups are empty is unknown",
                hint="leave emitEmpty out, or group by the window alone",
            )
        if isinstance(window, RowWindow):
            time = TimeColumn("", "long", None)
        kind = time.type
        own = tuple(window_time(n, time) for n in names)
        schema = (
            *(Field(k.name, k.expr.type) for k in keys),
            *([Field(WID, "bigint", False)] if has_id else []),
            *(Field(n, f"struct<start:{kind},end:{kind}>", False) for n in names),
            *(Field(o.name, o.expr.type) for o in outputs),
        )
        made = Aggregate(
            schema, own, node, keys, window, primitives, outputs, self._window.emit_empty
        )
        return stream._with(made, Origin(self._stream, {name: name for name in same}))

    def _time_of(self, window: Windowing) -> TimeColumn:
        stream = self._stream
        if isinstance(window, AllTimeSpec) and stands_still(stream._node):
            return stream._node.times[0]  # no time closes such groups
        return stream._time(window.on, "a window")

    def count(self) -> Stream:
        """Number of rows, in a column ``count``."""
        return self.agg("count(1) AS count")

    def sum(self, *columns: str) -> Stream:
        """Sums of the columns."""
        return self._each("sum", columns)

    def avg(self, *columns: str) -> Stream:
        """Averages of the columns."""
        return self._each("avg", columns)

    mean = avg

    def min(self, *columns: str) -> Stream:
        """Least values of the columns."""
        return self._each("min", columns)

    def max(self, *columns: str) -> Stream:
        """Greatest values of the columns."""
        return self._each("max", columns)

    def _each(self, function: str, columns: Sequence[str]) -> Stream:
        numeric = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
        chosen = list(columns) or [
            f.name for f in self._stream._node.schema if f.type.split("(")[0] in numeric
        ]
        return self.agg(*[f"{function}(`{c}`) AS `{function}({c})`" for c in chosen])


def _evaluated(
    stream: Stream,
    times: Sequence[TimeColumn],
    keys: tuple[Named, ...],
    primitives: tuple[Primitive, ...],
    carried: Sequence[str] = (),
) -> tuple[Stream, tuple[Named, ...], tuple[Primitive, ...]]:
    """Keys and arguments that only Spark can evaluate become columns of a projection below."""
    everything = [k.expr for k in keys] + [a for p in primitives for a in p.args]
    if all(e.duck is not None for e in everything):
        return stream, keys, primitives
    columns: dict[Expr, str] = {}
    for name in [*(c.name for t in times for c in leaves(t)), *carried]:
        field = stream._node.field(name)
        assert field is not None
        columns[column(name, field.type)] = name
    for e in everything:
        columns.setdefault(e, ours(f"__e{len(columns)}"))
    below = stream._project(tuple(Named(n, e) for e, n in columns.items()))

    def plain(e: Expr) -> Expr:
        return column(columns[e], e.type)

    return (
        below._restricted(list(dict.fromkeys(t.name for t in times))),
        tuple(Named(k.name, plain(k.expr)) for k in keys),
        tuple(replace(p, args=tuple(plain(a) for a in p.args)) for p in primitives),
    )


def _time_text(time: TimeColumn, node: Node) -> Text:
    """The rows' time as an expression; rows of an aggregate are ordered by their windows' ends."""
    if time.parts:
        parts = [_time_text(p, node) for p in time.parts]
        return Text(f"{time.kind}({', '.join(p.sql for p in parts)})", parts[0].type)
    field = node.field(time.name)
    assert field is not None
    name = quoted(time.name)
    if time.kind == "window":
        return Text(f"{name}.`end`", time.type)
    return Text(name, field.type)
