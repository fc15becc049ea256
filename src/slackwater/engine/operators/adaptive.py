"""Adaptive aggregates as the group task sees them: rows of lazy groups, partials, and the list of eager groups."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.engine.operators.program import MAIN, Arrival, Part, Program, State, StateStep
from slackwater.engine.operators.results import present
from slackwater.engine.paths.reports import Figures
from slackwater.engine.plan.plan import Operator
from slackwater.kernels.windows import adaptive
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.model.node import Aggregate
from slackwater.semantics.adaptive import BUFFERED
from slackwater.semantics.limits import END, LEAST, MOST, clamp
from slackwater.semantics.window_ids import closed_by

ROWS = "rows"
EAGER = "eager"


class AdaptiveProgram(Program):
    """Time windows of which each group is kept as rows or as partials, whichever is smaller.

    Who is better off on the other side is seen from all that is stored, so every batch reads the state; it is written
    anew only as far as groups change sides, or half of the rows have expired.
    """

    def __init__(self, operator: Operator):
        assert isinstance(operator.node, Aggregate)
        self.node = operator.node
        self.spec = operator.aggregation
        self.inner = adaptive.unit(self.spec)
        self.parts = {
            MAIN: Part("_pane", aggregate.partials_schema(self.inner)),
            ROWS: Part("_time", adaptive.rows_schema(self.spec)),
            EAGER: Part("_since", adaptive.eager_schema(self.spec)),
        }

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        closed = self._closed(bounds[0])
        if part == EAGER:
            return LEAST if closed < END else MOST
        if part == ROWS:
            return adaptive.needed_time(self.spec, closed)
        return aggregate.needed(self.inner, closed)

    def _closed(self, bound: int) -> int:
        return closed_by(bound, self.spec.sliding)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        closed, close_to = self._closed(rows.old), self._closed(rows.new)
        schema = self.parts[ROWS].schema
        new = [t.select(schema.names).cast(schema) for t in rows.tables]
        done = adaptive.step(
            self.spec,
            pa.concat_tables([schema.empty_table(), *new]),
            state(clamp(self.first_needed(ROWS, [rows.old])), MOST, ROWS),
            state(self.first_needed(MAIN, [rows.old]), MOST),
            state(LEAST, MOST, EAGER),
            closed,
            close_to,
            BUFFERED if self.spec.plan == "buffered" else None,
        )
        keep = {MAIN: done.items, ROWS: done.rows}
        rewritten = {ROWS} if done.all_rows else set()
        if done.all_eager:
            keep[EAGER] = done.eager
            rewritten.add(EAGER)
        figures = Figures(partials=done.complete, groups=dict(done.groups))
        return StateStep(
            present(self.node, done.output), keep, done.late, figures, frozenset(rewritten)
        )

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        if part == EAGER:
            return rows
        rows = super().compact(part, rows, first)
        return rows if part == ROWS else aggregate.merge_partials(self.inner, [rows])
