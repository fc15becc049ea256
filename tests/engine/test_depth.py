"""Deep expressions and long chains: as deep as Spark takes them, and what is deeper is refused by name."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.engine.analysis.flat import DEEP, flattened
from slackwater.errors import AnalysisError
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.translate import NotTranslatable, translate
from slackwater.kernels.translate.generator import DEEPEST
from slackwater.model.depth import nesting
from slackwater.model.node import Filter, Node, Source, Union
from slackwater.model.render import render
from slackwater.model.rewrite import Rewrite
from slackwater.model.schema import Expr, Field
from slackwater.model.walk import CHAIN, check_chain, children_first, height
from slackwater.testing import run
from tests.surface.helpers import run as run_on_spark
from tests.surface.helpers import small_tables
from tests.surface.local import run_locally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "k string, ts bigint, v bigint, b boolean"
ROWS = [("a", 1, 1, True), ("b", 2, 3, False), ("a", 3, None, None)]


def stream(df: Any) -> Any:
    return sw.stream(df, time="ts", name="s", progress=sw.BoundedDelay(2))


def added(terms: int) -> Any:
    from pyspark.sql import functions as F

    return reduce(lambda left, _: left + F.col("v"), range(terms - 1), F.col("v"))


def every(terms: int) -> Any:
    from pyspark.sql import functions as F

    return reduce(lambda left, i: left & (F.col("v") != i), range(10, 10 + terms), F.col("v") > 0)


# Deeper than Python's calls nest by default, and less deep than what plain Spark takes over a table.
TEXTS = [
    " + ".join(["v"] * 390),
    "(v + " * 90 + "v" + ")" * 90,
    "(" * 400 + "v" + ")" * 400,
    "NOT " * 341 + "b",
    "abs(" * 300 + "v" + ")" * 300,
]


def cells(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=str)


@pytest.mark.spark
def test_deep_expressions_are_what_spark_makes_of_them(spark: SparkSession):
    def chosen(of: Any) -> Any:
        from pyspark.sql import functions as F

        texts = [F.expr(text).alias(f"x{i}") for i, text in enumerate(TEXTS)]
        return of.select("ts", added(350).alias("sum"), every(330).alias("all"), *texts)

    with small_tables(spark):
        expected = cells(chosen(spark.createDataFrame(ROWS, SCHEMA)).collect())
    found = run(lambda df: chosen(stream(df)), [ROWS], SCHEMA, spark=spark, local=True)
    assert cells(found) == expected


@pytest.mark.spark
def test_conditions_in_conditions_run_where_spark_itself_would_not_end(spark: SparkSession):
    """Spark looks for equal parts in each branch: of a hundred in each other that takes two to the power of a hundred steps."""
    from pyspark.sql import functions as F

    deep = reduce(lambda inner, _: F.coalesce(inner, F.col("v")), range(100), F.col("v"))
    cases = "CASE WHEN b THEN v ELSE " * 100 + "v" + " END" * 100

    def chosen(df: DataFrame) -> Any:
        return stream(df).select("ts", deep.alias("x"), F.expr(cases).alias("y"))

    found = run(chosen, [ROWS], SCHEMA, spark=spark, local=True)
    assert cells(found) == [(1, 1, 1), (2, 3, 3), (3, None, None)]


@pytest.mark.spark
def test_what_is_too_deep_for_spark_is_refused_by_name(spark: SparkSession):
    from pyspark.sql import functions as F

    deep = reduce(lambda inner, _: F.coalesce(inner, F.col("v")), range(1_600), F.col("v"))
    s = stream(sw.replay(spark, [ROWS], SCHEMA))
    for expression in (deep.alias("x"), "(" * 3_000 + "v" + ")" * 3_000 + " AS x"):
        with pytest.raises(AnalysisError, match="nested more deeply than Spark takes") as refused:
            s.select("ts", expression)
        assert refused.value.condition == "TOO_DEEP"
        assert "withColumn" in refused.value.hint and "-Xss16m" in refused.value.hint
        assert len(str(refused.value)) < 500
    # Spark prints a bracket for each, and reads fewer of them.
    assert s.where("NOT " * 341 + "b")._node.condition.sql == "(" + "NOT " * 341 + "`b`)"
    with pytest.raises(AnalysisError, match="operators stand above each other"):
        chained(s, CHAIN)


def chained(s: Any, operators: int) -> Any:
    """A chain of filters, analysed once."""
    condition = s.where("v <> 2")._node.condition
    node = s._node
    for _ in range(operators):
        node = Filter(node.schema, node.times, node, condition)
    return s._with(node)


@pytest.mark.spark
@pytest.mark.parametrize("local", [True, False], ids=["in this process", "on Spark"])
def test_a_long_chain_runs_and_starts_again(spark: SparkSession, tmp_path: Path, local: bool):
    kept = sw.stream(
        sw.replay(spark, [ROWS[:1], ROWS[1:]], SCHEMA), time="ts", name="s", progress=sw.Ordered()
    )
    counts = chained(kept, 400).groupBy(sw.window(10)).agg("count(*) AS n", "sum(v) AS v")
    ways = run_locally if local else run_on_spark
    ways(counts, tmp_path, end=False)
    again = ways(counts, tmp_path)
    assert [(r["n"], r["v"]) for r in again.rows()] == [(2, 4)]


SOURCE = Source((Field("v", "bigint"),), (), "s")


def chain(operators: int) -> Node:
    node: Node = SOURCE
    for _ in range(operators):
        node = Filter(SOURCE.schema, (), node, Expr("v > 1", "boolean"))
    return node


def test_more_operators_than_can_be_run_are_refused():
    check_chain(chain(CHAIN - 1))
    with pytest.raises(
        AnalysisError, match="1,001 operators stand above each other, more than 1,000"
    ) as refused:
        check_chain(chain(CHAIN))
    assert (refused.value.condition, refused.value.hint[:22]) == (
        "TOO_DEEP",
        "put several conditions",
    )


def test_walks_need_no_call_per_operator():
    top = chain(20_000)
    both = Union(SOURCE.schema, (), (top, SOURCE))
    assert height(both) == 20_002
    other = replace(SOURCE, name="other")
    pair = Union(SOURCE.schema, (), (SOURCE, other))
    assert children_first([pair, other]) == [SOURCE, other, pair]
    order = children_first([both, top])
    assert (order[0], order[-2:], len(order)) == (SOURCE, [top, both], 20_002)
    changed = Rewrite(lambda source: replace(source, name="other"))(both)
    sources = [node for node in children_first([changed]) if isinstance(node, Source)]
    assert [source.name for source in sources] == ["other"]
    lines = render(chain(3_000))
    assert (lines[0], lines[-1].strip()) == ("where v > 1", "stream s(v bigint) time")


@pytest.mark.parametrize(
    ("deep", "flat"),
    [
        ("(" * 400 + "`a`" + " + `b`)" * 400, "(`a`" + " + `b`" * 400 + ")"),
        ("(" * 400 + "`(`" + " - ')')" * 400, "(`(`" + " - ')'" * 400 + ")"),
        ("(" * 400 + "a" + " + b) - c)" * 200 + "", "(a" + " + b - c" * 200 + ")"),
        ("(NOT " * 400 + "(a = b)" + ")" * 400, "(" + "NOT " * 400 + "(a = b))"),
        ("(- " * 400 + "`a`" + ")" * 400, "(" + "- " * 400 + "`a`)"),
        ("(a AND " * 400 + "b" + ")" * 400, "(" + "a AND " * 400 + "b)"),
        ("(a + " * 400 + "b" + ")" * 400, None),
        ("(" * 400 + "a" + " / b)" * 400, None),
        ("((a OR b) AND c)" + "(" * 400 + ")" * 400, None),
        ("f(" * 400 + "(a + b) + c" + ")" * 400, None),
        ("(" * 300 + "a" + " + b)" * 300, None),
    ],
)
def test_brackets_go_where_they_change_nothing_in_deep_texts_alone(deep: str, flat: str | None):
    assert nesting(deep) > DEEP or flat is None
    assert flattened(deep) == (flat or deep)


def test_the_column_engine_takes_a_statement_for_each_operator_of_a_chain():
    nested = "SELECT v FROM (" * CHAIN + "SELECT v FROM t" + ") WHERE v <> 2" * CHAIN
    answer = sql_to_arrow(connect("200MB"), nested, {"t": pa.table({"v": [1, 2]})})
    assert answer.to_pydict() == {"v": [1]}


def test_the_column_engine_is_given_nothing_deeper_than_it_takes():
    def text(terms: int) -> str:
        return " + ".join(["`v`"] * terms)

    assert nesting(translate(text(DEEPEST), {"v": "bigint"}, ansi=True, zone="UTC").duck) < DEEPEST
    for deep in (text(DEEPEST + 10), "(" * 3_000 + "`v`" + ")" * 3_000):
        with pytest.raises(NotTranslatable, match="nested"):
            translate(deep, {"v": "bigint"}, ansi=True, zone="UTC")
