"""Bounded joins as the group task sees them: blocks on disk, a ledger of who owes whom, a hold.

A bounded join holds no more in memory than it was given. Its ledger is a group's control state: small, plain, and in the
manifest beside the runs it speaks of. Rows that have yet to meet a part of the other side hold back what the join
promises (`hold`), in every group.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from slackwater.engine.operators.join import JoinProgram
from slackwater.engine.operators.program import MAIN, Arrival, GroupContext, Part, State, StateStep
from slackwater.engine.paths.reports import Figures
from slackwater.engine.plan.plan import Operator
from slackwater.engine.store import failpoints
from slackwater.engine.store.kept import KeptFiles, kept_files, wanted_places
from slackwater.engine.store.manifest import Run
from slackwater.kernels.buckets import bucket_range
from slackwater.kernels.joins.bounded.blocks import FileBlockStore
from slackwater.kernels.joins.bounded.ledger import Ledger, resident_places
from slackwater.kernels.joins.bounded.regroup import regrouped
from slackwater.kernels.joins.bounded.step import BatchBounds as Bounds
from slackwater.kernels.joins.bounded.step import BoundedJoin, Done, bounded_step
from slackwater.model.names import DELAYED, TIME
from slackwater.model.node import Join
from slackwater.semantics.bounds import END
from slackwater.semantics.join_memory import JoinPolicy, kept_room


def regroup(ledgers: Sequence[Any], count: int) -> list[Any]:
    """The ledgers of the groups for another number of groups, without touching a file."""
    before = len(ledgers)
    parts = [(bucket_range(g, before), Ledger.from_json(known)) for g, known in enumerate(ledgers)]
    return [regrouped(parts, bucket_range(g, count)).to_json() for g in range(count)]


def owes(ledger: Any) -> bool:
    """Whether rows wait to be joined."""
    return any(ledger["debts"])


class BoundedJoinProgram(JoinProgram):
    """A join whose rows are blocks on disk. The ledger says which runs have blocks, or marks of them, that are needed."""

    def __init__(self, operator: Operator, context: GroupContext):
        super().__init__(operator, context)
        known = context.ledger(operator)
        self.ledger = Ledger() if known is None else Ledger.from_json(known)
        self.parts = {MAIN: Part(TIME, pa.schema([]), blocks=True)}

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        """By what is in debt, not by the bounds."""
        return min((b.low for blocks in self.ledger.blocks for b in blocks), default=END)

    def needs(self, run: Run, bounds: Sequence[int]) -> bool:
        return run.name in self.ledger.runs()

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        old, new = self.context.old, self.context.new
        late = sum(
            self.late(i, rows.widened(t), old)
            for i, (rows, a) in enumerate(zip(self.rows, inputs, strict=True))
            for t in a.tables
        )
        done = self._joined(inputs, (old[0], old[1]), (new[0], new[1]))
        self.ledger = done.ledger
        return StateStep(
            [],
            {},
            late,
            Figures(join=done.stats),
            ledger=done.ledger.to_json(),
            hold=done.held,
            runs=self._written(done),
            merged=done.stats.merged_blocks,
        )

    def _joined(
        self, inputs: Sequence[Arrival], old: tuple[int, int], new: tuple[int, int]
    ) -> Done:
        store, lean = self._store(), [r.lean for r in self.rows]
        try:
            return bounded_step(
                BoundedJoin(self.spec, lean, policy_of(self.node), self.predicate),
                self.ledger,
                store,
                [map(r.arrived_lean, a.tables) for r, a in zip(self.rows, inputs, strict=True)],
                Bounds(old, new, self.batch.now or 0, min(new) >= END),
                lambda table, delayed: self.send(self._marked(table, delayed)),
            )
        finally:
            store.close()

    def _marked(self, results: pa.Table, delayed: bool) -> pa.Table:
        """The results with the column that says whether they came from a pass, if one is asked for."""
        if not self.node.marks_delayed:
            return results
        flags = pa.repeat(pa.scalar(delayed), results.num_rows)
        return results.append_column(DELAYED, flags)

    def _store(self) -> FileBlockStore:
        batch = self.batch
        prefix = f"{batch.prefix(self.operator.id)}-g{self.context.group}"
        return FileBlockStore(
            batch.run_folder,
            name=lambda kind: f"{prefix}{kind[:1]}-{os.urandom(6).hex()}.arrow",
            before_run=lambda: failpoints.hit("task.run.before", batch.failpoints),
            after_run=lambda: failpoints.hit("task.run.after", batch.failpoints),
            before_block=lambda: failpoints.hit("disk.spill", batch.failpoints),
            kept=self._kept(),
        )

    def _kept(self) -> KeptFiles | None:
        """What this executor keeps of the resident blocks of all groups."""
        batch, id = self.batch, self.operator.id
        limit = batch.groups * kept_room(policy_of(self.node).memory)
        kept = kept_files(batch.root, id, limit)
        if kept is not None:
            kept.begin(f"{batch.id} {batch.epoch}", self._wanted)
        return kept

    def _wanted(self) -> Callable[[str, int], bool]:
        """Which blocks are of use to any group: those that reside, and those that this batch writes."""
        ledgers = self.batch.ledgers.get(self.operator.id, [])
        places = {at for known in ledgers if known is not None for at in resident_places(known)}
        return wanted_places(places, self.batch.prefix(self.operator.id))

    def _written(self, done: Done) -> list[Run]:
        """The new runs. Blocks that were written and merged again in the same batch may have left some without use."""
        used, buckets = done.ledger.runs(), self.context.buckets
        return [
            Run(f.name, f.rows, f.bytes, f.crc, *done.ledger.extremes(f.name), buckets)
            for f in done.files
            if f.name in used
        ]


def policy_of(node: Join) -> JoinPolicy:
    """How a bounded join divides its memory, and when it pays debts."""
    assert node.memory is not None
    if node.deadline == 0:
        return JoinPolicy(node.memory, backlog=0.0)
    return JoinPolicy(node.memory, deadline=node.deadline)
