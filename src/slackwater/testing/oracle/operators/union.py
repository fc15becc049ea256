"""Unions, by definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slackwater.model.node import Node, Source, Union
from slackwater.testing.oracle.operators.common import Coming, Followed
from slackwater.testing.oracle.run import Limits, Run
from slackwater.testing.oracle.types import Item, Row

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions


def bounds(node: Union, run: Run) -> dict[str, int]:
    sides = list(zip(node.inputs, run.below(node), strict=True))
    return {t.name: min(b[c.times[i].name] for c, b in sides) for i, t in enumerate(node.times)}


def items(node: Union, run: Run) -> list[Item]:
    return [_renamed_item(node, c, i) for c in node.inputs for i in run.arriving(c)]


def _renamed_item(node: Union, child: Node, item: Item) -> Item:
    to = dict(zip((t.name for t in child.times), (t.name for t in node.times), strict=False))
    names = [f.name for f in node.schema]
    row = dict(zip(names, (item.row[f.name] for f in child.schema), strict=True))
    return Item(row, item.step, frozenset(to[c] for c in item.kept_out if c in to))


def excluded(node: Union, row: Row, steps: int, ask: Exclusions) -> bool:
    return all(ask.excluded(c, _renamed(node, c, row), steps) for c in node.inputs)


def _renamed(node: Union, child: Node, row: Row) -> dict[str, Any]:
    names = [(c.name, m.name) for c, m in zip(node.schema, child.schema, strict=True)]
    names += [(c.name, m.name) for c, m in zip(node.times, child.times, strict=False)]
    return {mine: row[common] for common, mine in names if common in row}


def may_come(node: Union, limits: Limits, ask: Coming) -> bool:
    names = [t.name for t in node.times]
    return any(
        ask.below(c, {c.times[names.index(n)].name: v for n, v in limits.items()})
        for c in node.inputs
    )


def shifts(node: Union, name: str, followed: Followed) -> list[int]:
    at = [t.name for t in node.times].index(name)
    return [m for c in node.inputs for m in followed.below(c, c.times[at].name)]


def input_row(
    node: Union, source: Source, row: Row, below: Callable[[Node], dict[str, Any]]
) -> dict[str, Any]:
    for child in node.inputs:
        if given := below(child):
            pairs = zip(node.schema, child.schema, strict=True)
            return {common.name: given.get(mine.name) for common, mine in pairs}
    return {}
