"""One task of a level: for its partition-group, new rows and state in; new state, results, bounds out.

Every task of level 1 gets the summaries of all low-level tasks and computes the new bounds by the same pure
function; higher levels get the bounds from the level below and check that all senders agree.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from slackwater.engine.clock import monotonic
from slackwater.engine.operators import bounded_join as join_spill
from slackwater.engine.operators.groupwise import groupwise
from slackwater.engine.operators.join import JoinProgram
from slackwater.engine.operators.ledgers import holds_of
from slackwater.engine.operators.program import MAIN, Arrival, Program, StateStep
from slackwater.engine.operators.shared import SharedPanesProgram, SharedSortProgram
from slackwater.engine.operators.smoothing import SmoothProgram, is_smooth
from slackwater.engine.operators.stateful import OPERATORS
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.deliver import Delivery
from slackwater.engine.paths.wire import (
    Message,
    from_batches,
    pack,
    pack_control,
    routes,
    to_batches,
)
from slackwater.engine.plan.plan import Operator
from slackwater.engine.progress.step import frontiers_of, held_bounds, new_progress, patterns_of
from slackwater.engine.store import failpoints
from slackwater.engine.store.manifest import Run
from slackwater.engine.store.runs import overlaps, read_runs, write_run
from slackwater.errors import ExecutionError
from slackwater.kernels.buckets import bucket_range
from slackwater.model.node import Join, SharedPanes, SharedSort
from slackwater.semantics.patterns import Patterns

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def group_task(batch: Batch, level: int) -> Task:
    """The function that Spark runs in each task of ``level`` (through ``mapInArrow``)."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_batches(_run(batch, level, batches))

    return run


class _Inbox:
    """What a task received, sorted out."""

    def __init__(self, batches: Iterable[pa.RecordBatch]):
        self.tables: dict[int, list[pa.Table]] = {}
        self.group = -1
        self.summaries: list[Any] = []
        self.progress: list[Any] = []
        self.descriptors: list[Any] = []
        self.holds: dict[str, list[list[int]]] = {}
        self.low: dict[str, list[Any]] = {}
        # Patterns by node, in force when the batch began, and after it.
        self.before: dict[str, Patterns] = {}
        self.after: dict[str, Patterns] = {}
        # What joins may promise of their inputs after the batch, as far as it is known on this level.
        self.held: Mapping[str, Sequence[int]] = {}
        for key, body in from_batches(batches):
            if isinstance(key, int):
                self.tables.setdefault(key, []).append(body)
            elif key == "group":
                self.group = body
            elif key == "summary":
                self.summaries.append(body)
            elif key == "progress":
                self.progress.append(body)
            elif key == "table":
                self.low.setdefault(body[0], []).append(body[1])
            elif key == "hold":
                self.holds.setdefault(body[0], []).append(body[1])
            else:
                self.descriptors.append(body)


