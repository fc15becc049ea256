"""The state of each aggregate: which kind computes it, from its function and argument types."""

from __future__ import annotations

from functools import lru_cache

from slackwater.errors import AnalysisError
from slackwater.kernels.aggregates.cells import Counts, Exact, Extreme, Floats, Kind, Moments
from slackwater.kernels.aggregates.comoments import Comoments
from slackwater.kernels.aggregates.holistic import (
    Collection,
    Distinct,
    DistinctSum,
    Heavy,
    Mode,
    Quantile,
    fraction,
    is_number,
)
from slackwater.kernels.aggregates.sketches import Hashes, ThinHeavy, ThinQuantile, bits_for
from slackwater.kernels.aggregates.udaf import UserKind
from slackwater.kernels.types import parse
from slackwater.model.aggregate import Primitive

_INTEGERS = {"tinyint": 1, "smallint": 1, "int": 1, "bigint": 2}
_VARIANCE = {
    "var_pop": (False, False),
    "var_samp": (True, False),
    "stddev_pop": (False, True),
    "stddev_samp": (True, True),
}
_EXTREMES = {"min": True, "max": False, "bool_and": True, "bool_or": False}
_BY = {"min_by": True, "max_by": False}
_NUMBERS = ("float", "double", "decimal", *_INTEGERS)
_ARGUMENTS = {
    **dict.fromkeys((*_BY, "covar_pop", "covar_samp", "corr", "collect_list"), (2, 2)),
    "percentile": (1, 2), "count_distinct": (1, 99), "udaf": (1, 99),
}  # fmt: skip


@lru_cache(maxsize=4096)
def kind_of(p: Primitive) -> Kind:
    """The shape of an aggregate's state; an AnalysisError if its argument's type has none."""
    if p.function == "count":
        return Counts(p.name)
    least, most = _ARGUMENTS.get(p.function, (1, 1))
    if not least <= len(p.args) <= most:
        raise unsupported(p, f"it takes {least} argument(s), got {len(p.args)}")
    special = _holistic(p)
    if special is not None:
        return special
    parsed = parse(p.args[0].type)
    kind = parsed.kind
    if p.function in ("sum", "avg"):
        average = p.function == "avg"
        if kind in _INTEGERS:
            return Exact(p.name, _INTEGERS[kind], average, p.args[0].type, p.type)
        if kind == "decimal":
            limbs = 1 if parsed.precision <= 9 else 2 if parsed.precision <= 18 else 4
            return Exact(p.name, limbs, average, p.args[0].type, p.type)
        if kind in ("float", "double"):
            return Floats(p.name, average)
        raise unsupported(p, f"the argument is {p.args[0].type}, not a number")
    if p.function in _VARIANCE:
        if kind not in _NUMBERS:
            raise unsupported(p, f"the argument is {p.args[0].type}, not a number")
        return Moments(p.name, *_VARIANCE[p.function])
    nested = [a.type for a in p.args if parse(a.type).kind in ("struct", "array", "map", "void")]
    if nested:
        raise unsupported(p, f"values of type {nested[0]} are not ordered here")
    if p.function in _EXTREMES:
        return Extreme(p.name, _EXTREMES[p.function], (p.args[0].type,))
    if p.function in _BY:
        return Extreme(p.name, _BY[p.function], (p.args[1].type, p.args[0].type))
    raise unsupported(p, "no such aggregate")


def _holistic(p: Primitive) -> Kind | None:
    """Kinds beyond numbers and extremes, or None."""
    types = tuple(a.type for a in p.args)
    f, name = p.function, p.name
    if f in ("covar_pop", "covar_samp", "corr"):
        return Comoments(name, f)
    if f == "udaf":
        return UserKind(name, types, *p.params)
    if f == "approx_count_distinct":
        return Hashes(name, types, bits_for(p.params[0]))
    if f == "count_distinct":
        return Distinct(name, types)
    if f in ("sum_distinct", "avg_distinct"):
        inner = kind_of(Primitive(name, f.removesuffix("_distinct"), p.args, p.type))
        assert isinstance(inner, (Exact, Floats))
        return DistinctSum(name, types, inner)
    if f in ("percentile", "percentile_disc"):
        percentages, many, descending = p.params
        if not is_number(types[0]):
            raise unsupported(p, f"the argument is {types[0]}, not a number")
        method = "interpolate" if f == "percentile" else "discrete"
        return Quantile(name, types[:1], percentages, many, method, descending, len(types) == 2)
    if f == "percentile_approx":
        percentages, many, accuracy = p.params
        return ThinQuantile(name, types, percentages, many, "value", accuracy=accuracy)
    if f == "mode":
        return Mode(name, types, bool(p.params and p.params[0]))
    if f == "heavy_hitters":
        share, error = p.params
        if error is None:
            return Heavy(name, types, fraction(share))
        return ThinHeavy(name, types, fraction(share), fraction(error))
    if f in ("collect_list", "collect_set"):
        return Collection(name, types[::-1])
    return None


def unsupported(p: Primitive, why: str) -> AnalysisError:
    """The error of a call that cannot be computed."""
    call = f"{p.function}({', '.join(a.sql for a in p.args)})"
    return AnalysisError(
        "UNSUPPORTED_AGGREGATE",
        f"aggregate {call}: {why}",
        hint="use a supported aggregate and argument type, or cast the argument",
        aggregate=call,
    )
