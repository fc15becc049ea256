"""Columns that belong to a stream: how a Column says so, and what is put in its place before Spark analyses it.

Spark's analyser knows nothing of streams. So a stream's column is a Column under a qualifier of ours, which names the
stream by number; where the Column is used, the name that the column has there takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.model.names import PREFIX, ours
from slackwater.model.spark_sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

Parts = tuple[str, ...]
"""A name as Spark reads it: the parts between its dots."""
Place = Callable[[Parts], Parts | None]
"""What a name is called where an expression is used; None leaves it to Spark."""

_OWNER = re.compile(PREFIX + r"(\d+):(.*)", re.DOTALL)
_NAMES = ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable")


@dataclass(frozen=True)
class Owner:
    """The stream that a column belongs to; ``label`` is what people call it, which may be nothing."""

    number: int
    label: str

    @property
    def qualifier(self) -> str:
        """What stands in front of the column's name.

        >>> Owner(3, "calls").qualifier, Owner.of("__sw3:calls"), Owner.of("calls")
        ('__sw3:calls', Owner(number=3, label='calls'), None)
        """
        return ours(f"{self.number}:{self.label}")

    @classmethod
    def of(cls, qualifier: str) -> Owner | None:
        """The owner that a qualifier names, if it is one of ours."""
        match = _OWNER.fullmatch(qualifier)
        return None if match is None else cls(int(match[1]), match[2])


def column_of(owner: Owner, *parts: str) -> Column:
    """The Column of a stream's column; further parts are fields inside it."""
    from pyspark.sql import functions as F

    return F.col(".".join(quoted(p) for p in (owner.qualifier, *parts)))


def names_a_stream(column: Any) -> bool:
    """Whether a Column may hold columns that belong to streams."""
    return hasattr(column, "_jc") and PREFIX in str(column._jc.toString())


def placed(spark: SparkSession, column: Column, place: Place) -> Column:
    """The same expression with each name as ``place`` has it."""
    from pyspark.sql import Column as SparkColumn

    if not hasattr(column, "_jc"):
        return column  # no Column, which the analysis says
    jvm: Any = spark._jvm
    whole = spark._jsparkSession.expression(column._jc)
    new = _Placing(jvm, place).placed(whole, frozenset())
    if new is whole:
        return column
    # The constructor takes what Spark's own functions hand to it.
    made: type[Any] = SparkColumn
    result: Column = made(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(new))
    return result


class _Placing:
    """Rebuilds an expression that Spark has not analysed yet, along the paths to names that change."""

    def __init__(self, jvm: Any, place: Place):
        self._place = place
        self._seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self._attribute = jvm.org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute

    def placed(self, node: Any, variables: frozenset[str]) -> Any:
        """``node`` itself if nothing in it changes; ``variables`` are those of the lambdas around it."""
        kind = str(node.productPrefix())
        if kind in _NAMES:
            return self._name(node, variables)
        children = _items(node.children())
        if kind == "LambdaFunction":
            heads = _items(node.arguments())
            variables |= {str(h.name()).lower() for h in heads}
            # The variables themselves are no names of columns.
            new = [self.placed(children[0], variables), *children[1:]]
        else:
            new = [self.placed(c, variables) for c in children]
        if all(a is b for a, b in zip(children, new, strict=True)):
            return node
        return node.withNewChildren(self._seq(new))

    def _name(self, node: Any, variables: frozenset[str]) -> Any:
        parts = tuple(str(p) for p in _items(node.nameParts()))
        # In SQL every name inside a lambda may be a variable: those of the lambda come first.
        if parts[0].lower() in variables:
            return node
        new = self._place(parts)
        return node if new is None or new == parts else self._attribute(self._seq(list(new)))


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]
