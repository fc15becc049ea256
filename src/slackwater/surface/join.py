"""``join`` and ``joinAll``: from streams, keys and spans of time to one operator."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.model.join import Band, Condition, How, Reach, Tumbling, Within
from slackwater.model.join_times import join_times, renamed
from slackwater.model.node import Join, Node, Source, raw_name
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn, parse_duration, parse_instant, parse_span
from slackwater.model.window import TimeWindow
from slackwater.surface.bands import BandSpec
from slackwater.surface.conditions import ConditionSpec, condition_of
from slackwater.surface.equalities import equalities
from slackwater.surface.windows import WindowSpec

if TYPE_CHECKING:
    from pyspark.sql import Column

    from slackwater.surface.stream import Stream

Key = tuple[str, ...]
"""One column name per input."""

KINDS: dict[str, How] = {
    "inner": "inner",
    "left": "left", "leftouter": "left", "left_outer": "left",
    "right": "right", "rightouter": "right", "right_outer": "right",
    "full": "full", "outer": "full", "fullouter": "full", "full_outer": "full",
}  # fmt: skip


def join_streams(
    streams: Sequence[Stream],
    on: Any,
    within: Any,
    how: str = "inner",
    where: Column | str | ConditionSpec | Callable[..., Any] | None = None,
    memory: str | int | None = None,
    emit: str = "immediate",
    times: Sequence[str] | None = None,
    deadline: Any = None,
) -> Stream:
    """One stream of the matching rows of several."""
    kind = KINDS.get(how.lower()) if isinstance(how, str) else None
    if kind is None:
        raise _bad("how", how, "use inner, left, right or full")
    if emit not in ("immediate", "ordered"):
        raise _bad("emit", emit, 'use "immediate" or "ordered"')
    if len(streams) < 2:
        raise _bad("the list of streams", len(streams), "give at least two streams")
    if len({id(s._spark) for s in streams}) > 1:
        raise _bad("join", "streams of two sessions", "make all streams in one session")
    size = _bytes(memory)
    if deadline is not None and size is None:
        raise _bad("deadline", deadline, "it is for joins with memory=: others never wait")
    if size is not None and len(streams) != 2:
        raise _bad(
            "memory", memory, "bounded memory is for joins of two streams: join them pairwise"
        )
    columns = _times(streams, times)
    span = _within(within, columns, streams[0]._analyser.zone)
    names, shared, conditions = _named_keys(on, streams)
    shown = _Columns(streams, shared, kind)
    if conditions is not None:
        pairs, rest = equalities(conditions, shown.owners, streams[0]._analyser, shown.fields)
        if rest is not None and where is not None:
            raise _bad("on", "a condition beside where=", "put it into where=")
        where = where if rest is None else rest
        keys = _condition_keys(streams, pairs)
    else:
        keys = _keys(streams, names)
    computed = [_with_computed(s, k) for s, k in zip(streams, keys, strict=True)]
    streams, keys = [s for s, _ in computed], tuple(k for _, k in computed)
    test = None if where is None else _test(where, streams[0], shown.fields)
    own = [renamed(c, partial(shown.name_of, i)) for i, c in enumerate(columns)]
    node = Join(
        shown.fields,
        join_times(own, kind),
        tuple(s._node for s in streams),
        keys,
        tuple(c.name for c in columns),
        span,
        kind,
        test,
        shown.outputs,
        tuple(t.name for t in own),
        size,
        None if deadline is None else parse_duration(deadline, what="deadline", positive=False),
    )
    inputs = {k: v for s in streams for k, v in s._inputs.items()}
    first = streams[0]
    from slackwater.surface.stream import Stream

    result = Stream(node, inputs, first._analyser, first._spark)
    return result.sort() if emit == "ordered" else result


def joinAll(
    streams: Sequence[Stream],
    on: Any = None,
    within: Sequence[Any] | WindowSpec | None = None,
    where: Column | str | ConditionSpec | Callable[..., Any] | None = None,
    memory: str | int | None = None,
    emit: str = "immediate",
) -> Stream:
    """Combinations of one row of each stream with equal keys, near each other in time.

    ``within[i]`` is how long rows of stream i stay joinable: in a result no row is newer than that of stream
    i by more. A ``sw.window(...)`` asks for rows of the same tumbling window. The time of a result is the
    greatest of its rows' times. Key columns come out once; a column that several streams have is prefixed with
    the stream's name. ``where`` is a further condition over the result's columns, or a function on them: see
    `sw.condition`. ``memory`` is for two streams.
    """
    return join_streams(list(streams), on, within, "inner", where, memory, emit)


def _test(where: Any, stream: Stream, fields: Sequence[Field]) -> Expr | Condition:
    """The further condition of a match."""
    if isinstance(where, ConditionSpec) or inspect.isroutine(where) or isinstance(where, partial):
        spec = where if isinstance(where, ConditionSpec) else ConditionSpec(where)
        return condition_of(spec, fields)
    test = stream._analyser.condition(fields, where)
    if test.duck is None:
        raise AnalysisError(
            "JOIN_CONDITION",
            f"where={test.sql} cannot be evaluated inside a join: {test.why}",
            hint="give a function on Arrow columns (sw.condition); or after an inner join use .where(...)",
        )
    return test


class _Columns:
    """The columns of the result: keys given by name once, in front, then those of each stream."""

    def __init__(self, streams: Sequence[Stream], shared: Sequence[Key], how: How):
        outputs: list[Named] = []
        self._names: dict[tuple[int, str], str] = {}
        for key in shared:
            types = {s._column_type(n) for s, n in zip(streams, key, strict=True)}
            kind = types.pop() if len(types) == 1 else _common_type(streams, key)
            raws = [column(raw_name(i, n), kind) for i, n in enumerate(key)]
            outputs.append(Named(key[0], _once(raws, how, kind)))
            for i, n in enumerate(key):
                self._names[i, n] = key[0]
        taken = {o.name.lower() for o in outputs}
        count: dict[str, int] = {}
        for i, s in enumerate(streams):
            for f in s._node.schema:
                if (i, f.name) not in self._names:
                    count[f.name.lower()] = count.get(f.name.lower(), 0) + 1
        labels = [s._label for s in streams]
        for i, s in enumerate(streams):
            for f in s._node.schema:
                if (i, f.name) in self._names:
                    continue
                name = f.name
                if count[name.lower()] > 1 or name.lower() in taken:
                    name = f"{_label(labels, i, name)}_{name}"
                self._names[i, f.name] = name
                outputs.append(Named(name, column(raw_name(i, f.name), f.type)))
        self.outputs = tuple(outputs)
        self.fields = tuple(Field(o.name, o.expr.type) for o in outputs)
        names = [f.name.lower() for f in self.fields]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise AnalysisError(
                "DUPLICATE_COLUMN",
                f"the result would have two columns '{twice}'",
                hint="rename one before the join with .withColumnRenamed(...)",
                name=twice,
            )

    def name_of(self, input: int, name: str) -> str:
        """What a column of an input is called in the result."""
        return self._names[input, name]

    @property
    def owners(self) -> dict[str, tuple[int, str]]:
        """For each column of the result the input it comes from, and its name there."""
        return {out.lower(): place for place, out in self._names.items()}


def _once(raws: Sequence[Expr], how: How, kind: str) -> Expr:
    """The one column of a key that was given by name."""
    if how in ("inner", "left"):
        return raws[0]
    if how == "right":
        return raws[1]
    sql = f"coalesce({', '.join(r.sql for r in raws)})"
    return Expr(sql, kind, f"coalesce({', '.join(str(r.duck) for r in raws)})")


def _label(labels: Sequence[str | None], i: int, name: str) -> str:
    label = labels[i]
    if label is None or labels.count(label) > 1:
        raise AnalysisError(
            "AMBIGUOUS_COLUMN",
            f"column '{name}' is in several of the streams, and they cannot be told apart by name",
            hint='name them with .alias("a") before the join: the column is then called a_' + name,
            name=name,
        )
    return label


def label_of(node: Node) -> str | None:
    """The name of the only source below a node, or None."""
    if isinstance(node, Source):
        return node.name
    found = {label_of(c) for c in node.children}
    return found.pop() if len(found) == 1 else None


def _times(streams: Sequence[Stream], times: Sequence[str] | None) -> list[TimeColumn]:
    if times is not None and len(times) != len(streams):
        raise _bad("times", times, f"give one time column per stream, {len(streams)} in all")
    found = [s._time(times[i] if times else None) for i, s in enumerate(streams)]
    kinds = {_clock(t, s) for t, s in zip(found, streams, strict=True)}
    if len(kinds) > 1:
        shown = ", ".join(f"{t.name} ({_clock(t, s)})" for t, s in zip(found, streams, strict=True))
        raise AnalysisError(
            "TIME_MISMATCH",
            f"the streams measure time differently: {shown}",
            hint="cast the time columns to one type before sw.stream(...)",
        )
    return found


def _clock(time: TimeColumn, stream: Stream) -> str:
    if time.is_integer:
        return "integer"
    if time.parts:
        return _clock(time.parts[0], stream)
    field = stream._node.field(time.name)
    return "timestamp_ntz" if field is not None and "timestamp_ntz" in field.type else "timestamp"


def _within(within: Any, times: Sequence[TimeColumn], zone: str) -> Within:
    time = times[0]
    if isinstance(within, BandSpec):
        if len(times) != 2:
            raise _bad("within", within, "joinAll needs one duration per stream")
        if within.closed not in ("both", "left", "neither"):
            raise _bad("closed", within.closed, 'use "both", "left" or "neither"')
        return Band(_signed(within.before, time, "before"), _signed(within.after, time, "after"),
                    within.closed)  # fmt: skip
    if isinstance(within, WindowSpec):
        span = parse_span(within.range, time, what="window range")
        if within.slide is not None and parse_span(within.slide, time, what="slide") != span:
            raise _bad(
                "within", within, "a join takes a tumbling window: leave slide out, or use sw.band"
            )
        origin = 0
        if within.origin is not None:
            origin = parse_instant(within.origin, time, zone, what="window origin")
        return Tumbling(TimeWindow(span, span, origin, time.name))
    if isinstance(within, (list, tuple)):
        if len(within) != len(times):
            raise _bad("within", within, f"give one duration per stream, {len(times)} in all")
        return Reach(tuple(parse_span(w, time, what="within", positive=False) for w in within))
    raise _bad(
        "within",
        within,
        'give sw.band(before="1 minute", after="1 minute") or sw.window("1 minute")',
    )


def _signed(value: Any, time: TimeColumn, what: str) -> int:
    if value is None:
        return 0
    if time.is_integer and isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().startswith("-"):
        return -parse_duration(value.strip()[1:], what=what, positive=False)
    return parse_span(value, time, what=what, positive=False)


def _named_keys(on: Any, streams: Sequence[Stream]) -> tuple[list[Key], list[Key], Any]:
    """Keys, those of them that are one column in the result, or conditions yet to be taken apart."""
    if on is None or (isinstance(on, (list, tuple)) and not on):
        return [], [], None
    items = list(on) if isinstance(on, list) else [on]
    keys: list[Key] = []
    shared: list[Key] = []
    for item in items:
        if isinstance(item, str):
            keys.append(tuple(s._column(item) for s in streams))
            shared.append(keys[-1])
        elif isinstance(item, tuple) and len(item) == len(streams):
            keys.append(tuple(s._column(n) for s, n in zip(streams, item, strict=True)))
        elif isinstance(item, tuple):
            raise _bad("on", item, f"give one column name per stream, {len(streams)} in all")
        else:
            return [], [], items
    return keys, shared, None


def _keys(streams: Sequence[Stream], names: Sequence[Key]) -> tuple[tuple[Named, ...], ...]:
    kinds = [_common_type(streams, key) for key in names]
    return tuple(
        tuple(_cast(s, key[i], kind) for key, kind in zip(names, kinds, strict=True))
        for i, s in enumerate(streams)
    )


def _condition_keys(
    streams: Sequence[Stream], pairs: Sequence[tuple[str, str]]
) -> tuple[tuple[Named, ...], ...]:
    """Keys from pairs of SQL texts, each over the columns of its own stream."""
    sides: list[list[Named]] = [[], []]
    for n, pair in enumerate(pairs):
        found = [s._analyser.columns(s._node.schema, [t], star_ok=False)[0].expr
                 for s, t in zip(streams, pair, strict=True)]  # fmt: skip
        kind = found[0].type
        if found[1].type != kind:
            kind = _wider(streams[0], kind, found[1].type, " = ".join(pair))
        for side, s, text in zip(sides, streams, pair, strict=True):
            (cast,) = s._analyser.columns(
                s._node.schema, [f"CAST({text} AS {kind})"], star_ok=False
            )
            side.append(Named(f"_k{n}", cast.expr))
    return tuple(tuple(side) for side in sides)


def _common_type(streams: Sequence[Stream], key: Key) -> str:
    kind = streams[0]._column_type(key[0])
    for s, n in zip(streams[1:], key[1:], strict=True):
        if s._column_type(n) != kind:
            kind = _wider(streams[0], kind, s._column_type(n), "/".join(dict.fromkeys(key)))
    return kind


def _wider(stream: Stream, a: str, b: str, what: str) -> str:
    from slackwater.engine.analyse import type_name

    query = f"SELECT CAST(NULL AS {a}) = CAST(NULL AS {b}) AS c"
    both = f"SELECT coalesce(CAST(NULL AS {a}), CAST(NULL AS {b})) AS c"
    try:
        stream._spark.sql(query)
        return type_name(stream._spark.sql(both).schema.fields[0].dataType)
    except Exception as error:
        raise AnalysisError(
            "JOIN_TYPES",
            f"join key '{what}' is {a} on one side and {b} on the other",
            hint="cast one of them before the join",
            key=what,
        ) from error


def _cast(stream: Stream, name: str, kind: str) -> Named:
    have = stream._column_type(name)
    if have == kind:
        return Named(name, column(name, kind))
    text = f"CAST(`{name.replace('`', '``')}` AS {kind})"
    (cast,) = stream._analyser.columns(stream._node.schema, [text], star_ok=False)
    return Named(name, cast.expr)


def _with_computed(stream: Stream, keys: Sequence[Named]) -> tuple[Stream, tuple[Named, ...]]:
    """Keys that only Spark can evaluate become columns of a projection below."""
    if all(k.expr.duck is not None for k in keys):
        return stream, tuple(keys)
    own = [Named(f.name, column(f.name, f.type)) for f in stream._node.schema]
    made = [Named(f"__key{i}", k.expr) for i, k in enumerate(keys)]
    below = stream._project((*own, *made))
    return below, tuple(Named(m.name, column(m.name, m.expr.type)) for m in made)


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)


def _bytes(memory: str | int | None) -> int | None:
    if memory is None or (isinstance(memory, int) and not isinstance(memory, bool) and memory > 0):
        return memory
    found = _SIZE.fullmatch(memory) if isinstance(memory, str) else None
    size = 0
    if found is not None:
        size = int(float(found[1]) * 1024 ** " kmgt".index(found[2].lower() or " "))
    if size <= 0:
        raise _bad("memory", memory, 'give a size such as "256m"')
    return size


def _bad(what: str, value: object, hint: str) -> AnalysisError:
    return AnalysisError("BAD_JOIN", f"{what}: {value!r} is not possible here", hint=hint)
