"""What each kind of operator needs of the rows that reach it: one entry per stateful node type, and per type of window.

A new operator is a file with its ``admit``, and a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from slackwater.engine.paths import aggregate, dedup, join, shared_sort, sort
from slackwater.engine.paths.steps import Queried
from slackwater.engine.plan.plan import Operator, Path
from slackwater.errors import ExecutionError
from slackwater.model.node import Aggregate, Dedup, Join, Node, SharedPanes, SharedSort, Sort
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

REDUCTIONS: dict[type[Any], aggregate.Reduction] = {
    TimeWindow: aggregate.partials_by_plan,
    RowWindow: aggregate.counted,
    Landmark: aggregate.partials,
    ByTuple: aggregate.counted,
    SessionWindow: aggregate.partials,
    CustomWindow: aggregate.partials,
    JointWindow: aggregate.joint_partials,
}
"""For aggregates, by the type of their windows."""


def _reduced(operator: Operator, path: Path, table: pa.Table, queried: Queried) -> pa.Table:
    assert isinstance(operator.node, Aggregate)
    kind = type(operator.node.window)
    reduction = REDUCTIONS.get(kind)
    if reduction is None:
        raise _unknown(kind, operator)
    return aggregate.admit(operator, path, table, queried, reduction)


ADMISSIONS: dict[type[Node], Admission] = {
    Aggregate: _reduced,
    SharedPanes: _reduced,
    Dedup: dedup.admit,
    Sort: sort.admit,
    SharedSort: shared_sort.admit,
    Join: join.admit,
}


def admitted(operator: Operator, path: Path, table: pa.Table, queried: Queried) -> pa.Table:
    """What an operator takes of the rows of ``table``, which come along ``path``."""
    admit = ADMISSIONS.get(type(operator.node))
    if admit is None:
        raise _unknown(type(operator.node), operator)
    return admit(operator, path, table, queried)


def _unknown(kind: type[Any], operator: Operator) -> ExecutionError:
    return ExecutionError(
        "UNKNOWN_OPERATOR",
        f"the engine does not know what {kind.__name__} ({operator.id}) needs of rows",
        hint="give it an entry in engine/paths/registry.py",
        name=kind.__name__,
    )
