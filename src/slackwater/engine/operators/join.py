"""Joins as the group task sees them: one part of state per input, and one for what has found a partner."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

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
from slackwater.semantics.join import marked_inputs, met_from, needed_from
from slackwater.semantics.lateness import is_late

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
        )
        late = sum(self.late(i, t, old) for i, t in enumerate(new))
        for table in done.output:
            self.late_results.record(table[TIME].to_numpy(), old)
            self.send(table)
        kept = done.finish()
        keep = {str(i): self.rows[i].narrowed(table) for i, table in enumerate(kept.keep)}
        keep.update({f"{i}{MATCHED}": kept.matched[i] for i in self.marked})
        if is_existence(self.node.how):
            before = _reader(state, f"0{MATCHED}")
            self._met = lambda low, high: pa.concat_tables([before(low, high), kept.matched[0]])
        return StateStep([], keep, late, Figures(recall=self.late_results.intervals))

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        """Of a semi or anti join without the left rows that have met a partner: they are done with."""
        rows = super().compact(part, rows, first)
        if part != "0" or not is_existence(self.node.how) or not rows.num_rows:
            return rows
        times = rows[TIME].to_numpy()
        return rows.filter(pa.array(~join.among(rows, self._met(times.min(), times.max()))))

    def late(self, i: int, rows: pa.Table, bounds: Sequence[int]) -> int:
        """How many new rows of an input may have missed partners that were given up already."""
        first = met_from(self.node.within, i, bounds)
        return int(np.count_nonzero(is_late(rows[TIME].to_numpy(), first)))

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


def _reader(
    state: State, part: str, made: Callable[[pa.Table], pa.Table] = lambda table: table
) -> Callable[[int, int], pa.Table]:
    return lambda low, high: made(state(low, high, part))


def _nothing(low: int, high: int) -> pa.Table:
    return join.MATCHED_SCHEMA.empty_table()
