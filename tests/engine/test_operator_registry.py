"""Registries of the rooms operators and paths: what they do not know is an error that names it; which runs live.

That they are complete is a matter of ``tests/test_registries.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.operators import registry
from slackwater.engine.operators.bounded_join import BoundedJoinProgram
from slackwater.engine.operators.group_runs import GroupRuns
from slackwater.engine.operators.group_task import group_task
from slackwater.engine.operators.keyed_rows import keyed_rows, keyed_schema
from slackwater.engine.operators.kinds import AfterBatch, Kind
from slackwater.engine.operators.ledgers import owes, regrouped
from slackwater.engine.operators.program import (
    MAIN,
    Arrival,
    GroupContext,
    Part,
    Program,
    State,
    StateStep,
)
from slackwater.engine.paths import registry as paths
from slackwater.engine.paths import sort as sort_rows
from slackwater.engine.paths.batch import Batch, Settings
from slackwater.engine.paths.delivery import Delivery
from slackwater.engine.paths.wire import pack_control, to_batches
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.operators.registry import PRODUCERS, STATEFUL
from slackwater.engine.plan.plan import Operator, Output, Plan
from slackwater.engine.store.manifest import Run
from slackwater.errors import AnalysisError, ExecutionError
from slackwater.kernels.types import arrow_schema
from slackwater.model.names import TIME
from slackwater.model.node import Join, Sort, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.render import LINES
from slackwater.model.time import TimeColumn
from slackwater.semantics.operators.registry import RULES
from slackwater.surface.explain import explain_plan
from slackwater.testing.executors.program_machine import MemoryRuns
from tests.engine.test_low_table import FIELDS, table

SOURCE = Source(FIELDS, (TimeColumn("ts", "long", None),), "s", 0, (BoundedDelay(6),))


# ---- an operator that registries do not know, and one that they are told of ----


@dataclass(frozen=True)
class Newest(Sort):
    """A toy: the newest row of all that the bound has passed, once per batch."""


class NewestProgram(Program):
    """Keeps rows that the bound has not passed."""

    def __init__(self, operator: Operator):
        self.schema = arrow_schema(operator.node.schema)
        self.parts = {MAIN: Part(TIME, keyed_schema(self.schema))}

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return bounds[0]

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (arrived,) = inputs
        new = keyed_rows(arrived.tables, self.schema)
        rows = pa.concat_tables([state(arrived.old, arrived.new - 1), new])
        passed = pa.array(rows[TIME].to_numpy() < arrived.new)
        ready = rows.filter(passed).sort_by(TIME)
        keep = new.filter(pa.array(new[TIME].to_numpy() >= arrived.new))
        return StateStep(ready.slice(max(0, ready.num_rows - 1)).select(self.schema.names), keep)


class NewestKind(Kind):
    """The toy."""

    def program(self, operator: Operator, context: GroupContext) -> Program:
        return NewestProgram(operator)

    def figures(self, after: AfterBatch) -> dict[str, Any]:
        return {"held": 7}


@pytest.fixture(autouse=True)
def meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy's line, its rules and what the plan asks of it: those of a sort."""
    monkeypatch.setitem(PRODUCERS, Newest, PRODUCERS[Sort])
    monkeypatch.setitem(STATEFUL, Newest, STATEFUL[Sort])
    monkeypatch.setitem(LINES, Newest, LINES[Sort])
    monkeypatch.setitem(RULES, Newest, RULES[Sort])


def newest() -> Plan:
    node = Newest(SOURCE.schema, SOURCE.times, SOURCE, "ts")
    return build([Output("out", node)], ansi=True, zone="UTC")


def batch_of(plan: Plan, **more: Any) -> Batch:
    return Batch(plan, 0, 1, 1, None, frozenset(), False, {}, {}, {}, "", {}, **more)


def test_rows_for_an_unknown_operator_are_refused_by_its_name() -> None:
    plan = newest()
    delivery = Delivery(batch_of(plan), "t")
    with pytest.raises(AnalysisError, match=r"Newest has no entry in .*paths/registry\.py"):
        delivery.send(plan.paths[0], table([(1, 5, 1)]))
    assert not delivery.messages


def test_an_unknown_operator_has_no_program() -> None:
    (operator,) = newest().operators
    with pytest.raises(AnalysisError, match=r"Newest has no entry in .*operators/registry\.py"):
        registry.kind_of(operator)


def test_a_window_of_an_unknown_type_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.engine.test_low_table import plan_of

    plan = plan_of(10, 10)
    operator = plan.operators[0]
    kind = type(operator.node.window)  # type: ignore[attr-defined]
    monkeypatch.delitem(registry.WINDOWS, kind)
    monkeypatch.delitem(paths.REDUCTIONS, kind)
    with pytest.raises(AnalysisError, match=kind.__name__):
        registry.kind_of(operator)
    path = next(plan.paths_to(operator.id))
    with pytest.raises(AnalysisError, match=kind.__name__):
        Delivery(batch_of(plan), "t").send(path, table([(1, 5, 1)]))


