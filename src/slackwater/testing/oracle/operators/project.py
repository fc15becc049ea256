"""Projections, by definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slackwater.model.node import Node, Project, Source
from slackwater.model.unnamed_time import UNNAMED
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.columns import plain
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.operators.common import Coming, Followed
from slackwater.testing.oracle.run import Limits, Run
from slackwater.testing.oracle.types import Item, Row

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions


def bounds(node: Project, run: Run) -> dict[str, int]:
    (below,) = run.below(node)
    return {
        out: v if (v := below[name]) in (START, END) else v + ticks
        for out, name, ticks in node.origins
        if out != UNNAMED
    }


def items(node: Project, run: Run) -> list[Item]:
    return [_projected(node, i) for i in run.arriving(node.child)]


def _projected(node: Project, item: Item) -> Item:
    row = {c.name: compile_expression(c.expr.sql)(item.row) for c in node.columns}
    out = frozenset(new for new, old, _ in node.origins if old in item.kept_out)
    return Item(row, item.step, out)


def excluded(node: Project, row: Row, steps: int, ask: Exclusions) -> bool:
    return ask.excluded(node.child, _unprojected(node, row), steps)


def _unprojected(node: Project, row: Row) -> dict[str, Any]:
    """The same row before a projection, as far as it is known."""
    found = {}
    for c in node.columns:
        name = plain(c.expr)
        if c.name in row and name is not None:
            found[name] = row[c.name]
    for out, name, ticks in node.origins:
        if out in row:
            found[name] = row[out] - ticks
    return found


def may_come(node: Project, limits: Limits, ask: Coming) -> bool:
    below: dict[str, int] = {}
    for out, name, ticks in node.origins:
        if out in limits:
            below[name] = min(below.get(name, END), limits[out] - ticks)
    return ask.below(node.child, below)


def shifts(node: Project, name: str, followed: Followed) -> list[int]:
    return [
        moved + ticks
        for out, old, ticks in node.origins
        if out == name
        for moved in followed.below(node.child, old)
    ]


def input_row(
    node: Project, source: Source, row: Row, below: Callable[[Node], dict[str, Any]]
) -> dict[str, Any]:
    given = below(node.child)
    return {c.name: compile_expression(c.expr.sql)(given) for c in node.columns if given}
