"""Sorts as the group task sees them."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.engine.operators.keyed_rows import keyed_rows, keyed_schema
from slackwater.engine.operators.kinds import Kind
from slackwater.engine.operators.program import (
    MAIN,
    Arrival,
    GroupContext,
    Part,
    Program,
    State,
    StateStep,
)
from slackwater.engine.plan.plan import Operator
from slackwater.kernels.rows import sort
from slackwater.kernels.types import arrow_schema
from slackwater.model.names import TIME
from slackwater.model.node import Sort


class SortProgram(Program):
    """Rows wait until the bound has passed them, then leave in order."""

    def __init__(self, operator: Operator):
        assert isinstance(operator.node, Sort)
        self.row_schema = arrow_schema(operator.node.schema)
        self.state_schema = keyed_schema(self.row_schema)
        self.parts = {MAIN: Part(TIME, self.state_schema)}

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return bounds[0]

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (arrived,) = inputs
        rows = keyed_rows(arrived.tables, self.row_schema)
        stored = self.state_schema.empty_table()
        if arrived.new > arrived.old:
            stored = state(arrived.old, arrived.new - 1)
        ordered, keep, late = sort.step(rows, stored, arrived.old, arrived.new)
        return StateStep(ordered.select(self.row_schema.names), keep, late)


class SortKind(Kind):
    """Rows in order of a time."""

    def program(self, operator: Operator, context: GroupContext) -> Program:
        return SortProgram(operator)
