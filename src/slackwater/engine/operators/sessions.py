"""Sessions as the group task sees them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.engine.operators.program import Arrival, State, StateStep
from slackwater.engine.operators.results import presented, window_ids
from slackwater.engine.operators.window_program import WindowProgram
from slackwater.kernels.windows import sessions
from slackwater.model.window import SessionWindow
from slackwater.semantics.limits import MOST


class SessionProgram(WindowProgram):
    """Sessions; the state are parts of open ones, cut by their last tick."""

    @property
    def window(self) -> SessionWindow:
        """The window, of its type."""
        assert isinstance(self.spec.window, SessionWindow)
        return self.spec.window

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return sessions.needed(self.window, bounds[0])

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        stored = state(sessions.needed(self.window, rows.old), MOST)
        done = sessions.step(self.spec, self.fresh(rows.tables), stored, rows.old, rows.new)
        ends = [window_ids(done.output, name) for name in ("_start", "_end")]
        return StateStep(
            presented(self.node, done.output, {}, [ends]), done.keep, done.dropped_rows
        )

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        return sessions.merge_parts(self.spec, rows, first)
