"""One task of a level: for its partition-group, new rows and state in; new state, results, bounds out.

Every task of level 1 gets the summaries of all low-level tasks and computes the new bounds by the same pure
function; higher levels get the bounds from the level below and check that all senders agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from slackwater.engine.clock import monotonic
from slackwater.engine.operators.group_runs import GroupRuns
from slackwater.engine.operators.ledgers import holds_of
from slackwater.engine.operators.program import Arrival, GroupContext
from slackwater.engine.operators.registry import kind_of
from slackwater.engine.operators.result_guards import ResultGuards
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.delivery import Delivery
from slackwater.engine.paths.reports import (
    Bounds,
    OperatorReport,
    Progress,
    SourceReport,
    TableReport,
    TaskReport,
)
from slackwater.engine.paths.wire import (
    Message,
    Task,
    from_batches,
    pack,
    pack_control,
    routes,
    to_batches,
)
from slackwater.engine.plan.plan import Operator
from slackwater.engine.progress.step import frontiers_of, held_bounds, new_progress, patterns_of
from slackwater.errors import ExecutionError
from slackwater.model.codec import from_json, to_json
from slackwater.semantics.patterns import Patterns


def group_task(batch: Batch, level: int) -> Task:
    """The function that Spark runs in each task of ``level`` (through ``mapInArrow``)."""
    batch = replace(batch, guards=batch.guards.behind_sources(batch.plan))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_batches(_run(batch, level, batches))

    return run


class _Inbox:
    """What a task received, sorted out."""

    def __init__(self, batches: Iterable[pa.RecordBatch]):
        self.tables: dict[int, list[pa.Table]] = {}
        self.group = -1
        self.summaries: list[SourceReport] = []
        self.progress: dict[str, Progress] = {}
        self.progress_count = 0
        self.descriptors: list[TaskReport] = []
        self.holds: dict[str, list[list[int]]] = {}
        self.low: dict[str, list[TableReport]] = {}
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
                self.summaries.append(from_json(SourceReport, body))
            elif key == "progress":
                # All senders agree, as a rule: one of them is read.
                self.progress_count += 1
                if body["digest"] not in self.progress:
                    self.progress[body["digest"]] = from_json(Progress, body)
            elif key == "table":
                self.low.setdefault(body[0], []).append(from_json(TableReport, body[1]))
            elif key == "hold":
                self.holds.setdefault(body[0], []).append(body[1])
            elif key == "descriptor":
                self.descriptors.append(from_json(TaskReport, body))
            else:
                raise ExecutionError(
                    "UNKNOWN_MESSAGE",
                    f"a group task got a message of a kind that it does not know: {key!r}",
                    hint="report this; all tasks of a query must run the same version of slackwater",
                    kind=key,
                )


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
    inbox.after = patterns_of(batch.plan, progress.states, progress.bounds)
    inbox.held = batch.holds if progress.holds is None else progress.holds
    delivery = Delivery(batch, f"l{level}g{inbox.group}")
    reports: dict[str, OperatorReport] = {}
    guards = ResultGuards(batch, progress)
    for operator in batch.plan.at(level):
        began = monotonic()
        done = _advance(batch, operator, inbox, progress.bounds, delivery, guards)
        reports[operator.id] = replace(done, seconds=round(monotonic() - began, 6))
    # Rows on their way to a higher level pass through.
    forward = [
        (path.id, table)
        for path in batch.plan.paths
        if _level_of_consumer(batch, path.consumer) > level
        for table in inbox.tables.get(path.id, [])
    ]
    delivery.finish()
    report = TaskReport(
        level,
        inbox.group,
        reports,
        delivery.files,
        progress.digest,
        progress if inbox.group == 0 and level == 1 else None,
        delivery.dropped,
        delivery.relations,
    )
    if level == batch.plan.top:
        for item in (*inbox.descriptors, report):
            yield 0, pack_control("descriptor", to_json(item))
        yield from delivery.messages  # rows for steps that Spark evaluates
        return
    targets = routes(batch.groups)
    sent_progress = pack_control("progress", to_json(progress))
    for g in range(batch.groups):
        yield targets[g], sent_progress
        for id, done in reports.items():
            if done.ledger is not None:
                yield targets[g], pack_control("hold", [id, list(done.hold)])
    for item in (*inbox.descriptors, report):
        yield targets[0], pack_control("descriptor", to_json(item))
    yield from delivery.messages
    for path_id, table in forward:
        for blob in pack(path_id, table):
            yield targets[inbox.group], blob


def _progress(batch: Batch, level: int, inbox: _Inbox) -> Progress:
    if level == 1:
        # Tasks may arrive in any order; the merge does not depend on it.
        return new_progress(batch, inbox.summaries).signed
    if len(inbox.progress) != 1 or inbox.progress_count != batch.groups:
        raise ExecutionError(
            "PROGRESS_DISAGREES",
            f"level {level} got {inbox.progress_count} progress messages with {len(inbox.progress)} "
            f"meanings from {batch.groups} tasks",
            hint="report this: the same batch must give the same bounds in every task",
        )
    (agreed,) = inbox.progress.values()
    if not inbox.holds:
        return agreed
    fresh = holds_of(batch, inbox.holds)
    before = batch.holds if agreed.holds is None else agreed.holds
    holds = {**before, **{op: fresh[op] for op in inbox.holds}}
    return replace(agreed, holds=holds, bounds=held_bounds(batch, agreed, holds))


def _level_of_consumer(batch: Batch, consumer: str) -> int:
    operator = batch.plan.operator(consumer)
    return operator.level if operator is not None else 0


def _advance(
    batch: Batch,
    operator: Operator,
    inbox: _Inbox,
    bounds: Bounds,
    delivery: Delivery,
    guards: ResultGuards,
) -> OperatorReport:
    """Run one operator on its group: kernel, state, and results on their paths."""
    sent: dict[str, int] = {}

    def emit(producer: str, table: pa.Table) -> None:
        sent[producer] = sent.get(producer, 0) + table.num_rows
        for path in batch.plan.paths_from(producer):
            placed = guards.of(path)
            if placed:
                delivery.send_guarded(path, table, placed)
            else:
                delivery.send(path, table)

    inputs = _arrivals(batch, operator, inbox, bounds)
    low_tables = inbox.low.get(operator.id, [])
    context = GroupContext(batch, inbox.group, inputs, emit, low_tables, delivery.relations)
    program = kind_of(operator).program(operator, context)
    state = GroupRuns(operator, context, program)
    step = program.step(inputs, state.read)
    for producer, table in step.results(operator.id):
        emit(producer, table)
    kept = state.after(step)
    return OperatorReport(
        kept.runs,
        sum(t.num_rows for a in inputs for t in a.tables),
        sum(sent.values()),
        step.late,
        kept.merged,
        readers=sent if step.readers else {},
        figures=step.figures,
        ledger=step.ledger,
        hold=step.hold,
        tables=step.low_tables,
        proven=program.proven(),
    )


def _arrivals(batch: Batch, operator: Operator, inbox: _Inbox, bounds: Bounds) -> list[Arrival]:
    """What each input of an operator got, and how its bound moves."""
    arrivals = []
    paths = list(batch.plan.paths_to(operator.id))
    frontiers = frontiers_of(batch, operator, bounds, inbox.held)
    for i, (child, on) in enumerate(zip(operator.node.children, operator.columns, strict=True)):
        name = batch.plan.name_of(child)
        tables = [t for p in paths if p.input == i for t in inbox.tables.get(p.id, [])]
        bound, patterns = bounds[name][on], (inbox.before[name], inbox.after[name])
        linear = (batch.bounds.get(name, {}), bounds[name])
        arrivals.append(Arrival(tables, batch.bound(name, on), bound, *patterns, frontiers, linear))
    return arrivals
