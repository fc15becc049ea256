"""Aggregates and windows from their definitions: slow, plain, independent of the kernels."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import pyarrow as pa

from slackwater.kernels.types import arrow_type
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import column

COLUMNS = {
    "b": "boolean",
    "i1": "tinyint",
    "i2": "smallint",
    "i4": "int",
    "i8": "bigint",
    "f4": "float",
    "f8": "double",
    "d5": "decimal(5,2)",
    "d18": "decimal(18,4)",
    "d28": "decimal(28,6)",
    "d38": "decimal(38,10)",
    "w38": "decimal(38,0)",
    "s": "string",
    "y": "binary",
    "dt": "date",
    "ts": "timestamp",
    "tn": "timestamp_ntz",
}
INTEGERS = ("i1", "i2", "i4", "i8")
DECIMALS = ("d5", "d18", "d28", "d38", "w38")
FLOATS = ("f4", "f8")
NUMBERS = INTEGERS + DECIMALS + FLOATS
VARIANCE = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")


def result_type(function: str, argument: str | None) -> str:
    """Spark's result type."""
    if function == "count":
        return "bigint"
    kind = COLUMNS[argument]
    if function in ("sum", "avg"):
        if kind.startswith("decimal"):
            p, s = map(int, kind[8:-1].split(","))
            if function == "sum":
                return f"decimal({min(38, p + 10)},{s})"
            return f"decimal({min(38, p + 4)},{min(38, s + 4)})"
        return "bigint" if function == "sum" and argument in INTEGERS else "double"
    if function in VARIANCE:
        return "double"
    return kind


def primitive(name: str, function: str, *arguments: str) -> Primitive:
    """An aggregate over test columns."""
    args = tuple(column(a, COLUMNS[a]) for a in arguments)
    return Primitive(name, function, args, result_type(function, arguments[0] if args else None))


def all_primitives() -> list[Primitive]:
    """Every aggregate over every column it takes."""
    calls = [("count",), ("count", "i4"), ("count", "i4", "s")]
    calls += [(f, c) for f in ("min", "max") for c in COLUMNS]
    calls += [(f, c) for f in ("sum", "avg") for c in NUMBERS]
    calls += [(f, c) for f in VARIANCE for c in ("f8", "i4", "d18")]
    calls += [("bool_and", "b"), ("bool_or", "b")]
    calls += [(f, x, y) for f in ("max_by", "min_by") for x, y in PAIRS]
    return [primitive(f"_a{i}", *c) for i, c in enumerate(calls)]


PAIRS = (("s", "f8"), ("i4", "s"), ("d38", "ts"), ("b", "i1"), ("dt", "w38"))


TYPES = {"k": pa.string(), "t": pa.int64()} | {c: arrow_type(t) for c, t in COLUMNS.items()}


def table(rows: list[dict], sql: str | None = None) -> pa.Table:
    """Rows of the test columns (absent = null), with key ``k`` and time ``t``; those that ``sql`` names."""
    names = set(TYPES) if sql is None else set(re.findall(r"\w+", sql))
    schema = pa.schema([(c, t) for c, t in TYPES.items() if c in names])
    return pa.table(
        [pa.array([r.get(f.name) for r in rows], type=f.type) for f in schema], schema=schema
    )


def order(value):
    """A key for Spark's order: NaN greatest, null least."""
    if value is None:
        return (0, 0)
    if isinstance(value, float):
        return (2, 0) if math.isnan(value) else (1, value)
    return (1, value)


class Overflow(Exception):
    pass


def aggregate(p: Primitive, rows: list[dict], ansi: bool = True):
    """The value of an aggregate over rows. Floats are exact sums, rounded once."""
    names = [a.sql.strip("`") for a in p.args]
    f = p.function
    if f == "count":
        return sum(all(r.get(n) is not None for n in names) for r in rows)
    if f in ("max_by", "min_by"):
        pairs = [(r.get(names[1]), r.get(names[0])) for r in rows if r.get(names[1]) is not None]
        if not pairs:
            return None
        pick = max if f == "max_by" else min
        return pick(pairs, key=lambda q: (order(q[0]), order(q[1])))[1]
    values = [r[names[0]] for r in rows if r.get(names[0]) is not None]
    if not values:
        return None
    if f in ("max", "bool_or"):
        return max(values, key=order)
    if f in ("min", "bool_and"):
        return min(values, key=order)
    if f in VARIANCE:
        return _variance(f, values)
    if names[0] in FLOATS:
        total = _float_sum(values)
        return total / len(values) if f == "avg" else total
    total = sum(values) if names[0] in INTEGERS else _exact(values)
    if p.type == "double":
        return float(Fraction(total, len(values)))
    if p.type == "bigint":
        if not -(2**63) <= total < 2**63:
            if ansi:
                raise Overflow
            total = (total + 2**63) % 2**64 - 2**63
        return total
    return _decimal(p, values, total, ansi)


