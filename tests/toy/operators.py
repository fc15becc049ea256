"""How it runs on a group of a batch: a sort by times that are moved does the work."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

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
from slackwater.semantics.limits import shift
from tests.toy.model import Delay


class DelayProgram(Program):
    """Rows wait until the bound is far enough ahead."""

    def __init__(self, operator: Operator):
        assert isinstance(operator.node, Delay)
        self.by = operator.node.by
        self.row_schema = arrow_schema(operator.node.schema)
        self.state_schema = keyed_schema(self.row_schema)
        self.parts = {MAIN: Part(TIME, self.state_schema)}

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return shift(bounds[0], -self.by)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (arrived,) = inputs
        old, new = shift(arrived.old, -self.by), shift(arrived.new, -self.by)
        rows: pa.Table = keyed_rows(arrived.tables, self.row_schema)
        stored = self.state_schema.empty_table()
        if new > old:
            stored = state(old, new - 1)
        ready, keep, late = sort.step(rows, stored, old, new)
        return StateStep(ready.select(self.row_schema.names), keep, late)


class DelayKind(Kind):
    """Rows a while after their time."""

    def program(self, operator: Operator, context: GroupContext) -> Program:
        return DelayProgram(operator)
