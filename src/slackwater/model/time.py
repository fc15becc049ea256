"""Time: 64-bit integers, in microseconds for timestamps and in the column's unit for longs."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Literal, NewType

from slackwater.errors import AnalysisError
from slackwater.model.zone import session_zone

Ticks = NewType("Ticks", int)
"""A point or span of event time: microseconds, or the unit of an integer time column."""

SECOND = 1_000_000

Kind = Literal["timestamp", "timestamp_ntz", "long", "window", "greatest", "least"]

_UNITS = {
    "microsecond": 1, "us": 1, "µs": 1,
    "millisecond": 1_000, "ms": 1_000,
    "second": SECOND, "sec": SECOND, "s": SECOND,
    "minute": 60 * SECOND, "min": 60 * SECOND, "m": 60 * SECOND,
    "hour": 3_600 * SECOND, "h": 3_600 * SECOND,
    "day": 86_400 * SECOND, "d": 86_400 * SECOND,
    "week": 7 * 86_400 * SECOND, "w": 7 * 86_400 * SECOND,
}  # fmt: skip
_PART = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-zµ]+)")


@dataclass(frozen=True)
class TimeColumn:
    """A progressing column. ``window`` is the struct an aggregate makes: its time is end − 1 tick.

    ``unit`` is how many microseconds a tick is, or None for an integer column without ``timeUnit``;
    ``integer`` marks a window struct over such a column, ``local`` one over a ``timestamp_ntz``. A ``greatest`` or
    ``least`` is no column of its own: it is that of the columns ``parts``, of which some may be null.
    """

    name: str
    kind: Kind
    unit: int | None = 1
    integer: bool = False
    parts: tuple[TimeColumn, ...] = ()
    local: bool = False

    @property
    def is_integer(self) -> bool:
        """Whether durations on this column are plain integers."""
        return self.integer or self.kind == "long"

    @property
    def is_local(self) -> bool:
        """Whether its times are local times of the session's zone, not instants."""
        return self.local or self.kind == "timestamp_ntz"

    @property
    def type(self) -> str:
        """Spark's type of a point in this time."""
        if self.is_integer:
            return "bigint"
        return "timestamp_ntz" if self.is_local else "timestamp"


def window_time(name: str, time: TimeColumn) -> TimeColumn:
    """The time of the results of windows over ``time``, whose struct is column ``name``."""
    return TimeColumn(name, "window", time.unit, time.is_integer, local=time.is_local)


def parse_duration(text: object, *, what: str = "duration", positive: bool = True) -> Ticks:
    """Microseconds of a duration such as ``"10 seconds"``, ``"1 minute 30 seconds"``, a timedelta.

    >>> parse_duration("1 minute 30 seconds")
    90000000
    >>> parse_duration("2 months")
    Traceback (most recent call last):
        ...
    slackwater.errors.AnalysisError: [BAD_DURATION] duration '2 months': months and years ...
    """
    if isinstance(text, dt.timedelta):
        ticks = text // dt.timedelta(microseconds=1)
        return _checked(ticks, repr(text), what, positive)
    if not isinstance(text, str):
        raise AnalysisError(
            "BAD_DURATION",
            f"{what} {text!r} is not a duration",
            hint='give a string such as "10 seconds" or a datetime.timedelta',
            value=text,
        )
    body = text.strip().lower()
    body = body.removeprefix("interval").strip()
    total, at = 0.0, 0
    whole = 0
    while at < len(body):
        m = _PART.match(body, at)
        if m is None:
            raise _bad(text, what)
        number, unit = m.group(1), m.group(2)
        if unit.rstrip("s") in ("month", "year", "mon", "y", "quarter"):
            raise AnalysisError(
                "BAD_DURATION",
                f"{what} {text!r}: months and years have no fixed length",
                hint="use days (24 hours each) or smaller units",
                value=text,
            )
        scale = _UNITS.get(unit) or _UNITS.get(unit.rstrip("s"))
        if scale is None:
            raise _bad(text, what)
        if "." in number:
            total += float(number) * scale
        else:
            whole += int(number) * scale
        at = m.end()
    if at == 0:
        raise _bad(text, what)
    return _checked(whole + round(total), repr(text), what, positive)


