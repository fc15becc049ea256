"""Windows over counted rows as the group task sees them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.engine.operators.program import MAIN, Arrival, State, StateStep
from slackwater.engine.operators.results import present
from slackwater.engine.operators.window_program import COUNTERS, CountingProgram, arrived_rows
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows import row_windows
from slackwater.kernels.windows.counting import count_and_reduce
from slackwater.kernels.windows.numbering import merge_counters
from slackwater.semantics.limits import END, LEAST, MOST, START


class RowsProgram(CountingProgram):
    """Windows over counted rows. Panes of different keys cannot be compared, so that runs go by merging."""

    after: pa.Table | None = None

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        if part == MAIN and bounds[0] >= END:
            return MOST
        return LEAST

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        arrived = arrived_rows(rows.tables)
        before = merge_counters(self.spec, [self.counters(state)])
        added = self.parts[COUNTERS].schema.empty_table()
        fresh = stored = self.schema.empty_table()
        if arrived is not None:
            fresh, added = count_and_reduce(self.spec, arrived, before)
        self.after = merge_counters(self.spec, [before, added])
        ending = rows.new >= END > rows.old
        if arrived is not None or ending:
            stored = state(LEAST, MOST)
        bound = rows.new if ending else START
        done = row_windows.step(self.spec, fresh, stored, before, self.after, bound)
        return StateStep(present(self.node, done.output), {MAIN: done.keep, COUNTERS: added})

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        if part == COUNTERS:
            return merge_counters(self.spec, [rows])
        rows = aggregate.merge_partials(self.spec, [rows])
        assert self.after is not None
        return row_windows.living(self.spec, rows, self.after)
