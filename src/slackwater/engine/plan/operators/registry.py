"""Which module answers the plan's questions about a type of node.

A node that has no entry is refused by its name: no operator is taken for another. Those that the planner makes itself
(stores that operators share) hold state, but paths start at their readers.
"""

from __future__ import annotations

from typing import Any

from slackwater.engine.plan.operators import (
    aggregate,
    dedup,
    held,
    join,
    late,
    lookup,
    pace,
    project,
    shared_panes,
    shared_sort,
    sort,
    source,
    union,
)
from slackwater.engine.plan.operators import (
    filter as filter_,
)
from slackwater.engine.plan.operators.kind import Producer, RowOperator, Stateful
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
    SharedPanes,
    SharedSort,
    Sort,
    Source,
    Union,
    Waiting,
)
from slackwater.model.registry import Registry

ROW_OPERATORS: Registry[RowOperator[Any]] = Registry(
    __name__,
    {
        Filter: filter_,
        Project: project,
        Union: union,
        Lookup: lookup,
        Parted: lookup,
        Pace: pace,
        Outpaced: pace,
    },
)

PRODUCERS: Registry[Producer[Any]] = Registry(
    __name__,
    {
        Source: source,
        Late: late,
        Dedup: dedup,
        Sort: sort,
        Aggregate: aggregate,
        Join: join,
        Held: held,
        Waiting: held,
    },
)

STATEFUL: Registry[Stateful[Any]] = Registry(
    __name__,
    {
        Dedup: dedup,
        Sort: sort,
        Aggregate: aggregate,
        Join: join,
        Held: held,
        Waiting: held,
        SharedPanes: shared_panes,
        SharedSort: shared_sort,
    },
)


def producer(node: Node) -> Producer[Any]:
    """The entry of a node at which paths start."""
    return PRODUCERS[type(node)]


def stateful(node: Node) -> Stateful[Any]:
    """The entry of a node that holds state."""
    return STATEFUL[type(node)]
