"""The union of two streams: columns brought to common types, progress on common columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slackwater.errors import AnalysisError
from slackwater.model.node import Union
from slackwater.model.schema import Field, Named, column
from slackwater.model.spark_sql import quoted
from slackwater.surface.operands import check_streams
from slackwater.surface.stream_columns import Origin

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


def by_position(one: Stream, other: Stream) -> Stream:
    """Rows of both, columns by position."""
    check_streams([other], "union")
    if len(one.columns) != len(other.columns):
        raise AnalysisError(
            "UNION_MISMATCH",
            f"the streams have {len(one.columns)} and {len(other.columns)} columns",
            hint="select the same columns on both sides",
        )
    return _united(one, other, other.columns)


def by_name(one: Stream, other: Stream, missing_ok: bool) -> Stream:
    """Rows of both, columns by name; with ``missing_ok`` missing ones are null."""
    check_streams([other], "unionByName")
    mine, theirs = {c.lower() for c in one.columns}, {c.lower() for c in other.columns}
    if mine != theirs and not missing_ok:
        odd = sorted(mine ^ theirs)
        raise AnalysisError(
            "UNION_MISMATCH",
            f"columns on one side only: {', '.join(odd)}",
            hint="select the same columns on both sides, or use allowMissingColumns=True",
            columns=odd,
        )
    left, right = _padded(one, other), _padded(other, one)
    named = {c.lower(): c for c in right.columns}
    return _united(left, right, [named[c.lower()] for c in left.columns])


def _padded(stream: Stream, other: Stream) -> Stream:
    """The stream with nulls for columns that only the other has."""
    own = {c.lower() for c in stream.columns}
    for f in other._node.schema:
        if f.name.lower() not in own:
            stream = stream.withColumn(f.name, f"CAST(NULL AS {f.type})")
    return stream


def _united(one: Stream, other: Stream, order: Sequence[str]) -> Stream:
    """Rows of both; ``order`` names the columns of the other that go with those of the one."""
    types = [
        _common(one, a, other._node.field(b)) for a, b in zip(one._node.schema, order, strict=True)
    ]
    left = _shaped(one, one.columns, one.columns, types)
    right = _shaped(other, order, one.columns, types)
    for stream in (left, right):
        stream._time(None, "a union")
    mine = [t.name for t in left._node.times]
    theirs = [t.name for t in right._node.times]
    common = [n for n in mine if n in theirs]
    if not common:
        raise AnalysisError(
            "UNION_MISMATCH",
            f"the streams progress on different columns: {', '.join(mine)} and {', '.join(theirs)}",
            hint="put the time columns in the same place (union) or under the same name",
        )
    left, right = left._restricted(common), right._restricted(common)
    inputs = tuple(
        n
        for s in (left, right)
        for n in (s._node.inputs if isinstance(s._node, Union) else (s._node,))
    )
    node = Union(left._node.schema, left._node.times, inputs)
    from slackwater.surface.stream import Stream

    inputs_of_both = {**one._inputs, **other._inputs}
    origin = Origin(one, {c: c for c in one.columns})
    return Stream(node, inputs_of_both, one._analyser, one._spark, origins=(origin,))


def _shaped(
    stream: Stream, order: Sequence[str], names: Sequence[str], types: Sequence[str]
) -> Stream:
    """The columns ``order`` of a stream, under other names and cast to the types."""
    same = list(order) == stream.columns and list(names) == stream.columns
    if same and [f.type for f in stream._node.schema] == list(types):
        return stream
    items = []
    for old, new, kind in zip(order, names, types, strict=True):
        f = stream._node.field(old)
        assert f is not None
        if f.type == kind:
            items.append(Named(new, column(old, f.type)))
        else:
            (cast,) = stream._analyser.columns(
                stream._node.schema, [f"CAST({quoted(old)} AS {kind})"], star_ok=False
            )
            items.append(Named(new, cast.expr))
    return stream._project(tuple(items))


def _common(stream: Stream, a: Field, b: Field | None) -> str:
    assert b is not None
    if a.type == b.type:
        return a.type
    try:
        return stream._analyser.united_type(a.type, b.type)
    except AnalysisError as error:
        raise AnalysisError(
            "UNION_MISMATCH",
            f"column '{a.name}' is {a.type} in one stream and {b.type} in the other",
            hint="cast one of them",
            column=a.name,
        ) from error
