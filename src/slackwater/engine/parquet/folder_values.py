"""The text after ``name=`` in a folder's name, as a value of the declared type: Spark's rules, as SQL."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation

import numpy as np

from slackwater.errors import AnalysisError
from slackwater.kernels.types import Parsed
from slackwater.model.duck_sql import literal
from slackwater.semantics.local_time import instant_of

_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_WHOLE = {"tinyint": 32, "smallint": 32, "int": 32, "bigint": 64}
_FLOAT = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<word>NaN|Infinity)|(?P<hex>0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+)[fFdD]?"
    r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)"
)
_DATE = r"(?P<year>[+-]?[0-9]{4,%d})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})%s)?)?"
_DAY = re.compile(_DATE % (7, r"(?:[ T].*)?"), re.DOTALL)
_INSTANT = re.compile(
    _DATE
    % (
        6,
        r"(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})"
        r"(?:\.(?P<part>[0-9]*))?)?)?(?P<zone>[^0-9.:].*)?)?",
    ),
    re.DOTALL,
)


def literal_of(text: str, declared: Parsed, zone: str) -> str | None:
    """SQL of the value, to be cast to the declared type; None if the text is no such value.

    ``zone`` is the session's: a time without one is of that zone.
    """
    kind = declared.kind
    if kind == "string":
        return literal(unescaped(text))
    if kind == "binary":
        return f"encode({literal(text)})"
    if kind == "boolean":
        return text.upper() if text.lower() in ("true", "false") else None
    if kind in _WHOLE:
        return _whole(text, kind)
    if kind in ("float", "double"):
        return _float(text, kind)
    if kind == "decimal":
        return _decimal(text, declared)
    if kind == "date":
        days = _days(_DAY.fullmatch(text.strip()))
        return None if days is None else f"DATE '1970-01-01' + ({days})"
    if kind == "timestamp":
        ticks = _ticks(unescaped(text).strip(), zone)
        return None if ticks is None else f"make_timestamp({ticks})"
    if kind == "timestamp_ntz":
        ticks = _ticks(unescaped(text).strip(), None)
        days = _days(_DAY.fullmatch(text.strip())) if ticks is None else None
        if days is not None:
            return f"DATE '1970-01-01' + ({days})"
        return None if ticks is None else f"make_timestamp({ticks})"
    return None


def unescaped(text: str) -> str:
    """The text that a folder's name stands for: each ``%XX`` is one character.

    >>> unescaped("a%20b%E9%zz")
    'a bé%zz'
    """
    return _ESCAPED.sub(lambda m: chr(int(m[1], 16)), text)


def _whole(text: str, kind: str) -> str | None:
    if not re.fullmatch(r"[+-]?\d+", text):
        return None
    number, bits = int(text), _WHOLE[kind]
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        return None
    if kind in ("tinyint", "smallint"):  # Spark takes the lowest bits, as it does of columns
        half = 1 << (7 if kind == "tinyint" else 15)
        number = (number + half) % (2 * half) - half
    return str(number)


def _float(text: str, kind: str) -> str | None:
    match = _FLOAT.fullmatch(text.strip("".join(map(chr, range(33)))))
    if match is None:
        return None
    if match["hex"]:
        try:
            number = float.fromhex(match["hex"])
        except ValueError:
            return None
    else:
        number = float(match["word"] or match["number"])
    number = -number if match["sign"] == "-" else number
    if kind == "float":
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    return f"CAST({literal(repr(number))} AS DOUBLE)"


def _decimal(text: str, declared: Parsed) -> str | None:
    """Only texts with exactly the declared digits: of others Spark shifts the point."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or exponent != -declared.scale or "_" in text:
        return None
    if len(digits) > declared.precision or text != text.strip():
        return None
    return literal(f"{number:f}")


def _days(match: re.Match[str] | None) -> int | None:
    """Days since 1970 of a date, in the calendar that goes on before 1582."""
    if match is None:
        return None
    year, month, day = int(match["year"]), int(match["month"] or 1), int(match["day"] or 1)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        return None
    # 400 years are 146,097 days: count in years that Python knows.
    eras = (year - 2000) // 400
    date = dt.date(year - eras * 400, month, day)
    return (date - dt.date(1970, 1, 1)).days + eras * 146_097


def _ticks(text: str, zone: str | None) -> int | None:
    """Microseconds since 1970; ``zone`` None: those of the local time, and a zone in the text is passed over."""
    match = _INSTANT.fullmatch(text)
    days = _days(match)
    if match is None or days is None:
        return None
    hour, minute, second = (int(match[p] or 0) for p in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    part = int((match["part"] or "").ljust(6, "0")[:6])
    local = ((days * 24 + hour) * 60 + minute) * 60 + second
    own = (match["zone"] or "").strip()
    if zone is None:
        return local * 1_000_000 + part
    try:
        return instant_of(local * 1_000_000 + part, own or zone)
    except AnalysisError:  # no such zone
        return None