def _exact(values: list[Decimal]) -> Fraction:
    return sum((Fraction(v) for v in values), Fraction(0))


def _decimal(p: Primitive, values: list[Decimal], total: Fraction, ansi: bool):
    def fits(number: Fraction, kind: str) -> bool:
        precision, scale = map(int, kind[8:-1].split(","))
        return abs(number * 10**scale) < 10**precision

    argument = p.args[0].type
    ok = fits(total, result_type("sum", p.args[0].sql.strip("`")))
    if ok and p.function == "avg":
        scale = int(p.type[8:-1].split(",")[1])
        unscaled = total * 10 ** int(argument[8:-1].split(",")[1])
        wide = Context(prec=38, rounding=ROUND_HALF_UP)
        quotient = wide.divide(Decimal(int(unscaled)), Decimal(len(values)))
        places = scale - int(argument[8:-1].split(",")[1])
        whole = quotient.scaleb(places, Context(prec=100)).quantize(
            Decimal(1), ROUND_HALF_UP, context=Context(prec=100)
        )
        total = Fraction(int(whole), 10**scale)
        ok = fits(total, p.type)
    if not ok:
        if ansi:
            raise Overflow
        return None
    scale = int(p.type[8:-1].split(",")[1])
    return Decimal(int(total * 10**scale)).scaleb(-scale, Context(prec=100))


def _float_sum(values: list[float]) -> float:
    if any(math.isnan(v) for v in values):
        return math.nan
    ends = {v for v in values if math.isinf(v)}
    if ends:
        return math.nan if len(ends) == 2 else ends.pop()
    return math.fsum(values)


def _variance(f: str, values: list):
    n = len(values) - (1 if f.endswith("samp") else 0)
    if n == 0:
        return None
    numbers = [float(v) for v in values]
    if not all(math.isfinite(v) for v in numbers):
        return math.nan
    exact = [Fraction(v) for v in numbers]
    mean = sum(exact) / len(exact)
    variance = float(sum((v - mean) ** 2 for v in exact) / n)
    return math.sqrt(variance) if f.startswith("stddev") else variance


def same(p: Primitive, got, expected, rows: list[dict]) -> bool:
    """Equality; floats within the rounding of adding up in another order."""
    if got is None or expected is None or not isinstance(expected, float):
        return type(got) is type(expected) and got == expected
    if math.isnan(expected) or math.isinf(expected) or p.function in ("min", "max"):
        return got == expected or (math.isnan(got) and math.isnan(expected))
    if p.function in ("max_by", "min_by"):
        return got == expected
    name = p.args[0].sql.strip("`")
    size = sum(abs(float(r[name])) for r in rows if r.get(name) is not None)
    if p.function in VARIANCE:
        if p.function.startswith("stddev"):
            got, expected = got * got, expected * expected
        return abs(got - expected) <= 1e-9 * expected + 1e-12 * size * size
    return abs(got - expected) <= 1e-12 * size


def windows(rows: list[dict], range_: int, slide: int, origin: int) -> dict[tuple, list[dict]]:
    """(key, window) -> its rows, by the extents: [origin+(w+1)*slide-range, origin+(w+1)*slide)."""
    out: dict[tuple, list[dict]] = defaultdict(list)
    if not rows:
        return out
    low = (min(r["t"] for r in rows) - origin) // slide - 2
    high = (max(r["t"] for r in rows) + range_ - origin) // slide + 2
    for w in range(low, high + 1):
        end = origin + (w + 1) * slide
        for r in rows:
            if end - range_ <= r["t"] < end:
                out[r.get("k"), w].append(r)
    return out
