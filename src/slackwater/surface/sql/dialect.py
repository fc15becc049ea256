"""Syntax of expressions without Java: the Spark dialect of sqlglot, told what its parser does not know.

Nothing that sqlglot prints reaches Spark, and a tree of its own is not kept: it only says where an expression breaks off. With a
session Spark's own parser judges.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError

from slackwater.surface.sql.cursor import Cursor, shown
from slackwater.surface.sql.text import Span, nearest
from slackwater.surface.sql.tree import Cut

_WORDS = ("FROM", "WHERE", "GROUP", "HAVING", "AND", "OR", "NOT", "AS", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "IN", "LIKE", "IS", "NULL", "INTERVAL")  # fmt: skip


class Misread(Exception):
    """Where a text breaks off, by its first and last letter."""

    def __init__(self, start: int, end: int, message: str):
        super().__init__(message)
        self.start, self.end = start, end


class TooDeep(Misread):
    """More brackets, CASEs or calls in each other than can be walked: nothing need be wrong with the text."""


def tree_of(text: str) -> exp.Expression:
    """The tree that sqlglot has of an expression; `Misread` if it has none.

    >>> tree_of("upper(k) AS u").sql("spark")
    'UPPER(k) AS u'
    """
    whole = f"SELECT {text}"
    parser = Spark().parser(error_level=ErrorLevel.IMMEDIATE)
    try:
        trees: Sequence[Any] = parser.parse_into(exp.Select, Spark().tokenize(whole), whole)
    except TokenError as error:
        raise Misread(0, len(text), str(error).splitlines()[0]) from None
    except ParseError as error:
        start, end = _token_of(error, text)
        raise Misread(start, end, _reason(error)) from None
    except RecursionError:
        raise TooDeep(0, len(text), "the expression is too deep") from None
    select = trees[0]
    if len(select.expressions) != 1 or {k for k, v in select.args.items() if v} - {"expressions"}:
        raise Misread(0, len(text), "more than one expression")
    made: exp.Expression = select.expressions[0]
    return made


def _token_of(error: ParseError, text: str) -> tuple[int, int]:
    """The letters of the token that was not expected: sqlglot gives the text in front of it and itself."""
    first = error.errors[0] if error.errors else {}
    before, mark = first.get("start_context") or "", first.get("highlight") or ""
    rest = first.get("end_context") or ""
    whole = f"SELECT {text}"
    at = whole.find(before + mark + rest) + len(before) if before or mark else len(whole)
    start = max(0, at - len("SELECT "))
    return start, start + max(1, len(mark))


def _reason(error: ParseError) -> str:
    first = error.errors[0] if error.errors else {}
    text = re.sub(r"\s+", " ", str(first.get("description") or "not understood")).rstrip(".")
    return "something is missing behind it" if text.startswith("Required keyword") else text


def check(cursor: Cursor, cut: Cut) -> None:
    """An error at the token at which an expression breaks off."""
    pieces, places, at = [], [], 0
    for token in cursor.tokens[cut.first : cut.last]:
        if token.holds_variable:
            cursor.variables.spark(token)  # an error if it has no value
        piece = "0" if token.kind == "variable" else token.text
        places.append((at, at + len(piece), token))
        pieces.append(piece)
        at += len(piece) + 1
    text = " ".join(pieces)
    if _is_window(text):
        return
    try:
        tree_of(text)
    except TooDeep:
        raise cursor.text.error(
            cut.span, "TOO_DEEP", "the expression is nested too deeply to be checked without Spark",
            hint="check it with Spark, without --syntax; if that is too deep as well, compute it in steps, in sub-queries or views",
        ) from None  # fmt: skip
    except Misread as error:
        hit = next((t for s, e, t in places if e > error.start), places[-1][2])
        number = next(i for i in range(cut.first, cut.last) if cursor.tokens[i] is hit)
        near = cursor.tokens[max(cut.first, number - 1) : number + 1]
        for token in reversed(near):
            close = nearest(token.text, _WORDS, 0.7) if token.kind == "word" else None
            if close is not None and token.word != close:
                raise cursor.text.error(
                    token.span,
                    "SYNTAX",
                    f"{token.text} was not expected here",
                    hint=f"did you mean {close}?",
                ) from None
        behind = error.start >= at - 1
        span = Span(cut.span.end - 1, cut.span.end) if behind else hit.span
        raise cursor.text.error(
            span, "SYNTAX",
            "the expression is not complete" if behind else f"{shown(hit)} was not expected here: {error}",
            hint="check the operator, comma or bracket in front of it",
        ) from None  # fmt: skip


def _is_window(text: str) -> bool:
    """``window(...)`` alone, which sqlglot takes for the clause of that name."""
    return re.match(r"\s*window\s*\(", text, re.IGNORECASE) is not None
