"""Behind which operators rows still have the order in which they came, and behind which nothing is known of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from slackwater.errors import AnalysisError
from slackwater.model.arrival import PASSING, at_source, with_order
from slackwater.model.node import Dedup, Filter, Node, Project, Sort, Source, Union
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn

TS = TimeColumn("ts", "long", None)
FIELDS = (Field("ts", "bigint"), Field("at", "bigint"))
SOURCE = Source(FIELDS, (TS,), "s", order=("at",))
TIMES = (Named("ts", column("ts", "bigint")),)


def filtered(child: Node) -> Node:
    return Filter(child.schema, (TS,), child, Expr("ts > 1", "boolean", '"ts" > 1'))


def projected(child: Node) -> Node:
    return Project(FIELDS[:1], (TS,), child, TIMES, (("ts", "ts", 0),))


def deduped(child: Node) -> Node:
    return Dedup(child.schema, (TS,), child, ("ts",), None, "ts")


def sorted_(child: Node) -> Node:
    return Sort(child.schema, (TS,), child, "ts")


def united(child: Node) -> Node:
    return Union(child.schema, (TS,), (child, child))


@pytest.mark.parametrize("step", [filtered, projected, deduped])
def test_an_operator_that_lets_rows_pass_carries_their_order(step: Callable[[Node], Node]) -> None:
    node, order, passing = with_order(projected(step(SOURCE)))
    assert len(order) == 1 and node.field(order[0]) == Field(order[0], "bigint")
    assert passing is None
    assert [type(n) for n in (node, *node.children)] == [Project, type(step(SOURCE))]


@pytest.mark.parametrize("step", [sorted_, united])
def test_other_operators_have_none(step: Callable[[Node], Node]) -> None:
    assert with_order(step(SOURCE)) == (step(SOURCE), (), None)


def test_rows_are_counted_below_filters_but_not_below_what_remembers_rows() -> None:
    counted = at_source(filtered(projected(SOURCE)))
    assert counted.passing is not None and counted.node.field(counted.passing) is not None
    with pytest.raises(AnalysisError, match="NOT_AT_SOURCE"):
        at_source(deduped(SOURCE))


@dataclass(frozen=True)
class Shuffled(Filter):
    """An operator that no registry knows: it may well change the order of rows."""


@pytest.mark.parametrize("ask", [with_order, at_source])
def test_an_unknown_operator_is_named(ask: Callable[[Node], object]) -> None:
    node = filtered(Shuffled(FIELDS, (TS,), SOURCE))
    with pytest.raises(AnalysisError, match=r"Shuffled has no entry in src/.*model/arrival.py"):
        ask(node)
    assert Shuffled not in PASSING
