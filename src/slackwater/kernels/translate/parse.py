"""Spark's SQL of an analysed expression, as a tree.

The dialect is Spark's with every function left as written: sqlglot's own function classes merge
functions that differ in meaning (``CAST`` and ``TRY_CAST``, ``nvl`` and ``coalesce``...).
"""

from __future__ import annotations

from sqlglot import exp, parse_one
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from slackwater.kernels.translate.types import NotTranslatable


class Analysed(Spark):
    """Spark SQL as ``Expression.sql`` prints it."""

    STRICT_CAST = True

    class Parser(Spark.Parser):  # type: ignore[misc,valid-type]
        STRICT_CAST = True
        FUNCTIONS: dict[str, object] = {}
        NO_PAREN_FUNCTIONS: dict[object, object] = {}
        FUNCTION_PARSERS = {
            name: parser
            for name, parser in Spark.Parser.FUNCTION_PARSERS.items()
            if name in ("CAST", "TRY_CAST", "TRIM")
        }


def parse(sql: str) -> exp.Expression:
    """The tree of one expression, parentheses removed."""
    try:
        tree = parse_one(sql, dialect=Analysed)
    except (SqlglotError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise NotTranslatable(f"not understood: {reason}") from None
    assert isinstance(tree, exp.Expression)
    return strip(tree)


def strip(tree: exp.Expression) -> exp.Expression:
    """The tree below any parentheses."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree
