"""What options of a join become, without a session: a node that the engine reads."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw
from slackwater.engine.operators.bounded_join import policy_of
from slackwater.engine.operators.join_kind import is_bounded
from slackwater.errors import AnalysisError
from slackwater.model.node import Join, Node, Sort, Source
from slackwater.model.policy import Ordered
from slackwater.model.render import render
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from tests.surface.test_grouped import stream

BAND = sw.band(before=5, after=5)


def source(name: str) -> Any:
    fields = (Field("k", "string"), Field(f"{name}ts", "bigint"), Field(f"{name}v", "bigint"))
    time = TimeColumn(f"{name}ts", "long", None)
    return stream(Source(fields, (time,), name, "ab".index(name), (Ordered(),)))


def joined(**options: Any) -> Node:
    found: Node = source("a").join(source("b"), "k", BAND, **options)._node
    return found


def join_of(node: Node) -> Join:
    assert isinstance(node, Join)
    return node


@pytest.mark.parametrize(("given", "wanted"), [("2m", 2 << 20), ("1.5 kb", 1536), (700, 700)])
def test_memory_makes_a_bounded_join(given: Any, wanted: int) -> None:
    node = join_of(joined(memory=given))
    assert node.memory == wanted and is_bounded(node)
    assert policy_of(node).memory == wanted
    assert not is_bounded(join_of(joined()))


@pytest.mark.parametrize(
    ("given", "wanted"), [("10 seconds", 10_000_000), ("250 milliseconds", 250_000), (None, None)]
)
def test_a_deadline_reaches_the_policy_of_the_passes(given: Any, wanted: Any) -> None:
    policy = policy_of(join_of(joined(memory="1m", deadline=given)))
    assert policy.deadline == wanted and policy.backlog == 1.0


def test_a_deadline_of_nothing_probes_in_every_batch() -> None:
    assert policy_of(join_of(joined(memory="1m", deadline="0 seconds"))).backlog == 0.0


def test_a_deadline_without_memory_is_refused() -> None:
    with pytest.raises(AnalysisError, match="deadline") as caught:
        joined(deadline="5 seconds")
    assert "memory=" in (caught.value.hint or "")


@pytest.mark.spec("XJ-F24")
def test_a_column_that_marks_delayed_pairs_is_part_of_the_query() -> None:
    marked, plain = (join_of(joined(memory="1m", markDelayed=m)) for m in (True, False))
    assert marked.schema[-1] == Field("_delayed", "boolean") and marked.marks_delayed
    assert marked.schema[:-1] == plain.schema and not plain.marks_delayed
    assert render(marked) != render(plain) == render(join_of(joined(memory="2m")))
    assert "delayed" not in render(plain)


@pytest.mark.parametrize(
    ("options", "hint"),
    [({"markDelayed": True}, "memory="), ({"markDelayed": "yes", "memory": "1m"}, "True or False")],
)
def test_a_mark_without_memory_is_refused(options: Any, hint: str) -> None:
    with pytest.raises(AnalysisError, match="markDelayed") as caught:
        joined(**options)
    assert hint in (caught.value.hint or "")


def test_a_column_of_the_same_name_is_refused() -> None:
    fields = (Field("k", "string"), Field("ats", "bigint"), Field("_Delayed", "bigint"))
    other = stream(Source(fields, (TimeColumn("ats", "long", None),), "a", 0, (Ordered(),)))
    with pytest.raises(AnalysisError, match="_delayed") as caught:
        other.join(source("b"), "k", BAND, memory="1m", markDelayed=True)
    assert "withColumnRenamed" in (caught.value.hint or "")


@pytest.mark.parametrize("memory", [None, "1m"])
def test_ordered_results_leave_through_a_sort_on_the_time_of_the_result(memory: Any) -> None:
    node = joined(emit="ordered", memory=memory)
    assert isinstance(node, Sort) and isinstance(node.child, Join)
    assert node.on == node.child.times[0].name
    assert [t.name for t in node.times] == [node.on]
    assert isinstance(joined(emit="immediate", memory=memory), Join)
    several = sw.joinAll([source("a"), source("b")], "k", [5, 5], emit="ordered")
    assert isinstance(several._node, Sort)
