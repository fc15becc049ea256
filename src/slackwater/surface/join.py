"""``join`` and ``joinAll``: from streams, keys and spans of time to one operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from slackwater.engine.plan.reserved import check_names
from slackwater.errors import AnalysisError
from slackwater.model.join import (
    HOWS,
    Anytime,
    Band,
    Condition,
    How,
    MixedKey,
    Reach,
    Tumbling,
    Within,
    is_existence,
)
from slackwater.model.join_times import join_times, renamed
from slackwater.model.names import ours
from slackwater.model.node import DELAYED_OUTPUT, Join, Node, Source, raw_name
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.spark_sql import quoted
from slackwater.model.time import TimeColumn, parse_duration, parse_instant, parse_span
from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import topological
from slackwater.semantics.settings import resolve_source
from slackwater.surface.bands import BandSpec
from slackwater.surface.conditions import ConditionSpec, condition_of
from slackwater.surface.equalities import cast_as_compared, compared_type
from slackwater.surface.join_conditions import ConditionReader, Key, named_keys
from slackwater.surface.operands import check_streams
from slackwater.surface.sizes import bytes_of
from slackwater.surface.stream_columns import Origin
from slackwater.surface.timeless import stands_still
from slackwater.surface.windows import WindowSpec

if TYPE_CHECKING:
    from pyspark.sql import Column

    from slackwater.surface.stream import Stream


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
    markDelayed: bool = False,
) -> Stream:
    """One stream of the matching rows of several."""
    check_streams(streams, "join")
    kind = HOWS.get(how.lower()) if isinstance(how, str) else None
    if kind is None:
        raise bad_join("how", how, "use inner, left, right, full, left_semi or left_anti")
    if emit not in ("immediate", "ordered"):
        raise bad_join("emit", emit, 'use "immediate" or "ordered"')
    if len(streams) < 2:
        raise bad_join("the list of streams", len(streams), "give at least two streams")
    if len({id(s._spark) for s in streams}) > 1:
        raise bad_join("join", "streams of two sessions", "make all streams in one session")
    size = None if memory is None else bytes_of(memory, "join")
    if deadline is not None and size is None:
        raise bad_join("deadline", deadline, "it is for joins with memory=: others never wait")
    if size is not None and is_existence(kind):
        raise bad_join(
            "memory",
            memory,
            f"a {kind} join keeps all rows that wait, whatever their size: leave memory out, or use an inner join",
        )
    if not isinstance(markDelayed, bool):
        raise bad_join("markDelayed", markDelayed, "use True or False")
    if markDelayed and size is None:
        raise bad_join(
            "markDelayed",
            markDelayed,
            "it is for joins with memory=: others have no delayed results",
        )
    if size is not None and len(streams) != 2:
        raise bad_join(
            "memory", memory, "bounded memory is for joins of two streams: join them pairwise"
        )
    columns = _times(streams, times, within is None)
    names, shared, conditions = named_keys(on, streams)
    # A Column has no truth value.
    keyless = on is None or (isinstance(on, (str, list, tuple)) and not on)
    waits = within is None and not keyless and any(_may_wait(s._node) for s in streams)
    if len(streams) > 2 and (conditions or (within is None and not waits)):
        raise _several(within, conditions)
    # The columns of a semi or anti join are the left ones; only a condition needs those of both.
    left = (
        JoinColumns(streams[:1], [key[:1] for key in shared], kind) if is_existence(kind) else None
    )
    asked = where is not None or within is None or bool(conditions)
    shown = JoinColumns(streams, shared, kind) if left is None or asked else left
    reader = ConditionReader(streams, shown)
    if where is not None and not _is_function(where):
        where = reader.placed(where)
    keys = _keys(streams, names)
    if conditions or (within is None and len(streams) == 2):
        given = reader.read(conditions, names, times, within is not None, waits)
        if given.rest is not None and where is not None:
            raise bad_join("on", "a condition beside where=", "put it into where=")
        where = where if given.rest is None else given.rest
        more = _condition_keys(streams, given.keys)
        keys = tuple((*k, *m) for k, m in zip(keys, more, strict=True))
        within = within if given.band is None else given.band
        columns = columns if given.times is None else _times(streams, given.times)
    if within is None:
        within = Anytime()
        _check_anytime(keys, memory, emit)
    elif any(stands_still(s._node) for s in streams):
        columns = _times(streams, times)  # says why there is none
    span = _within(within, columns, streams[0]._analyser.zone)
    mixed = tuple(_mixed(streams, names, shared, shown.fields))
    sides = streams
    computed = [with_computed(s, k) for s, k in zip(streams, keys, strict=True)]
    streams, keys = [s for s, _ in computed], tuple(k for _, k in computed)
    test = None if where is None else _test(where, streams[0], shown.fields)
    pair: tuple[Named, ...] = ()
    if left is not None:
        pair, shown = _asked(test, shown.outputs), left
    own = [renamed(c, partial(shown.name_of, i)) for i, c in enumerate(columns[: shown.inputs])]
    fields, outputs = shown.fields, shown.outputs
    if markDelayed:
        fields, outputs = shown.with_delayed()
    node = Join(
        fields,
        join_times(own, kind),
        tuple(s._node for s in streams),
        keys,
        tuple(c.name for c in columns),
        span,
        kind,
        test,
        outputs,
        tuple(t.name for t in own),
        size,
        None if deadline is None else parse_duration(deadline, what="deadline", positive=False),
        mixed,
        pair,
    )
    inputs = {k: v for s in streams for k, v in s._inputs.items()}
    first = streams[0]
    from slackwater.surface.stream import Stream

    name = None if left is None else first._alias
    origins = shown.origins(sides[: shown.inputs], kind)
    result = Stream(node, inputs, first._analyser, first._spark, name, origins)
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


def _may_wait(node: Node) -> bool:
    """Whether something other than time can say that no partner comes: patterns, or the end of a stream."""
    return any(
        isinstance(n, Source) and (n.end_of_stream or any(s.patterns for s in resolve_source(n)))
        for n in topological([node])
    )


def _check_anytime(keys: Sequence[Sequence[Named]], memory: str | int | None, emit: str) -> None:
    """What a join at any distance in time cannot do."""
    if not keys[0]:
        raise bad_join(
            "on", None, "without keys every pair of rows would match, at any distance: give on=, or within=sw.band(...)"
        )  # fmt: skip
    if memory is not None:
        raise bad_join(
            "memory", memory, "it is for joins with within=, whose results may wait for a pass: leave memory out, or give within=sw.band(...)"
        )  # fmt: skip
    if emit == "ordered":
        raise bad_join(
            "emit", emit, "results at any distance have no time to be ordered by: leave emit out, or give within=sw.band(...)"
        )  # fmt: skip


def _is_function(where: Any) -> bool:
    return (
        isinstance(where, ConditionSpec) or inspect.isroutine(where) or isinstance(where, partial)
    )


def _test(where: Any, stream: Stream, fields: Sequence[Field]) -> Expr | Condition:
    """The further condition of a match."""
    if _is_function(where):
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


def _asked(test: Expr | Condition | None, pair: Sequence[Named]) -> tuple[Named, ...]:
    """The columns of a pair that a condition reads; at least one if there is a condition, so that pairs are counted."""
    if test is None:
        return ()
    if isinstance(test, Condition):
        return tuple(c for c in pair if not test.columns or c.name in test.columns)
    read = [c for c in pair if column(c.name, c.expr.type).sql in test.sql]
    return tuple(read or pair[:1])


class JoinColumns:
    """The columns of the result: keys given by name once, in front, then those of each stream."""

    def __init__(self, streams: Sequence[Stream], shared: Sequence[Key], how: How):
        self.inputs = len(streams)
        outputs: list[Named] = []
        self._names: dict[tuple[int, str], str] = {}
        self._shared = {key[0] for key in shared}
        for key in shared:
            outputs.append(Named(key[0], _once(streams, key, how)))
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
        check_names((f.name for f in self.fields), way='name the stream with .alias("a")')
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

    def origins(self, streams: Sequence[Stream], how: How) -> list[Origin]:
        """The columns of each stream that are columns of the result."""
        made = []
        for i, s in enumerate(streams):
            names = {f.name: self.name_of(i, f.name) for f in s._node.schema}
            # A row without a partner has a shared key that this stream's row would not have.
            alone = how == "full" or how == ("right" if i == 0 else "left")
            keys = self._shared if alone else set()
            made.append(Origin(s, {n: out for n, out in names.items() if out not in keys}))
        return made

    def with_delayed(self) -> tuple[tuple[Field, ...], tuple[Named, ...]]:
        """Fields and outputs with the column that says which pairs came from a pass."""
        name = DELAYED_OUTPUT.name
        if any(f.name.lower() == name for f in self.fields):
            raise AnalysisError(
                "DUPLICATE_COLUMN",
                f"markDelayed=True adds a column '{name}', and the streams have one",
                hint="rename theirs before the join with .withColumnRenamed(...)",
                name=name,
            )
        return (*self.fields, Field(name, "boolean")), (*self.outputs, DELAYED_OUTPUT)

    @property
    def owners(self) -> dict[str, tuple[int, str]]:
        """For each column of the result the input it comes from, and its name there."""
        return {out.lower(): place for place, out in self._names.items()}


def _once(streams: Sequence[Stream], key: Key, how: How) -> Expr:
    """The one column of a key that was given by name: of the type that Spark's join gives it."""
    types = _types(streams, key)
    raws = [Field(raw_name(i, n), t) for i, (n, t) in enumerate(zip(key, types, strict=True))]
    if how not in ("right", "full"):
        return column(raws[0].name, raws[0].type)
    if how == "right":
        return column(raws[1].name, raws[1].type)
    one = _coalesced(streams[0], raws)
    if one is None:
        raise AnalysisError(
            "JOIN_TYPES",
            f"join key '{key[0]}' is {types[0]} on one side and {types[1]} on the other, and no type of one "
            "column holds both",
            hint="cast one of them before the join",
            key=key[0],
        )
    return one


