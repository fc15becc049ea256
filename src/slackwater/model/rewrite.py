"""Trees with other sources: what is shared stays shared."""

from __future__ import annotations

from collections.abc import Callable

from slackwater.model.node import Late, Node, Source


class Rewrite:
    """Rebuilds trees with ``change`` applied to every source, each node once over all calls.

    The source whose late rows are read changes too, unless ``late`` is false.
    """

    def __init__(self, change: Callable[[Source], Source], *, late: bool = True):
        self.change = change
        self.late = late
        self._done: dict[int, Node] = {}

    def __call__(self, node: Node) -> Node:
        """The tree below ``node`` with other sources."""
        if id(node) not in self._done:
            self._done[id(node)] = self._rebuilt(node)
        return self._done[id(node)]

    def _rebuilt(self, node: Node) -> Node:
        if isinstance(node, Source):
            return self.change(node)
        if isinstance(node, Late) and not self.late:
            return node
        return node.with_children(*(self(child) for child in node.children))
