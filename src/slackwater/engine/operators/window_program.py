"""What programs of windows have in common, and those that count rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from slackwater.engine.operators.program import MAIN, Part, Program, State
from slackwater.engine.plan.plan import Operator
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.numbering import counters_schema
from slackwater.model.node import Aggregate
from slackwater.semantics.limits import LEAST, MOST

COUNTERS = "counters"


class WindowProgram(Program):
    """Partials in the main part of the state."""

    order: ClassVar[str] = "_pane"

    def __init__(self, operator: Operator):
        assert isinstance(operator.node, Aggregate)
        self.node = operator.node
        self.spec = operator.aggregation
        self.schema = aggregate.partials_schema(self.spec)
        self.parts = {MAIN: Part(self.order, self.schema)}

    def fresh(self, tables: Sequence[pa.Table]) -> pa.Table:
        """New partials as one table."""
        return pa.concat_tables([self.schema.empty_table(), *(t.cast(self.schema) for t in tables)])

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        rows = super().compact(part, rows, first)
        return aggregate.merge_partials(self.spec, [rows])


class CountingProgram(WindowProgram):
    """Programs that count rows: counters are a part of their own, which adds up."""

    def __init__(self, operator: Operator):
        super().__init__(operator)
        self.parts[COUNTERS] = Part("_n", counters_schema(self.spec))

    def counters(self, state: State) -> pa.Table:
        """All counters so far."""
        return state(LEAST, MOST, COUNTERS)


def arrived_rows(tables: Sequence[pa.Table]) -> pa.Table | None:
    """New rows as one table; None if there are none."""
    tables = [t for t in tables if t.num_rows]
    return pa.concat_tables(tables, promote_options="permissive") if tables else None
