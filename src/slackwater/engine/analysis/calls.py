"""Which primitive an aggregate function of Spark is: its name, its arguments, its constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.engine.analysis.markers import marked
from slackwater.errors import AnalysisError
from slackwater.model.aggregate import TRAITS

_PLAIN = {
    "Count": "count", "Sum": "sum", "Min": "min", "Max": "max", "Average": "avg",
    "VariancePop": "var_pop", "VarianceSamp": "var_samp",
    "StddevPop": "stddev_pop", "StddevSamp": "stddev_samp",
    "BoolAnd": "bool_and", "BoolOr": "bool_or", "MaxBy": "max_by", "MinBy": "min_by",
    "CountIf": "count", "CovPopulation": "covar_pop", "CovSample": "covar_samp", "Corr": "corr",
    "CollectList": "collect_list", "CollectSet": "collect_set", "Mode": "mode",
    "Median": "percentile", "Percentile": "percentile", "PercentileCont": "percentile",
    "PercentileDisc": "percentile_disc", "ApproximatePercentile": "percentile_approx",
    "HyperLogLogPlusPlus": "approx_count_distinct",
    "First": "first", "Last": "last", "AnyValue": "first",
}  # fmt: skip
_DISTINCT = {
    "count": "count_distinct", "sum": "sum_distinct", "avg": "avg_distinct",
    "collect_list": "collect_set",
    **{f: f for f in ("min", "max", "bool_and", "bool_or", "collect_set", "approx_count_distinct")},
}  # fmt: skip
_STATISTICAL = {
    "VariancePop", "VarianceSamp", "StddevPop", "StddevSamp", "CovPopulation", "CovSample", "Corr",
}  # fmt: skip
_SHOWN = tuple(
    sorted(
        {f for f in TRAITS if not f.endswith("_distinct") and f not in ("udaf", "heavy_hitters")}
        | {"approx_count_distinct", "count(DISTINCT ...)", "sum(DISTINCT ...)", "avg(DISTINCT ...)"}
        | {"any_value", "count_if", "first", "last", "median", "percentile_cont"}
        | {"sw.heavyHitters", "sw.udaf"}
    )
)


@dataclass(frozen=True)
class Shape:
    """A call's primitive. ``first`` and ``last`` become extremes over the row's time."""

    function: str
    nodes: tuple[Any, ...]
    params: tuple[Any, ...] = ()
    ignore_nulls: bool = False


def shape_of(call: Any, kinds: Callable[[Any], Any]) -> Shape:
    """The shape of an AggregateExpression; ``kinds`` tells the class names of a node."""
    function = call.aggregateFunction()
    own = kinds(function)
    pretty = str(function.prettyName())
    function_name = next((_PLAIN[k] for k in own if k in _PLAIN), None)
    if function_name is None or pretty.startswith("try_"):
        raise unsupported(pretty)
    nodes = _items(function.children())
    if own & {"CollectList", "AnyValue"}:
        mark = marked(nodes[0], kinds)
        if mark is not None:
            name, constants, inside = mark
            return Shape(name, tuple(inside), constants)
    if call.isDistinct():
        if function_name not in _DISTINCT:
            raise unsupported(f"{pretty}(DISTINCT ...)")
        function_name = _DISTINCT[function_name]
    if own & _STATISTICAL and not function.nullOnDivideByZero():
        raise unsupported(f"{pretty} under spark.sql.legacy.statisticalAggregate")
    if own & {"BoolAnd", "BoolOr", "CountIf"}:
        return Shape(function_name, (function.child(),))
    if function_name in ("max_by", "min_by") and len(nodes) != 2:
        raise unsupported(f"{pretty} with {len(nodes)} arguments")
    if function_name in ("first", "last"):
        return Shape(function_name, (nodes[0],), ignore_nulls=bool(function.ignoreNulls()))
    if function_name == "mode":
        order = function.reverseOpt()
        return Shape(function_name, tuple(nodes), (True,) if _is_some(order, False) else ())
    if function_name == "approx_count_distinct":
        return Shape(function_name, (nodes[0],), (float(function.relativeSD()),))
    if function_name in ("percentile", "percentile_disc", "percentile_approx"):
        return _quantile(function_name, function, own, nodes)
    if function_name in ("collect_list", "collect_set") and not function.ignoreNulls():
        raise unsupported(f"{pretty} with RESPECT NULLS")
    return Shape(function_name, tuple(nodes))


def _quantile(function_name: str, function: Any, own: Any, nodes: Sequence[Any]) -> Shape:
    if "Median" in own:
        return Shape(function_name, (nodes[0],), ((0.5,), False, False))
    percentages, many = _constants(nodes[1], function_name)
    if function_name == "percentile_approx":
        return Shape(
            function_name, (nodes[0],), (percentages, many, int(_constant(nodes[2], function_name)))
        )
    if function_name == "percentile_disc" and function.legacyCalculation():
        raise unsupported("percentile_disc under spark.sql.legacy.percentileDiscCalculation")
    params = (percentages, many, bool(function.reverse()))
    if len(nodes) > 2 and not _is_one(nodes[2]):
        return Shape(function_name, (nodes[0], nodes[2]), params)
    return Shape(function_name, (nodes[0],), params)


def _constants(node: Any, function: str) -> tuple[tuple[float, ...], bool]:
    """Percentages, and whether they were given as an array."""
    value = _constant(node, function)
    if isinstance(value, (int, float)):
        return (float(value),), False
    return tuple(float(value.getDouble(i)) for i in range(value.numElements())), True


def _constant(node: Any, function: str) -> Any:
    value = node.eval(None) if node.foldable() else None
    if value is None:
        raise AnalysisError(
            "UNSUPPORTED_AGGREGATE",
            f"{function} needs a constant where it has {node.sql()}",
            hint="write the number, or an array of numbers",
            function=function,
        )
    return value


def _is_one(node: Any) -> bool:
    return bool(node.foldable()) and node.eval(None) == 1


def _is_some(option: Any, value: bool) -> bool:
    return bool(option.isDefined()) and option.get() == value


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def unsupported(name: str) -> AnalysisError:
    """The error of a function that has no primitive."""
    return AnalysisError(
        "UNSUPPORTED_AGGREGATE",
        f"the aggregate function {name} is not supported",
        hint=f"use one of: {', '.join(_SHOWN)}",
        function=name,
        supported=", ".join(_SHOWN),
    )
