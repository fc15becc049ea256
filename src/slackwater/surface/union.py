"""The union of two streams: columns brought to common types, progress on common columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slackwater.errors import AnalysisError
from slackwater.model.node import Union
from slackwater.model.schema import Field

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


def unite(one: Stream, other: Stream, order: Sequence[str]) -> Stream:
    """Rows of both; ``order`` names the columns of the other that go with those of the one."""
    types = [
        _common(one, a, other._node.field(b)) for a, b in zip(one._node.schema, order, strict=True)
    ]
    left = one._shaped(one.columns, one.columns, types)
    right = other._shaped(order, one.columns, types)
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

    return Stream(node, {**one._inputs, **other._inputs}, one._analyser, one._spark)


def _common(stream: Stream, a: Field, b: Field | None) -> str:
    assert b is not None
    if a.type == b.type:
        return a.type
    query = f"SELECT CAST(NULL AS {a.type}) AS c UNION ALL SELECT CAST(NULL AS {b.type})"
    try:
        from slackwater.engine.analyse import type_name

        return type_name(stream._spark.sql(query).schema.fields[0].dataType)
    except Exception as error:
        raise AnalysisError(
            "UNION_MISMATCH",
            f"column '{a.name}' is {a.type} in one stream and {b.type} in the other",
            hint="cast one of them",
            column=a.name,
        ) from error
