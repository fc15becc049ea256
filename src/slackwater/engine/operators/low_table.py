"""The low-level table between a task's partial aggregates and the groups: kept over batches as a file.

A low-level task takes the entries of its table up where the batch before left them, merges its partials into them, sends on
what they push out, and writes the table anew. It knows only the bounds from before the batch. The group tasks know
the new ones: what may stay no longer they take from the files themselves, so entries leave in time even if no row comes.
From then on entries below that pane count as gone (`TableMeta.gone`), until the task writes the table again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.delivery import Delivery
from slackwater.engine.paths.reports import TableReport
from slackwater.engine.paths.wire import pack_control, routes
from slackwater.engine.plan.plan import Operator, Path
from slackwater.engine.plan.sources import has_patterns
from slackwater.engine.store.manifest import Run
from slackwater.engine.store.runs import reaches, read_run, read_runs, write_run
from slackwater.kernels.buckets import BUCKETS
from slackwater.kernels.windows import low_table
from slackwater.kernels.windows.partials_step import ints, partials_schema
from slackwater.model.codec import from_json, stored, to_json
from slackwater.model.node import Aggregate
from slackwater.semantics.limits import END, START
from slackwater.semantics.low_table import LowTable, due, first_open, held_pane

LOW = "low"
MOST_PANES = 256
"""Panes of a table that its description lists, oldest first; further ones are known to be newer."""


@dataclass(frozen=True)
class TableMeta:
    """What the run of a table says of it: the task that ``table`` names, its ``size``, ``carry`` and ``position``.

    ``panes`` are the oldest ones that it holds, with the ``counts`` of their entries. Entries of panes below ``gone`` have left it.
    """

    table: str
    size: int
    carry: int
    position: int
    panes: Sequence[int]
    counts: Sequence[int]
    gone: int = field(metadata=stored(name="from"))

    @classmethod
    def of(cls, run: Run) -> TableMeta:
        """That of a table's run."""
        return from_json(cls, run.meta)


def can_have(batch: Batch, operator: Operator) -> bool:
    """Whether the partials of an aggregate may wait at the low level: groups over windows of time, fed by sources."""
    spec = operator.spec
    if spec is None or spec.plan not in ("panes", "wids") or not spec.keys:
        return False
    if type(operator.node) is not Aggregate:  # not what several aggregates share
        return False
    return operator.level == 1 and not has_patterns(batch.plan.sources)


def rule_of(batch: Batch, operator: Operator) -> LowTable | None:
    """How the tables of an aggregate work; None if it has none."""
    s = batch.settings
    if not s.low_table or not can_have(batch, operator):
        return None
    return LowTable(s.low_table, s.low_flush, s.smooth_windows, s.low_probe)


class LowDelivery(Delivery):
    """What one low-level task sends on, its tables in between."""

    def __init__(self, batch: Batch, task: str):
        super().__init__(batch, task)
        self._arrived: dict[str, tuple[Path, list[pa.Table]]] = {}

    def _route(self, path: Path, table: pa.Table) -> None:
        operator = self.batch.plan.operator(path.consumer)
        if table.num_rows == 0 or operator is None or rule_of(self.batch, operator) is None:
            super()._route(path, table)
        else:
            self._arrived.setdefault(operator.id, (path, []))[1].append(table)

    def flow_over(self) -> None:
        """Put what arrived into the tables, and send on what they have no room for."""
        for id, (path, arrived) in self._arrived.items():
            operator = self.batch.plan.operator(id)
            assert operator is not None
            rule = rule_of(self.batch, operator)
            assert rule is not None
            state, others = _stored(self.batch, operator, self.task, rule)
            done = low_table.step(
                operator.aggregation,
                state,
                [*others, *arrived],
                rule,
                _first_open(operator, self.batch.bound(_child(self.batch, operator), operator.on)),
            )
            super()._route(path, done.sent)
            run = self._written(id, done.state, rule)
            rows = sum(t.num_rows for t in arrived)
            report = TableReport(self.task, run, rows, done.sent.num_rows)
            blob = pack_control("table", [id, to_json(report)])
            self.messages.extend((route, blob) for route in routes(self.batch.groups))
        self._arrived.clear()

    def _written(self, id: str, state: low_table.LowState, rule: LowTable) -> Run | None:
        if not state.entries.num_rows:
            return None
        prefix = f"{self.batch.prefix(id)}-{self.task}"
        folder, fails = self.batch.run_folder, self.batch.failpoints
        run = write_run(folder, prefix, state.entries, "_pane", fails, LOW)
        panes, counts = np.unique(ints(state.entries, "_pane"), return_counts=True)
        meta = TableMeta(
            self.task,
            rule.size,
            state.carry,
            state.position,
            panes[:MOST_PANES].tolist(),
            counts[:MOST_PANES].tolist(),
            START,
        )
        return replace(run, meta=to_json(meta))