def test_a_new_operator_needs_its_entries_alone(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.PROGRAMS, Newest, NewestKind())
    monkeypatch.setitem(paths.ADMISSIONS, Newest, sort_rows.admit)
    plan = newest()
    assert "Newest on ts" in explain_plan(replace(plan, sources=()), [])
    q = engine()
    q.start(plan, groups=2)
    q.batch(table([(1, 5, 1), (2, 3, 1), (3, 9, 1)]))
    q.batch(table([(4, 12, 1)]))  # bound 6
    (record,) = q.records[-1]["operators"].values()
    assert record["kind"] == "Newest" and record["held"] == 7 and record["rowsOut"] == 1
    rows = q.rows("out")
    q.stop()
    assert [r["ts"] for r in rows] == [5]


# ---- ledgers and messages ----


def test_a_ledger_of_a_kind_without_ledgers_is_refused_by_name() -> None:
    node = Sort(SOURCE.schema, SOURCE.times, SOURCE, "ts")
    plan = build([Output("out", node)], ansi=True, zone="UTC")
    (operator,) = plan.operators
    for asked in (lambda: owes(plan, {operator.id: [{}]}), lambda: regrouped(plan, {operator.id: [{}]}, 2)):  # fmt: skip
        with pytest.raises(ExecutionError, match="SortKind") as caught:
            asked()
        assert caught.value.condition == "NO_LEDGER"


def test_a_message_of_an_unknown_kind_is_refused_by_name() -> None:
    messages = [(0, pack_control("group", 0)), (0, pack_control("feedback", [1]))]
    with pytest.raises(ExecutionError, match="'feedback'") as caught:
        list(group_task(batch_of(newest()), 1)(to_batches(messages)))
    assert caught.value.condition == "UNKNOWN_MESSAGE"


# ---- runs ----


def run(name: str, low: int, high: int, buckets: tuple[int, int] = (0, 256), part: str = "") -> Run:
    return Run(name, 1, 1, 0, low, high, buckets, part)


def context_of(plan: Plan, runs: list[Run], old: int, new: int) -> GroupContext:
    (operator,) = plan.operators
    batch = replace(batch_of(plan), groups=2, runs={operator.id: [runs, []]})
    return GroupContext(batch, 0, [Arrival([], old, new)], lambda *_: None)


def test_runs_live_and_stay_as_long_as_their_program_needs_them() -> None:
    plan = newest()
    (operator,) = plan.operators
    runs = [run("dead", 0, 4), run("passing", 3, 7), run("alive", 5, 20), run("of another group", 5, 20, (128, 256))]  # fmt: skip
    context = context_of(plan, runs, 5, 8)
    state = GroupRuns(operator, context, NewestProgram(operator))
    assert [r.name for r in state.live] == ["passing", "alive"]
    empty = pa.table({"v": pa.array([], pa.int64())})
    assert [r.name for r in state.after(StateStep(empty, {})).runs] == ["alive"]
    assert state.after(StateStep(empty, {}, rewritten=frozenset([MAIN]))).runs == []
    written = StateStep(empty, {}, runs=[run("written", 9, 9)], merged=3)
    assert [r.name for r in state.after(written).runs] == ["alive", "written"]
    assert state.after(written).merged == 3


def test_the_smallest_runs_are_merged_as_far_as_the_budget_goes() -> None:
    plan = newest()
    (operator,) = plan.operators
    schema = keyed_schema(arrow_schema(operator.node.schema))
    tables = {
        name: pa.table([[t] * n for t in (1, 9, 1, 9, 0)], schema=schema)
        for name, n in (("one", 1), ("five", 5), ("two", 2))
    }
    runs = [Run(name, t.num_rows, 1, 0, 9, 9, (0, 128)) for name, t in tables.items()]
    context = context_of(plan, runs, 5, 8)
    settings = Settings(compact_runs=2, compact_rows=4)
    context = replace(context, batch=replace(context.batch, settings=settings))
    state = MemoryRuns(operator, context, NewestProgram(operator), tables)
    kept = state.after(StateStep([], {}))
    assert [(r.name, r.rows) for r in kept.runs] == [("five", 5), ("3", 3)] and kept.merged == 2
    kept = state.after(StateStep([], {}, compact_rows=0))
    assert [r.name for r in kept.runs] == ["one", "five", "two"] and kept.merged == 0


def test_a_bounded_join_is_a_program_of_the_joins_kind() -> None:
    from tests.engine.test_join_engine import transcript

    node = transcript([], memory=1000).outputs["pairs"].node
    while not isinstance(node, Join):
        (node,) = node.children
    plan = build([Output("out", node)], ansi=True, zone="UTC")
    (operator,) = plan.operators
    context = GroupContext(batch_of(plan), 0, [Arrival([], 0, 0)] * 2, lambda *_: None)
    program = registry.kind_of(operator).program(operator, context)
    assert isinstance(program, BoundedJoinProgram) and not program.needs(run("any", 0, 9), [0, 0])
    assert all(part.blocks for part in program.parts.values())
