"""Spark's SQL of an analysed expression, as a tree.

The dialect is Spark's with every function left as written: sqlglot's own function classes merge
functions that differ in meaning (``CAST`` and ``TRY_CAST``, ``nvl`` and ``coalesce``...).
"""

from __future__ import annotations

import re

from sqlglot import exp, parse_one
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError

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
        if isinstance(error, RecursionError):
            reason = "it is nested too deeply"
        raise NotRead(f"not understood: {reason}", *_fault(sql, error)) from None
    assert isinstance(tree, exp.Expression)
    return strip(tree)


class NotRead(NotTranslatable):
    """A text that is no SQL: what is wrong with it in plain words, and at which sign, if that is known."""

    def __init__(self, message: str, fault: str, at: int | None) -> None:
        super().__init__(message)
        self.fault = fault
        self.at = at


def _fault(sql: str, error: Exception) -> tuple[str, int | None]:
    if isinstance(error, RecursionError):
        return "brackets and NOTs stand in each other too often", None
    if isinstance(error, TokenError):
        at = max(sql.rfind(quote) for quote in "'\"`")
        return ("this quote is not closed", at) if at >= 0 else ("it is no SQL", None)
    found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    line, end, token = (found.get(key) for key in ("line", "col", "highlight"))
    if not line or not end or not token:
        return "it is no SQL", None
    begins = sum(len(each) for each in sql.splitlines(keepends=True)[: line - 1])
    text = str(found.get("description", ""))
    missing, wanted = text.startswith("Required keyword"), re.fullmatch(r"Expecting (\S+)", text)
    fault = "something is missing after this" if missing else "this is not expected here"
    if wanted is not None:
        fault = f"{wanted[1]} is missing after this"
    return fault, begins + end - len(token)


def strip(tree: exp.Expression) -> exp.Expression:
    """The tree below any parentheses."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree
