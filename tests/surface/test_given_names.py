"""Names that users give: which are refused, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import slackwater as sw
from slackwater.errors import AnalysisError

pytestmark = pytest.mark.spark

QUERIES: dict[str, Callable[[Any], Any]] = {
    "select": lambda s: s.select("ts", "v AS __sw_v"),
    "withColumn": lambda s: s.withColumn("__SW", "v + 1"),
    "withColumnRenamed": lambda s: s.withColumnRenamed("v", "__swift"),
    "alias": lambda s: s.alias("__Sw"),
    "group": lambda s: s.groupBy("v AS __sw_k0", sw.window("1 minute")).agg("count(*) AS n"),
    "aggregate": lambda s: s.groupBy(sw.window("1 minute")).agg("count(*) AS __sw_n"),
    "window": lambda s: s.groupBy(sw.window("1 minute").alias("__sw_w")).agg("count(*) AS n"),
}


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return (
        spark.readStream.format("rate")
        .load()
        .selectExpr("timestamp AS ts", "value AS v", "value % 3 AS k")
    )


@pytest.fixture(scope="module")
def stream(frame: Any) -> Any:
    return sw.stream(frame, time="ts", name="s")


@pytest.mark.parametrize("how", QUERIES)
def test_a_name_that_begins_like_ours_is_refused_where_it_arises(stream: Any, how: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        QUERIES[how](stream)
    assert caught.value.condition == "RESERVED_NAME" and caught.value.hint


def test_so_are_columns_and_names_of_streams(frame: Any) -> None:
    with pytest.raises(AnalysisError) as caught:
        sw.stream(frame.withColumnRenamed("v", "__Sw_v"), time="ts")
    assert caught.value.condition == "RESERVED_NAME"
    with pytest.raises(AnalysisError) as caught:
        sw.stream(frame, time="ts", name="__sw")
    assert caught.value.condition == "RESERVED_NAME"


def test_names_that_were_ours_are_free(stream: Any) -> None:
    free = stream.select("ts AS _time", "v AS _row", "k AS _k0").sort()
    made = free.groupBy("_k0 AS _a0", sw.window("1 minute").alias("q"))
    found = made.agg("sum(_row) AS _a1", "_k0 + 1 AS _pane")
    assert found.columns == ["_a0", "wid", "q", "_a1", "_pane"]


TWICE: dict[str, Callable[[Any], Any]] = {
    "two aggregates": lambda g: g.agg("sum(v) AS x", "count(*) AS X"),
    "a group": lambda g: g.agg("sum(v) AS K"),
    "the window": lambda g: g.agg("sum(v) AS Window"),
    "the id": lambda g: g.agg("sum(v) AS WID"),
}


@pytest.mark.parametrize("how", TWICE)
def test_a_name_that_comes_twice_is_refused_where_it_arises(stream: Any, how: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        TWICE[how](stream.groupBy("k", sw.window("1 minute")))
    assert caught.value.condition == "DUPLICATE_COLUMN" and "alias" in caught.value.hint


def test_so_is_one_in_other_places(frame: Any, stream: Any) -> None:
    groups = stream.groupBy("k", sw.window("1 minute").alias("wid"))
    for make in (
        lambda: groups.agg("count(*) AS n"),
        lambda: sw.stream(frame.select("ts", "v", "v"), time="ts"),
        lambda: stream.writeStream.partitionBy("k", "K"),
        lambda: sw.stream(frame.withColumnRenamed("v", "_LATE_BY"), time="ts").late,
    ):
        with pytest.raises(AnalysisError) as caught:
            make()
        assert caught.value.condition == "DUPLICATE_COLUMN"


def test_a_column_may_be_named_twice_where_that_means_the_same(stream: Any) -> None:
    assert stream.dropDuplicates(["ts", "k", "TS"])._node.subset == ("ts", "k")