def _run(batch: Batch, level: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
    inbox = _Inbox(batches)
    if inbox.group < 0:
        raise ExecutionError(
            "NO_GROUP",
            f"a task of level {level} was not told its group: rows were routed to a wrong partition",
            hint="report this; adaptive execution must be off for the batch",
        )
    progress = _progress(batch, level, inbox)
    inbox.before = patterns_of(batch.plan, batch.states, batch.bounds)
    inbox.after = patterns_of(batch.plan, progress["states"], progress["bounds"])
    inbox.held = progress.get("holds", batch.holds)
    delivery = Delivery(batch, f"l{level}g{inbox.group}")
    states: dict[str, Any] = {}
    for operator in batch.plan.at(level):
        began = monotonic()
        done = _advance(batch, operator, inbox, progress["bounds"], delivery)
        states[operator.id] = {**done, "seconds": round(monotonic() - began, 6)}
    # Rows on their way to a higher level pass through.
    forward = [
        (path.id, table)
        for path in batch.plan.paths
        if _level_of_consumer(batch, path.consumer) > level
        for table in inbox.tables.get(path.id, [])
    ]
    delivery.finish()
    descriptor = {
        "level": level,
        "group": inbox.group,
        "digest": progress["digest"],
        "operators": states,
        "outputs": {n: [asdict(f) for f in files] for n, files in delivery.files.items()},
    }
    if inbox.group == 0 and level == 1:
        descriptor["progress"] = progress
    if level == batch.plan.top:
        for item in (*inbox.descriptors, descriptor):
            yield 0, pack_control("descriptor", item)
        yield from delivery.messages  # rows for steps that Spark evaluates
        return
    targets = routes(batch.groups)
    for g in range(batch.groups):
        yield targets[g], pack_control("progress", progress)
        for id, state in states.items():
            if "hold" in state:
                yield targets[g], pack_control("hold", [id, state["hold"]])
    for item in (*inbox.descriptors, descriptor):
        yield targets[0], pack_control("descriptor", item)
    yield from delivery.messages
    for path_id, table in forward:
        for blob in pack(path_id, table):
            yield targets[inbox.group], blob


def _progress(batch: Batch, level: int, inbox: _Inbox) -> dict[str, Any]:
    if level == 1:
        # Tasks may arrive in any order; the merge does not depend on it.
        found = new_progress(batch, inbox.summaries)
        text = json.dumps(found, sort_keys=True)
        return {**found, "digest": hashlib.sha256(text.encode()).hexdigest()[:16]}
    digests = {p["digest"] for p in inbox.progress}
    if len(digests) != 1 or len(inbox.progress) != batch.groups:
        raise ExecutionError(
            "PROGRESS_DISAGREES",
            f"level {level} got {len(inbox.progress)} progress messages with {len(digests)} meanings "
            f"from {batch.groups} tasks",
            hint="report this: the same batch must give the same bounds in every task",
        )
    first: dict[str, Any] = inbox.progress[0]
    if not inbox.holds:
        return first
    fresh = holds_of(batch, inbox.holds)
    holds = {**first.get("holds", batch.holds), **{op: list(fresh[op]) for op in inbox.holds}}
    return {**first, "holds": holds, "bounds": held_bounds(batch.plan, first, holds)}


def _level_of_consumer(batch: Batch, consumer: str) -> int:
    operator = batch.plan.operator(consumer)
    return operator.level if operator is not None else 0


def _advance(
    batch: Batch,
    operator: Operator,
    inbox: _Inbox,
    bounds: dict[str, dict[str, int]],
    delivery: Delivery,
) -> dict[str, Any]:
    """Run one operator on its group: kernel, state, and results on their paths."""
    group = inbox.group
    buckets = bucket_range(group, batch.groups)
    inputs = _arrivals(batch, operator, inbox, bounds)
    if join_spill.is_spilled(operator):
        return join_spill.advance(batch, operator, inputs, group, buckets, delivery)
    program = groupwise(lambda: _program(batch, operator, buckets, inbox), operator.node, inputs)
    old, new = [a.old for a in inputs], [a.new for a in inputs]
    all_runs = batch.runs.get(operator.id, [])
    mine = all_runs[group] if group < len(all_runs) else []
    live = [
        r for r in mine
        if overlaps(r, buckets) and r.high >= program.first_needed(r.part, old)
    ]  # fmt: skip

    def state(low: int, high: int, part: str = MAIN) -> pa.Table:
        wanted = [r for r in live if r.part == part and r.high >= low and r.low <= high]
        return read_runs(batch.run_folder, wanted, buckets, program.parts[part].schema)

    step: StateStep = program.step(inputs, state)
    sent: dict[str, int] = {}
    for producer, table in step.results(operator.id):
        sent[producer] = sent.get(producer, 0) + table.num_rows
        for path in batch.plan.paths_from(producer):
            delivery.send(path, table)
    runs: list[Run] = []
    merged = 0
    for part, shape in program.parts.items():
        first = program.first_needed(part, new)
        kept = [r for r in live if r.part == part and r.high >= first]
        if part in step.rewritten:
            kept = []
        rows = step.kept.get(part)
        if rows is not None and rows.num_rows:
            prefix = f"{batch.prefix(operator.id)}-g{group}"
            kept.append(_written(batch, prefix, rows, shape.order, part))
        if len(kept) > batch.settings.compact_runs:
            most = batch.settings.compact_rows
            if step.compact_rows is not None:
                most = min(most, step.compact_rows)
            kept, count = _compact(
                batch, operator, program, part, kept, buckets, first, group, most
            )
            merged += count
        runs += kept
    return {
        "runs": [asdict(r) for r in runs],
        "in": sum(t.num_rows for a in inputs for t in a.tables),
        "out": sum(sent.values()),
        "late": step.late,
        "compacted": merged,
        **({"readers": sent} if step.readers else {}),
        **({"statistics": dict(step.statistics)} if step.statistics else {}),
        **({"ledger": step.ledger, "hold": list(step.hold)} if step.ledger is not None else {}),
        **({"tables": [asdict(r) for r in step.low_tables]} if step.low_tables is not None else {}),
    }


def _program(batch: Batch, operator: Operator, buckets: tuple[int, int], inbox: _Inbox) -> Program:
    if isinstance(operator.node, Join):
        return JoinProgram(operator, buckets, batch)
    if isinstance(operator.node, SharedPanes):
        return SharedPanesProgram(operator, buckets)
    if isinstance(operator.node, SharedSort):
        return SharedSortProgram(operator)
    if is_smooth(batch, operator):
        told = inbox.low.get(operator.id, [])
        return SmoothProgram(operator, buckets, batch, inbox.group, told)
    return OPERATORS[type(operator.node)](operator, buckets)


def _arrivals(
    batch: Batch, operator: Operator, inbox: _Inbox, bounds: dict[str, dict[str, int]]
) -> list[Arrival]:
    """What each input of an operator got, and how its bound moves."""
    arrivals = []
    paths = list(batch.plan.paths_to(operator.id))
    frontiers = frontiers_of(batch, operator, bounds, inbox.held)
    for i, (child, on) in enumerate(zip(operator.node.children, operator.columns, strict=True)):
        name = batch.plan.name_of(child)
        tables = [t for p in paths if p.input == i for t in inbox.tables.get(p.id, [])]
        bound, patterns = bounds[name][on], (inbox.before[name], inbox.after[name])
        arrivals.append(Arrival(tables, batch.bound(name, on), bound, *patterns, frontiers))
    return arrivals


def _compact(
    batch: Batch,
    operator: Operator,
    program: Program,
    part: str,
    runs: list[Run],
    buckets: tuple[int, int],
    first: int,
    group: int,
    budget: int,
) -> tuple[list[Run], int]:
    """Merge the smallest runs of a part into one, as far as the budget of rows goes."""
    chosen: list[Run] = []
    for run in sorted(runs, key=lambda r: r.rows):
        if chosen and budget < run.rows:
            break
        budget -= run.rows
        chosen.append(run)
    if len(chosen) < 2:
        return runs, 0
    failpoints.hit("compact.before", batch.failpoints)
    shape = program.parts[part]
    rows = read_runs(batch.run_folder, chosen, buckets, shape.schema)
    rows = program.compact(part, rows, first)
    rest = [r for r in runs if r not in chosen]
    if rows.num_rows:
        prefix = f"{batch.prefix(operator.id)}-g{group}c"
        rest.append(_written(batch, prefix, rows, shape.order, part))
    return rest, len(chosen)


def _written(batch: Batch, prefix: str, rows: pa.Table, order: str, part: str) -> Run:
    rights = batch.settings.rights
    return write_run(batch.run_folder, prefix, rows, order, batch.failpoints, part, rights)
