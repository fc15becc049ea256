"""Operators that are told how to deal with feedback: what they drop, what they pass on, what is counted of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store import failpoints
from slackwater.errors import AnalysisError
from slackwater.model.node import Aggregate, Filter, Node
from slackwater.model.reacting import USUAL, Reacting
from slackwater.semantics.feedback.standing import Request
from slackwater.surface.feedback import reacting
from slackwater.testing.feedback import frozen
from slackwater.testing.local.run import failing, scratch_folder
from slackwater.testing.transcripts.query import aggregate, expression, project
from slackwater.testing.transcripts.script import parse
from tests.engine.feedback.viewport import Viewed, rows, said, source, view

OFF = Reacting(exploit=False, propagate=False)


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as made:
        yield made


def planned(stream: Reacting = USUAL, windows: Reacting = USUAL) -> Plan:
    step = {"window": {"range": 6, "slide": 3}, "by": ["segment"], "agg": {"n": "count(*)"}}
    node: Node = aggregate(replace(source(), reacting=stream), step)
    outputs = [Output("map", replace(node, reacting=windows))]
    return passed(build(outputs, ansi=True, zone="UTC"), Written())


def ran(
    folder: Path, plan: Plan, *, splits: bool = True, feedback: bool = True, reach: Any = "source"
) -> Viewed:
    run = Viewed(folder, plan, splits=splits)
    run.run.reach = reach
    run.give(rows())
    run.run.start()
    if feedback:
        run.run.send(view(plan, 4, 5))
    run.all()
    run.run.stop()
    return run


def kept(run: Viewed) -> Counter[Any]:
    return Counter(frozen(r) for r in run.rows())


@pytest.mark.parametrize("stream", [USUAL, OFF], ids=["usual", "off"])
def test_a_stream_that_does_not_exploit_drops_nothing_in_front_of_operators_either(
    stream: Reacting, folder: Path
) -> None:
    run = ran(folder, planned(stream), reach="operators")
    acted = run.manifests[-1].progress["feedback"]["places"]
    assert ("cars" in acted) == (stream is USUAL)


@pytest.mark.parametrize(
    ("stream", "windows", "places"),
    [
        (USUAL, USUAL, {"cars", "aggregate", "out:map"}),
        (OFF, USUAL, {"aggregate", "out:map"}),
        (USUAL, Reacting(propagate=False), {"aggregate", "out:map"}),
        (USUAL, OFF, {"out:map"}),
    ],
)
@pytest.mark.spec("FC-F76")
def test_each_operator_acts_as_it_is_told(
    stream: Reacting, windows: Reacting, places: set[str], folder: Path
) -> None:
    """Whatever they are told, the same results come out, and operators have the names that they had."""
    run = ran(folder, planned(stream, windows))
    acted = run.manifests[-1].progress["feedback"]["places"]
    assert {n.split("-")[0] for n in acted} == places
    assert run.plan.names == planned().names
    with scratch_folder() as other:
        without = ran(other, planned(), feedback=False)
    wanted = Counter({r: n for r, n in kept(without).items() if 4 <= dict(r)["segment"] <= 5})
    assert kept(run) == wanted


@pytest.mark.spec("FC-F40")
def test_two_selects_of_one_kind_may_react_otherwise(folder: Path) -> None:
    """What neither can pass on, one guards where its rows come out, and the other leaves to its output."""
    stream = source()
    wider = project(stream, {"ts": "ts", "w": "v + 1"})
    outputs = [
        Output("x", wider),
        Output("y", replace(project(stream, {"ts": "ts", "w": "v + 1"}), reacting=OFF)),
    ]
    plan = passed(build(outputs, ansi=True, zone="UTC"), Written())
    run = Viewed(folder, plan)
    run.give(rows())
    run.run.start()
    for name in "xy":
        run.run.send(Request("send", name, "low", said("~{w < 50}", plan, name)))
    run.all()
    run.run.stop()
    first, second = (plan.name_of(o.node) for o in outputs)
    places = run.manifests[1].progress["feedback"]["places"]
    assert {n for n, p in places.items() if p["records"]} == {first, "out:x", "out:y"}
    assert second not in places and second != first
    assert Counter(map(frozen, run.rows("x"))) == Counter(map(frozen, run.rows("y")))


@pytest.mark.parametrize("splits", [True, False])
def test_rows_in_dropped_and_out_are_counted(splits: bool, folder: Path) -> None:
    logged = Reacting(log=True)
    run = ran(folder, planned(logged, logged), splits=splits)
    (operator,) = run.plan.operators
    log = [m.progress["feedback"]["log"] for m in run.manifests]
    cars = [one["cars"] for one in log]
    given = [r for t in rows() for r in t.to_pylist()]
    seen = [r for r in given if 4 <= r["segment"] <= 5]
    assert sum(c["rowsIn"] for c in cars) == len(given)
    assert sum(c["rowsOut"] for c in cars) == len(seen)
    assert all(c["rowsIn"] == c["rowsDropped"] + c["rowsOut"] for c in cars)
    assert sum(one[operator.id]["rowsOut"] for one in log) == len(run.rows())


def test_without_feedback_nothing_but_what_is_logged_is_told(folder: Path) -> None:
    run = ran(folder, planned(Reacting(log=True)), feedback=False)
    for manifest in run.manifests:
        shown = manifest.progress["feedback"]
        assert shown["standing"] == [] and shown["places"] == {}
        assert shown["log"]["cars"]["rowsDropped"] == 0
    assert not any(m.feedback for m in run.manifests)


def test_a_start_may_tell_operators_otherwise(folder: Path) -> None:
    """Also in the middle of a batch, and then the batch that is tried again acts as it is told now."""
    run = Viewed(folder, planned())
    run.give(rows())
    run.run.start()
    run.run.send(view(run.plan, 4, 5))
    run.step()
    with failing("job.after"), pytest.raises(failpoints.InjectedFailure):
        run.step()
    run.run.stop()
    run.run.plan = planned(windows=OFF)
    run.run.start()
    run.all()
    run.run.stop()
    with scratch_folder() as other:
        whole = kept(ran(other, planned(), feedback=False))
    got = kept(run)
    assert not got - whole, "a window that lacks rows came out"
    assert got == Counter({r: n for r, n in whole.items() if 4 <= dict(r)["segment"] <= 5})


# --- bad input --------------------------------------------------------------------------------------------


def test_what_keeps_results_back_cannot_let_rows_go_alone() -> None:
    node = planned().operators[0].node
    assert isinstance(node, Aggregate)
    with pytest.raises(AnalysisError) as e:
        reacting(node, False, True, False)
    assert e.value.condition == "PROPAGATE_WITHOUT_EXPLOIT" and "propagate=False" in str(e.value)
    assert reacting(node, False, False, True) == Reacting(False, False, True)


def test_steps_on_the_way_of_rows_are_not_counted() -> None:
    stream = source()
    node = Filter(stream.schema, stream.times, stream, expression("v > 1", stream.schema))
    assert reacting(node, False, True, False) == Reacting(exploit=False)
    with pytest.raises(AnalysisError, match="NOTHING_TO_LOG"):
        reacting(node, True, True, True)
    with pytest.raises(AnalysisError, match="neither True nor False"):
        reacting(node, 1, True, False)  # type: ignore[arg-type]


def test_only_aggregates_that_pass_feedback_on_seal_panes() -> None:
    node = planned().operators[0].node
    assert reacting(node, True, True, False, True) == Reacting(seal=True)
    assert str(Reacting(seal=True)) != str(Reacting()) == "exploit=True, propagate=True"
    assert reacting(source(), True, True, False, False) == Reacting(seal=False)
    for one, propagate in ((source(), True), (node, False)):
        with pytest.raises(AnalysisError, match="NOTHING_TO_SEAL"):
            reacting(one, True, propagate, False, True)
    with pytest.raises(AnalysisError, match="not True, False or None"):
        reacting(node, True, True, False, 1)  # type: ignore[arg-type]


def written(**step: Any) -> dict[str, Any]:
    return {
        "name": "t",
        "streams": {"s": {"columns": {"ts": "bigint", "v": "bigint"}, "time": "ts"}},
        "query": [
            {"from": "s"},
            {"where": "v > 0", "exploit": False, "propagate": False},
            {"window": {"range": 5, "slide": 5}, "agg": {"n": "count(*)"}, **step},
        ],
        "script": [{"rows": {"s": [[1, 1]]}}],
    }


def test_transcripts_tell_each_operator_what_to_do() -> None:
    node = parse(written(propagate=False, log=True)).outputs["out"].node
    assert node.reacting == Reacting(propagate=False, log=True)
    assert node.children[0].reacting == OFF and node.children[0].children[0].reacting == USUAL
    with pytest.raises(AnalysisError, match="propagates without exploiting"):
        parse(written(exploit=False))


@pytest.mark.parametrize("spec", [{"every": 0, "on": ["n"]}, {"every": 1}, {True: ["n"]}])
def test_an_instrument_must_say_when_and_on_what(spec: Any) -> None:
    with pytest.raises(AnalysisError, match="instrument"):
        parse({**written(), "instrument": {"out": spec}})
    with pytest.raises(AnalysisError, match="is no output"):
        parse({**written(), "instrument": {"other": {"every": 1, "on": ["n"]}}})
