"""Aggregates that need all values at once, over a plain list of argument tuples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from slackwater.model.aggregate import Primitive

Tuples = Sequence[tuple[Any, ...]]


def holistic(primitive: Primitive, tuples: Tuples) -> Any:
    """The value of one of the aggregates in `HOLISTIC`."""
    whole = [t for t in tuples if all(v is not None for v in t)]
    return HOLISTIC[primitive.function](primitive, whole)


def _order(value: Any) -> tuple[int, Any]:
    """NaN after all numbers."""
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def _tally(values: Sequence[Any]) -> list[tuple[Any, int]]:
    """Each value once, with its count, least first."""
    counts: dict[Any, list[Any]] = {}
    for v in values:
        counts.setdefault(_order(v), [v, 0])[1] += 1
    return [(counts[k][0], counts[k][1]) for k in sorted(counts)]


def _distinct(p: Primitive, rows: Tuples) -> int:
    return len({tuple(_order(v) for v in row) for row in rows})


def _sum_distinct(p: Primitive, rows: Tuples) -> Any:
    values = [v for v, _ in _tally([r[0] for r in rows])]
    if not values:
        return None
    return sum(values) / len(values) if p.function.startswith("avg") else sum(values)


def _quantile(p: Primitive, rows: Tuples) -> Any:
    values = sorted((r[0] for r in rows for _ in range(r[1] if len(r) > 1 else 1)), key=_order)
    if not values:
        return None
    percentages, many = p.params[:2]
    if p.function != "percentile_approx" and p.params[2]:
        values.reverse()
    found = []
    for q in percentages:
        if p.function == "percentile":
            place = (len(values) - 1) * q
            below, above = float(values[math.floor(place)]), float(values[math.ceil(place)])
            weight = place - math.floor(place)
            found.append(below if below == above else below * (1 - weight) + above * weight)
        else:
            value = values[max(math.ceil(q * len(values)), 1) - 1]
            found.append(float(value) if p.function == "percentile_disc" else value)
    return found if many else found[0]


def _mode(p: Primitive, rows: Tuples) -> Any:
    counts = _tally([r[0] for r in rows])
    if not counts:
        return None
    best = [v for v, n in counts if n == max(c for _, c in counts)]
    return best[-1] if p.params and p.params[0] else best[0]


def _heavy(p: Primitive, rows: Tuples) -> list[dict[str, Any]]:
    share = Fraction(str(p.params[0]))
    found = [(v, n) for v, n in _tally([r[0] for r in rows]) if n >= share * len(rows)]
    found.sort(key=lambda pair: -pair[1])
    return [{"value": v, "count": n} for v, n in found]


def _collect_set(p: Primitive, rows: Tuples) -> list[Any]:
    return [v for v, _ in _tally([r[0] for r in rows])]


def _collect_list(p: Primitive, rows: Tuples) -> list[Any]:
    return [v for v, _ in sorted(rows, key=lambda r: (r[1], _order(r[0])))]


def _covariance(p: Primitive, rows: Tuples) -> float | None:
    n = len(rows)
    if n < (1 if p.function == "covar_pop" else 2):
        return None
    xs, ys = [float(x) for x, _ in rows], [float(y) for _, y in rows]
    mx, my = math.fsum(xs) / n, math.fsum(ys) / n
    xy = math.fsum((x - mx) * (y - my) for x, y in zip(xs, ys))
    if p.function != "corr":
        return xy / (n if p.function == "covar_pop" else n - 1)
    below = math.sqrt(math.fsum((x - mx) ** 2 for x in xs) * math.fsum((y - my) ** 2 for y in ys))
    return None if below == 0 else xy / below


HOLISTIC: dict[str, Callable[[Primitive, Tuples], Any]] = {
    "count_distinct": _distinct,
    "sum_distinct": _sum_distinct,
    "avg_distinct": _sum_distinct,
    "percentile": _quantile,
    "percentile_disc": _quantile,
    "percentile_approx": _quantile,
    "mode": _mode,
    "heavy_hitters": _heavy,
    "collect_set": _collect_set,
    "collect_list": _collect_list,
    "covar_pop": _covariance,
    "covar_samp": _covariance,
    "corr": _covariance,
}
