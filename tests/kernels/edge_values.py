"""Edge values of each type, as one Arrow table: every pair of values of a type stands in some row."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Context, Decimal

import pyarrow as pa

INF, NAN = float("inf"), float("nan")
_WIDE = Context(prec=60)


def _int(bits: int) -> list[int | None]:
    top = 1 << (bits - 1)
    return [0, 1, -1, 7, -7, 3, top - 1, -top, None]


def _decimals(precision: int, scale: int) -> list[Decimal | None]:
    top = Decimal(10**precision - 1).scaleb(-scale, _WIDE)
    tick = Decimal(1).scaleb(-scale, _WIDE)
    half = Decimal("2.5").quantize(tick, context=_WIDE) if scale else Decimal(2)
    pairs = (top, tick, half)
    return [Decimal(0), Decimal(7), None, *pairs, *(v.copy_negate() for v in pairs)]


def _instant(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone.utc)


DOUBLES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 7.3, -1e308, 1e308, 5e-324, INF, -INF, NAN, None,
           9.223372036854775807e18, -9.3e18, 2147483647.5, 0.49999999999999994, 3e9]  # fmt: skip
FLOATS = [
    0.0,
    -0.0,
    1.5,
    -2.5,
    3.4e38,
    -3.4e38,
    1e-45,
    INF,
    -INF,
    NAN,
    None,
    16777216.0,
    2.0**31,
    9.223372e18,
]
TEXTS = ["", " ", "a", "abc", "ABC", "  a b\t ", "é", "a😀b", "ß", "a%b", "a_b", "a\\b", "12", "-7",
         " 42\n", "+5", "1.5", "x'y\"z", "abcabc", "e\u0301", None, "\u3000a", "a\nb",
         "\x7f5\x1f", "5\u0085", "\x0b7", "2147483648"]  # fmt: skip
INSTANTS = [_instant(x) for x in (
    "1970-01-01T00:00:00", "1969-12-31T23:59:59.999999", "2024-02-29T12:34:56.789012",
    "1600-02-29T23:00:00", "0001-01-01T00:00:00", "9999-12-31T23:59:59.999999",
    "2023-03-26T01:30:00", "1900-01-01T00:00:00.000001", "2024-12-30T06:00:00",
)] + [None]  # fmt: skip
DATES = [None if t is None else t.date() for t in INSTANTS] + [dt.date(2021, 1, 3)]

# name: type, values; a name ending in 1 has a partner ending in 2
VALUES: dict[str, tuple[pa.DataType, list[object]]] = {
    "y": (pa.int8(), _int(8)),
    "h": (pa.int16(), _int(16)),
    "i": (pa.int32(), _int(32)),
    "l": (pa.int64(), _int(64)),
    "f": (pa.float32(), list(FLOATS)),
    "d": (pa.float64(), list(DOUBLES)),
    "c": (pa.decimal128(10, 2), list(_decimals(10, 2))),
    "e": (pa.decimal128(38, 0), list(_decimals(38, 0))),
    "g": (pa.decimal128(18, 4), list(_decimals(18, 4))),
    "s": (pa.string(), list(TEXTS)),
    "b": (pa.bool_(), [True, False, None]),
    "t": (pa.timestamp("us", "UTC"), list(INSTANTS)),
    "n": (pa.timestamp("us"), [None if t is None else t.replace(tzinfo=None) for t in INSTANTS]),
    "da": (pa.date32(), list(DATES)),
}


def edge_table() -> pa.Table:
    """Columns ``y1, y2, ..., da1, da2``, a struct ``w`` and the row number ``rid``."""
    size = max(len(values) ** 2 for _, values in VALUES.values())
    columns: dict[str, pa.Array] = {"rid": pa.array(range(size), pa.int32())}
    for name, (kind, values) in VALUES.items():
        pairs = list(itertools.islice(itertools.cycle(itertools.product(values, values)), size))
        columns[name + "1"] = pa.array([a for a, _ in pairs], kind)
        columns[name + "2"] = pa.array([b for _, b in pairs], kind)
    columns["w"] = pa.StructArray.from_arrays(
        [columns["t1"], columns["t2"]], names=["start", "end"]
    )
    columns["a b"] = columns["i1"]
    return pa.table(columns)
