"""Windows that begin at one point and grow, as the group task sees them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.engine.operators.program import Arrival, State, StateStep
from slackwater.engine.operators.results import present
from slackwater.engine.operators.window_program import WindowProgram
from slackwater.kernels.windows import landmark
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.model.window import Landmark, TimeWindow
from slackwater.semantics.limits import END, LEAST, MOST, START
from slackwater.semantics.window_ids import closed_by


class LandmarkProgram(WindowProgram):
    """Everything since the origin; state is merged, never dropped."""

    closed = START

    def _closed(self, bound: int) -> int:
        w = self.spec.window
        assert isinstance(w, Landmark)
        return closed_by(bound, TimeWindow(w.slide, w.slide, w.origin, w.on))

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return LEAST

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        closed, close_to = self._closed(rows.old), self._closed(rows.new)
        self.closed = max(closed, close_to)
        stored = [state(LEAST, MOST)] if close_to > closed else []
        done = landmark.step(self.spec, self.fresh(rows.tables), stored, closed, close_to)
        return StateStep(present(self.node, done.output), done.keep, done.dropped_rows)

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        if self.closed <= START or self.closed >= END:
            return aggregate.merge_partials(self.spec, [rows])
        return landmark.folded(self.spec, rows, self.closed)
