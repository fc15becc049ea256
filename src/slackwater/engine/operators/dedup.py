"""Deduplication as the group task sees it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from slackwater.engine.operators.groupwise import ForgettingDedup
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
from slackwater.kernels.rows import dedup
from slackwater.kernels.types import arrow_schema
from slackwater.model.names import TIME
from slackwater.model.node import Dedup
from slackwater.semantics.lateness import dedup_frontier, dedup_memory


class DedupProgram(Program):
    """First rows; the state is the keys seen, with their times."""

    def __init__(self, operator: Operator):
        assert isinstance(operator.node, Dedup)
        self.node = operator.node
        fields = [self.node.field(c) for c in self.node.subset]
        keys = arrow_schema([f for f in fields if f is not None])
        self.state_schema = keyed_schema(keys)
        self.parts = {MAIN: Part(TIME, self.state_schema)}
        self.row_schema = arrow_schema(self.node.schema)

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return dedup_memory(bounds[0], self.node)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (arrived,) = inputs
        rows = keyed_rows(arrived.tables, self.row_schema)
        if rows.num_rows == 0:
            return StateStep(self.row_schema.empty_table(), self.state_schema.empty_table())
        times = pc.min_max(rows[TIME])
        reach = self.node.within or 0
        # A row that is too late to be told apart asks for nothing.
        low = max(times["min"].as_py() - reach, dedup_memory(arrived.old, self.node))
        stored = state(low, times["max"].as_py() + reach)
        kept, fresh, late = dedup.step(
            rows,
            stored,
            self.node.subset,
            within=self.node.within,
            frontier=dedup_frontier(arrived.old, self.node),
        )
        fresh = fresh.select(self.state_schema.names)
        return StateStep(kept.select(self.row_schema.names), fresh, late)


class DedupKind(Kind):
    """First rows; patterns let single keys be forgotten."""

    def program(self, operator: Operator, context: GroupContext) -> Program:
        program = DedupProgram(operator)
        return ForgettingDedup(program, program.node) if context.has_patterns else program
