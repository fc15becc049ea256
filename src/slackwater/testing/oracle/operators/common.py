"""Answers that several operators have in common; a module of an operator takes them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from slackwater.model.node import Node, Source
from slackwater.testing.oracle.run import BoundOf, Limits, Run
from slackwater.testing.oracle.types import Row

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions


class Followed(NamedTuple):
    """A column of a source; ``below`` gives by how much a column of an operator is moved against it, along each path."""

    source: str
    column: str
    below: Callable[[Node, str], list[int]]


class Coming(NamedTuple):
    """Whether a later row of an input may have times below the limits, and bounds of single times."""

    below: Callable[[Node, Limits], bool]
    bound: BoundOf


def same_bounds(node: Node, run: Run) -> dict[str, int]:
    """The input's."""
    return {t.name: run.below(node)[0][t.name] for t in node.times}


def same_excluded(node: Node, row: Row, steps: int, ask: Exclusions) -> bool:
    """What cannot come in cannot come out."""
    return ask.excluded(node.children[0], row, steps)


def not_excluded(node: Node, row: Row, steps: int, ask: Exclusions) -> bool:
    """Punctuation says nothing of what comes out."""
    return False


def same_may_come(node: Node, limits: Limits, ask: Coming) -> bool:
    """What may come in may come out."""
    return ask.below(node.children[0], limits)


def may_come_by_bounds(node: Node, limits: Limits, ask: Coming) -> bool:
    """Of the times together no more is known than of each alone."""
    return all(ask.bound(node, name) < end for name, end in limits.items())


def same_shifts(node: Node, name: str, followed: Followed) -> list[int]:
    """A time keeps its name."""
    return followed.below(node.children[0], name)


def no_shifts(node: Node, name: str, followed: Followed) -> list[int]:
    """No row of a source comes out as it went in."""
    return []


def same_row(
    node: Node, source: Source, row: Row, below: Callable[[Node], dict[str, Any]]
) -> dict[str, Any]:
    """A row goes through as it is; what the operator leaves out is left aside."""
    return below(node.children[0])


def no_row(
    node: Node, source: Source, row: Row, below: Callable[[Node], dict[str, Any]]
) -> dict[str, Any]:
    """No row of a source comes out as it went in."""
    return {}
