"""The aggregates without a bounded state, from their definitions: plain, slow, independent of the kernels."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from slackwater.model.aggregate import Primitive
from slackwater.model.schema import column
from tests.kernels import brute

TYPES = {**brute.COLUMNS, "t": "bigint"}


def call(
    name: str, function: str, *arguments: str, params: tuple = (), type: str = ""
) -> Primitive:
    """An aggregate over test columns."""
    args = tuple(column(a, TYPES[a]) for a in arguments)
    return Primitive(name, function, args, type or _type(function, arguments[0], params), params)


def _type(function: str, argument: str, params: tuple) -> str:
    kind = TYPES[argument]
    if function in ("sum_distinct", "avg_distinct"):
        return brute.result_type(function.removesuffix("_distinct"), argument)
    if function in ("percentile", "percentile_disc"):
        return "array<double>" if params[1] else "double"
    return {
        "count_distinct": "bigint", "approx_count_distinct": "bigint",
        "covar_pop": "double", "covar_samp": "double", "corr": "double",
        "percentile_approx": f"array<{kind}>" if len(params) > 1 and params[1] else kind, "mode": kind,
        "heavy_hitters": f"array<struct<value:{kind},count:bigint>>",
        "collect_list": f"array<{kind}>", "collect_set": f"array<{kind}>",
    }[function]  # fmt: skip


def counted(values: list[Any]) -> list[tuple[Any, int]]:
    """(value, how often) in Spark's order; NaN is one value, so are both zeros."""
    out: list[list[Any]] = []
    for v in sorted(values, key=brute.order):
        if out and brute.order(out[-1][0]) == brute.order(v):
            out[-1][1] += 1
        else:
            out.append([v + 0.0 if isinstance(v, float) else v, 1])
    return [(v, n) for v, n in out]


def aggregate(p: Primitive, rows: list[dict]) -> Any:
    """The value over the rows."""
    names = [a.sql.strip("`") for a in p.args]
    f = p.function
    if f in ("covar_pop", "covar_samp", "corr"):
        return _covariance(f, [(r.get(names[0]), r.get(names[1])) for r in rows])
    if f == "count_distinct" and len(names) > 1:
        found = [tuple(r.get(n) for n in names) for r in rows]
        return len({tuple(map(brute.order, t)) for t in found if None not in t})
    if f == "collect_list":
        some = [r for r in rows if r.get(names[0]) is not None]
        some.sort(key=lambda r: (r["t"], brute.order(r[names[0]])))
        return [r[names[0]] for r in some]
    values = [r[names[0]] for r in rows if r.get(names[0]) is not None]
    if f == "percentile" and len(names) == 2:
        some = [r for r in rows if r.get(names[0]) is not None and r.get(names[1]) is not None]
        values = [r[names[0]] for r in some for _ in range(r[names[1]])]
    table = counted(values)
    if f == "count_distinct":
        return len(table)
    if f in ("sum_distinct", "avg_distinct"):
        inner = Primitive(p.name, f.removesuffix("_distinct"), p.args, p.type)
        return brute.aggregate(inner, [{names[0]: v} for v, _ in table], ansi=False)
    if f == "collect_set":
        return [v for v, _ in table]
    if f == "heavy_hitters":
        share = Fraction(str(p.params[0]))
        found = [(v, n) for v, n in table if n >= share * len(values)]
        return [{"value": v, "count": n} for v, n in sorted(found, key=lambda x: -x[1])]
    if not values:
        return None
    if f == "mode":
        most = max(n for _, n in table)
        best = [v for v, n in table if n == most]
        return best[-1] if p.params and p.params[0] else best[0]
    values = sorted((v + 0.0 if isinstance(v, float) else v for v in values), key=brute.order)
    if f != "percentile_approx" and p.params[2]:
        values.reverse()
    one = [_quantile(f, values, q) for q in p.params[0]]
    return one if p.params[1] else one[0]


def _quantile(f: str, values: list[Any], q: float) -> Any:
    if f == "percentile":
        place = (len(values) - 1) * q
        low, high = math.floor(place), math.ceil(place)
        a, b = values[low], values[high]
        if brute.order(a) == brute.order(b):
            return float(a)
        return (high - place) * float(a) + (place - low) * float(b)
    value = values[max(math.ceil(len(values) * q), 1) - 1]
    return float(value) if f == "percentile_disc" else value


def _covariance(f: str, pairs: list[tuple[Any, Any]]) -> float | None:
    pairs = [p for p in pairs if None not in p]
    n = len(pairs)
    if n < (1 if f == "covar_pop" else 2):
        return None
    if not all(math.isfinite(x) and math.isfinite(y) for x, y in pairs):
        return math.nan
    xs, ys = [Fraction(x) for x, _ in pairs], [Fraction(y) for _, y in pairs]
    mx, my = sum(xs) / n, sum(ys) / n
    xy = sum((x - mx) * (y - my) for x, y in zip(xs, ys))
    if f != "corr":
        return float(xy / (n if f == "covar_pop" else n - 1))
    xx, yy = sum((x - mx) ** 2 for x in xs), sum((y - my) ** 2 for y in ys)
    return None if xx * yy == 0 else float(xy) / math.sqrt(xx * yy)


def same(got: Any, want: Any, scale: float = 0.0) -> bool:
    """Equality: NaN equals NaN, lists element by element, floats within rounding of ``scale``."""
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, dict):
        return all(same(got[k], v) for k, v in want.items())
    if isinstance(want, float) and isinstance(got, float):
        if math.isnan(want) or math.isnan(got):
            return math.isnan(want) and math.isnan(got)
        return got == want or abs(got - want) <= 1e-12 * abs(want) + scale
    return (
        got == want
        and (isinstance(got, bool) == isinstance(want, bool))
        and (isinstance(got, Decimal) == isinstance(want, Decimal))
    )
