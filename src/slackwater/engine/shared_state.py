"""Operators that share one state (see `sharing`), as the group task sees them: input ``i`` has the bounds of reader ``i``."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.operators import SortProgram, with_empty
from slackwater.engine.plan import Operator
from slackwater.engine.present import present
from slackwater.engine.program import MAIN, Arrival, Part, State, StateStep
from slackwater.kernels import aggregate, shared_panes, sort
from slackwater.kernels.aggregate import AggregateSpec
from slackwater.kernels.buckets import bucket_of
from slackwater.model.node import Aggregate, SharedPanes, SharedSort
from slackwater.semantics.window_ids import closed_by


class SharedPanesProgram:
    """A store of panes and the aggregates that read it."""

    def __init__(self, operator: Operator, buckets: tuple[int, int]):
        assert isinstance(operator.node, SharedPanes) and operator.spec is not None
        self.owns_all = buckets[0] <= int(bucket_of([], rows=1)[0]) < buckets[1]
        self.spec = operator.spec
        self.readers = operator.node.readers
        self.store = shared_panes.Store(
            self.spec, tuple(_reader_spec(self.spec, node) for _, node in self.readers)
        )
        self.parts = {MAIN: Part("_pane", aggregate.partials_schema(self.spec))}

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return shared_panes.needed(self.store, self._closed(bounds))

    def _closed(self, bounds: Sequence[int]) -> list[int]:
        pairs = zip(bounds, self.store.readers, strict=True)
        return [closed_by(bound, reader.sliding) for bound, reader in pairs]

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        closed = self._closed([a.old for a in inputs])
        close_to = self._closed([a.new for a in inputs])
        fresh = aggregate.merge_partials(self.spec, [t for a in inputs for t in a.tables])
        done = shared_panes.step(
            self.store, fresh, lambda low, high: state(low, high), closed, close_to
        )
        found = {}
        for i, (name, node) in enumerate(self.readers):
            output = done.outputs[i]
            if node.emit_empty and self.owns_all:
                output = with_empty(output, self.store.readers[i], closed[i], close_to[i])
            found[name] = present(node, output)
        return StateStep([], done.keep, done.late, readers=found)

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        rows = rows.filter(pc.greater_equal(rows["_pane"], first))
        return aggregate.merge_partials(self.spec, [rows])


def _reader_spec(store: AggregateSpec, node: Aggregate) -> AggregateSpec:
    return AggregateSpec(store.keys, node.window, node.primitives, "panes", store.ansi)


class SharedSortProgram(SortProgram):
    """One chain of slack buffers: a row waits until the last sort has had it, and reaches each when its bound passes."""

    def __init__(self, operator: Operator):
        super().__init__(operator, (0, 0))
        assert isinstance(operator.node, SharedSort)
        self.names = [name for name, _ in operator.node.readers]

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return min(bounds)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        rows = self.rows([t for a in inputs for t in a.tables])
        found, late = {}, 0
        for name, arrived in zip(self.names, inputs, strict=True):
            stored = self.state_schema.empty_table()
            if arrived.new > arrived.old:
                stored = state(arrived.old, arrived.new - 1)
            done = sort.step(rows, stored, arrived.old, arrived.new)
            found[name] = done.ordered.select(self.row_schema.names)
            late += done.late
        first = min(max(a.old, a.new) for a in inputs)
        keep = rows.filter(pc.greater_equal(rows["_time"], first))
        return StateStep([], keep, late, readers=found)