def _mixed(
    streams: Sequence[Stream], keys: Sequence[Key], shared: Sequence[Key], fields: Sequence[Field]
) -> Iterator[MixedKey]:
    """The keys whose types differ between the streams."""
    for key in keys:
        types = _types(streams, key)
        if len(set(types)) == 1:
            continue
        raws = [Field(f"c{i}", t) for i, t in enumerate(types)]
        widest = _coalesced(streams[0], raws)
        shown = fields[shared.index(key)].type if key in shared else None
        yield MixedKey(
            "/".join(dict.fromkeys(key)), types, None if widest is None else widest.type, shown
        )


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
    one_sided = isinstance(node, Join) and is_existence(node.how)
    labels = {label_of(c) for c in (node.children[:1] if one_sided else node.children)}
    return labels.pop() if len(labels) == 1 else None


def _times(
    streams: Sequence[Stream], times: Sequence[str] | None, anytime: bool = False
) -> list[TimeColumn]:
    if times is not None and len(times) != len(streams):
        raise bad_join("times", times, f"give one time column per stream, {len(streams)} in all")
    # Results at any distance have a time, too, of which nothing is known before the end.
    still = [anytime and times is None and stands_still(s._node) for s in streams]
    columns = [
        s._node.times[0] if waits else s._time(times[i] if times else None, "a join")
        for i, (s, waits) in enumerate(zip(streams, still, strict=True))
    ]
    if len({t.type for t in columns}) > 1:
        shown = ", ".join(f"{t.name} ({_clock(t)})" for t in columns)
        raise AnalysisError(
            "TIME_MISMATCH",
            f"the streams measure time differently: {shown}",
            hint="cast the time columns to one type before sw.stream(...)",
        )
    return columns


