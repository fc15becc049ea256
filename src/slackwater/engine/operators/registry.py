"""Which kind an operator is of: one entry per stateful node type, and per type of window for aggregates.

A new operator is a file with its `Kind`, and a line here; a new type of window a file with its program.
"""

from __future__ import annotations

from slackwater.engine.operators.by_tuple import ByTupleProgram
from slackwater.engine.operators.custom import CustomProgram
from slackwater.engine.operators.dedup import DedupKind
from slackwater.engine.operators.held import HeldKind
from slackwater.engine.operators.join_kind import JoinKind
from slackwater.engine.operators.joint import JointProgram
from slackwater.engine.operators.kinds import Kind
from slackwater.engine.operators.landmark import LandmarkProgram
from slackwater.engine.operators.rows import RowsProgram
from slackwater.engine.operators.sessions import SessionProgram
from slackwater.engine.operators.shared_panes import SharedPanesKind
from slackwater.engine.operators.shared_sort import SharedSortKind
from slackwater.engine.operators.sort import SortKind
from slackwater.engine.operators.time_windows import TimeKind
from slackwater.engine.operators.waiting import WaitingKind
from slackwater.engine.operators.window_kind import FinishedKind
from slackwater.engine.plan.plan import Operator
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

WINDOWS: Registry[Kind] = Registry(
    __name__,
    {
        TimeWindow: TimeKind(),
        RowWindow: FinishedKind(RowsProgram),
        Landmark: FinishedKind(LandmarkProgram),
        ByTuple: FinishedKind(ByTupleProgram),
        SessionWindow: FinishedKind(SessionProgram),
        CustomWindow: FinishedKind(CustomProgram),
        JointWindow: FinishedKind(JointProgram),
    },
)
"""Of an `Aggregate`, by the type of its window."""

PROGRAMS: Registry[Kind] = Registry(
    __name__,
    {
        SharedPanes: SharedPanesKind(),
        Dedup: DedupKind(),
        Sort: SortKind(),
        SharedSort: SharedSortKind(),
        Join: JoinKind(),
        Held: HeldKind(),
        Waiting: WaitingKind(),
    },
)
"""Of all other stateful nodes, by their type."""


def kind_of(operator: Operator) -> Kind:
    """The kind of an operator; one without an entry is an error that names it."""
    node = operator.node
    return WINDOWS[type(node.window)] if type(node) is Aggregate else PROGRAMS[type(node)]
