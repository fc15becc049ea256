"""Take a join condition apart: equalities between two streams become keys, the rest stays a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.model.schema import Field

if TYPE_CHECKING:
    from slackwater.engine.analyse import Analyser


def equalities(
    conditions: Sequence[Any],
    owners: Mapping[str, tuple[int, str]],
    analyser: Analyser,
    fields: Sequence[Field],
) -> tuple[list[tuple[str, str]], str | None]:
    """Pairs of key texts, each over its own stream's columns, and what is left of the conditions.

    ``owners`` tells for each column of the result (lower case) its stream and its name there.
    """
    import sqlglot
    from sqlglot import exp

    pairs: list[tuple[str, str]] = []
    rest: list[str] = []
    for condition in conditions:
        text = analyser.condition(fields, condition).sql
        for part in sqlglot.parse_one(text, dialect="spark").unnest().flatten():
            part = part.unnest()
            left, right = part.args.get("this"), part.args.get("expression")
            owned = [_streams(side, owners) for side in (left, right)]
            if isinstance(part, exp.EQ) and sorted(map(sorted, owned)) == [[0], [1]]:
                if owned[0] == {1}:
                    left, right = right, left
                pairs.append((_own(left, owners), _own(right, owners)))
            else:
                rest.append(part.sql(dialect="spark"))
    if not pairs:
        raise AnalysisError(
            "JOIN_CONDITION",
            "on= has no equality between a column of the one stream and one of the other",
            hint='give column names, pairs such as [("id", "ref")], or an equality of two columns',
        )
    return pairs, " AND ".join(f"({r})" for r in rest) or None


def _streams(side: Any, owners: Mapping[str, tuple[int, str]]) -> set[int]:
    from sqlglot import exp

    if not isinstance(side, exp.Expression):
        return set()
    return {owners[c.name.lower()][0] for c in side.find_all(exp.Column)}


def _own(side: Any, owners: Mapping[str, tuple[int, str]]) -> str:
    """The text of one side under its own stream's names."""
    from sqlglot import exp

    side = side.copy()
    for found in list(side.find_all(exp.Column)):
        found.set("this", exp.to_identifier(owners[found.name.lower()][1], quoted=True))
    return str(side.sql(dialect="spark"))