class Drained(NamedTuple):
    """``rows``: partials of this group that leave the tables; ``tables``: what is left of them; ``pane``: panes
    below it are finished and out; ``owes``: whether entries of finished panes are left.
    """

    rows: pa.Table
    tables: list[Run]
    pane: int
    owes: bool


def drain(
    batch: Batch,
    operator: Operator,
    reports: Sequence[TableReport],
    bound: int,
    buckets: tuple[int, int],
) -> Drained:
    """Take out of the tables what may stay no longer now that ``bound`` is in force.

    A table that got nothing in this batch has the time to give all finished panes away; a table that is no longer wanted
    gives everything.
    """
    spec = operator.aggregation
    rule = rule_of(batch, operator)
    open_pane = _first_open(operator, bound)
    runs = {TableMeta.of(r).table: r for r in batch.tables.get(operator.id, ())}
    touched = {r.table: r.run for r in reports}
    runs.update({name: run for name, run in touched.items() if run is not None})
    rows, left, present = [partials_schema(spec).empty_table()], [], [open_pane]
    for name, run in sorted(runs.items()):
        if name in touched and touched[name] is None:
            continue
        mark = open_pane
        if rule is None:
            mark = END
        elif name in touched and not batch.flush:
            mark = due(open_pane, spec.panes.per_slide, rule.windows)
        meta = TableMeta.of(run)
        gone, listed = meta.gone, meta.panes
        mark = max(mark, gone)
        if any(gone <= p < mark for p in listed) or listed[-1] + 1 < mark:
            stored = read_runs(batch.run_folder, [run], buckets, low_table.entries_schema(spec))
            pane = ints(stored, "_pane")
            leaving = stored.filter(pa.array((pane >= gone) & (pane < mark)))
            rows.append(leaving.drop_columns([low_table.SLOT]))
        if reaches(run, mark):
            left.append(replace(run, meta=to_json(replace(meta, gone=mark))))
            # Panes that are not listed are newer than those that are.
            present.append(next((p for p in listed if p >= mark), max(mark, listed[-1] + 1)))
    held = held_pane(open_pane, present)
    return Drained(pa.concat_tables(rows), left, held, held < open_pane)


def entries_of(table: Run) -> int:
    """Entries in a table, without those that are gone."""
    meta = TableMeta.of(table)
    gone = sum(n for p, n in zip(meta.panes, meta.counts, strict=True) if p < meta.gone)
    return table.rows - gone


def _first_open(operator: Operator, bound: int) -> int:
    spec = operator.aggregation
    return first_open(bound, spec.sliding.origin, spec.panes.width)


def _child(batch: Batch, operator: Operator) -> str:
    return batch.plan.name_of(operator.node.children[0])


def _stored(
    batch: Batch, operator: Operator, task: str, rule: LowTable
) -> tuple[low_table.LowState, list[pa.Table]]:
    """The table as the last batch left it. The entries of one of another size arrive anew."""
    spec = operator.aggregation
    tables = batch.tables.get(operator.id, ())
    run = next((r for r in tables if TableMeta.of(r).table == task), None)
    if run is None:
        return low_table.empty(spec), []
    meta = TableMeta.of(run)
    rows = read_run(batch.run_folder, run, (0, BUCKETS), low_table.entries_schema(spec))
    _, entries = low_table.below(rows, meta.gone)
    if meta.size != rule.size:
        return low_table.empty(spec), [entries.drop_columns([low_table.SLOT])]
    return low_table.LowState(entries, meta.carry, meta.position), []
