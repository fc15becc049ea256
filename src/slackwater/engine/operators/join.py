"""Joins as the group task sees them: one part of state per input, and one for what has found a partner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.engine.operators.program import (
    Arrival,
    GroupContext,
    Part,
    Program,
    State,
    StateStep,
)
from slackwater.engine.paths.join import InputRows
from slackwater.engine.paths.reports import Figures
from slackwater.engine.paths.steps import relation, renamed
from slackwater.engine.plan.plan import Operator
from slackwater.engine.plan.steps import ProjectStep
from slackwater.engine.progress.recall import LateResults
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.joins import step as join
from slackwater.kernels.joins.condition import holds
from slackwater.kernels.types import cast_table
from slackwater.model.join import Condition, is_existence
from slackwater.model.names import PASS, ROWS, TIME, sub_query
from slackwater.model.node import Join, raw_name
from slackwater.model.schema import Field
from slackwater.semantics.join import marked_inputs, needed_from
from slackwater.semantics.join_patterns import closing, is_closing
from slackwater.semantics.limits import END, START

MATCHED = "m"


class JoinProgram(Program):
    """Rows of several inputs that match. Part ``"0"`` has the stored rows of input 0 and so on; ``"0m"`` the
    ids of those that found a partner after they were stored, where an outer, semi or anti join must know it.
    """

    def __init__(self, operator: Operator, context: GroupContext):
        assert isinstance(operator.node, Join)
        self.node = operator.node
        self.operator, self.context, self.batch = operator, context, context.batch
        node = self.node
        count = len(node.keys[0])
        self.rows = [InputRows(node, i) for i in range(len(node.inputs))]
        self.spec = join.JoinSpec(
            node.within,
            count,
            tuple(rows.columns for rows in self.rows),
            node.how,
            key_names=tuple(rows.key_names for rows in self.rows),
        )
        self.marked = marked_inputs(node.how)
        self.closings: join.Closings | None = None
        self._met: Callable[[int, int], pa.Table] = _nothing
        self.late_results = LateResults(self.batch, operator)
        self.parts: dict[str, Part] = {}
        for i, rows in enumerate(self.rows):
            self.parts[str(i)] = Part(TIME, join.state_schema(self.spec, i, rows.lean))
            if i in self.marked:
                self.parts[f"{i}{MATCHED}"] = Part(TIME, join.MATCHED_SCHEMA)

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        kept = self.late_results.kept(bounds)
        return needed_from(self.node.within, int(part.removesuffix(MATCHED)), kept)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        new = [
            pa.concat_tables([r.full.empty_table(), *(r.arrived(t) for t in a.tables)])
            for r, a in zip(self.rows, inputs, strict=True)
        ]
        old, after = [a.old for a in inputs], [a.new for a in inputs]
        self.closings = closings = closings_of(self.node, inputs, self.late_results.kept)
        if closings is not None:
            state = cache(state)  # all of it is read for what meets, what leaves and what is freed
        done = join.step(
            self.spec,
            new,
            [_reader(state, str(i), rows.widened) for i, rows in enumerate(self.rows)],
            self.late_results.kept(old),
            self.late_results.kept(after),
            self.predicate,
            [
                _reader(state, f"{i}{MATCHED}") if i in self.marked else _nothing
                for i in range(len(inputs))
            ],
            # A bucket is in one task of a batch, so this is unique where it is compared.
            self.batch.id << 32,
            closings,
        )
        late = sum(self.late(i, t, self.late_results.kept(old)) for i, t in enumerate(new))
        for table in done.output:
            self.late_results.record(table[TIME].to_numpy(), old)
            self.send(table)
        kept = done.finish()
        keep = {str(i): self.rows[i].narrowed(table) for i, table in enumerate(kept.keep)}
        keep.update({f"{i}{MATCHED}": kept.matched[i] for i in self.marked})
        if is_existence(self.node.how):
            before = _reader(state, f"0{MATCHED}")
            self._met = lambda low, high: pa.concat_tables([before(low, high), kept.matched[0]])
        step = StateStep([], keep, late, Figures(recall=self.late_results.intervals))
        return step if closings is None else self._freed(step, inputs, state)

    def _freed(self, step: StateStep, inputs: Sequence[Arrival], state: State) -> StateStep:
        """The step, with those parts written anew of which punctuation has closed at least half."""
        keep, rewritten = dict(step.kept), set[str]()
        for i, rows in enumerate(self.rows):
            if not any(_is_new(a) for j, a in enumerate(inputs) if j != i):
                continue
            stored = _reader(state, str(i), rows.widened)(START, END)
            alive = stored.filter(pa.array(~self._gone(i, stored)))
            marks = None
            if i in self.marked:
                marks = pa.concat_tables(
                    [state(START, END, f"{i}{MATCHED}"), keep[f"{i}{MATCHED}"]]
                )
                alive = self._noted(alive, marks)
            if not stored.num_rows or 2 * alive.num_rows > stored.num_rows:
                continue
            keep[str(i)] = pa.concat_tables([rows.narrowed(alive), keep[str(i)]])
            rewritten.add(str(i))
            if marks is not None:
                # What they tell stands in the rows now.
                keep[f"{i}{MATCHED}"] = marks.slice(0, 0)
                rewritten.add(f"{i}{MATCHED}")
        return replace(step, keep=keep, rewritten=frozenset(rewritten))

    def _gone(self, i: int, rows: pa.Table) -> NDArray[np.bool_]:
        assert self.closings is not None
        return join.gone(self.spec, i, rows, self.closings.after)

    def _noted(self, rows: pa.Table, marks: pa.Table) -> pa.Table:
        """Rows with what marks tell of them: those of a semi or anti join that have met a partner are done with."""
        met = join.among(rows, marks)
        if is_existence(self.node.how):
            return rows.filter(pa.array(~met))
        at = rows.schema.get_field_index(join.MATCHED)
        known = rows[join.MATCHED].to_numpy() | met
        return rows.set_column(at, rows.schema.field(at), pa.array(known))

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        """Without rows that punctuation has closed; of a semi or anti join without the left rows that have met a partner."""
        rows = super().compact(part, rows, first)
        if self.closings is not None and not part.endswith(MATCHED):
            i = int(part)
            rows = rows.filter(pa.array(~self._gone(i, self.rows[i].widened(rows))))
        if part != "0" or not is_existence(self.node.how) or not rows.num_rows:
            return rows
        times = rows[TIME].to_numpy()
        return rows.filter(pa.array(~join.among(rows, self._met(times.min(), times.max()))))

    def late(self, i: int, rows: pa.Table, bounds: Sequence[int]) -> int:
        """How many new rows of an input may have missed partners that were given up already."""
        return int(np.count_nonzero(join.unsure(self.spec, i, rows, bounds, self.closings)))

    def send(self, results: pa.Table) -> None:
        """Send a kernel's results on: there may be more than fit into memory."""
        self.context.emit(self.operator.id, self.shown(results))

    def shown(self, results: pa.Table) -> pa.Table:
        """A kernel's results with all columns that the node's ``outputs`` need."""
        for rows in self.rows:
            if raw_name(rows.index, TIME) in results.column_names:
                results = rows.shown(results)
        return results

    @property
    def predicate(self) -> Callable[[pa.Table], pa.BooleanArray] | None:
        """The further condition of the match, on chunks of joined columns."""
        return self._holds if self.node.where is not None else None

    def _holds(self, rows: pa.Table) -> pa.BooleanArray:
        where = self.node.where
        assert where is not None
        if isinstance(where, Condition):
            return holds(where, self._columns(where.columns, rows))
        sql = relation((ProjectStep(self.node.tested),), f"SELECT * FROM {ROWS}")
        sql = f"SELECT coalesce({where.duck}, false) AS {PASS} FROM {sub_query(sql)}"
        connection = connect(self.batch.settings.memory)
        passes = sql_to_arrow(connection, sql, {ROWS: self.shown(rows)})[PASS]
        return passes.combine_chunks() if isinstance(passes, pa.ChunkedArray) else passes

    def _columns(self, names: Sequence[str], rows: pa.Table) -> pa.Table:
        """The user's columns of these names, or all, of joined rows."""
        chosen = tuple(c for c in self.node.tested if not names or c.name in names)
        step = ProjectStep(chosen)
        shown = self.shown(rows)
        table = renamed((step,), shown)
        if table is None:
            sql = relation((step,), f"SELECT * FROM {ROWS}")
            table = sql_to_arrow(connect(self.batch.settings.memory), sql, {ROWS: shown})
        return cast_table(table, [Field(c.name, c.expr.type) for c in chosen])


