"""Which runs of an operator's group are live when a batch begins, stay after it, and are merged.

A run lives as long as its program needs it (`Program.needs`). A batch adds a run per part that got rows. Where a
part has grown to many runs, the smallest are merged, as far as a budget of rows goes.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from slackwater.engine.operators.program import MAIN, GroupContext, Program, StateStep
from slackwater.engine.plan.plan import Operator
from slackwater.engine.store import failpoints
from slackwater.engine.store.manifest import Run
from slackwater.engine.store.runs import overlaps, read_runs, write_run


class Kept(NamedTuple):
    """The runs after a batch, and how many were merged into others."""

    runs: list[Run]
    merged: int


class GroupRuns:
    """The runs of one operator's group in one batch."""

    def __init__(self, operator: Operator, context: GroupContext, program: Program):
        self.operator = operator
        self.context = context
        self.program = program
        self.live = [
            r for r in context.runs(operator)
            if overlaps(r, context.buckets) and program.needs(r, context.old)
        ]  # fmt: skip

    def read(self, low: int, high: int, part: str = MAIN) -> pa.Table:
        """Stored rows, as a `State` gives them."""
        wanted = [r for r in self.live if r.part == part and r.high >= low and r.low <= high]
        return self._rows(wanted, part)

    def after(self, step: StateStep) -> Kept:
        """Write what the step keeps, and merge runs where there are many."""
        runs: list[Run] = []
        merged = step.merged
        for part, shape in self.program.parts.items():
            kept = [] if part in step.rewritten else self._staying(part)
            kept += [r for r in step.runs if r.part == part]
            rows = step.kept.get(part)
            if rows is not None and rows.num_rows:
                kept.append(self._written(part, rows))
            if len(kept) > self.context.batch.settings.compact_runs and not shape.blocks:
                kept, count = self._compacted(part, kept, step)
                merged += count
            runs += kept
        return Kept(runs, merged)

    def _staying(self, part: str) -> list[Run]:
        return [
            r for r in self.live if r.part == part and self.program.needs(r, self.context.new)
        ]  # fmt: skip

    def _compacted(self, part: str, runs: list[Run], step: StateStep) -> tuple[list[Run], int]:
        """Merge the smallest runs of a part into one, as far as the budget of rows goes."""
        budget = self.context.batch.settings.compact_rows
        if step.compact_rows is not None:
            budget = min(budget, step.compact_rows)
        chosen: list[Run] = []
        for run in sorted(runs, key=lambda r: r.rows):
            if chosen and budget < run.rows:
                break
            budget -= run.rows
            chosen.append(run)
        if len(chosen) < 2:
            return runs, 0
        failpoints.hit("compact.before", self.context.batch.failpoints)
        first = self.program.first_needed(part, self.context.new)
        rows = self.program.compact(part, self._rows(chosen, part), first)
        rest = [r for r in runs if r not in chosen]
        if rows.num_rows:
            rest.append(self._written(part, rows, "c"))
        return rest, len(chosen)

    def _rows(self, runs: list[Run], part: str) -> pa.Table:
        schema = self.program.parts[part].schema
        return read_runs(self.context.batch.run_folder, runs, self.context.buckets, schema)

    def _written(self, part: str, rows: pa.Table, how: str = "") -> Run:
        batch = self.context.batch
        prefix = f"{batch.prefix(self.operator.id)}-g{self.context.group}{how}"
        order = self.program.parts[part].order
        return write_run(batch.run_folder, prefix, rows, order, batch.failpoints, part)
