"""Constants: numbers, text, points in time, intervals."""

from __future__ import annotations

import datetime as dt
import re

from slackwater.kernels.translate.typed import Context, Typed, text_literal
from slackwater.kernels.translate.types import (
    INTEGERS,
    NotTranslatable,
    decimal_of,
    duck_type,
)

_UNITS = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_ORDER = ("DAY", "HOUR", "MINUTE", "SECOND")
_SPECIAL = {"nan": "NaN", "infinity": "Infinity", "-infinity": "-Infinity"}
_POINT = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?(Z)?)?$"
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def integer(value: int, type: str) -> Typed:
    """An integer constant."""
    least = -(1 << (INTEGERS[type] - 1))
    if not least <= value < -least:
        raise NotTranslatable(f"{value} is no {type}")
    return Typed(f"CAST({value} AS {duck_type(type)})", type, value, True, nullable=False)


def number(text: str, type: str) -> Typed:
    """A constant of a numeric type, from its digits."""
    if type in INTEGERS:
        return integer(int(text), type)
    if decimal_of(type) is not None:
        return Typed(f"CAST('{text}' AS {duck_type(type)})", type, None, True, nullable=False)
    value = float(text)
    special = _SPECIAL.get(text.strip().lower())
    sql = f"CAST('{special or text}' AS {duck_type(type)})"
    return Typed(sql, type, None if value == 0 or value != value else value, True, nullable=False)


def text(value: str) -> Typed:
    """A string."""
    return Typed(text_literal(value), "string", value, True, nullable=False)


def boolean(value: bool) -> Typed:
    """True or false."""
    return Typed("true" if value else "false", "boolean", value, True, nullable=False)


def nothing() -> Typed:
    """NULL of no type yet."""
    return Typed("NULL", "void", None, True)


def date(value: str) -> Typed:
    """``DATE '...'``."""
    match = _POINT.match(value.strip())
    if match is None or match.group(4) is not None:
        raise NotTranslatable(f"date '{value}'")
    try:
        day = dt.date(*(int(g) for g in match.groups()[:3]))
    except ValueError:
        raise NotTranslatable(f"date '{value}'") from None
    return Typed(f"DATE '{day.isoformat()}'", "date", day, True, nullable=False)


def instant(ctx: Context, value: str, type: str) -> Typed:
    """``TIMESTAMP '...'`` in the session's zone (or UTC: ``Z``), or ``TIMESTAMP_NTZ '...'``."""
    match = _POINT.match(value.strip())
    if match is None:
        raise NotTranslatable(f"{type} '{value}'")
    year, month, day, hour, minute, second, fraction, utc = match.groups()
    micros = int((fraction or "0").ljust(6, "0"))
    try:
        at = dt.datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0),
            micros, tzinfo=dt.timezone.utc,
        )  # fmt: skip
    except ValueError:
        raise NotTranslatable(f"{type} '{value}'") from None
    ticks = (at - _EPOCH) // dt.timedelta(microseconds=1)
    if utc and type != "timestamp":
        raise NotTranslatable(f"{type} '{value}'")
    if type == "timestamp":
        ticks -= 0 if utc else ctx.fixed_offset("a timestamp without zone")
        return Typed(f"make_timestamptz({ticks}::BIGINT)", type, ticks, True, nullable=False)
    return Typed(f"make_timestamp({ticks}::BIGINT)", type, ticks, True, nullable=False)


def interval_micros(value: str, first: str, last: str | None) -> int:
    """Microseconds of a day-time interval such as ``'1 02:03:04.5' DAY TO SECOND``."""
    first, last = first.upper(), (last or first).upper()
    if first not in _ORDER or last not in _ORDER:
        raise NotTranslatable(f"interval of {first.lower()}s")
    units = _ORDER[_ORDER.index(first) : _ORDER.index(last) + 1]
    body = value.strip()
    negative = body.startswith("-")
    parts = re.split(r"[ :]", body.lstrip("+-"))
    if len(parts) != len(units):
        raise NotTranslatable(f"interval '{value}'")
    total = 0
    for part, unit in zip(parts, units, strict=True):
        whole, _, fraction = part.partition(".")
        if not whole.isdigit() or (fraction and (unit != "SECOND" or not fraction.isdigit())):
            raise NotTranslatable(f"interval '{value}'")
        total += int(whole) * _UNITS[unit]
        if fraction:
            total += int(fraction.ljust(6, "0")[:6])
    return -total if negative else total
