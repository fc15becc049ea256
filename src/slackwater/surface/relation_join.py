"""``stream.join(relation)``: from keys and a condition to the operators of a join with a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slackwater.engine.driver.relations import NEVER
from slackwater.errors import AnalysisError
from slackwater.model.join import HOWS, How
from slackwater.model.lookups import RelationJoin
from slackwater.model.node import Node, raw_name
from slackwater.model.schema import Expr, Named, column
from slackwater.model.spark_sql import quoted
from slackwater.model.time import parse_duration, parse_span
from slackwater.surface.equalities import cast_as_compared, compared_type
from slackwater.surface.join_columns import JoinColumns
from slackwater.surface.join_conditions import ConditionReader, not_inside
from slackwater.surface.join_keys import with_computed
from slackwater.surface.operands import bad_join
from slackwater.surface.relation import Relation
from slackwater.surface.stream import Stream
from slackwater.surface.stream_columns import Origin

if TYPE_CHECKING:
    from pyspark.sql import Column


def join_relation(
    stream: Stream,
    relation: Relation,
    on: Any,
    how: str = "inner",
    where: Column | str | None = None,
    hold: Any = None,
    emit: str = "immediate",
    **others: Any,
) -> Stream:
    """The rows of a stream with those of a relation that have their key; ``others`` are what joins of streams take."""
    kind = _kind(how)
    if emit not in ("immediate", "ordered"):
        raise bad_join("emit", emit, 'use "immediate" or "ordered"')
    deadline = _deadline(others, hold)
    table = relation._table()
    names = _names(stream, relation, on)
    shared = [(n, k) for n, k in zip(names, table.key, strict=True) if _is_shared(on, n, k)]
    sides = [stream, relation._rows]
    shown = JoinColumns(sides, shared, "inner")
    test = None if where is None else _test(stream, sides, shown, where, kind)
    keys = tuple(_key(stream, relation, n, k) for n, k in zip(names, table.key, strict=True))
    below, keys = with_computed(stream, keys)
    # Keys that only Spark can evaluate come along as columns of ours, until the result is made.
    extra = below._node.schema[len(stream.columns) :]
    columns = (
        *shown.outputs, *(Named(f.name, column(raw_name(0, f.name), f.type)) for f in extra),
    )  # fmt: skip
    ticks, time = None, ""
    if hold is not None:
        ticks, time = _hold(stream, relation, hold)
    if deadline:
        time = stream._time(None, "a join with deadline=").name
    join = RelationJoin(below._node, table, keys, columns, kind, test, time, ticks, deadline)
    own = Origin(stream, {c: c for c in stream.columns})
    existence = kind in ("left_semi", "left_anti")
    result = _stream(stream, join.result, [own] if existence else shown.origins(sides, "inner"))
    unmatched: Stream | str = kind
    if kind in ("inner", "left_semi"):
        unmatched = _stream(stream, join.unmatched, [own])
    if extra:
        names = stream.columns if existence else [f.name for f in shown.fields]
        result = result.select(*map(quoted, names))
        if isinstance(unmatched, Stream):
            unmatched = unmatched.select(*map(quoted, stream.columns))
    result = result.sort() if emit == "ordered" else result
    result._unmatched = unmatched
    return result


def _stream(stream: Stream, node: Node, origins: Sequence[Origin]) -> Stream:
    return Stream(node, stream._inputs, stream._analyser, stream._spark, stream._alias, origins)


def _kind(how: Any) -> How:
    kind = HOWS.get(how.lower()) if isinstance(how, str) else None
    if kind is None:
        raise bad_join("how", how, "use inner, left, left_semi or left_anti")
    if kind in ("right", "full"):
        raise bad_join(
            "how",
            how,
            "a relation never ends, so that no row of it is known to stay alone; use inner, left, left_semi or left_anti",
        )
    return kind


def _deadline(others: dict[str, Any], hold: Any) -> int:
    """How long rows may wait for segments; what joins of streams take besides is refused."""
    hints = {
        "within": "a relation has no time, and its rows are those of the batch's version: leave it out; validity is a "
        'condition, where="ts >= valid_from"',
        "memory": "how much of a relation may be in memory is said of it: sw.relation(..., memory=...)",
        "times": "rows keep all their times: leave it out",
        "markDelayed": "no row of such a join is delayed: leave it out",
    }
    for name, hint in hints.items():
        if others.get(name) not in (None, False):
            raise bad_join(name, others[name], hint)
    deadline = others.get("deadline")
    if deadline is None:
        return 0
    if str(deadline).strip().startswith("-"):
        raise bad_join("deadline", deadline, 'a deadline is "0 seconds" or more')
    ticks = int(parse_duration(deadline, what="deadline", positive=False))
    if ticks and hold is not None:
        raise bad_join(
            "deadline",
            deadline,
            "rows that hold= keeps until a partner comes do not wait for a read besides: leave one of the two out, or give "
            'deadline="0 seconds"',
        )
    return ticks


def _names(stream: Stream, relation: Relation, on: Any) -> list[str]:
    """The stream's columns for the relation's keys, in their order."""
    items = on if isinstance(on, list) else [on]
    pairs: dict[str, str] = {}
    for item in items:
        if isinstance(item, str):
            pair = (item, item)
        elif isinstance(item, tuple) and len(item) == 2 and all(isinstance(i, str) for i in item):
            pair = (item[0], item[1])
        else:
            raise _other_key(relation, item)
        theirs = next((k for k in relation._key if stream._same(k, pair[1])), None)
        if theirs is None or theirs in pairs:
            raise _other_key(relation, item)
        pairs[theirs] = stream._column(pair[0])
    missing = [k for k in relation._key if k not in pairs]
    if missing:
        raise _other_key(relation, on)
    return [pairs[k] for k in relation._key]


def _other_key(relation: Relation, given: Any) -> AnalysisError:
    keys = relation._key
    example = ", ".join(f'("...", "{k}")' for k in keys)
    return AnalysisError(
        "RELATION_KEY",
        f"on={given!r}: relation '{relation._name}' is joined on its key, {', '.join(keys)}",
        hint=f"write on=[{example}] with the stream's columns, or names that both have; further conditions go into where=; "
        "another key is given to sw.relation(..., key=...)",
        relation=relation._name,
    )


def _is_shared(on: Any, name: str, key: str) -> bool:
    """Whether a key was given by one name for both, so that the result has it once."""
    items = on if isinstance(on, list) else [on]
    return any(isinstance(i, str) and i.lower() in (name.lower(), key.lower()) for i in items)


def _key(stream: Stream, relation: Relation, name: str, key: str) -> Named:
    """The stream's side of a key, in the type of the relation's."""
    own, theirs = stream._column_type(name), relation._rows._column_type(key)
    if own == theirs:
        return Named(name, column(name, own))
    what = name if name == key else f"{name}/{key}"
    kind = compared_type(stream._analyser, (own, theirs), what)
    if kind != theirs:
        raise AnalysisError(
            "JOIN_TYPES",
            f"join key '{what}' is {own} in the stream and {theirs} in relation '{relation._name}', so that they would be "
            f"compared as {kind}: every row of the relation would have to be cast",
            hint=f"cast the stream's column to {theirs} before the join, or write the table with {kind}",
            key=what,
        )
    text = cast_as_compared(stream._analyser, quoted(name), own, kind)
    (cast,) = stream._analyser.columns(stream._node.schema, [text], star_ok=False)
    return Named(name, cast.expr)


def _test(stream: Stream, sides: list[Stream], shown: JoinColumns, where: Any, kind: str) -> Expr:
    from slackwater.surface.conditions import ConditionSpec

    if isinstance(where, ConditionSpec) or (callable(where) and not hasattr(where, "_jc")):
        raise bad_join(
            "where",
            where,
            "give a condition as a text or a Column: functions are for joins of streams",
        )
    placed = ConditionReader(sides, shown).placed(where)
    test = stream._analyser.condition(shown.fields, placed)
    if test.duck is None:
        before = (
            "compute what it reads of each side as a column before the join, with withColumn(...)"
        )
        raise not_inside(test, "use .where(...) after the join" if kind == "inner" else before)
    return test


def _hold(stream: Stream, relation: Relation, hold: Any) -> tuple[int, str]:
    if relation._use.refresh == NEVER:
        way = 'refresh="10 minutes"' + ("" if relation._use.table is None else ', or "batch"')
        raise bad_join(
            "hold",
            hold,
            f"relation '{relation._name}' is looked at only when query.refresh asks for it (refresh=\"never\"), so that nothing "
            f"brings a partner by itself: give it {way} (query.refresh still asks for more), or leave hold out, "
            "so that rows without a partner leave at once",
        )
    time = stream._time(None, "a join with hold=")
    return parse_span(hold, time, what="hold", positive=False), time.name
