"""What was asked: rows a while after their time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slackwater.model.node import Node


@dataclass(frozen=True)
class Delay(Node):
    """Each row once it is ``by`` ticks behind the bound on ``on``; a row that is further behind when it comes is late."""

    child: Node
    on: str
    by: int

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)

    def with_children(self, *new: Node) -> Node:
        return replace(self, child=new[0])


def line(node: Delay, policies: bool) -> str:
    """The operator in a drawing of the query; its digest is the operator's id."""
    return f"delay {node.on} by {node.by}"
