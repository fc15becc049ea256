"""What the kinds of window aggregates have in common, and those whose windows are not just spans of time."""

from __future__ import annotations

from collections.abc import Callable

from slackwater.engine.operators.groupwise import Finished
from slackwater.engine.operators.kinds import Kind
from slackwater.engine.operators.program import GroupContext, Program
from slackwater.engine.plan.plan import Operator, Plan
from slackwater.engine.store.statistics import OperatorStatistics
from slackwater.model.node import Aggregate
from slackwater.semantics.windows import context_class

_CLASSES = {
    "CF": "a row tells its windows (CF)",
    "FCF": "rows before it tell a row's windows (FCF)",
    "FCA": "rows after it tell a row's windows (FCA)",
}


class WindowKind(Kind):
    """An aggregate over windows of one type."""

    def described(self, operator: Operator, known: OperatorStatistics) -> str:
        assert isinstance(operator.node, Aggregate)
        how = _CLASSES[context_class(operator.node.window)]
        plan = operator.aggregation.plan
        return f"aggregate by {'times' if plan == 'ticks' else plan}, {how}"

    def details(self, plan: Plan, operator: Operator, known: OperatorStatistics) -> list[str]:
        assert isinstance(operator.node, Aggregate)
        return [f"{p.name} = {p.call}: {p.traits}" for p in operator.node.primitives]


class FinishedKind(WindowKind):
    """Windows that are not just spans of time: a group that a pattern names has come to its end.

    ``plain`` makes the program that knows of no patterns.
    """

    def __init__(self, plain: Callable[[Operator], Program]):
        self.plain = plain

    def program(self, operator: Operator, context: GroupContext) -> Program:
        program = self.plain(operator)
        if not context.has_patterns:
            return program
        assert isinstance(operator.node, Aggregate)
        return Finished(program, operator.node, lambda: self.plain(operator))
