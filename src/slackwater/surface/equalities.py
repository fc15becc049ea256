"""Join keys: pairs of expressions that Spark's ``=`` compares, each with the casts that Spark puts in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from slackwater.engine.analysis.conjuncts import Conjunct
from slackwater.errors import AnalysisError
from slackwater.model.schema import Field

if TYPE_CHECKING:
    from slackwater.engine.analysis.analyse import Analyser

_LEFT, _RIGHT = "l", "r"


def key_pair(part: Conjunct, owners: Mapping[str, tuple[int, str]]) -> tuple[str, str] | None:
    """The two sides of an equality between the streams, each over its own stream's columns; None if it is none.

    ``owners`` tells for each column of the result (lower case) its stream and its name there.
    """
    if part.sides is None:
        return None
    left, right = part.sides
    owned = [{owners[c.lower()][0] for c in side.columns} for side in part.sides]
    if owned == [{0}, {1}]:
        return left.sql, right.sql
    return (right.sql, left.sql) if owned == [{1}, {0}] else None


def compared_type(analyser: Analyser, types: Sequence[str], what: str) -> str:
    """The type in which Spark's ``=`` compares values of these types."""
    kind = types[0]
    for other in types[1:]:
        kind = _sides(analyser, kind, other, types, what)[0]
    # Of three types each two may meet in another one.
    for own in types:
        if _sides(analyser, own, kind, types, what) != (kind, kind):
            raise _not_comparable(types, what)
    return kind


def cast_as_compared(analyser: Analyser, text: str, own: str, kind: str) -> str:
    """The text of a key of type ``own`` where it is compared as ``kind``."""
    if own == kind:
        return text
    fields = (Field(_LEFT, own), Field(_RIGHT, kind))
    (part,) = analyser.conjuncts(fields, f"{_LEFT} = {_RIGHT}", {_LEFT: _LEFT, _RIGHT: _RIGHT})
    assert part.sides is not None
    # The name stands once in the text: a cast of it, and nothing else.
    return part.sides[0].sql.replace(f"`{_LEFT}`", text)


def _sides(
    analyser: Analyser, one: str, other: str, types: Sequence[str], what: str
) -> tuple[str, str]:
    """The types of both sides of an equality, as Spark casts them."""
    if one == other:
        return one, other
    fields = (Field(_LEFT, one), Field(_RIGHT, other))
    try:
        (part,) = analyser.conjuncts(fields, f"{_LEFT} = {_RIGHT}", {_LEFT: _LEFT, _RIGHT: _RIGHT})
    except AnalysisError as error:
        raise _not_comparable(types, what) from error
    assert part.sides is not None
    return part.sides[0].type, part.sides[1].type


def _not_comparable(types: Sequence[str], what: str) -> AnalysisError:
    shown = f"{types[0]} on one side and {types[1]} on the other"
    if len(types) > 2:
        shown = f"of types {', '.join(types)}, which have no type in common"
    return AnalysisError(
        "JOIN_TYPES",
        f"join key '{what}' is {shown}",
        hint="cast one of them before the join",
        key=what,
    )
