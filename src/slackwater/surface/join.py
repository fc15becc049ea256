"""``join`` and ``joinAll``: from streams, keys and spans of time to one operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.model.join import (
    HOWS,
    Anytime,
    Condition,
    is_existence,
)
from slackwater.model.join_times import join_times, renamed
from slackwater.model.node import Join, Node, Source
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import parse_duration
from slackwater.semantics.bounds import topological
from slackwater.semantics.settings import resolve_source
from slackwater.surface.conditions import ConditionSpec, condition_of
from slackwater.surface.join_columns import JoinColumns
from slackwater.surface.join_conditions import ConditionReader, named_keys, not_inside
from slackwater.surface.join_keys import condition_sides, mixed_keys, named_sides, with_computed
from slackwater.surface.join_spans import span_of, times_of
from slackwater.surface.operands import bad_join, check_streams
from slackwater.surface.sizes import bytes_of
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
    columns = times_of(streams, times, within is None)
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
    keys = named_sides(streams, names)
    if conditions or (within is None and len(streams) == 2):
        given = reader.read(conditions, names, times, within is not None, waits)
        if given.rest is not None and where is not None:
            raise bad_join("on", "a condition beside where=", "put it into where=")
        where = where if given.rest is None else given.rest
        more = condition_sides(streams, given.keys)
        keys = tuple((*k, *m) for k, m in zip(keys, more, strict=True))
        within = within if given.band is None else given.band
        columns = columns if given.times is None else times_of(streams, given.times)
    if within is None:
        within = Anytime()
        _check_anytime(keys, memory, emit)
    elif any(stands_still(s._node) for s in streams):
        columns = times_of(streams, times)  # says why there is none
    span = span_of(within, columns, streams[0]._analyser.zone)
    mixed = tuple(mixed_keys(streams, names, shared, shown.fields))
    sides = streams
    computed = [with_computed(s, k) for s, k in zip(streams, keys, strict=True)]
    streams, keys = [s for s, _ in computed], tuple(k for _, k in computed)
    test = None if where is None else _test(where, streams[0], shown.fields, kind)
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


def _test(where: Any, stream: Stream, fields: Sequence[Field], kind: str) -> Expr | Condition:
    """The further condition of a match."""
    if _is_function(where):
        spec = where if isinstance(where, ConditionSpec) else ConditionSpec(where)
        return condition_of(spec, fields)
    test = stream._analyser.condition(fields, where)
    if test.duck is None:
        after = "; or use .where(...) after the join" if kind == "inner" else ""
        raise not_inside(test, f"give a function on Arrow columns (sw.condition){after}")
    return test


def _asked(test: Expr | Condition | None, pair: Sequence[Named]) -> tuple[Named, ...]:
    """The columns of a pair that a condition reads; at least one if there is a condition, so that pairs are counted."""
    if test is None:
        return ()
    if isinstance(test, Condition):
        return tuple(c for c in pair if not test.columns or c.name in test.columns)
    read = [c for c in pair if column(c.name, c.expr.type).sql in test.sql]
    return tuple(read or pair[:1])


def label_of(node: Node) -> str | None:
    """The name of the only source below a node, or None."""
    if isinstance(node, Source):
        return node.name
    one_sided = isinstance(node, Join) and is_existence(node.how)
    labels = {label_of(c) for c in (node.children[:1] if one_sided else node.children)}
    return labels.pop() if len(labels) == 1 else None


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
        hint='give one duration per stream, such as within=["5 seconds", "5 seconds", "1 second"], or sw.window(...); '
        "or have all streams punctuated on the keys, progress=sw.Punctuated(...) with patterns",
    )
