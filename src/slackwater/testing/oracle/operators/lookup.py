"""Joins with a relation, by definition: a row meets the version of the step in which it comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slackwater.model.node import Lookup, Node, Source, raw_name
from slackwater.model.unnamed_time import UNNAMED
from slackwater.semantics.limits import END
from slackwater.testing.oracle.columns import plain
from slackwater.testing.oracle.operators.common import Coming, Followed
from slackwater.testing.oracle.relations import alone, partners, shown
from slackwater.testing.oracle.run import Limits, Run
from slackwater.testing.oracle.types import Item, Row

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions


def bounds(node: Lookup, run: Run) -> dict[str, int]:
    (below,) = run.below(node)
    return {out: below[name] for out, name in node.origins if out != UNNAMED}


def items(node: Lookup, run: Run) -> list[Item]:
    made = []
    for item in run.arriving(node.child):
        kept_out = frozenset(out for out, name in node.origins if name in item.kept_out)
        made += [Item(r, run.steps, kept_out) for r in _results(node, run, item.row)]
    return made


def _results(node: Lookup, run: Run, row: Row) -> list[dict[str, Any]]:
    pairs = partners(node, run, row, run.steps)
    if node.how == "left_semi":
        pairs = [alone(node, row)] if pairs else []
    elif node.how == "left_anti":
        pairs = [] if pairs else [alone(node, row)]
    elif node.how == "left":
        pairs = pairs or [alone(node, row)]
    return [shown(node, p) for p in pairs]


def excluded(node: Lookup, row: Row, steps: int, ask: Exclusions) -> bool:
    return ask.excluded(node.child, _before(node, row), steps)


def _before(node: Lookup, row: Row) -> dict[str, Any]:
    """The stream's columns of a result, under their names in the stream."""
    own = {raw_name(0, f.name): f.name for f in node.child.schema}
    names = {o.name: own.get(plain(o.expr) or "") for o in node.outputs}
    return {name: row[out] for out, name in names.items() if name is not None and out in row}


def may_come(node: Lookup, limits: Limits, ask: Coming) -> bool:
    below: dict[str, int] = {}
    for out, name in node.origins:
        if out in limits:
            below[name] = min(below.get(name, END), limits[out])
    return ask.below(node.child, below)


def shifts(node: Lookup, name: str, followed: Followed) -> list[int]:
    return [m for out, old in node.origins if out == name for m in followed.below(node.child, old)]


def input_row(
    node: Lookup, source: Source, row: Row, below: Callable[[Node], dict[str, Any]]
) -> dict[str, Any]:
    given = below(node.child)
    return shown(node, alone(node, given)) if given else {}
