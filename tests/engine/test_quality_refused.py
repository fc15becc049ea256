"""Quality targets that mean nothing, as new users write them: refused with the stream's own name and the way out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slackwater.engine.plan.known import renumber
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.progress.quality import check
from slackwater.errors import AnalysisError
from slackwater.model.node import Filter, Node, Sort, Source
from slackwater.model.policy import BoundedDelay, Policy, Quality
from slackwater.model.schema import Expr
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.surface.slack import with_policy
from tests.engine.test_low_table import FIELDS, counted
from tests.surface.test_grouped import stream

TIME = TimeColumn("ts", "long", None)
SOURCE = Source(FIELDS, (TIME,), "s", 0, (BoundedDelay(6),))
COUNTS = counted(SOURCE, ("k",), TimeWindow(10, 10, 0, "ts"), "v")


def checked(node: Node, policy: Policy | None = None) -> None:
    """What happens when a result is started."""
    if policy is not None:
        node = with_policy(stream(node), policy)._node
    check(build(renumber([Output("output", node)], {0: 0}), ansi=True, zone="UTC"))


def refused(node: Node, policy: Policy | None = None) -> AnalysisError:
    with pytest.raises(AnalysisError) as caught:
        checked(node, policy)
    assert caught.value.condition == "BAD_QUALITY"
    assert "'s'" in str(caught.value) and "~" not in str(caught.value)
    return caught.value


def test_a_target_on_rows_that_leave_as_they_come() -> None:
    test = Expr("v > 3", "boolean", '("v" > 3)')
    for node in (SOURCE, Filter(FIELDS, (TIME,), SOURCE, test)):
        error = refused(node, Quality(error=0.01))
        assert "withQuality" in (error.hint or "") and "groupBy" in (error.hint or "")
        checked(node, BoundedDelay(3))  # a slack says which rows are late
    refused(replace(SOURCE, policies=(Quality(coverage=0.9),)))
    for node in (COUNTS, Sort(FIELDS, (TIME,), SOURCE, "ts")):
        checked(node, Quality(coverage=0.9))


def test_a_target_may_be_on_a_column_that_nobody_reads() -> None:
    """Of two times only one is windowed; a target is for both."""
    both = replace(SOURCE, times=(TIME, replace(TIME, name="v")), policies=(BoundedDelay(1),) * 2)
    checked(counted(both, ("k",), TimeWindow(10, 10, 0, "ts"), "v"), Quality(error=0.1))


def test_a_recall_target_on_an_aggregate() -> None:
    error = refused(COUNTS, Quality(recall=0.9, over=60))
    assert "no join reads it" in str(error) and "error=" in (error.hint or "")


def test_strictness_without_an_order_names_the_stream() -> None:
    with pytest.raises(AnalysisError, match="stream 's' needs the order of arrival"):
        checked(COUNTS, Quality(error=0.1, strict=True))


@pytest.mark.parametrize("bad", ["5 seconds", 0.01, Quality, None])
def test_what_is_no_policy_is_refused_with_examples(bad: Any) -> None:
    with pytest.raises(AnalysisError) as caught:
        with_policy(stream(COUNTS), bad)
    assert "withQuality" in str(caught.value)
    for way in ("sw.Quality(", "sw.BoundedDelay("):
        assert way in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("given", "way"),
    [
        ({"error": 5}, "5 % is error=0.05"),
        ({"coverage": 99}, "99 % is coverage=0.99"),
        ({"error": 0.1, "confidence": 95}, "95 % is confidence=0.95"),
        ({"error": "1%"}, "error=0.01"),
        ({"error": -1}, "error=0.01"),
        ({"coverage": True}, "coverage=0.95"),
        ({}, "sw.Quality(error=0.01)"),
        ({"recall": 0.9}, 'over="60 seconds"'),
    ],
)
def test_targets_out_of_range_get_one_that_is_in_it(given: dict[str, Any], way: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        Quality(**given)
    assert way in (caught.value.hint or "")
