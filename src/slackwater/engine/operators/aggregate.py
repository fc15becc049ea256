"""Aggregates over windows of time as the group task sees them: partials per pane or window id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.engine.operators.program import Arrival, GroupContext, State, StateStep
from slackwater.engine.operators.results import present
from slackwater.engine.operators.window_program import WindowProgram
from slackwater.engine.paths.reports import Figures
from slackwater.engine.plan.plan import Operator
from slackwater.kernels.aggregates.partials import of_no_rows
from slackwater.kernels.buckets import bucket_of
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows import sealing
from slackwater.kernels.windows.sealing import Proven
from slackwater.semantics.bounds import END, START
from slackwater.semantics.sealing import Proof
from slackwater.semantics.window_ids import closed_by


class AggregateProgram(WindowProgram):
    """Window aggregates over panes or window ids."""

    def __init__(self, operator: Operator, context: GroupContext):
        super().__init__(operator)
        self.owns_all = owns_all(context)
        self.proofs: Sequence[Proof] = context.batch.proofs.get(operator.id, ())
        self.last = START
        self._proven: list[Proven] = []

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return aggregate.needed(self.spec, self._closed(bounds[0]))

    def _closed(self, bound: int) -> int:
        return closed_by(bound, self.spec.sliding)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        closed, close_to = self._closed(rows.old), self._closed(rows.new)
        fresh = aggregate.merge_partials(self.spec, list(rows.tables))
        self.last = max(closed, close_to)
        self._look(fresh)
        stored = self.schema.empty_table()
        if close_to > closed:
            stored = state(aggregate.needed(self.spec, closed), self._last_pane(close_to))
        done = aggregate.step(self.spec, fresh, stored, closed, close_to)
        output = done.output
        if self.node.emit_empty and self.owns_all:
            output = with_empty(output, self.spec, closed, close_to)
        figures = Figures(partials=done.complete)
        return StateStep(present(self.node, output), done.keep, done.dropped_rows, figures)

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        rows = super().compact(part, rows, first)
        self._look(rows)
        return rows

    def proven(self) -> Sequence[Proven]:
        return self._proven

    def _look(self, partials: pa.Table) -> None:
        """Look for partials that prove what becomes of windows that are not closed yet."""
        if self.proofs:
            self._proven += sealing.proven(self.spec, partials, self.proofs, self.last)

    def _last_pane(self, close_to: int) -> int:
        if close_to >= END:
            return END
        return int(self.spec.panes.end_pane(close_to)) - 1


def owns_all(context: GroupContext) -> bool:
    """Whether a group has the rows of aggregates without group columns: they are in one bucket."""
    low, high = context.buckets
    return low <= int(bucket_of([], rows=1)[0]) < high


def with_empty(
    output: pa.Table, spec: aggregate.AggregateSpec, closed: int, close_to: int
) -> pa.Table:
    """Also the windows without rows: from the first bound on (or the first window with rows, before
    there was one), up to the last closed (or the last with rows, at the end of the stream).
    """
    wids = output["_wid"].to_numpy()
    if closed <= START:
        closed = int(wids.min()) - 1 if len(wids) else close_to
    if close_to >= END:
        close_to = int(wids.max()) if len(wids) else closed
    missing = np.setdiff1d(np.arange(closed + 1, close_to + 1, dtype=np.int64), wids)
    if not len(missing):
        return output
    columns: list[pa.Array] = [pa.array(missing)]
    columns += [of_no_rows(p, len(missing)) for p in spec.primitives]
    return pa.concat_tables([output, pa.table(columns, schema=output.schema)])
