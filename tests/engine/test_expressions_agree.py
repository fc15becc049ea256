"""The settings of a session are compared for every expression of a query, whatever operator holds it."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import pytest

from slackwater.engine.analysis.session_settings import agreed
from slackwater.errors import AnalysisError
from slackwater.model.aggregate import Primitive
from slackwater.model.expressions import EXPRESSIONS, expressions
from slackwater.model.join import Band
from slackwater.model.meaning import SETTINGS, Meaning
from slackwater.model.node import (
    Aggregate,
    Dedup,
    Filter,
    Held,
    Join,
    Late,
    Lookup,
    Node,
    Outpaced,
    Pace,
    Parted,
    Project,
    Sort,
    Source,
    Union,
    Waiting,
)
from slackwater.model.relation import Relation
from slackwater.model.schema import Expr, Field, Named
from slackwater.model.window import TimeWindow

NOW = Meaning.of(dict.fromkeys(SETTINGS, "now"))
THEN = Meaning.of(dict.fromkeys(SETTINGS, "then"))
FIELDS = (Field("k", "bigint"),)
SOURCE = Source(FIELDS, (), "s")


def expr(sql: str) -> Expr:
    return Expr(sql, "bigint", meaning=NOW)


def named(sql: str) -> Named:
    return Named(sql, expr(sql))


RELATION = Relation("d", "", FIELDS, ("k",), FIELDS, (expr("f"), (named("c1"), named("c2"))))
COUNT = Primitive("p", "sum", (expr("p1"), expr("p2")), "bigint")
NODES: list[Node] = [
    SOURCE,
    Late(FIELDS, (), SOURCE),
    Filter(FIELDS, (), SOURCE, expr("c")),
    Project(FIELDS, (), SOURCE, (named("x"), named("y"))),
    Union(FIELDS, (), (SOURCE, SOURCE)),
    Dedup(FIELDS, (), SOURCE, ("k",), None, "k"),
    Sort(FIELDS, (), SOURCE, "k"),
    Pace(FIELDS, (), SOURCE, "k", 1),
    Outpaced(FIELDS, (), SOURCE, "k", 1),
    Aggregate(
        FIELDS, (), SOURCE, (named("k1"), named("k2")), TimeWindow(5, 5, 0, "k"), (COUNT,),
        (named("o"),),
    ),
    Join(
        FIELDS, (), (SOURCE, SOURCE), ((named("l"),), (named("r"),)), ("k", "k"), Band(0, 0),
        where=expr("w"), outputs=(named("o"),),
    ),
    Lookup(
        FIELDS, (), SOURCE, RELATION, (named("l"),), "left_semi", expr("w"), (named("o"),), (named("p"),),
    ),
    Held(FIELDS, (), SOURCE, RELATION, (named("l"),), "inner", expr("w"), (named("o"),)),
    Parted(FIELDS, (), SOURCE, RELATION, (named("l"),), "inner", None, (named("o"),), waits=True),
    Waiting(FIELDS, (), SOURCE, RELATION, (named("l"),), "inner", expr("w"), (named("o"),)),
]  # fmt: skip


def held(value: Any) -> list[Expr]:
    """All expressions in the fields of a node, children aside: the definition, by brute force."""
    if isinstance(value, Expr):
        return [value]
    if isinstance(value, tuple):
        return [e for v in value for e in held(v)]
    if is_dataclass(value) and not isinstance(value, Node):
        return [e for f in fields(value) for e in held(getattr(value, f.name))]
    return []


@pytest.mark.parametrize("node", NODES, ids=lambda n: type(n).__name__)
def test_no_expression_of_an_operator_is_left_out(node: Node) -> None:
    everything = [e.sql for f in fields(node) for e in held(getattr(node, f.name))]
    assert sorted(e.sql for e in expressions(node)) == sorted(everything)


def test_all_types_that_a_user_can_ask_for_are_here() -> None:
    assert {type(n) for n in NODES} == {
        t for t in EXPRESSIONS if t.__module__.startswith("slackwater.")
    }


def test_an_expression_under_other_settings_is_refused() -> None:
    assert agreed(NODES, NOW) == NOW
    filtered = replace(NODES[2], condition=Expr("c", "boolean", meaning=THEN))  # type: ignore[call-arg]
    with pytest.raises(AnalysisError, match="SETTINGS_DIFFER"):
        agreed([filtered], NOW)


@dataclass(frozen=True)
class Guarded(Filter):
    """A filter that no registry knows."""


def test_an_unknown_operator_is_not_taken_to_hold_none() -> None:
    with pytest.raises(AnalysisError, match=r"Guarded has no entry in src/.*model/expressions.py"):
        agreed([Guarded(FIELDS, (), SOURCE, expr("c"))], NOW)
