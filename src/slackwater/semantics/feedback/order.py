"""Values of every type that can be tested, as whole numbers or text in Spark's order.

A test (`semantics.patterns.Test`) is made of spans, and its algebra needs values that have a next one. Text and whole
numbers have. A date is its day, a time its tick, a decimal its digits without the point. A float is its bits, turned so
that greater floats have greater codes: −0.0 has the code of 0.0, and every NaN has one code, above that of infinity.

A limit need not be a value of the column (``n < 1.5`` on whole numbers). So a limit is given by the first code that is
not below it, and the first that is above it: all six comparisons are made of these two.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from slackwater.model.time import TimeColumn, parse_instant
from slackwater.semantics.patterns import Span, Test, Value, following

__all__ = [
    "above", "below", "code", "equal", "first_above", "first_from", "from_", "is_testable", "limits", "literal", "up_to",
    "value_of",
]  # fmt: skip

WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
FLOATS = {"float": ("f", "i"), "double": ("d", "q")}
"""How each is packed, and an integer of the same size."""
TIMES = ("timestamp", "timestamp_ntz")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_EPOCH = dt.date(1970, 1, 1).toordinal()


def is_testable(type: str) -> bool:
    """Whether columns of a type can be tested.

    >>> [is_testable(t) for t in ("double", "decimal(10,2)", "binary", "array<int>")]
    [True, True, False, False]
    """
    named = type in WHOLE or type in FLOATS or type in TIMES
    return named or type in ("string", "boolean", "date") or _DECIMAL.fullmatch(type) is not None


def limits(type: str) -> tuple[int, int] | None:
    """The least and the greatest code of a type; None for text, which has no greatest."""
    if type in WHOLE:
        half = 1 << (WHOLE[type] - 1)
        return -half, half - 1
    if type in FLOATS:
        return -_infinite(type), _infinite(type) + 1
    if type == "boolean":
        return 0, 1
    if m := _DECIMAL.fullmatch(type):
        most = 10 ** int(m[1]) - 1
        return -most, most
    return None if type == "string" else (-(1 << 63), (1 << 63) - 1)


def code(value: Any, type: str, zone: str = "UTC") -> Value | None:
    """The code of a value as rows have it; null has none.

    A value that is not one of the type is a ``ValueError``, ``TypeError`` or `SlackwaterError`.

    >>> code(-0.0, "double") == code(0.0, "double"), code(float("nan"), "float") > code(float("inf"), "float")
    (True, True)
    >>> code(Decimal("1.50"), "decimal(5,2)"), code(None, "int")
    (150, None)
    """
    if value is None:
        return None
    if type in FLOATS and isinstance(value, float):
        bits = _float_code(value, type)
        if _float(bits, type) == value or math.isnan(value):
            return bits
    elif (found := first_from(value, type, zone)) != first_above(value, type, zone):
        return found
    raise ValueError(f"{value!r} is no {type}")


def first_from(value: Any, type: str, zone: str = "UTC") -> Value:
    """The least code whose value is not below ``value``; one more than the greatest if there is none.

    >>> first_from(Decimal("1.5"), "int"), first_from(1.5, "int"), first_from(float("nan"), "tinyint")
    (2, 2, 128)
    """
    return _text(value) if type == "string" else _first(value, type, zone, above=False)


def first_above(value: Any, type: str, zone: str = "UTC") -> Value:
    r"""The least code whose value is above ``value``; one more than the greatest if there is none.

    >>> first_above(1.5, "int"), first_above(2, "int"), first_above("a", "string")
    (2, 3, 'a\x00')
    """
    if type == "string":
        return following(_text(value))
    return _first(value, type, zone, above=True)


def _first(value: Any, type: str, zone: str, above: bool) -> int:
    known = limits(type)
    assert known is not None
    least, most = known
    if type in TIMES or type == "date":
        point = _ticks(value, type, zone)
        found = point + 1 if above else point
    elif type == "boolean":
        if not isinstance(value, bool):
            raise TypeError(value)
        found = int(value) + above
    elif type in FLOATS:
        found = _search(least, most, _reached(_number(value), type, above))
    else:
        found = _whole(_number(value), _scale(type), least, most, above)
    return max(least, min(most + 1, found))


def _reached(value: Fraction | float, type: str, above: bool) -> Callable[[int], bool]:
    """Whether a code is at or above a number, or only above it."""
    if isinstance(value, float):
        limit = _infinite(type) * (-1 if value == -math.inf else 1) + math.isnan(value)
        return lambda c: c > limit if above else c >= limit

    def reached(c: int) -> bool:
        here = _float(c, type)
        if not math.isfinite(here):
            return here != -math.inf
        return Fraction(here) > value if above else Fraction(here) >= value

    return reached


def _whole(value: Fraction | float, scale: int, least: int, most: int, above: bool) -> int:
    if isinstance(value, float):
        return least if value == -math.inf else most + 1
    scaled = value * Fraction(10) ** scale
    return math.floor(scaled) + 1 if above else math.ceil(scaled)


def _search(least: int, most: int, reached: Callable[[int], bool]) -> int:
    """The first of the codes that is reached, which all behind it are, too."""
    low, high = least, most + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle + 1, high)
    return low


def first_as_double(value: float, type: str, above: bool) -> int:
    """The first code at or above a double, where Spark casts the column to double to compare them.

    >>> first_as_double(2.0**53, "bigint", above=True) - 2**53, first_as_double(0.1, "decimal(3,2)", above=False)
    (2, 10)
    """
    known = limits(type)
    assert known is not None
    if math.isnan(value):
        return known[1] + 1

    def reached(c: int) -> bool:
        here = float(value_of(c, type))
        return here > value if above else here >= value

    return _search(*known, reached)


# --- the six comparisons --------------------------------------------------------------------------------


def below(value: Any, type: str, zone: str = "UTC") -> Test:
    """Values < ``value``."""
    return within([(None, first_from(value, type, zone))], type)


def up_to(value: Any, type: str, zone: str = "UTC") -> Test:
    """Values <= ``value``."""
    return within([(None, first_above(value, type, zone))], type)


def from_(value: Any, type: str, zone: str = "UTC") -> Test:
    """Values >= ``value``."""
    return within([(first_from(value, type, zone), None)], type)


def above(value: Any, type: str, zone: str = "UTC") -> Test:
    """Values > ``value``."""
    return within([(first_above(value, type, zone), None)], type)


def equal(value: Any, type: str, zone: str = "UTC") -> Test:
    """Values = ``value``: none, if the type has no such value."""
    return within([(first_from(value, type, zone), first_above(value, type, zone))], type)


def within(spans: Iterable[Span], type: str, null: bool = False) -> Test:
    """The test of spans, with no end where a type's values end: equal sets of values are equal tests.

    >>> within([(0, 1), (1, 2)], "boolean").spans, within([(5, 2)], "int").spans
    (((None, None),), ())
    """
    known = limits(type)
    test = Test.of(spans, null)
    if known is None:
        return test
    inside = test & Test(((known[0], known[1] + 1),), null)

    def opened(low: Value | None, high: Value | None) -> Span:
        return None if low == known[0] else low, None if high == known[1] + 1 else high

    return Test(tuple(opened(*s) for s in inside.spans), null)


# --- values of codes ------------------------------------------------------------------------------------


def value_of(code: Value, type: str) -> Any:
    """The value that has a code: text, a number, a decimal, a boolean; a day or tick stays a whole number.

    >>> value_of(code(-2.5, "double"), "double"), value_of(150, "decimal(5,2)")
    (-2.5, Decimal('1.50'))
    >>> value_of(10**30 + 1, "decimal(38,0)")
    Decimal('1000000000000000000000000000001')
    """
    if isinstance(code, str):
        return code
    if type in FLOATS:
        return _float(code, type)
    if type == "boolean":
        return bool(code)
    if _DECIMAL.fullmatch(type):
        return Decimal(f"{code}e{-_scale(type)}")  # arithmetic would round to 28 digits
    return code


def literal(code: Value, type: str) -> str:
    """A value as feedback's text has it.

    >>> literal(0, "timestamp"), literal(1, "boolean"), literal("it's", "string"), literal(-1, "date")
    ("'1970-01-01 00:00:00+00:00'", 'true', "'it''s'", "'1969-12-31'")
    """
    if isinstance(code, str):
        return "'" + code.replace("'", "''") + "'"
    if type in FLOATS:
        value = _float(code, type)
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return repr(value)
    if type == "boolean":
        return "true" if code else "false"
    if _DECIMAL.fullmatch(type):
        return f"{value_of(code, type):f}"
    if type == "date":
        day = code + _EPOCH
        far = not dt.date.min.toordinal() <= day <= dt.date.max.toordinal()
        return str(code) if far else f"'{dt.date.fromordinal(day).isoformat()}'"
    if type in TIMES:
        return _instant(code, "+00:00" if type == "timestamp" else "")
    return str(code)


def _instant(ticks: int, zone: str) -> str:
    try:
        at = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=ticks)
        return f"'{at.replace(tzinfo=None)}{zone}'"
    except OverflowError:
        return str(ticks)  # no calendar goes so far


def _float(code: int, type: str) -> float:
    own, whole = FLOATS[type]
    if code > _infinite(type):
        return math.nan
    magnitude: float = struct.unpack(f">{own}", struct.pack(f">{whole}", abs(code)))[0]
    return -magnitude if code < 0 else magnitude


def _float_code(value: float, type: str) -> int:
    if math.isnan(value):
        return _infinite(type) + 1
    own, whole = FLOATS[type]
    try:
        bits: int = struct.unpack(f">{whole}", struct.pack(f">{own}", abs(value)))[0]
    except OverflowError:
        return _infinite(type)
    return -bits if value < 0 else bits


def _infinite(type: str) -> int:
    return _float_code(math.inf, type)


def _scale(type: str) -> int:
    m = _DECIMAL.fullmatch(type)
    return int(m[2]) if m else 0


def _number(value: Any) -> Fraction | float:
    """A number exactly; what is not finite stays a float."""
    if isinstance(value, bool):
        raise TypeError(value)
    if isinstance(value, Decimal) and not value.is_finite():
        value = float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return value
    if isinstance(value, (int, float, Decimal, Fraction)):
        return Fraction(value)
    raise TypeError(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    value.encode()  # half a character is a ValueError: no row has one, and no engine takes it
    return value


def _ticks(value: Any, type: str, zone: str) -> int:
    """The day or tick of a point in time, or the number that it already is."""
    if isinstance(value, bool):
        raise TypeError(value)
    if isinstance(value, int):
        return value
    if type == "date":
        if isinstance(value, dt.datetime):
            raise TypeError(value)
        day = value if isinstance(value, dt.date) else dt.date.fromisoformat(_text(value).strip())
        return day.toordinal() - _EPOCH
    time = TimeColumn("", "timestamp_ntz" if type == "timestamp_ntz" else "timestamp", 1)
    return parse_instant(value, time, zone, what="value of a test")
