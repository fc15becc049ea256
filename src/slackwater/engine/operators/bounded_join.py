"""Joins in little memory, as the group task sees them: blocks on disk, a ledger of who owes whom, a hold.

A ledger is a group's control state: small, plain, and in the manifest beside the runs it speaks of. Rows that have
yet to meet a part of the other side hold back what the join promises (`hold`), in every group.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from slackwater.engine.operators.join import JoinProgram
from slackwater.engine.operators.program import Arrival
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.deliver import Delivery
from slackwater.engine.plan.plan import Operator
from slackwater.engine.store import failpoints
from slackwater.engine.store.manifest import Run
from slackwater.kernels.buckets import bucket_range
from slackwater.kernels.joins.bounded import step as join_spill
from slackwater.kernels.joins.bounded.blocks import LocalBlockStore
from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.kernels.joins.bounded.regroup import regrouped
from slackwater.model.node import Join
from slackwater.semantics.bounds import END
from slackwater.semantics.join_memory import Policy


def is_spilled(operator: Operator) -> bool:
    """Whether an operator's state is blocks and a ledger."""
    return isinstance(operator.node, Join) and operator.node.memory is not None


def regroup(ledgers: Sequence[Any], count: int) -> list[Any]:
    """The ledgers of the groups for another number of groups, without touching a file."""
    before = len(ledgers)
    parts = [(bucket_range(g, before), Ledger.from_json(known)) for g, known in enumerate(ledgers)]
    return [regrouped(parts, bucket_range(g, count)).to_json() for g in range(count)]


def owes(ledger: Any) -> bool:
    """Whether rows wait to be joined."""
    return any(ledger["debts"])


def advance(
    batch: Batch,
    operator: Operator,
    inputs: Sequence[Arrival],
    group: int,
    buckets: tuple[int, int],
    delivery: Delivery,
) -> dict[str, Any]:
    """Run a join on its group; what the manifest must know of it."""
    node = operator.node
    assert isinstance(node, Join) and node.memory is not None
    program = JoinProgram(operator, buckets, batch)
    known = batch.ledgers.get(operator.id, [])
    ledger = Ledger.from_json(known[group]) if group < len(known) else Ledger()
    prefix = f"{batch.prefix(operator.id)}-g{group}"
    store = LocalBlockStore(
        batch.run_folder,
        name=lambda kind: f"{prefix}{kind[:1]}-{os.urandom(6).hex()}.arrow",
        before_run=lambda: failpoints.hit("task.run.before", batch.failpoints),
        after_run=lambda: failpoints.hit("task.run.after", batch.failpoints),
        before_block=lambda: failpoints.hit("disk.spill", batch.failpoints),
        mode=batch.settings.rights.file,
    )
    paths = list(batch.plan.paths_from(operator.id))

    def emit(table: pa.Table, delayed: bool) -> None:
        for path in paths:
            delivery.send(path, program.shown(table))

    old = (inputs[0].old, inputs[1].old)
    new = (inputs[0].new, inputs[1].new)
    late = sum(program.late(i, t, old) for i, a in enumerate(inputs) for t in a.tables)
    try:
        done = join_spill.spill_step(
            program.spec,
            ledger,
            store,
            [map(r.arrived_lean, a.tables) for r, a in zip(program.rows, inputs, strict=True)],
            [r.lean for r in program.rows],
            join_spill.Batch(old, new, batch.now or 0, min(new) >= END),
            _policy(node),
            emit,
            program.predicate,
        )
    finally:
        store.close()
    live = done.ledger.runs()
    before = batch.runs.get(operator.id, [])
    kept = [r for r in (before[group] if group < len(before) else []) if r.name in live]
    kept += [
        Run(f.name, f.rows, f.bytes, f.crc, *done.ledger.extremes(f.name), buckets)
        for f in done.files
        if f.name in live
    ]
    stats = asdict(done.stats)
    return {
        "runs": [asdict(r) for r in kept],
        "in": sum(done.stats.arrived_rows),
        "out": done.stats.results,
        "late": late,
        "compacted": done.stats.merged_blocks,
        "ledger": done.ledger.to_json(),
        "hold": list(done.held),
        "statistics": {"join": stats},
    }


def _policy(node: Join) -> Policy:
    assert node.memory is not None
    if node.deadline == 0:
        return Policy(node.memory, backlog=0.0)
    return Policy(node.memory, deadline=node.deadline)
