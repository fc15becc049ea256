"""A stateful operator's program in one process: its state as runs in memory, as the engine keeps it in files.

A run is dropped as soon as the program says that nothing in it is needed, and runs are merged often, so that
mistakes about what is needed show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.operators.program import MAIN, Arrival, GroupContext, Program
from slackwater.engine.operators.registry import kind_of
from slackwater.engine.paths.batch import Batch
from slackwater.engine.plan.plan import Operator, Plan


@dataclass(frozen=True)
class MemoryRun:
    """Rows of one part with the range of their order."""

    part: str
    rows: pa.Table
    low: int
    high: int


@dataclass
class ProgramMachine:
    """An operator, run batch by batch; a new program for each, as in a task."""

    operator: Operator
    compact_runs: int = 2
    runs: list[MemoryRun] = field(default_factory=list)
    batch: Callable[[], Batch] = field(default=lambda: Batch(
        Plan((), (), (), (), (), (), True, "UTC"), 0, 1, 1, None, frozenset(), False, {}, {}, {}, "", {}
    ))  # fmt: skip

    def step(self, inputs: Sequence[Arrival]) -> pa.Table:
        """One batch; the results."""
        return pa.concat_tables(self.pieces(inputs))

    def pieces(self, inputs: Sequence[Arrival]) -> list[pa.Table]:
        """One batch; the results as they come, maybe none."""
        output: list[pa.Table] = []
        context = GroupContext(self.batch(), 0, inputs, lambda _, table: output.append(table))
        program = kind_of(self.operator).program(self.operator, context)
        old, new = context.old, context.new
        live = [r for r in self.runs if r.high >= program.first_needed(r.part, old)]

        def state(low: int, high: int, part: str = MAIN) -> pa.Table:
            wanted = [r.rows for r in live if r.part == part and r.high >= low and r.low <= high]
            return pa.concat_tables([program.parts[part].schema.empty_table(), *wanted])

        step = program.step(inputs, state)
        output += step.tables
        runs: list[MemoryRun] = []
        for part in program.parts:
            first = program.first_needed(part, new)
            kept = [
                r for r in live
                if r.part == part and r.high >= first and part not in step.rewritten
            ]  # fmt: skip
            rows = step.kept.get(part)
            if rows is not None and rows.num_rows:
                kept.append(_run(program, part, rows))
            if len(kept) > self.compact_runs:
                merged = program.compact(part, pa.concat_tables([r.rows for r in kept]), first)
                kept = [_run(program, part, merged)] if merged.num_rows else []
            runs += kept
        self.runs = runs
        return output

    @property
    def rows(self) -> int:
        """Rows of state."""
        return sum(r.rows.num_rows for r in self.runs)


def _run(program: Program, part: str, rows: pa.Table) -> MemoryRun:
    shape = program.parts[part]
    rows = rows.select(shape.schema.names).cast(shape.schema)
    ends = pc.min_max(rows[shape.order])
    return MemoryRun(part, rows, ends["min"].as_py(), ends["max"].as_py())
