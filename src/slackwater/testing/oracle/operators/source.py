"""Sources, by definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slackwater.model.node import Node, Source
from slackwater.testing.oracle.operators import common
from slackwater.testing.oracle.operators.common import Followed
from slackwater.testing.oracle.progress import bound
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item, Row

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions

may_come = common.may_come_by_bounds


def bounds(node: Source, run: Run) -> dict[str, int]:
    history = run.histories[node.name]
    return {
        t.name: bound(history, t, p, run.before(node, t.name))
        for t, p in zip(node.times, node.policies, strict=True)
    }


def items(node: Source, run: Run) -> list[Item]:
    found = []
    for a, reasons in run.judged[node.name]:
        out = frozenset(
            c for c, (why, *_) in reasons.items() if why != "late" or node.late == "drop"
        )
        found.append(Item({f.name: a.row.get(f.name) for f in node.schema}, run.steps, out))
    return found


def excluded(node: Source, row: Row, steps: int, ask: Exclusions) -> bool:
    return ask.broken(node, row, steps)


def shifts(node: Source, name: str, followed: Followed) -> list[int]:
    return [0] if node.name == followed.source and name == followed.column else []


def input_row(
    node: Source, source: Source, row: Row, below: Callable[[Node], dict[str, Any]]
) -> dict[str, Any]:
    return dict(row) if node.name == source.name else {}
