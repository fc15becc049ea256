"""What the oracle says of each type of operator: one module per type, all with the same questions.

Nothing here asks `slackwater.semantics` for a rule, since these are what its rules are compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from slackwater.model.node import (
    Aggregate,
    Dedup,
    Filter,
    Held,
    Join,
    Late,
    Lookup,
    Node,
    Outpaced,
    Pace,
    Parted,
    Project,
    Sort,
    Source,
    Union,
    Waiting,
)
from slackwater.model.registry import Registry
from slackwater.testing.oracle.operators import (
    aggregate,
    dedup,
    held,
    join,
    late,
    lookup,
    pace,
    parted,
    project,
    sort,
    source,
    union,
    waiting,
)
from slackwater.testing.oracle.operators import filter as filter_
from slackwater.testing.oracle.operators.common import Coming, Followed
from slackwater.testing.oracle.run import Limits, Run
from slackwater.testing.oracle.types import Item, Row

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions


class Definition(Protocol):
    """The questions. A node is given as its own type."""

    def bounds(self, node: Any, run: Run, /) -> dict[str, int]:
        """The bounds of what comes out after this step."""

    def items(self, node: Any, run: Run, /) -> list[Item]:
        """What comes out at this step."""

    def excluded(self, node: Any, row: Row, steps: int, ask: Exclusions, /) -> bool:
        """Whether punctuation says that no later row has these values."""

    def may_come(self, node: Any, limits: Limits, ask: Coming, /) -> bool:
        """Whether a later row may have all of these times below the limits."""

    def shifts(self, node: Any, name: str, followed: Followed, /) -> list[int]:
        """By how much column ``name`` is moved against the one that is followed, along each path."""

    def input_row(
        self, node: Any, source: Source, row: Row, below: Callable[[Node], dict[str, Any]], /
    ) -> dict[str, Any]:
        """A row of the source as it comes out here, filters left aside; empty if it does not."""


# Operators that only the planner makes (`PLANNED`) have no definition: their readers have.
OPERATORS: Registry[Definition] = Registry(
    __name__,
    {
        Source: source,
        Late: late,
        Filter: filter_,
        Project: project,
        Union: union,
        Dedup: dedup,
        Sort: sort,
        Pace: pace,
        Outpaced: pace,
        Aggregate: aggregate,
        Join: join,
        Lookup: lookup,
        Held: held,
        Parted: parted,
        Waiting: waiting,
    },
)