def parse_span(value: object, time: TimeColumn, *, what: str, positive: bool = True) -> Ticks:
    """A duration on ``time``: text for timestamps, an int in the column's unit for integers."""
    if time.is_integer:
        if isinstance(value, bool) or not isinstance(value, int):
            raise AnalysisError(
                "BAD_DURATION",
                f"{what} {value!r}: column '{time.name}' holds integers",
                hint="give an int in the unit of the column",
                value=value,
                column=time.name,
            )
        return _checked(value, repr(value), what, positive)
    return parse_duration(value, what=what, positive=positive)


def parse_instant(value: object, time: TimeColumn, zone: str = "UTC", *, what: str) -> Ticks:
    """A point in time: a datetime or timestamp text (naive = in ``zone``), an int for integers.

    On local times one that names a zone of its own is what the clock in ``zone`` shows at that instant.
    """
    if time.is_integer:
        if isinstance(value, bool) or not isinstance(value, int):
            raise AnalysisError(
                "BAD_INSTANT",
                f"{what} {value!r}: column '{time.name}' holds integers",
                hint="give an int in the unit of the column",
                value=value,
            )
        return Ticks(value)
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            raise AnalysisError(
                "BAD_INSTANT",
                f"{what} {value!r} is not a timestamp",
                hint='give a datetime, or text such as "2026-01-31 12:00:00"',
                value=value,
            ) from None
    if not isinstance(value, dt.datetime):
        raise AnalysisError(
            "BAD_INSTANT",
            f"{what} {value!r} is not a point in time",
            hint='give a datetime, or text such as "2026-01-31 12:00:00"',
            value=value,
        )
    if time.is_local:
        if value.tzinfo is not None:
            value = value.astimezone(session_zone(zone))
        value = value.replace(tzinfo=dt.timezone.utc)
    elif value.tzinfo is None:
        value = value.replace(tzinfo=session_zone(zone))
    return Ticks((value - _EPOCH) // dt.timedelta(microseconds=1))


def iso(ticks: int | None) -> str | None:
    """ISO text in UTC of a time in microseconds; None for no bound yet, "end" for the end of time.

    >>> iso(0), iso(None)
    ('1970-01-01T00:00:00.000000Z', None)
    """
    if ticks is None:
        return None
    try:
        return (_EPOCH + dt.timedelta(microseconds=ticks)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except OverflowError:
        return "end" if ticks > 0 else "start"


def written(time: TimeColumn, ticks: int | None) -> str | int | None:
    """A time as rows show it: ISO text, in UTC for instants and without a zone for local times, or the number.

    >>> written(TimeColumn("ts", "timestamp_ntz"), 0), written(TimeColumn("ts", "long"), 7)
    ('1970-01-01T00:00:00.000000', 7)
    """
    if time.is_integer or ticks is None:
        return ticks
    text = iso(ticks)
    return text.removesuffix("Z") if text is not None and time.is_local else text


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def _checked(ticks: int, text: str, what: str, positive: bool) -> Ticks:
    if positive and ticks <= 0:
        raise AnalysisError(
            "BAD_DURATION", f"{what} {text} is not positive", hint="give more than zero", value=text
        )
    if ticks < 0:
        raise AnalysisError(
            "BAD_DURATION", f"{what} {text} is negative", hint="give zero or more", value=text
        )
    return Ticks(ticks)


def _bad(text: str, what: str) -> AnalysisError:
    return AnalysisError(
        "BAD_DURATION",
        f"{what} {text!r} is not a duration",
        hint='write a number and a unit, such as "10 seconds" or "1 minute 30 seconds"',
        value=text,
    )
