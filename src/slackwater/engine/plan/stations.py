"""Where on the paths of a plan the rows of each node are: a guard on a node's rows stands there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slackwater.engine.plan.columns import shown_at
from slackwater.engine.plan.operators.registry import ROW_OPERATORS, producer
from slackwater.engine.plan.plan import Path, Plan
from slackwater.model.node import Node

__all__ = ["Station", "members", "shown_at", "stations"]


@dataclass(frozen=True)
class Station:
    """The rows of ``node``, when ``steps`` of a path's steps are done; ``reader`` takes them as its input ``port``.

    The last station of a path to an output has no reader.
    """

    node: Node
    steps: int
    reader: Node | None = None
    port: int = 0


def stations(plan: Plan) -> dict[int, tuple[Station, ...]]:
    """The stations of each path, by its id, as the query was written: without stores that operators share."""
    plan = plan.unshared
    by_path: dict[int, tuple[Station, ...]] = {}
    for operator in plan.operators:
        for i, child in enumerate(operator.node.children):
            paths = [p for p in plan.paths_to(operator.id) if p.input == i]
            for path, chain in zip(paths, _chains(child, operator.node, i), strict=True):
                by_path[path.id] = chain
    for output in plan.outputs:
        paths = list(plan.paths_to(f"out:{output.name}"))
        for path, chain in zip(paths, _chains(output.node, None, 0), strict=True):
            by_path[path.id] = chain
    return by_path


def _chains(node: Node, reader: Node | None, port: int) -> Iterator[tuple[Station, ...]]:
    """The ways to a node, in the order in which `layout` lays paths."""
    entry = ROW_OPERATORS.get(type(node))
    if entry is None:
        yield (Station(node, len(producer(node).finishing(node)), reader, port),)
        return
    for i, below in enumerate(entry.below(node, "")):
        for chain in _chains(below.child, node, i):
            yield (*chain, Station(node, chain[-1].steps + len(below.steps), reader, port))


def members(plan: Plan, path: Path) -> list[int]:
    """The paths of the query as it was written whose rows travel on a path: several, if operators share its end."""
    operator = plan.operator(path.consumer)
    before = plan.unshared
    if operator is None or before is plan or before.operator(operator.id) is not None:
        return [path.id]
    owner = before.path(path.id).consumer
    place = [p.id for p in before.paths_to(owner)].index(path.id)
    return [[p.id for p in before.paths_to(member)][place] for member in operator.producers]