def _clock(time: TimeColumn) -> str:
    return "integer" if time.is_integer else time.type


def _within(within: Any, times: Sequence[TimeColumn], zone: str) -> Within:
    time = times[0]
    if isinstance(within, (Band, Anytime)):
        return within
    if isinstance(within, BandSpec):
        if len(times) != 2:
            raise bad_join("within", within, "joinAll needs one duration per stream")
        if within.closed not in ("both", "left", "neither"):
            raise bad_join("closed", within.closed, 'use "both", "left" or "neither"')
        return Band(_signed(within.before, time, "before"), _signed(within.after, time, "after"),
                    within.closed)  # fmt: skip
    if isinstance(within, WindowSpec):
        span = parse_span(within.range, time, what="window range")
        if within.slide is not None and parse_span(within.slide, time, what="slide") != span:
            raise bad_join(
                "within", within, "a join takes a tumbling window: leave slide out, or use sw.band"
            )
        origin = 0
        if within.origin is not None:
            origin = parse_instant(within.origin, time, zone, what="window origin")
        return Tumbling(TimeWindow(span, span, origin, time.name))
    if isinstance(within, (list, tuple)):
        if len(within) != len(times):
            raise bad_join("within", within, f"give one duration per stream, {len(times)} in all")
        return Reach(tuple(parse_span(w, time, what="within", positive=False) for w in within))
    length = "10" if time.is_integer else '"1 minute"'
    raise bad_join(
        "within",
        within,
        f"give sw.band(before={length}, after={length}) or sw.window({length})",
    )


