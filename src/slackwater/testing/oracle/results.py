"""Rows that an aggregate gives for a window, by definition."""

from __future__ import annotations

from typing import Any

from slackwater.model.node import Aggregate
from slackwater.testing.oracle.aggregates import aggregate
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.types import Row, Window


def result(
    node: Aggregate, wid: int | None, extent: Window, key: tuple[Any, ...], rows: list[Row]
) -> Row:
    """The result of a group's window that holds these rows."""
    row: Row = {k.name: v for k, v in zip(node.keys, key, strict=True)}
    values = {**row, **{p.column: aggregate(p, rows) for p in node.primitives}}
    if wid is not None:
        row["wid"] = wid
    row["window"] = extent
    for out in node.outputs:
        row[out.name] = compile_expression(out.expr.sql)(values)
    return row


def hashable(value: Any) -> Any:
    """A value that may be part of a key."""
    return tuple(value) if isinstance(value, list) else value
