"""Stateful operators as the group task sees them: a kernel, its state's shape, and what it still needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.operators.present import present
from slackwater.engine.operators.program import MAIN, Arrival, Part, Program, State, StateStep
from slackwater.engine.operators.window_programs import PROGRAMS
from slackwater.engine.plan.plan import Operator
from slackwater.kernels.aggregates.partials import of_no_rows
from slackwater.kernels.buckets import bucket_of
from slackwater.kernels.rows import dedup, sort
from slackwater.kernels.types import arrow_schema
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.model.names import BUCKET, TIME
from slackwater.model.node import Aggregate, Dedup, Node, Sort
from slackwater.semantics.bounds import END, START
from slackwater.semantics.lateness import dedup_frontier, dedup_memory
from slackwater.semantics.window_ids import closed_by


class AggregateProgram:
    """Window aggregates over panes or window ids."""

    def __init__(self, operator: Operator, buckets: tuple[int, int]):
        assert isinstance(operator.node, Aggregate) and operator.spec is not None
        # Without group columns all rows are in one bucket, and one group speaks for all.
        self.owns_all = buckets[0] <= int(bucket_of([], rows=1)[0]) < buckets[1]
        self.node = operator.node
        self.spec = operator.spec
        self.state_schema = aggregate.partials_schema(self.spec)
        self.parts = {MAIN: Part("_pane", self.state_schema)}

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return aggregate.needed(self.spec, self._closed(bounds[0]))

    def _closed(self, bound: int) -> int:
        return closed_by(bound, self.spec.sliding)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        closed, close_to = self._closed(rows.old), self._closed(rows.new)
        fresh = aggregate.merge_partials(self.spec, list(rows.tables))
        stored = self.state_schema.empty_table()
        if close_to > closed:
            stored = state(aggregate.needed(self.spec, closed), self._last_pane(close_to))
        done = aggregate.step(self.spec, fresh, stored, closed, close_to)
        output = done.output
        if self.node.emit_empty and self.owns_all:
            output = with_empty(output, self.spec, closed, close_to)
        measured = {"partials": done.complete}
        return StateStep(present(self.node, output), done.keep, done.dropped_rows, measured)

    def _last_pane(self, close_to: int) -> int:
        if close_to >= END:
            return END
        return int(self.spec.panes.end_pane(close_to)) - 1

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        rows = rows.filter(pc.greater_equal(rows["_pane"], first))
        return aggregate.merge_partials(self.spec, [rows])


class DedupProgram:
    """First rows; the state is the keys seen, with their times."""

    def __init__(self, operator: Operator, buckets: tuple[int, int]):
        assert isinstance(operator.node, Dedup)
        self.node = operator.node
        fields = [self.node.field(c) for c in self.node.subset]
        keys = arrow_schema([f for f in fields if f is not None])
        self.state_schema = pa.schema(
            [*keys, pa.field(TIME, pa.int64()), pa.field(BUCKET, pa.int16())]
        )
        self.parts = {MAIN: Part(TIME, self.state_schema)}
        self.row_schema = arrow_schema(self.node.schema)

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return dedup_memory(bounds[0], self.node)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (arrived,) = inputs
        rows = _rows(arrived.tables, self.row_schema)
        if rows.num_rows == 0:
            return StateStep(self.row_schema.empty_table(), self.state_schema.empty_table())
        times = pc.min_max(rows[TIME])
        reach = self.node.within or 0
        stored = state(times["min"].as_py() - reach, times["max"].as_py() + reach)
        kept, fresh, late = dedup.step(
            rows,
            stored,
            self.node.subset,
            within=self.node.within,
            frontier=dedup_frontier(arrived.old, self.node),
        )
        fresh = fresh.select(self.state_schema.names)
        return StateStep(kept.select(self.row_schema.names), fresh, late)

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        return rows.filter(pc.greater_equal(rows[TIME], first))


class SortProgram:
    """Rows wait until the bound has passed them, then leave in order."""

    def __init__(self, operator: Operator, buckets: tuple[int, int]):
        assert isinstance(operator.node, Sort)
        self.row_schema = arrow_schema(operator.node.schema)
        self.state_schema = pa.schema(
            [*self.row_schema, pa.field(TIME, pa.int64()), pa.field(BUCKET, pa.int16())]
        )
        self.parts = {MAIN: Part(TIME, self.state_schema)}

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return bounds[0]

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (arrived,) = inputs
        rows = _rows(arrived.tables, self.row_schema)
        stored = self.state_schema.empty_table()
        if arrived.new > arrived.old:
            stored = state(arrived.old, arrived.new - 1)
        ordered, keep, late = sort.step(rows, stored, arrived.old, arrived.new)
        return StateStep(ordered.select(self.row_schema.names), keep, late)

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        return rows.filter(pc.greater_equal(rows[TIME], first))


def _rows(arrived: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    full = pa.schema([*schema, pa.field(TIME, pa.int64()), pa.field(BUCKET, pa.int16())])
    return pa.concat_tables(
        [full.empty_table(), *(t.select(full.names).cast(full) for t in arrived)]
    )


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


def aggregate_program(operator: Operator, buckets: tuple[int, int]) -> Program:
    """The program of an aggregate, by the plan of its window."""
    assert operator.spec is not None
    return PROGRAMS.get(operator.spec.plan, AggregateProgram)(operator, buckets)


OPERATORS: Mapping[type[Node], Callable[[Operator, tuple[int, int]], Program]] = {
    Aggregate: aggregate_program,
    Dedup: DedupProgram,
    Sort: SortProgram,
}
