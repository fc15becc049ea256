"""Windows of a user's type as the group task sees them."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.engine.operators.program import Arrival, State, StateStep
from slackwater.engine.operators.results import present
from slackwater.engine.operators.window_program import WindowProgram
from slackwater.kernels.windows import custom
from slackwater.semantics.limits import clamp


class CustomProgram(WindowProgram):
    """Windows of a user's type; the state is cut by the ends of windows."""

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return clamp(bounds[0] + 1)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        stored = self.schema.empty_table()
        if rows.new > rows.old:
            stored = state(clamp(rows.old + 1), clamp(rows.new))
        done = custom.step(self.spec, self.fresh(rows.tables), stored, rows.old, rows.new)
        return StateStep(present(self.node, done.output), done.keep, done.dropped_rows)