def closings_of(
    node: Join, inputs: Sequence[Arrival], kept: Callable[[Sequence[int]], Sequence[int]]
) -> join.Closings | None:
    """What patterns of the inputs have closed; None if there are none. ``kept`` are the bounds by which rows are kept."""
    sides = [
        (a.before, {**a.linear[0], node.on[j]: a.old}, a.after, {**a.linear[1], node.on[j]: a.new})
        for j, a in enumerate(inputs)
    ]
    if not any(
        is_closing(node, j, before, old) or is_closing(node, j, after, new)
        for j, (before, old, after, new) in enumerate(sides)
    ):
        return None
    earlier, later = [], []
    for j, (before, old, after, new) in enumerate(sides):
        old_bound, new_bound = kept([inputs[j].old])[0], kept([inputs[j].new])[0]
        earlier.append(closing(node, j, before, {**old, node.on[j]: old_bound}))
        later.append(closing(node, j, after, {**new, node.on[j]: new_bound}))
    return join.Closings(earlier, later)


def _is_new(arrival: Arrival) -> bool:
    """Whether an input closes more by patterns than it did, or by bounds, of which one may be on a key."""
    return arrival.after != arrival.before or (
        not arrival.after and arrival.linear[0] != arrival.linear[1]
    )


def _reader(
    state: State, part: str, made: Callable[[pa.Table], pa.Table] = lambda table: table
) -> Callable[[int, int], pa.Table]:
    return lambda low, high: made(state(low, high, part))


def _nothing(low: int, high: int) -> pa.Table:
    return join.MATCHED_SCHEMA.empty_table()
