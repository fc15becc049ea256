"""Cases of the rules' own tests, run on the engine: with feedback and without, crashes on the way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.driver.feedback import Reach
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.progress.step import reached
from slackwater.engine.store import failpoints
from slackwater.engine.store.manifest import Manifest
from slackwater.kernels.types import arrow_schema
from slackwater.model.node import Held, Lookup, Node, Source
from slackwater.model.rewrite import Rewrite
from slackwater.semantics.bounds import topological
from slackwater.semantics.feedback.columns import Column, Columns
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.feedback.value import Feedback
from slackwater.semantics.feedback_rules import in_result_time, missing
from slackwater.semantics.patterns import Pattern, Patterns
from slackwater.testing.clock import ManualClock
from slackwater.testing.feedback import frozen
from slackwater.testing.local.run import LocalInput, LocalRun, failing
from slackwater.testing.local.tables import WrittenTable
from tests.semantics.feedback.guarded import Case


class OutOfRange(AssertionError):
    """Results that feedback does not allow."""


def plan_of(case: Case, window_plan: str = "auto") -> Plan:
    order = [n for n in topological(list(case.outputs.values())) if isinstance(n, Source)]
    number = {s.name: i for i, s in enumerate(order)}
    rewrite = Rewrite(lambda s: replace(s, input=number[s.name]))
    outputs = [Output(name, rewrite(node)) for name, node in case.outputs.items()]
    made = build(outputs, ansi=True, zone="UTC", window_plan=window_plan)
    return passed(made, Written())


def columns_of(node: Node) -> dict[str, Column]:
    known = Columns.of(node)
    made: dict[str, Column] = {}
    for name in known.names():
        parts = name.rsplit(".", 1) if "." in name else [name]
        try:
            column = known.column(parts)
        except Exception:
            continue
        made[column.name] = column
    return made


def feedback_of(node: Node, records: Patterns) -> Feedback | None:
    columns = columns_of(node)
    usable = [r for r in records if all(c in columns for c in r.columns)]
    return Feedback.of(usable, columns.values()) if usable else None


@dataclass
class Ran:
    """What a run gave: rows of each output by batch, streams' and operators' progress and manifests by batch."""

    rows: dict[str, dict[int, list[dict[str, Any]]]]
    streams: dict[int, Any] = field(default_factory=dict)
    operators: dict[int, Any] = field(default_factory=dict)
    manifests: dict[int, Manifest] = field(default_factory=dict)
    plan: Plan | None = None


def play(
    case: Case,
    folder: Path,
    rng: random.Random,
    *,
    feedback: bool,
    splits: Sequence[bool] = (),
    crash: str | None = None,
    share: bool = True,
    reach: Reach = "source",
    settings: Settings = Settings(),  # noqa: B008
    window_plan: str = "auto",
) -> Ran:
    """Run a case. With a ``crash`` the process fails where it first comes to that point, and starts again."""
    plan = plan_of(case, window_plan)
    inputs = [
        LocalInput(s.schema, splits[i % len(splits)] if splits else False)
        for i, s in enumerate(plan.sources)
    ]
    clock = None if case.clock is None else ManualClock(case.clock[0])
    if clock is not None and case.clock is not None:
        clock.script(dict(enumerate(case.clock)))
    tables = _Tables(case, plan, folder / "relations")
    run = LocalRun(
        folder, plan, inputs, clock=clock, share_panes=share, reach=reach,
        relations={n: t.use for n, t in tables.written.items()}, settings=settings,
        window_plan=window_plan,
    )  # fmt: skip
    for rows in case.batches:
        run.give(
            {
                s.input: pa.Table.from_pylist(
                    [dict(r) for r in rows.get(s.name, [])], arrow_schema(s.schema)
                )
                for s in plan.sources
            }
        )
    for one in run.inputs:
        for path in sorted(Path(one.path).glob("*.parquet")):
            # Groups of few rows: some lie inside a record, and are not opened.
            pq.write_table(pq.read_table(path), path, row_group_size=2)
    ran = Ran({}, plan=plan)
    sender = _Sender(case, plan, run) if feedback else None
    if crash is None:
        _life(case, run, ran, tables, sender, rng)
    else:
        try:
            with failing(crash):
                _life(case, run, ran, tables, sender, rng)
        except failpoints.InjectedFailure:
            _life(case, run, ran, tables, sender, rng)
    ran.rows = {
        name: {b: t.to_pylist() for b, t in tables.items()}
        for name, tables in run.published.items()
    }
    return ran


class _Sender:
    """Sends what outputs assert, before the batch in which it begins; what ends is retracted."""

    def __init__(self, case: Case, plan: Plan, run: LocalRun):
        self.case = case
        self.nodes = {o.name: o.node for o in plan.outputs}
        self.run = run
        self.sent: dict[str, tuple[Feedback | None, int]] = {}
        self.next = 0

    def before(self, batch: int) -> None:
        if batch < self.next:
            return  # the batch is tried again
        for name, node in self.nodes.items():
            made = feedback_of(node, self.case.records[batch].get(name, ()))
            known, number = self.sent.get(name, (None, 0))
            if made == known:
                continue
            if made is None:
                self.run.send(Request("retract", target=number))
            else:
                number = self.run.send(Request("send", name, "view", made))
            self.sent[name] = made, number
        # One who fails while sending does not know, and sends again.
        self.next = batch + 1


class _Tables:
    """Writes the versions of relations, each before the batch that sees it first."""

    def __init__(self, case: Case, plan: Plan, folder: Path):
        self.case = case
        relations = {n.relation for n in plan.nodes if isinstance(n, (Lookup, Held))}
        self.written = {r.name: WrittenTable(folder / r.name, r) for r in relations}
        self.shown: dict[str, Any] = {}

    def before(self, batch: int) -> None:
        for name, rows in self.case.versions(batch).items():
            if name in self.written and rows is not self.shown.get(name):
                self.written[name].write(rows)
                self.shown[name] = rows


def _life(
    case: Case,
    run: LocalRun,
    ran: Ran,
    tables: _Tables,
    sender: _Sender | None,
    rng: random.Random,
) -> None:
    tables.before(run.done)
    run.start(rng.choice([1, 2, 3]))
    try:
        while run.done < len(case.batches):
            batch = run.done
            tables.before(batch)
            if sender is not None:
                sender.before(batch)
            done = run.step(final=batch == len(case.batches) - 1)
            if done is not None and done.batch == batch:
                ran.streams[batch] = done.progress["streams"]
                ran.operators[batch] = done.progress["operators"]
                ran.manifests[batch] = done
    finally:
        run.stop()


def check(case: Case, with_feedback: Ran, reference: Ran, *, streams: bool = True) -> None:
    """Rows are in range, no row that was given up comes out while its record stands, progress is the same."""
    if streams:
        for batch, progress in reference.streams.items():
            if with_feedback.streams.get(batch, progress) != progress:
                raise OutOfRange(f"progress differs in batch {batch}")
    assert with_feedback.plan is not None
    for output in with_feedback.plan.outputs:
        _check(case, with_feedback, reference, output)


def _check(case: Case, ran: Ran, reference: Ran, output: Output) -> None:
    name, node = output.name, output.node
    in_force = [
        made.records if (made := feedback_of(node, records.get(name, ()))) is not None else ()
        for records in case.records
    ]
    columns = columns_of(node)

    def matches(record: Pattern, row: Mapping[str, Any]) -> bool:
        values = {c: columns[c].value(row) for c in record.columns}
        return record.matches(values)

    for batch, rows in ran.rows[name].items():
        for row in rows:
            if any(matches(r, row) for r in in_force[min(batch, len(in_force) - 1)]):
                raise OutOfRange(
                    f"{name}: {row} came out in batch {batch}, although it was given up"
                )
    got = [r for rows in ran.rows[name].values() for r in rows]
    wanted = [(b, r) for b, rows in reference.rows[name].items() for r in rows]
    left = Counter(frozen(r) for r in got)
    lost = []
    for batch, row in wanted:
        key = frozen(row)
        if left[key]:
            left[key] -= 1
        else:
            lost.append((batch, row))
    more = [k for k, n in left.items() if n > 0]
    if more:
        raise OutOfRange(f"{name}: rows that were not there before: {more}")
    until = {r: n for n, records in enumerate(in_force) for r in records}
    for _, row in lost:
        hit = [(r, n) for r, n in until.items() if matches(r, row)]
        if not hit:
            raise OutOfRange(f"{name}: {row} is missing, and nobody gave it up")
        if not any(
            n == len(in_force) - 1 or _within(ran, node, columns, r, row, n) for r, n in hit
        ):
            raise OutOfRange(f"{name}: {row} is missing, although its record has ended")


def _within(
    ran: Ran, node: Node, columns: Mapping[str, Column], record: Pattern, row: Any, batch: int
) -> bool:
    """Whether a row may be missing by what a record dropped up to a batch."""
    plan = ran.plan
    assert plan is not None
    done = max((b for b in ran.manifests if b <= batch), default=None)
    if done is None:
        return True
    manifest = ran.manifests[done]
    last = missing(
        node, (in_result_time(node, record),), reached(plan, manifest.sources, manifest.bounds)
    )
    for name, time in last.items():
        column = columns.get(name)
        value = None if column is None else column.value(row)
        if isinstance(value, int) and value > time:
            return False
    return True
