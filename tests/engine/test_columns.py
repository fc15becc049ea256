"""Only the columns that somebody reads come along with the rows of an input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slackwater.engine.plan.columns import carried, narrowed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.plan.steps import ProjectStep
from slackwater.model.aggregate import Primitive
from slackwater.model.join import Band
from slackwater.model.node import (
    LATE_FIELDS,
    Dedup,
    Filter,
    Join,
    Late,
    Node,
    Project,
    Sort,
    Source,
)
from slackwater.model.policy import BoundedDelay, MaxDelay, Ordered, Punctuated
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import RowWindow, TimeWindow
from tests.engine.test_low_table import counted

FIELDS = tuple(
    Field(n, t)
    for n, t in [
        ("k", "bigint"), ("v", "bigint"), ("ts", "bigint"), ("at", "bigint"), ("part", "string"),
        ("punct", "bigint"), ("a.b", "bigint"), ("x`y", "bigint"), ("V1", "bigint"), ("v10", "bigint"),
        ("s", "struct<k:bigint>"),
    ]
)  # fmt: skip
SOURCE = Source(FIELDS, (TimeColumn("ts", "long", 1_000_000),), "s", 0, (Ordered(),))
WINDOW = TimeWindow(10, 10, 0, "ts")
LATE = Late((*FIELDS, *LATE_FIELDS), SOURCE.times, SOURCE)
EVERY = {f.name for f in FIELDS}


def read(*nodes: Node, index: int = 0) -> set[str]:
    outputs = [Output(f"o{i}", node) for i, node in enumerate(nodes)]
    plan = narrowed(build(outputs, ansi=True, zone="UTC"))
    return {f.name for f in carried(plan, index, FIELDS)}


def sums(source: Node = SOURCE, value: str = "v") -> Any:
    return counted(source, ("k",), WINDOW, value)


def selected(child: Node, *columns: Named) -> Project:
    fields = tuple(Field(c.name, c.expr.type) for c in columns)
    return Project(fields, child.times, child, columns, (("ts", "ts", 0),))


def text(sql: str, type: str = "bigint") -> Expr:
    return Expr(sql, type, sql.replace("`", '"'))


PASSED = tuple(Named(f.name, column(f.name, f.type)) for f in FIELDS)


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ([sums()], {"k", "v", "ts"}),
        ([sums(value="V1")], {"k", "V1", "ts"}),
        ([sums(value="v10")], {"k", "v10", "ts"}),
        ([sums(value="a.b")], {"k", "a.b", "ts"}),
        ([sums(value="x`y")], {"k", "x`y", "ts"}),
        ([sums(replace(SOURCE, order=("at",), policies=(MaxDelay(),)))], {"k", "v", "ts", "at"}),
        ([sums(replace(SOURCE, partition="part"))], {"k", "v", "ts", "part"}),
        ([sums(replace(SOURCE, policies=(Punctuated("PUNCT"),)))], {"k", "v", "ts", "punct"}),
        ([sums(replace(SOURCE, late="raise", policies=(BoundedDelay(1),)))], EVERY),
        ([sums(), LATE], EVERY),
        ([sums(), selected(LATE, Named("ts", column("ts", "bigint")), Named("w", text("`at`")))], {"k", "v", "ts", "at"}),
        ([SOURCE], EVERY),
        ([Sort(FIELDS, SOURCE.times, SOURCE, "ts")], EVERY),
        ([Dedup(FIELDS, SOURCE.times, SOURCE, ("k",), 5, "ts")], EVERY),
        ([sums(Filter(FIELDS, SOURCE.times, SOURCE, text("(`at` > 3)", "boolean")))], {"k", "v", "ts", "at"}),
        ([sums(Filter(FIELDS, SOURCE.times, SOURCE, text("(AT > 3)", "boolean")))], {"k", "v", "ts", "at"}),
        ([sums(Filter(FIELDS, SOURCE.times, SOURCE, text("(`s`.`k` > 3)", "boolean")))], {"k", "v", "ts", "s"}),
        # A column that a projection passes on is read where somebody above it does.
        ([sums(selected(SOURCE, *PASSED, Named("w", text("`at`"))))], {"k", "v", "ts"}),
        ([sums(selected(SOURCE, *PASSED, Named("w", text("`at`"))), "w")], {"k", "ts", "at"}),
        # An expression may fail, and is evaluated in any case.
        ([sums(selected(SOURCE, *PASSED, Named("w", text("(`at` + `v10`)"))))], {"k", "v", "ts", "at", "v10"}),
        ([sums(selected(selected(SOURCE, *PASSED), *PASSED))], {"k", "v", "ts"}),
        ([sums(), sums(value="at")], {"k", "v", "ts", "at"}),
        ([counted(SOURCE, (), RowWindow(3, 3, "ts", (), ("at",)), "v")], {"v", "ts", "at"}),
    ],
)  # fmt: skip
def test_the_columns_that_a_query_reads(nodes: list[Node], wanted: set[str]) -> None:
    assert read(*nodes) == wanted


def test_patterns_may_speak_of_any_column() -> None:
    patterns = Field("punct", "map<string,struct<op:string,value:string>>")
    fields = tuple(patterns if f.name == "punct" else f for f in FIELDS)
    source = replace(SOURCE, schema=fields, policies=(Punctuated("punct"),))
    plan = build([Output("o", sums(source))], ansi=True, zone="UTC")
    assert {f.name for f in carried(plan, 0, fields)} == EVERY


def test_each_input_has_its_own() -> None:
    other = replace(SOURCE, name="t", input=1)
    assert read(sums(), sums(other, "at")) == {"k", "v", "ts"}
    assert read(sums(), sums(other, "at"), index=1) == {"k", "at", "ts"}


def test_two_streams_of_one_input_read_what_either_does() -> None:
    assert read(sums(), sums(replace(SOURCE, name="t"), "at")) == {"k", "v", "ts", "at"}


def test_a_join_takes_what_its_results_are_made_of() -> None:
    other = replace(SOURCE, name="t", input=1)
    keys = tuple((Named("k", column("k", "bigint")),) for _ in range(2))
    outputs = (Named("v", column("_0.v", "bigint")), Named("at", column("_1.at", "bigint")))
    shown = tuple(Field(o.name, "bigint") for o in outputs)
    join = Join(shown, (), (SOURCE, other), keys, ("ts", "ts"), Band(5, 5), outputs=outputs)
    assert read(join) == {"k", "v", "ts"}
    assert read(join, index=1) == {"k", "at", "ts"}


def test_a_narrowed_plan_keeps_expressions_and_what_is_read_and_is_narrow() -> None:
    node = sums(selected(SOURCE, *PASSED, Named("w", text("(`at` + 1)"))))
    plan = narrowed(build([Output("o", node)], ansi=True, zone="UTC"))
    (step,) = next(plan.paths_from("s")).steps
    assert isinstance(step, ProjectStep)
    assert [c.name for c in step.columns] == ["k", "v", "ts", "w"]
    assert narrowed(plan) == plan


def test_arguments_of_every_aggregate_are_read() -> None:
    pair = Primitive("_b0", "max_by", (column("v", "bigint"), column("at", "bigint")), "bigint")
    assert read(replace(sums(), primitives=(pair,))) == {"k", "v", "ts", "at"}
