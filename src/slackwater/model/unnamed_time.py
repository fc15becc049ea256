"""Results without a time: a projection may leave the last time out, for rows that go to a sink.

Which rows come out does not depend on it: rows that are kept out on the time that was left out still are. So such a
projection has an origin under a name that no column has.
"""

from __future__ import annotations

from slackwater.model.node import Node, Project

UNNAMED = ""
"""The name of a time that was left out, where a time is asked for by name."""


def unnamed_origin(node: Node) -> tuple[tuple[str, str, int], ...]:
    """The origin of a projection over ``node`` that keeps none of its times: the first of these, unmoved."""
    first = node.times[0].name if node.times else UNNAMED
    return ((UNNAMED, first, 0),)


def left_out(node: Node) -> Project | None:
    """The projection that left the last time of a node out; None if the node has one, or never had."""
    while not node.times:
        if isinstance(node, Project) and node.child.times:
            return node
        below = next((c for c in node.children if not c.times), None)
        if below is None:
            return None
        node = below
    return None
