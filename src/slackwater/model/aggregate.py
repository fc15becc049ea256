"""Aggregates as a query states them, cut into primitives that merge."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.model.schema import Expr

PRIMITIVES = (
    "count", "sum", "min", "max", "avg",
    "var_pop", "var_samp", "stddev_pop", "stddev_samp",
    "bool_and", "bool_or", "max_by", "min_by",
)  # fmt: skip


@dataclass(frozen=True)
class Primitive:
    """One aggregate function call, e.g. ``sum(v)``; ``type`` is Spark's result type.

    ``count`` has no argument for ``count(*)`` or several (rows where none is null);
    ``max_by(x, y)`` and ``min_by(x, y)`` have two.
    ``name`` is the column that holds the finished value inside the operator (``_a0``, ``_a1``...).
    """

    name: str
    function: str
    args: tuple[Expr, ...]
    type: str
