"""Values as Spark's ``CAST(... AS STRING)`` writes them: for the few distinct ones that name directories.

Python's own times end in the year 9999, Spark's do not: days and microseconds are taken apart as integers. Doubles have the
digits of Java 19 and later, as few as tell the value; an older Java sometimes writes one more, for the same value.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.semantics.local_time import local_of

_DAY = 86_400_000_000
# days from 0000-03-01, where the cycle of 400 years begins, to the epoch; days and years of a cycle
_SHIFT, _CYCLE, _YEARS = 719_468, 146_097, 400


def texts(values: pa.Array, *, zone: str, ansi: bool) -> list[str | None]:
    """The text of each value; ``zone`` is the session's, ``ansi`` its mode, in which decimals have no exponent.

    >>> texts(pa.array([1.0, float("nan"), 1e-5, None]), zone="UTC", ansi=True)
    ['1.0', 'NaN', '1.0E-5', None]
    >>> texts(pa.array([0, 253402300800_120000], pa.timestamp("us", "UTC")), zone="Asia/Tokyo", ansi=True)
    ['1970-01-01 09:00:00', '+10000-01-01 09:00:00.12']
    """
    kind = values.type
    if pa.types.is_floating(kind):
        narrow = pa.types.is_float32(kind)
        return [None if v is None else _fraction(v, narrow) for v in values.to_pylist()]
    if pa.types.is_date32(kind):
        return [None if v is None else _date(v) for v in values.cast(pa.int32()).to_pylist()]
    if pa.types.is_timestamp(kind):
        assert kind.unit == "us"
        here = zone if kind.tz is not None else "UTC"
        return [
            None if v is None else _instant(v, here) for v in values.cast(pa.int64()).to_pylist()
        ]
    return [None if v is None else _plain(v, ansi) for v in values.to_pylist()]


def _plain(value: Any, ansi: bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        # Java writes exponents where Python does.
        return format(value, "f") if ansi else str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def _fraction(value: float, narrow: bool) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    size = abs(value)
    if size == 0:
        return f"{sign}0.0"
    shown = str(np.float32(size)) if narrow else repr(size)
    _, digits, exponent = Decimal(shown).normalize().as_tuple()
    if len(digits) == 1:
        # Two digits where they are nearer to the value than one: 4.9E-324.
        _, digits, exponent = Decimal(f"{size:.1e}").normalize().as_tuple()
    assert isinstance(exponent, int)
    number = "".join(map(str, digits))
    point = len(number) + exponent
    if 1e-3 <= size < 1e7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{number}"
        number = number.ljust(point, "0")
        return f"{sign}{number[:point]}.{number[point:] or '0'}"
    return f"{sign}{number[0]}.{number[1:] or '0'}E{point - 1}"


def _date(days: int) -> str:
    """A day of the proleptic Gregorian calendar, for any year."""
    cycle, day = divmod(days + _SHIFT, _CYCLE)
    # years of March to February, so that the leap day is the last one
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    rest = day - (365 * year + year // 4 - year // 100)
    month = (5 * rest + 2) // 153
    of_month = rest - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    whole = year + cycle * _YEARS + (month <= 2)
    shown = f"{'-' if whole < 0 else ''}{abs(whole):04d}"
    return f"{'+' if whole > 9999 else ''}{shown}-{month:02d}-{of_month:02d}"


def _instant(micros: int, zone: str) -> str:
    day, rest = divmod(local_of(micros, zone), _DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    time = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    part = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{_date(day)} {time}{part}"
