"""Bounds: ints with a floor and a ceiling, and how each operator maps them.

``bound(v)`` says that no later row has a time < v (exclusive: a row equal to v is on time). A bound
never goes back. `START` says nothing is known yet, `END` that the stream has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slackwater.model.node import Node, Pace
from slackwater.model.walk import children_first
from slackwater.semantics import pace
from slackwater.semantics.limits import END, START, Bounds, aligned, minimum, shift
from slackwater.semantics.operators.answers import Newest
from slackwater.semantics.operators.registry import RULES

__all__ = [
    "END", "START", "Bounds", "aligned", "marks_of", "minimum", "output_bounds", "propagate",
    "shift", "topological",
]  # fmt: skip


def topological(outputs: Iterable[Node]) -> tuple[Node, ...]:
    """All operators below ``outputs``, children first, each shared one once.

    Operators are told apart by identity. The order depends on the trees alone, so that a position
    in it can serve as an operator's name across processes.
    """
    return tuple(children_first(outputs))


def propagate(
    nodes: Sequence[Node],
    sources: Mapping[str, Bounds],
    holds: Mapping[int, Sequence[int]] | None = None,
    marks: pace.Marks | None = None,
) -> list[dict[str, int]]:
    """The output bounds of every operator, in the order of ``nodes`` (children first).

    ``sources`` gives the bounds of each source, by its name and column. The result is keyed by
    position, not by object, since positions survive pickling into tasks and JSON. ``holds`` gives, by
    position too, what joins may promise of their inputs while rows of these wait to be joined, and
    aggregates while results wait to come out. Without ``marks``, a `Pace` promises what its input does.
    """
    return _walked(nodes, sources, holds, marks)[0]


def marks_of(
    nodes: Sequence[Node],
    sources: Mapping[str, Bounds],
    holds: Mapping[int, Sequence[int]] | None,
    marks: pace.Marks,
) -> dict[int, int]:
    """The marks of the operators that keep a pace, by position; see `propagate`."""
    return _walked(nodes, sources, holds, marks)[1]


def _walked(
    nodes: Sequence[Node],
    sources: Mapping[str, Bounds],
    holds: Mapping[int, Sequence[int]] | None,
    marks: pace.Marks | None,
) -> tuple[list[dict[str, int]], dict[int, int]]:
    heard: dict[int, Newest] = {}
    found: dict[int, int] = {}
    if not any(isinstance(node, Pace) for node in nodes):
        marks = None
    bounds_of: dict[int, dict[str, int]] = {}
    for position, node in enumerate(nodes):
        inputs: list[Bounds] = [bounds_of[id(c)] for c in node.children]
        if holds and position in holds:
            held = zip(inputs, RULES[type(node)].entering(node), holds[position], strict=True)
            inputs = [{**b, on: min(b[on], h)} for b, on, h in held]
        bounds = output_bounds(node, inputs, sources)
        if marks is not None:
            below = [heard[id(c)] for c in node.children]
            heard[id(node)] = RULES[type(node)].heard(node, below, inputs, marks.newest)
            if isinstance(node, Pace):
                found[position] = mark = marks.of(node, position, below[0])
                if type(node) is Pace:
                    bounds = pace.raised(node, bounds, mark)
        bounds_of[id(node)] = bounds
    return [bounds_of[id(node)] for node in nodes], found


def output_bounds(
    node: Node, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]
) -> dict[str, int]:
    """The bounds of one operator's output, from those of its inputs."""
    return RULES[type(node)].bounds(node, inputs, sources)
