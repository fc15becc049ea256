"""Walks through trees of operators that need no call per level: a chain may be long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from slackwater.errors import AnalysisError
from slackwater.model.node import Node

CHAIN = 1_000
"""Most operators that may stand above each other; Spark needs half a minute to analyse as many."""


def children_first(
    roots: Iterable[Node], below: Callable[[Node], Sequence[Node]] = attrgetter("children")
) -> list[Node]:
    """All operators below ``roots``, each once and behind those it reads; operators are told apart by identity."""
    seen: set[int] = set()
    order: list[Node] = []
    todo = [(root, False) for root in reversed(list(roots))]
    while todo:
        node, is_done = todo.pop()
        if is_done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            todo.append((node, True))
            todo += [(child, False) for child in reversed(below(node))]
    return order


def check_chain(node: Node) -> None:
    """Refuse more operators above each other than can be run."""
    found = height(node)
    if found > CHAIN:
        raise AnalysisError(
            "TOO_DEEP",
            f"{found:,} operators stand above each other, more than {CHAIN:,}",
            hint="put several conditions into one where(...) and several columns into one select(...); unite streams in pairs",
            operators=found,
            limit=CHAIN,
        )


def height(node: Node) -> int:
    """How many operators stand above each other at the most, the source among them."""
    heights: dict[int, int] = {}
    for each in children_first([node]):
        heights[id(each)] = 1 + max((heights[id(child)] for child in each.children), default=0)
    return heights[id(node)]
