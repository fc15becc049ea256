"""Durations as SQL writes them: ``10 SECONDS``, ``INTERVAL '10' SECOND``, ``'10 seconds'``, a plain number."""

from __future__ import annotations

import re
from decimal import Decimal

from slackwater.errors import AnalysisError
from slackwater.model.time import parse_duration
from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.text import Span, nearest
from slackwater.surface.sql.tokens import Token
from slackwater.surface.sql.tree import Duration

_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_UNITS = (*_FIELDS, "WEEK", "MILLISECOND", "MICROSECOND")
_SHORT = {"SEC": "SECOND", "MIN": "MINUTE"}
_MONTHS = ("MONTH", "YEAR", "QUARTER")
_CLOCK = re.compile(r"[+]?(?:(\d+) )?(\d+(?::\d+){0,2}(?:\.\d+)?)")


def duration(cursor: Cursor, what: str, *, rows: bool = False) -> Duration:
    """Read a duration; with ``rows`` it may be a number of rows."""
    first = cursor.peek()
    if cursor.take("INTERVAL"):
        return _checked(cursor, _interval(cursor, what), cursor.span_from(first), what)
    if first.kind in ("text", "variable"):
        cursor.next()
        value = cursor.variables.value(first).strip()
        if first.kind == "variable" and _unit(cursor.peek()):
            return _checked(cursor, f"{value} {_pairs(cursor)}", cursor.span_from(first), what)
        if first.kind == "variable" and value.lstrip("-").isdigit():
            return Duration(int(value), first.span)
        return _checked(cursor, value, first.span, what)
    if first.kind == "number":
        if rows and cursor.peek(1).is_word("ROW", "ROWS"):
            number = _count(cursor, cursor.next())
            cursor.next()
            return Duration(number, cursor.span_from(first), rows=True)
        if _unit(cursor.peek(1)):
            return _checked(cursor, _pairs(cursor), cursor.span_from(first), what)
        near = cursor.peek(1)
        close = nearest(near.text, [u + "S" for u in _UNITS], 0.66) if near.kind == "word" else None
        if close is not None:
            raise cursor.text.error(
                near.span,
                "SYNTAX",
                f"{near.text} is no unit of time",
                hint=f"did you mean {close}?",
            )
        cursor.next()
        return Duration(_count(cursor, first), first.span)
    raise cursor.expected(
        what, known=["INTERVAL"], back=0, hint="write a duration, such as 10 SECONDS or INTERVAL '10' SECOND"
    )  # fmt: skip


def _unit(token: Token) -> str:
    """The unit that a word is, or nothing; a month counts, so that it can be refused by name."""
    word = token.word.removesuffix("S") if token.kind == "word" else ""
    word = _SHORT.get(word, word)
    return word if word in (*_UNITS, *_MONTHS) else ""


def _written(token: Token) -> str:
    """A unit as it stands there; a short one in full."""
    short = token.word.removesuffix("S") in _SHORT
    return f"{_unit(token).lower()}s" if short else token.text.lower()


def _pairs(cursor: Cursor) -> str:
    words = []
    if _unit(cursor.peek()):  # the number was a variable
        words.append(_written(cursor.next()))
    while cursor.peek().kind == "number" and _unit(cursor.peek(1)):
        words.append(f"{cursor.next().text} {_written(cursor.next())}")
    return " ".join(words)


def _interval(cursor: Cursor, what: str) -> str:
    token = cursor.peek()
    sign = "-" if cursor.take_sign("-") else ""
    token = cursor.peek()
    if token.kind == "number":
        pairs = _pairs(cursor)
        if not pairs:
            cursor.next()
            raise cursor.expected("a unit of time", known=[u + "S" for u in _UNITS])
        return sign + pairs
    if token.kind not in ("text", "variable"):
        raise cursor.expected(what, hint="write INTERVAL '10' SECOND")
    cursor.next()
    value = cursor.variables.value(token).strip()
    unit = _unit(cursor.peek())
    if not unit:
        return sign + value
    as_written = _written(cursor.next())
    if cursor.take("TO"):
        last = _unit(cursor.next())
        return sign + _clock(cursor, token, value, unit, last)
    if cursor.peek().is_sign("(") and cursor.peek(2).is_sign(")"):
        cursor.at += 3  # a precision, which changes nothing
    return f"{sign}{value} {as_written}"


def _clock(cursor: Cursor, token: Token, value: str, first: str, last: str) -> str:
    match = _CLOCK.fullmatch(value)
    if match is None or first not in _FIELDS or last not in _FIELDS:
        raise cursor.text.error(
            token.span, "BAD_DURATION", f"{value!r} is no interval {first} TO {last}",
            hint="write INTERVAL '1:30' MINUTE TO SECOND, or INTERVAL 1 MINUTE 30 SECONDS",
        )  # fmt: skip
    numbers = ([match[1]] if match[1] else []) + match[2].split(":")
    names = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    if len(numbers) != len(names):
        raise cursor.text.error(
            token.span, "BAD_DURATION", f"{value!r} has {len(numbers)} parts, {first} TO {last} {len(names)}",
            hint="give one number for each unit",
        )  # fmt: skip
    return " ".join(f"{Decimal(n)} {u.lower()}" for n, u in zip(numbers, names, strict=True))


def _checked(cursor: Cursor, value: str, span: Span, what: str) -> Duration:
    try:
        parse_duration(value.removeprefix("-"), what=what, positive=False)
    except AnalysisError as error:
        raise error.at(cursor.text.place(span)) from None
    return Duration(value, span)


def _count(cursor: Cursor, token: Token) -> int:
    if not token.text.isdigit():
        raise cursor.text.error(
            token.span, "BAD_DURATION", f"{token.text} is no whole number and has no unit",
            hint="write a duration, such as 10 SECONDS",
        )  # fmt: skip
    return int(token.text)
