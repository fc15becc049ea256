"""Many records on the way of rows to an output: a row is held against them once, and tasks are sent what they need of them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.guards import Guards, left_over
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.plan.steps import GuardStep, ProjectStep
from slackwater.kernels.listed import Listed
from slackwater.kernels.translate.records import listing, negated
from slackwater.model.node import Filter
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Expr, Named
from slackwater.model.time import TimeColumn
from slackwater.semantics.feedback.standing import Request
from slackwater.testing.clock import ManualClock
from tests.engine.feedback.viewport import Viewed, plan_of, said, source

RANGES = " ".join(f"~{{segment BETWEEN {10 * k} AND {10 * k + 4}, v < {100 + k}}}" for k in range(20))  # fmt: skip


def filtered(**others: Any) -> Plan:
    rows = replace(source(**others), times=(TimeColumn("ts", "long", 1),))
    kept = Filter(rows.schema, rows.times, rows, Expr("`v` >= 0", "boolean", '"v" >= 0'))
    return passed(build([Output("map", kept)], ansi=True, zone="UTC"), Written())


def batch(segments: list[int], times: list[int], values: list[int] | None = None) -> pa.Table:
    given = {"segment": segments, "ts": times, "v": values or [1] * len(times)}
    return pa.table({n: pa.array(v, pa.int64()) for n, v in given.items()})


@pytest.mark.parametrize("splits", [True, False], ids=["files", "rows"])
def test_a_row_is_held_against_records_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, splits: bool
) -> None:
    run = Viewed(tmp_path, filtered(), splits=splits, group=None)
    run.give([batch([0, 7, 12, 19], [10, 11, 12, 13]), batch([5, 10, 18, 33, 35], [14] * 5)])
    run.run.start()
    run.run.send(Request("send", "map", "view", said(RANGES, run.plan)))
    run.step()
    asked: list[int] = []
    inside = Listed.inside

    def counted(self: Listed, values: Any) -> np.ndarray:
        asked.append(len(values[0]))
        return inside(self, values)

    monkeypatch.setattr(Listed, "inside", counted)
    done = run.step()
    run.run.stop()
    assert asked == [5]
    assert [r["segment"] for r in run.rows()] == [7, 19, 5, 18, 35]
    assert done.progress["feedback"]["places"]["cars"]["rowsDropped"] == 2


@pytest.mark.parametrize("splits", [True, False], ids=["files", "rows"])
def test_late_and_implausible_rows_that_an_output_ignores_stay_out(
    tmp_path: Path, splits: bool
) -> None:
    guarded = BoundedDelay(delay=1).futureGuard(20)
    plan = filtered(policies=(guarded,), late="admit")
    run = Viewed(tmp_path, plan, splits=splits, clock=ManualClock(50), group=None)
    run.give([batch([7], [40]), batch([1, 7, 1, 7, 1, 7], [5, 6, 90, 91, 41, 42])])
    run.run.start()
    run.run.send(Request("send", "map", "view", said("~{segment < 5}", run.plan)))
    run.step()
    done = run.step()
    run.run.stop()
    assert sorted(r["ts"] for r in run.rows()) == [6, 40, 42, 91]
    places = done.progress["feedback"]["places"]
    # No guard on a stream takes a row whose time is too far ahead.
    assert (places["cars"]["rowsDropped"], places["out:map"]["rowsDropped"]) == (2, 1)


def test_behind_a_projection_the_same_text_may_mean_another_column() -> None:
    plan = filtered()
    (path,) = plan.paths
    match = Expr("`v` < 1", "boolean", '"v" < 1')
    guard = GuardStep(negated(match), match, "cars", "cars")
    assert left_over(path, [(1, guard)], {match.duck}) == ()
    assert left_over(path, [(1, guard)], {'"v" < 2'}) == ((1, guard),)
    swapped = ProjectStep((Named("v", Expr("`segment`", "bigint", '"segment"')),))
    behind = replace(path, steps=(swapped, *path.steps))
    assert left_over(behind, [(2, guard)], {match.duck}) == ((2, guard),)


def test_tasks_are_sent_the_text_that_they_run_and_lists_once() -> None:
    plan = plan_of()
    node = plan.sources[0]
    match, lists = listing(node, said("~{segment < 5}", plan).records)
    stream = filtered()
    many, held = listing(stream.outputs[0].node, said(RANGES, stream).records)
    guards = Guards(
        {
            0: ((0, GuardStep(negated(match), match, "cars", "cars", lists=lists)),),
            1: ((0, GuardStep(negated(many), many, "cars", "cars", lists=held)),),
        },
        {"cars": 21},
    )
    sent = pickle.dumps(guards)
    assert len(sent) < len(many.sql) < len(negated(many).sql)
    read: Guards = pickle.loads(sent)
    for id, placed in guards.paths.items():
        ((_, was),), ((_, guard),) = placed, read.paths[id]
        assert guard.match.duck == was.match.duck and guard.condition.duck == was.condition.duck
        assert guard.lists == was.lists and guard.place == was.place
    first = {p.id for p in plan.paths if p.producer == "cars"}
    whole = Guards({p.id: guards.paths[0] for p in plan.paths}, {"cars": 1}, {0: ()})
    assert set(whole.behind_sources(plan).paths) == {p.id for p in plan.paths} - first
    assert not whole.behind_sources(plan).scans


def test_a_result_is_held_against_records_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Viewed(tmp_path, plan_of(window={"range": 4, "slide": 4}), group=None)
    run.give([batch(list(range(8)), [10] * 8), batch([9], [30])])
    run.run.start()
    text = " ".join(f"~{{segment = {k}, n < {k + 1}}}" for k in range(3, 30))
    run.run.send(Request("send", "map", "view", said(text, run.plan)))
    run.step()
    asked: list[int] = []
    inside = Listed.inside

    def counted(self: Listed, values: Any) -> np.ndarray:
        asked.append(len(values[0]))
        return inside(self, values)

    monkeypatch.setattr(Listed, "inside", counted)
    done = run.step()
    run.run.stop()
    assert sum(asked) == 8
    assert sorted(r["segment"] for r in run.rows()) == [0, 1, 2]
    assert done.progress["feedback"]["places"]["out:map"]["rowsDropped"] == 5
