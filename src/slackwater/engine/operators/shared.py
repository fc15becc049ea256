"""Operators that share one state (see `sharing`), as the group task sees them: input ``i`` has the bounds of reader ``i``."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.clock import monotonic
from slackwater.engine.operators.present import present
from slackwater.engine.operators.program import MAIN, Arrival, Part, State, StateStep
from slackwater.engine.operators.stateful import with_empty
from slackwater.engine.plan.plan import Operator
from slackwater.kernels.buckets import bucket_of
from slackwater.kernels.rows import waiting
from slackwater.kernels.types import arrow_schema
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows import shared_panes
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.model.names import BUCKET, FOR, TIME
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


class SharedSortProgram:
    """Rows that wait for several sorts, each where the placement says; a row reaches each sort when its bound passes.

    All rows of a sort are in one bucket, so one group has them all.
    """

    def __init__(self, operator: Operator):
        node = operator.node
        assert isinstance(node, SharedSort) and operator.places is not None
        self.names = [name for name, _ in node.readers]
        self.bits = dict(zip(self.names, node.bits, strict=True))
        self.places = operator.places
        self.marks: waiting.Marks = self.places.marks
        self.row_schema = arrow_schema(node.schema)
        added = [(TIME, pa.int64()), (BUCKET, pa.int16()), (FOR, pa.int64())]
        self.state_schema = pa.schema([*self.row_schema, *(pa.field(n, t) for n, t in added)])
        every = {*self.marks, *self.names}
        every |= {place for route in self.places.routes.values() for place, _ in route}
        self.parts = {place: Part(TIME, self.state_schema) for place in sorted(every)}
        self.bounds: Sequence[int] = ()

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return min(self._limits(part, bounds).values())

    def _limits(self, part: str, bounds: Sequence[int]) -> dict[int, int]:
        """By bit, the least time of a row of a part that may be owed to that sort."""
        known = self.marks.get(part, {})
        pairs = zip(self.names, bounds, strict=True)
        return {self.bits[n]: waiting.owed_from(known, n, b) for n, b in pairs}

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        began = monotonic()
        tables = [t for a in inputs for t in a.tables]
        rows = pa.concat_tables(
            [self.state_schema.empty_table(),
             *(t.select(self.state_schema.names).cast(self.state_schema) for t in tables)]
        )  # fmt: skip
        self.bounds = [max(a.old, a.new) for a in inputs]
        ends = dict(zip(self.names, self.bounds, strict=True))
        readers = {
            name: waiting.Reader(
                self.bits[name], arrived.old, ends[name],
                tuple((place, ends[who]) for place, who in self.places.routes[name]),
            )
            for name, arrived in zip(self.names, inputs, strict=True)
        }  # fmt: skip
        done = waiting.step(rows, lambda p, low, high: state(low, high, p), readers, self.marks)
        self.marks = done.marks
        found = {n: t.select(self.row_schema.names) for n, t in done.ordered.items()}
        seen = {
            "marks": {p: dict(known) for p, known in done.marks.items()},
            "rows": waiting.counts(rows, self.places.stages),
            "newest": pc.max(rows[TIME]).as_py(),
            "moved": done.moved,
            "seconds": round(monotonic() - began, 6),
        }
        return StateStep([], done.keep, done.late, {"waiting": seen}, readers=found)

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        return rows.filter(pa.array(waiting.owed(rows, self._limits(part, self.bounds))))
