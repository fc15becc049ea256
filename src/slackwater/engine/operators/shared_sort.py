"""Sorts that share one store of rows (see `sharing`), as the group task sees them.

Input ``i`` has the bounds of reader ``i``. What only the driver needs is imported where it is asked for: tasks start sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.clock import monotonic
from slackwater.engine.operators.kinds import AfterBatch, Kind, added
from slackwater.engine.operators.program import (
    Arrival,
    GroupContext,
    Part,
    Program,
    State,
    StateStep,
)
from slackwater.engine.paths.reports import Figures
from slackwater.engine.plan.plan import Operator, Plan
from slackwater.engine.store.statistics import OperatorStatistics
from slackwater.kernels.rows import waiting
from slackwater.kernels.types import arrow_schema
from slackwater.model.names import BUCKET, FOR, TIME
from slackwater.model.node import SharedSort
from slackwater.model.spans import words_of
from slackwater.semantics.slack.placement import memory, optimal, unshared
from slackwater.semantics.slack.routes import Routes, describe, held, routes_of
from slackwater.semantics.slack.waiting import Marks, StoreReport


class SharedSortProgram(Program):
    """Rows that wait for several sorts, each where the placement says; a row reaches each sort when its bound passes.

    All rows of a sort are in one bucket, so one group has them all.
    """

    def __init__(self, operator: Operator):
        node = operator.node
        assert isinstance(node, SharedSort) and operator.places is not None
        self.names = [name for name, _ in node.readers]
        self.bits = dict(zip(self.names, node.bits, strict=True))
        self.places = operator.places
        self.marks: Marks = self.places.marks
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
        sorted_rows = {n: t.select(self.row_schema.names) for n, t in done.ordered.items()}
        report = StoreReport(
            {p: dict(known) for p, known in done.marks.items()},
            waiting.counts(rows, self.places.stages),
            pc.max(rows[TIME]).as_py(),
            done.moved,
            round(monotonic() - began, 6),
        )
        return StateStep([], done.keep, done.late, Figures(waiting=report), readers=sorted_rows)

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        return rows.filter(pa.array(waiting.owed(rows, self._limits(part, self.bounds))))


class SharedSortKind(Kind):
    """Rows that wait for several sorts."""

    def program(self, operator: Operator, context: GroupContext) -> Program:
        return SharedSortProgram(operator)

    def figures(self, after: AfterBatch) -> dict[str, Any]:
        """Results of each sort, and rows by the place where they wait."""
        from slackwater.engine.plan.placing import buffers

        return {
            "readers": added([r.readers for r in after.reports]),
            **buffers(after.operator, after.runs),
        }

    def described(self, operator: Operator, known: OperatorStatistics) -> str:
        node = operator.node
        assert isinstance(node, SharedSort)
        count = len(node.readers)
        filters = {c.sql for filters in node.filters for c in filters}
        if filters:
            return f"slack buffers on {node.on} for {count} sorts behind {len(filters)} filter(s)"
        return f"one chain of slack buffers on {node.on} for {count} sorts of the same rows"

    def details(self, plan: Plan, operator: Operator, known: OperatorStatistics) -> list[str]:
        """Where the rows wait; where a slack is not known, who reads them."""
        from slackwater.engine.plan.placing import fixed_slack, tree_of

        stored = known.waiting
        slack: dict[str, int | None] = {n: fixed_slack(plan, n) for n in operator.producers}
        if stored is not None:
            slack.update({n: stored.reports.current.get(n) for n, k in slack.items() if k is None})
        sure = {n: k for n, k in slack.items() if k is not None}
        if len(sure) < len(operator.producers):
            return [f"read by {n}" for n in operator.producers]
        tree = tree_of(operator, sure, stored.selectivity if stored is not None else {})
        routes: Routes = routes_of(tree, optimal(tree))
        if stored is not None and set(stored.routes) == set(sure):
            routes = stored.routes
        words = words_of(operator.node)
        lines = describe(tree, routes, lambda ticks: words.span(ticks, operator.on))
        if stored is not None:
            lines += [f"{n} lets through {s.value:.3g}" for n, s in stored.selectivity.items()]
        now, apart = held(tree, routes), memory(tree, unshared(tree))
        shown, alone = (words.span(round(n), operator.on) for n in (now, apart))
        return [*lines, f"rows of {shown} are held, by themselves {alone}"]
