"""Windows that end at rows, as the group task sees them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.engine.operators.program import MAIN, Arrival, State, StateStep
from slackwater.engine.operators.results import present
from slackwater.engine.operators.window_program import COUNTERS, CountingProgram, arrived_rows
from slackwater.kernels.windows import by_tuple
from slackwater.kernels.windows.counting import count_and_reduce
from slackwater.kernels.windows.numbering import merge_counters
from slackwater.model.window import ByTuple
from slackwater.semantics.limits import LEAST, clamp
from slackwater.semantics.windows import needs_rows


class ByTupleProgram(CountingProgram):
    """Windows that end at rows; the state is cut by ticks."""

    @property
    def window(self) -> ByTuple:
        """The window, of its type."""
        assert isinstance(self.spec.window, ByTuple)
        return self.spec.window

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        if part == COUNTERS:
            return LEAST
        return by_tuple.needed(self.window, bounds[0])

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        counters = self.parts[COUNTERS].schema.empty_table()
        added = [counters]
        if needs_rows(self.window):
            # Counters number the rows here; ranks need none.
            arrived = arrived_rows(rows.tables)
            fresh = self.schema.empty_table()
            if arrived is not None:
                fresh, counted = count_and_reduce(self.spec, arrived, self.counters(state))
                added.append(counted)
        else:
            fresh = self.fresh(rows.tables)
            if self.spec.hidden:
                counters = self.counters(state)
        stored = self.schema.empty_table()
        if rows.new > rows.old:
            stored = state(by_tuple.needed(self.window, rows.old), clamp(rows.new - 1))
        done = by_tuple.step(self.spec, fresh, stored, counters, rows.old, rows.new)
        if self.spec.hidden == (by_tuple.RANK,):
            added.append(done.counters)
        keep = {MAIN: done.keep, COUNTERS: merge_counters(self.spec, added)}
        return StateStep(present(self.node, done.output), keep, done.dropped)

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        if part == COUNTERS:
            return merge_counters(self.spec, [rows])
        return super().compact(part, rows, first)
