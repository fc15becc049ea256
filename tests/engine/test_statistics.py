"""The plan of an aggregate, chosen by hand or from what earlier batches measured."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.plan.window_plans import choice, settled
from slackwater.engine.store.manifest import Manifest, Run
from slackwater.engine.store.statistics import OperatorStatistics, Statistics
from slackwater.errors import AnalysisError
from slackwater.model.aggregate import Primitive
from slackwater.model.node import Aggregate, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import Landmark, TimeWindow, Window
from slackwater.semantics.state_bounds import freed_by
from slackwater.surface.check import report

TIME = TimeColumn("ts", "long", None)
FIELDS = (Field("k", "bigint"), Field("ts", "bigint"), Field("v", "double"))
WIDE = tuple(Primitive(f"_a{i}", "avg", (column("v", "double"),), "double") for i in range(6))


def aggregate(window: Window, *primitives: Primitive) -> Aggregate:
    source = Source(FIELDS, (TIME,), "s", 0, (BoundedDelay(0),))
    made = primitives or WIDE
    outputs = tuple(Named(p.name[1:], column(p.column, p.type)) for p in made)
    fields = (FIELDS[0], Field("wid", "bigint"), Field("window", "struct<start:bigint,end:bigint>"))
    return Aggregate(
        (*fields, *(Field(o.name, o.expr.type) for o in outputs)),
        (TimeColumn("window", "window", None, True),),
        source,
        (Named("k", column("k", "bigint")),),
        window,
        made,
        outputs,
    )


def plan_for(node: Aggregate, wanted: str = "auto") -> Plan:
    return build([Output("out", node)], ansi=True, zone="UTC", window_plan=wanted)


def measured(plan: Plan, rows: int, partials: int, counted: str = "panes") -> Statistics:
    (operator,) = plan.operators
    return {operator.id: OperatorStatistics(plan=counted, rows=rows, partials=partials)}


@pytest.mark.spec("WQ-F96", "WQ-F108", "OO-F32")
@pytest.mark.parametrize(
    ("rows", "partials", "expected"),
    [
        (100_000, 100, "panes"),  # a pane hides many rows
        (220_000, 100_000, "panes"),  # rows would be sent as they are, and be more
        (150_000, 100_000, "adaptive"),  # most groups have a row or two, some more
        (100_000, 100_000, "buffered"),  # each row is a group of its own
    ],
)
def test_what_was_measured_chooses_the_plan(rows: int, partials: int, expected: str):
    plan = plan_for(aggregate(TimeWindow(60, 10, 0, "ts")))
    (operator,) = plan.operators
    assert operator.spec is not None and operator.spec.plan == "panes"  # nothing is known
    found = choice(operator, measured(plan, rows, partials))
    assert found is not None and found.plan == expected
    last = manifest(statistics=measured(plan, rows, partials))
    (chosen,) = settled(plan, "auto", {}, last).operators
    assert chosen.spec is not None and chosen.spec.plan == expected


def test_small_partials_are_never_kept_as_rows():
    for slide, expected in ((10, "panes"), (30, "wids")):  # two panes a window hide too little
        count = Primitive("_a0", "count", (), "bigint")
        plan = plan_for(aggregate(TimeWindow(60, slide, 0, "ts"), count))
        found = choice(plan.operators[0], measured(plan, 100_000, 100_000))
        assert found is not None and found.plan == expected


def test_an_aggregate_with_state_keeps_its_plan_and_one_asked_for_is_taken():
    plan = plan_for(aggregate(TimeWindow(60, 10, 0, "ts")))
    (operator,) = plan.operators
    run = Run("r", 1, 1, 0, 0, 9, (0, 256))
    last = manifest(statistics=measured(plan, 100_000, 100_000), runs={operator.id: [[run]]})
    (kept,) = settled(plan, "auto", {operator.id: "panes"}, last).operators
    assert kept.spec is not None and kept.spec.plan == "panes"
    for wanted in ("panes", "wids", "buffered", "adaptive"):
        asked = plan_for(aggregate(TimeWindow(60, 10, 0, "ts")), wanted)
        (operator,) = settled(asked, wanted, {}, last).operators
        assert operator.spec is not None and operator.spec.plan == wanted


def manifest(**given: Any) -> Manifest:
    empty: dict[str, Any] = {
        "batch": 0, "epoch": 0, "ordinal": 0, "groups": 1, "sources": {}, "bounds": {}, "runs": {},
        "outputs": {}, "final": False, "flushes": 0, "offsets": "",
    }  # fmt: skip
    return Manifest(**{**empty, **given})


@pytest.mark.parametrize(
    ("function", "advice"),
    [("count_distinct", "approx_count_distinct"), ("collect_list", "a window that ends")],
)
def test_state_that_no_bound_frees_is_refused(function: str, advice: str):
    grows = Primitive("_a0", function, (column("v", "double"),), "bigint")
    with pytest.raises(AnalysisError) as caught:
        report([aggregate(Landmark(10, 0, "ts"), grows)]).raise_for_problems()
    assert caught.value.condition == "UNBOUNDED_STATE"
    assert "'ts'" in str(caught.value) and advice in str(caught.value.hint)
    assert report([aggregate(TimeWindow(60, 10, 0, "ts"), grows)]).ok
    fine = Primitive("_a0", "approx_count_distinct", (column("v", "double"),), "bigint", (0.05,))
    assert report([aggregate(Landmark(10, 0, "ts"), fine)]).ok


def test_explain_says_what_frees_the_state():
    assert "bound on ts has not closed" in freed_by(aggregate(TimeWindow(60, 10, 0, "ts")))
    assert "grows with the number of groups" in freed_by(aggregate(Landmark(10, 0, "ts")))
