"""Windows of several times at once as the group task sees them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.engine.operators.program import MAIN, Arrival, State, StateStep
from slackwater.engine.operators.results import presented, window_ids
from slackwater.engine.operators.window_program import WindowProgram
from slackwater.kernels.windows import joint
from slackwater.model.node import Aggregate
from slackwater.semantics.frontier import Points
from slackwater.semantics.limits import LEAST, MOST
from slackwater.semantics.windows import extents


class JointProgram(WindowProgram):
    """Groups on the windows of several times; the state is cut by panes of the first."""

    after: Points = ()

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return joint.needed(self.spec, bounds[0])

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        before, self.after = rows.frontiers
        stored = self.schema.empty_table()
        if before != self.after:
            stored = state(LEAST, MOST)
        done = joint.step(self.spec, self.fresh(rows.tables), stored, before, self.after)
        output = _present(self.node, done.output)
        if 2 * int(done.alive.sum()) > stored.num_rows or not stored.num_rows:
            return StateStep(output, done.keep, done.dropped)
        # Half of the state is of no more use: writing the rest once costs less than keeping all.
        keep = pa.concat_tables([stored.filter(pa.array(done.alive)), done.keep])
        return StateStep(output, keep, done.dropped, rewritten=frozenset([MAIN]))

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        return joint.living(self.spec, super().compact(part, rows, first), self.after)


def _present(node: Aggregate, output: pa.Table) -> pa.Table:
    """Results with a window for each time, and no ids."""
    windows = []
    for i, w in enumerate(node.windows):
        wids = window_ids(output, f"_wid{i or ''}")
        windows.append([pa.array(e) for e in extents(wids.to_numpy(), w)])
    return presented(node, output, {}, windows)
