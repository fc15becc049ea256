"""Columns and expressions, as Spark's analyser understood them.

A type is Spark's ``simpleString`` (``bigint``, ``decimal(10,2)``, ``struct<start:timestamp,...>``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.model.duck_sql import quote
from slackwater.model.meaning import Meaning
from slackwater.model.spark_sql import quoted


@dataclass(frozen=True)
class Field:
    """A named, typed column."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Expr:
    """An expression analysed by Spark.

    ``sql`` is Spark's own SQL of the analysed expression, ``type`` its result type. ``duck`` is the
    same expression for the column engine, or None where no faithful translation exists; ``why``
    then says what stood in the way. ``meaning`` are the session's settings when it was analysed; a
    plain column has none, since it means the same under all of them.
    """

    sql: str
    type: str
    duck: str | None = None
    why: str = ""
    meaning: Meaning | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Named:
    """An expression and the name of the column that holds its result."""

    name: str
    expr: Expr


def column(name: str, type: str) -> Expr:
    """The expression that is just a column."""
    return Expr(quoted(name), type, quote(name))