def _signed(value: Any, time: TimeColumn, what: str) -> int:
    if value is None:
        return 0
    if time.is_integer and isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().startswith("-"):
        return -parse_duration(value.strip()[1:], what=what, positive=False)
    return parse_span(value, time, what=what, positive=False)


def _several(within: Any, conditions: Sequence[Any]) -> AnalysisError:
    """The error of more than two streams without the spans or names that they need."""
    if conditions:
        return bad_join(
            "on",
            conditions[0],
            "a condition is for two streams: give names of columns that all have, and the condition in where=",
        )
    return AnalysisError(
        "BAD_JOIN",
        "nothing says how far apart in time partners may be: there is no within=",
        hint='give one duration per stream, such as within=["5 seconds", "5 seconds", "1 second"], or sw.window(...)',
    )


def _keys(streams: Sequence[Stream], names: Sequence[Key]) -> tuple[tuple[Named, ...], ...]:
    return tuple(zip(*(_key(streams, key) for key in names), strict=True)) or ((),) * len(streams)


def _key(streams: Sequence[Stream], key: Key) -> list[Named]:
    """A key on each side, cast as Spark's ``=`` casts it."""
    types = _types(streams, key)
    if len(set(types)) == 1:
        return [Named(n, column(n, t)) for n, t in zip(key, types, strict=True)]
    analyser = streams[0]._analyser
    kind = compared_type(analyser, types, "/".join(dict.fromkeys(key)))
    sides = []
    for s, name, own in zip(streams, key, types, strict=True):
        text = cast_as_compared(analyser, quoted(name), own, kind)
        (cast,) = s._analyser.columns(s._node.schema, [text], star_ok=False)
        sides.append(Named(name, column(name, own) if own == kind else cast.expr))
    return sides


def _types(streams: Sequence[Stream], key: Key) -> tuple[str, ...]:
    return tuple(s._column_type(n) for s, n in zip(streams, key, strict=True))


def _condition_keys(
    streams: Sequence[Stream], pairs: Sequence[tuple[str, str]]
) -> tuple[tuple[Named, ...], ...]:
    """Keys from pairs of SQL texts, each over the columns of its own stream."""
    sides: list[list[Named]] = [[], []]
    for n, pair in enumerate(pairs):
        for side, s, text in zip(sides, streams, pair, strict=True):
            (key,) = s._analyser.columns(s._node.schema, [text], star_ok=False)
            side.append(Named(f"_k{n}", key.expr))
    return tuple(tuple(side) for side in sides)


def _coalesced(stream: Stream, raws: Sequence[Field]) -> Expr | None:
    """The first of several columns that is not null; None if Spark finds no type for it."""
    text = f"coalesce({', '.join(quoted(r.name) for r in raws)})"
    try:
        return stream._analyser.columns(raws, [text], star_ok=False)[0].expr
    except AnalysisError:
        return None


def with_computed(stream: Stream, keys: Sequence[Named]) -> tuple[Stream, tuple[Named, ...]]:
    """Keys that only Spark can evaluate become columns of a projection below."""
    if all(k.expr.duck is not None for k in keys):
        return stream, tuple(keys)
    own = [Named(f.name, column(f.name, f.type)) for f in stream._node.schema]
    made = [Named(ours(f"__key{i}"), k.expr) for i, k in enumerate(keys)]
    below = stream._project((*own, *made))
    return below, tuple(Named(m.name, column(m.name, m.expr.type)) for m in made)


def bad_join(what: str, value: object, hint: str) -> AnalysisError:
    return AnalysisError("BAD_JOIN", f"{what}: {value!r} is not possible here", hint=hint)
