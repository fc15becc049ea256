"""Which clause made an operator: errors that are found when a query starts point at it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slackwater.model.node import Node
from slackwater.model.render import render
from slackwater.semantics.bounds import topological
from slackwater.semantics.contracts.words import called
from slackwater.surface.sql.text import Span


class Clauses:
    """Spans of clauses by the nodes that they made. A node stays here, so that no other one gets its id."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Node, Span | None]] = {}

    def note(self, node: Node, span: Span | None) -> None:
        """A clause made this node, and all below it that nobody noted yet; no span for what is not of the text."""
        if id(node) not in self._made:
            self._made[id(node)] = (node, span)
            for child in node.children:
                self.note(child, span)

    def of(self, node: Node | None) -> Span | None:
        """The clause that made a node."""
        return None if node is None else self._made.get(id(node), (node, None))[1]

    def of_operator(self, outputs: Sequence[Node], name: str) -> Span | None:
        """The clause of the operator that a check calls by this name."""
        return self._first(n for n in topological(outputs) if called(n) == name)

    def of_line(self, output: Node, line: str) -> Span | None:
        """The clause of the operator whose line in the rendered tree this is."""
        return self._first(n for n in topological([output]) if render(n)[0] == line)

    def _first(self, nodes: Iterable[Node]) -> Span | None:
        return next((s for n in nodes if (s := self.of(n)) is not None), None)
