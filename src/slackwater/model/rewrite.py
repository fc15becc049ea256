"""Trees with other sources: what is shared stays shared."""

from __future__ import annotations

from collections.abc import Callable

from slackwater.model.node import Late, Node, Source
from slackwater.model.walk import children_first


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
        for each in children_first([node], self._below):
            if id(each) not in self._done:
                self._done[id(each)] = self._rebuilt(each)
        return self._done[id(node)]

    def _below(self, node: Node) -> tuple[Node, ...]:
        is_as_it_was = isinstance(node, Late) and not self.late
        return () if is_as_it_was or id(node) in self._done else node.children

    def _rebuilt(self, node: Node) -> Node:
        if isinstance(node, Source):
            return self.change(node)
        if isinstance(node, Late) and not self.late:
            return node
        return node.with_children(*(self._done[id(child)] for child in node.children))
