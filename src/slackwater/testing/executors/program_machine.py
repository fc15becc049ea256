"""A stateful operator's program in one process: its state as runs in memory, as the engine keeps it in files.

The engine's own rule decides which runs live, stay and are merged. A run is dropped as soon as the program says that
nothing in it is needed, and runs are merged often, so that mistakes about what is needed show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.operators.group_runs import GroupRuns
from slackwater.engine.operators.program import Arrival, GroupContext, Program
from slackwater.engine.operators.registry import kind_of
from slackwater.engine.paths.batch import Batch, Settings
from slackwater.engine.plan.plan import Operator, Plan
from slackwater.engine.store.manifest import Run
from slackwater.kernels.buckets import BUCKETS


def batch_of_no_plan() -> Batch:
    """A batch for operators that stand alone."""
    plan = Plan((), (), (), (), (), (), True, "UTC")
    return Batch(plan, 0, 1, 1, None, frozenset(), False, {}, {}, {}, "", {})


class MemoryRuns(GroupRuns):
    """Runs of which ``tables`` holds the rows, by name."""

    def __init__(
        self,
        operator: Operator,
        context: GroupContext,
        program: Program,
        tables: dict[str, pa.Table],
    ):
        super().__init__(operator, context, program)
        self.tables = tables

    def _rows(self, runs: list[Run], part: str) -> pa.Table:
        empty = self.program.parts[part].schema.empty_table()
        return pa.concat_tables([empty, *(self.tables[r.name] for r in runs)])

    def _written(self, part: str, rows: pa.Table, how: str = "") -> Run:
        shape = self.program.parts[part]
        rows = rows.select(shape.schema.names).cast(shape.schema)
        ends = pc.min_max(rows[shape.order])
        name = str(len(self.tables))
        self.tables[name] = rows
        low, high = ends["min"].as_py(), ends["max"].as_py()
        return Run(name, rows.num_rows, rows.nbytes, 0, low, high, (0, BUCKETS), part)


@dataclass
class ProgramMachine:
    """An operator, run batch by batch; a new program for each, as in a task."""

    operator: Operator
    settings: Settings = Settings(compact_runs=2)  # noqa: RUF009
    batch: Callable[[], Batch] = batch_of_no_plan
    runs: list[Run] = field(default_factory=list)
    tables: dict[str, pa.Table] = field(default_factory=dict)

    def step(self, inputs: Sequence[Arrival]) -> pa.Table:
        """One batch; the results."""
        return pa.concat_tables(self.pieces(inputs))

    def pieces(self, inputs: Sequence[Arrival]) -> list[pa.Table]:
        """One batch; the results as they come, maybe none."""
        operator, results = self.operator, list[pa.Table]()
        batch = replace(self.batch(), runs={operator.id: [self.runs]}, settings=self.settings)
        context = GroupContext(batch, 0, inputs, lambda _, table: results.append(table))
        program = kind_of(operator).program(operator, context)
        state = MemoryRuns(operator, context, program, self.tables)
        step = program.step(inputs, state.read)
        results += step.tables
        self.runs = state.after(step).runs
        return results

    @property
    def rows(self) -> int:
        """Rows of state."""
        return sum(r.rows for r in self.runs)
