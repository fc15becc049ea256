"""The run of a query by the oracle: all that ever came out of each operator, and its bounds after each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from slackwater.model.node import Node
from slackwater.semantics.limits import START
from slackwater.testing.oracle.join_node import JoinNode
from slackwater.testing.oracle.progress import ArrivedRow, History
from slackwater.testing.oracle.types import Item, Row

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions

Limits = Mapping[str, int]
"""By time column the end, excluded, below which it is looked for."""

BoundOf = Callable[[Node, str], int]
Reasons = Mapping[str, tuple[str, "int | None", "int | None"]]
"""Why a row is a late row, by how much, and the bound that says so; by column."""


class Run:
    """What rules of operators and windows look at.

    ``items`` and ``bounds`` are by id of a node: all that ever came out, and the bounds after each step. ``judged`` has
    the rows of this step by source. ``may_come`` says whether a later row of a node may have all of these times below
    the limits, by the bounds in force. ``tables`` are the rows of each relation, step by step. ``closed`` says by id of a
    node, box and step whether a group on several windows was closed; that is looked for once, since it never changes.
    """

    nodes: list[Node]
    steps: int
    histories: dict[str, History]
    items: dict[int, list[Item]]
    bounds: dict[int, list[dict[str, int]]]
    joins: dict[int, JoinNode]
    tables: dict[str, list[list[Row]]]
    exclusions: Exclusions
    judged: dict[str, list[tuple[ArrivedRow, Reasons]]]
    late_rows: dict[str, list[Row]]
    late: dict[str, dict[str, int]]
    dropped: int
    may_come: Callable[[Node, Limits, BoundOf], bool]
    closed: dict[tuple[int, tuple[int, ...], int], bool]

    def before(self, node: Node, column: str) -> int:
        """The bound in force when this step began."""
        past = self.bounds[id(node)][: self.steps]
        return past[-1][column] if past else START

    def after(self, node: Node, column: str) -> int:
        """The bound with which this step ends."""
        return self.bounds[id(node)][-1][column]

    def below(self, node: Node) -> list[dict[str, int]]:
        """The bounds with which this step ends, of all that an operator reads."""
        return [self.bounds[id(c)][-1] for c in node.children]

    def arriving(self, child: Node) -> list[Item]:
        """What came out of an operator at this step."""
        return [i for i in self.items[id(child)] if i.step == self.steps]
