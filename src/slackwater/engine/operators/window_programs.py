"""Aggregates over windows that are not cut into panes of time: one program per type of window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.operators.adaptive import AdaptiveProgram
from slackwater.engine.operators.present import present
from slackwater.engine.operators.program import MAIN, Arrival, Part, Program, State, StateStep
from slackwater.engine.plan.plan import Operator
from slackwater.kernels.windows import by_tuple, custom, joint, landmark, row_windows, sessions
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.counting import count_and_reduce
from slackwater.kernels.windows.numbering import counters_schema, merge_counters
from slackwater.kernels.windows.panes import clamp
from slackwater.model.node import Aggregate
from slackwater.model.window import ByTuple, Landmark, SessionWindow, TimeWindow
from slackwater.semantics.frontier import Points
from slackwater.semantics.limits import END, START
from slackwater.semantics.window_ids import closed_by
from slackwater.semantics.windows import needs_rows

COUNTERS = "counters"


class _WindowProgram:
    """What these programs share: partials in the main part of the state."""

    order: ClassVar[str] = "_pane"

    def __init__(self, operator: Operator, buckets: tuple[int, int]):
        assert isinstance(operator.node, Aggregate) and operator.spec is not None
        self.node = operator.node
        self.spec = operator.spec
        self.schema = aggregate.partials_schema(self.spec)
        self.parts = {MAIN: Part(self.order, self.schema)}

    def fresh(self, tables: Sequence[pa.Table]) -> pa.Table:
        """New partials as one table."""
        return pa.concat_tables([self.schema.empty_table(), *(t.cast(self.schema) for t in tables)])

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        rows = rows.filter(pc.greater_equal(rows["_pane"], first))
        return aggregate.merge_partials(self.spec, [rows])


class LandmarkProgram(_WindowProgram):
    """Everything since the origin; state is merged, never dropped."""

    closed = START

    def _closed(self, bound: int) -> int:
        w = self.spec.window
        assert isinstance(w, Landmark)
        return closed_by(bound, TimeWindow(w.slide, w.slide, w.origin, w.on))

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return -(1 << 63)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        closed, close_to = self._closed(rows.old), self._closed(rows.new)
        self.closed = max(closed, close_to)
        stored = [state(-(1 << 63), (1 << 63) - 1)] if close_to > closed else []
        done = landmark.step(self.spec, self.fresh(rows.tables), stored, closed, close_to)
        return StateStep(present(self.node, done.output), done.keep, done.dropped_rows)

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        if self.closed <= START or self.closed >= END:
            return aggregate.merge_partials(self.spec, [rows])
        return landmark.folded(self.spec, rows, self.closed)


class SessionProgram(_WindowProgram):
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
        stored = state(sessions.needed(self.window, rows.old), (1 << 63) - 1)
        done = sessions.step(self.spec, self.fresh(rows.tables), stored, rows.old, rows.new)
        return StateStep(present(self.node, done.output), done.keep, done.dropped_rows)

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        return sessions.merge_parts(self.spec, rows, first)


class CustomProgram(_WindowProgram):
    """Windows of a user's type; the state is cut by the ends of windows."""

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return clamp(bounds[0] + 1)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        stored = self.schema.empty_table()
        if rows.new > rows.old:
            stored = state(clamp(rows.old + 1), clamp(rows.new))
        done = custom.step(self.spec, self.fresh(rows.tables), stored, rows.old, rows.new)
        return StateStep(present(self.node, done.output), done.keep, done.dropped_rows)


class JointProgram(_WindowProgram):
    """Groups on the windows of several times; the state is cut by panes of the first."""

    after: Points = ()

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return joint.needed(self.spec, bounds[0])

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        before, self.after = rows.frontiers
        stored = self.schema.empty_table()
        if before != self.after:
            stored = state(-(1 << 63), (1 << 63) - 1)
        done = joint.step(self.spec, self.fresh(rows.tables), stored, before, self.after)
        output = present(self.node, done.output)
        if 2 * int(done.alive.sum()) > stored.num_rows or not stored.num_rows:
            return StateStep(output, done.keep, done.dropped)
        # Half of the state is of no more use: writing the rest once costs less than keeping all.
        keep = pa.concat_tables([stored.filter(pa.array(done.alive)), done.keep])
        return StateStep(output, keep, done.dropped, rewritten=frozenset([MAIN]))

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        return joint.living(self.spec, super().compact(part, rows, first), self.after)


class _CountingProgram(_WindowProgram):
    """Programs that count rows: counters are a part of their own, which adds up."""

    def __init__(self, operator: Operator, buckets: tuple[int, int]):
        super().__init__(operator, buckets)
        self.parts[COUNTERS] = Part("_n", counters_schema(self.spec))

    def counters(self, state: State) -> pa.Table:
        """All counters so far."""
        return state(-(1 << 63), (1 << 63) - 1, COUNTERS)


class ByTupleProgram(_CountingProgram):
    """Windows that end at rows; the state is cut by ticks."""

    @property
    def window(self) -> ByTuple:
        """The window, of its type."""
        assert isinstance(self.spec.window, ByTuple)
        return self.spec.window

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        if part == COUNTERS:
            return -(1 << 63)
        return by_tuple.needed(self.window, bounds[0])

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        counters = self.parts[COUNTERS].schema.empty_table()
        added = [counters]
        if needs_rows(self.window):
            # Counters number the rows here; ranks need none.
            arrived = _rows(rows.tables)
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


class RowsProgram(_CountingProgram):
    """Windows over counted rows. Panes of different keys cannot be compared, so that runs go by merging."""

    after: pa.Table | None = None

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        if part == MAIN and bounds[0] >= END:
            return (1 << 63) - 1
        return -(1 << 63)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        arrived = _rows(rows.tables)
        before = merge_counters(self.spec, [self.counters(state)])
        added = self.parts[COUNTERS].schema.empty_table()
        fresh = stored = self.schema.empty_table()
        if arrived is not None:
            fresh, added = count_and_reduce(self.spec, arrived, before)
        self.after = merge_counters(self.spec, [before, added])
        ending = rows.new >= END > rows.old
        if arrived is not None or ending:
            stored = state(-(1 << 63), (1 << 63) - 1)
        bound = rows.new if ending else START
        done = row_windows.step(self.spec, fresh, stored, before, self.after, bound)
        return StateStep(present(self.node, done.output), {MAIN: done.keep, COUNTERS: added})

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        if part == COUNTERS:
            return merge_counters(self.spec, [rows])
        rows = aggregate.merge_partials(self.spec, [rows])
        assert self.after is not None
        return row_windows.living(self.spec, rows, self.after)


def _rows(tables: Sequence[pa.Table]) -> pa.Table | None:
    tables = [t for t in tables if t.num_rows]
    return pa.concat_tables(tables, promote_options="permissive") if tables else None


PROGRAMS: Mapping[str, Callable[[Operator, tuple[int, int]], Program]] = {
    "adaptive": AdaptiveProgram,
    "buffered": AdaptiveProgram,
    "landmark": LandmarkProgram,
    "sessions": SessionProgram,
    "custom": CustomProgram,
    "joint": JointProgram,
    "ticks": ByTupleProgram,
    "rows": RowsProgram,
}
