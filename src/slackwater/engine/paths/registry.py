"""What each kind of operator needs of the rows that reach it: one entry per stateful node type, and per type of window.

A new operator is a file with its ``admit``, and a line here.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from slackwater.engine.paths import aggregate, dedup, held, join, shared_sort, sort, waiting
from slackwater.engine.paths.steps import Queried
from slackwater.engine.plan.plan import Operator, Path
from slackwater.model.node import (
    Aggregate,
    Dedup,
    Held,
    Join,
    SharedPanes,
    SharedSort,
    Sort,
    Waiting,
)
from slackwater.model.registry import Registry
from slackwater.model.window import (
    ByTuple,
    CustomWindow,
    JointWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
)

Admission = Callable[[Operator, Path, pa.Table, Queried], pa.Table]
"""Makes of the rows of a path's producer what the operator at its end takes, each with its bucket."""

REDUCTIONS: Registry[aggregate.Reduction] = Registry(
    __name__,
    {
        TimeWindow: aggregate.partials_by_plan,
        RowWindow: aggregate.counted,
        Landmark: aggregate.partials,
        ByTuple: aggregate.counted,
        SessionWindow: aggregate.partials,
        CustomWindow: aggregate.partials,
        JointWindow: aggregate.joint_partials,
    },
)
"""For aggregates, by the type of their windows."""


def _reduced(operator: Operator, path: Path, table: pa.Table, queried: Queried) -> pa.Table:
    assert isinstance(operator.node, Aggregate)
    reduction = REDUCTIONS[type(operator.node.window)]
    return aggregate.admit(operator, path, table, queried, reduction)


ADMISSIONS: Registry[Admission] = Registry(
    __name__,
    {
        Aggregate: _reduced,
        SharedPanes: _reduced,
        Dedup: dedup.admit,
        Sort: sort.admit,
        SharedSort: shared_sort.admit,
        Join: join.admit,
        Held: held.admit,
        Waiting: waiting.admit,
    },
)


def admitted(operator: Operator, path: Path, table: pa.Table, queried: Queried) -> pa.Table:
    """What an operator takes of the rows of ``table``, which come along ``path``.

    An operator without an entry is an error that names it.
    """
    return ADMISSIONS[type(operator.node)](operator, path, table, queried)
