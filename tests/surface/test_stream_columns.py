"""``a.k`` and ``a["k"]``: columns that belong to their stream, and where they may be used."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import slackwater as sw
from tests.surface.helpers import refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

A = "k string, ts timestamp, v bigint, s struct<x:int,y:string>, limit int, xs array<bigint>"
B = "k string, ts timestamp, w double"
BAND = sw.band(before="1 second", after="1 second")


@pytest.fixture(scope="module")
def a(spark: SparkSession) -> Any:
    return sw.stream(sw.replay(spark, [[]], A), time="ts", name="a")


@pytest.fixture(scope="module")
def b(spark: SparkSession) -> Any:
    return sw.stream(sw.replay(spark, [[]], B), time="ts", name="b")


def same(one: Any, other: Any) -> None:
    assert one._node == other._node


def test_they_are_the_columns_of_their_stream(a: Any) -> None:
    same(a.where(a.v > 1), a.where("v > 1"))
    same(a.where((a["v"] > 1) & (F.col("k") == "x")), a.where("v > 1 AND k = 'x'"))
    same(a.select(a.k, a["ts"], a.v + 1), a.select("k", "ts", "v + 1"))
    same(a.select([a[0], a[1]], a[-4]), a.select("k", "ts", "v"))
    same(a[["k", "ts"]], a.select("k", "ts"))
    same(a[a.v > 1], a.where("v > 1"))
    same(
        a.select(a.ts, a.s.x, a["s.y"], a.s["x"].alias("z")),
        a.select("ts", "s.x AS `s.x`", "s.y", "s.x AS z"),
    )
    same(a.withColumn("u", F.upper(a.K)), a.withColumn("u", "upper(k)"))
    same(a.drop(a.k, "v"), a.drop("k", "v"))
    same(
        a.select("ts", F.transform(a.xs, lambda x: x + a.v).alias("m")),
        a.select("ts", "transform(xs, x -> x + v) AS m"),
    )
    window = sw.window("1 minute")
    same(
        a.groupBy(a.k, F.upper(a.k).alias("u"), window).agg(F.sum(a.v), F.count_distinct(a.v, a.k)),
        a.groupBy("k", F.upper("k").alias("u"), window).agg(F.sum("v"), F.count_distinct("v", "k")),
    )


def test_names_are_read_as_spark_reads_them(spark: SparkSession) -> None:
    schema = "ts timestamp, x struct<y:int, `p.q`:int>, `x.y` int, `m.n` int, `b``q` int, m int"
    s: Any = sw.stream(sw.replay(spark, [[]], schema), time="ts", name="s")
    frame = spark.createDataFrame([], schema)
    for name in ("x.y", "`x.y`", "`x`.`y`", "X.Y", "x.`p.q`", "`b``q`", "`m.n`"):
        spelled = frame.select(frame[name])._jdf.queryExecution().analyzed().projectList()
        same(s.select("ts", s[name].alias("z")), s.select("ts", F.col(name).alias("z")))
        assert spelled.size() == 1, "Spark knows the name"
    # nothing called m has fields, so that the dot can only belong to the name
    same(s.select("ts", s["m.n"].alias("z")), s.select("ts", "`m.n` AS z"))
    refused(lambda: s["`x"], "COLUMN_NOT_FOUND", "'`x'")


def test_they_stay_where_they_are_unchanged(a: Any, b: Any) -> None:
    hot = a.where(a.v > 1)
    same(hot.select(a.k, a.ts), hot.select("k", "ts"))
    few = hot.withColumn("x", a.v + 1).select("k", "ts", "x", "v").sort()
    same(few.where(a.v > 2), few.where("v > 2"))
    same(few.dropDuplicates(["k", "ts"]).where(hot.k == "x").select(few.x, a.ts),
         few.dropDuplicates(["k", "ts"]).where("k = 'x'").select("x", "ts"))  # fmt: skip
    means = a.groupBy(a.k, sw.window("1 minute")).agg("avg(v) AS mean", "max(soundex(k)) AS code")
    same(means.select(a.k, means.window, "mean"), means.select("k", "window", "mean"))
    joined = a.join(b, [("k", "k")], BAND)
    same(joined.select(a.k, b.k, a.ts, b.w), joined.select("a_k", "b_k", "a_ts", "w"))
    shared = a.join(b, "k", BAND)
    same(shared.select(a.k, a.ts, b.ts), shared.select("k", "a_ts", "b_ts"))
    left = a.join(b, "k", BAND, "left")
    same(left.select(a.k, a.ts, b.ts), left.select("k", "a_ts", "b_ts"))
    other = a.alias("c")
    itself = a.join(other, [("k", "k")], BAND)
    same(itself.select(a.k, other.k, a.ts, other.ts), itself.select("a_k", "c_k", "a_ts", "c_ts"))
    # An alias alone does not make a column another one.
    same(other.where(a.v > 1), other.where("v > 1"))
    both = a.select("k", "ts").union(b.select("k", "ts"))
    same(both.where(a.k == "x"), both.where("k = 'x'"))
    quality = a.withQuality(sw.BoundedDelay("5 seconds"))
    same(quality.where(a.v > 1), quality.where("v > 1"))


def test_texts_may_name_the_stream_in_front_of_the_column(a: Any, b: Any) -> None:
    """As in Spark, also behind a join; a column of that name comes first, and in a lambda its variable."""
    j = a.join(b, on="k", within=BAND)
    same(j.select("a.ts", "B.ts AS t", F.col("a.v")), j.select("a_ts", "b_ts AS t", "v"))
    same(j.where("a.ts < b.ts AND a.k = 'x'"), j.where("a_ts < b_ts AND k = 'x'"))
    same(j.groupBy("a.k", sw.window("1 minute", on="a_ts")).agg("sum(b.w) AS s"),
         j.groupBy("k", sw.window("1 minute", on="a_ts")).agg("sum(w) AS s"))  # fmt: skip
    same(j.select("a_ts", "transform(a.xs, a -> a + 1) AS t"), j.select("a_ts", "transform(xs, a -> a + 1) AS t"))  # fmt: skip
    same(a.where("a.v > 1").select("a.ts", "a.s.x AS x"), a.where("v > 1").select("ts", "s.x AS x"))
    same(a.alias("s").select("s.x AS x", "ts"), a.select("s.x AS x", "ts"))
    refused(lambda: j.select("a.nope"), "FOREIGN_COLUMN", "nope")
    refused(lambda: a.alias("z").select("a.k"), "COLUMN_NOT_FOUND", "a.k")


@pytest.mark.parametrize(
    ("call", "condition", "names"),
    [
        (lambda a, b: a.where(b.w > 1), "FOREIGN_COLUMN", ["'w' of stream 'b'", "k, ts, v"]),
        (lambda a, b: a.select("ts", b.k), "FOREIGN_COLUMN", ["'k' of stream 'b'"]),
        (lambda a, b: a.where(a.alias("c").v > 1), "FOREIGN_COLUMN", ["'v' of stream 'c'"]),
        (lambda a, b: a.drop("v").where(a.v > 1), "FOREIGN_COLUMN", ["'v' of stream 'a'"]),
        (lambda a, b: a.withColumn("v", a.v + 1).where(a.v > 1), "FOREIGN_COLUMN", ["'v' of stream 'a'"]),
        (lambda a, b: a.withColumnRenamed("v", "u").where(a.v > 1), "FOREIGN_COLUMN", ["ts, u"]),
        (lambda a, b: a.groupBy(b.k, sw.window("1 s")).count(), "FOREIGN_COLUMN", ["'k' of stream 'b'"]),
        (lambda a, b: a.groupBy(sw.window("1 s")).agg(F.sum(b.w)), "FOREIGN_COLUMN", ["'w' of stream 'b'"]),
        (lambda a, b: a.join(b, "k", BAND, "left").select("a_ts", b.k), "FOREIGN_COLUMN", ["'k' of stream 'b'"]),
        (lambda a, b: a.join(b, "k", BAND, "full").select("a_ts", a.k), "FOREIGN_COLUMN", ["'k' of stream 'a'"]),
        (lambda a, b: a.join(b, "k", BAND, "right").select("a_ts", a.k), "FOREIGN_COLUMN", ["'k' of stream 'a'"]),
        (lambda a, b: a.alias("x").join(a.alias("y"), [("k", "k")], BAND).where(a.k == "x"),
         "AMBIGUOUS_COLUMN", ["'k' of stream 'a'", "x_k, y_k"]),
        (lambda a, b: a["nothing"], "COLUMN_NOT_FOUND", ["'nothing'", "k, ts, v"]),
        (lambda a, b: a["n.x"], "COLUMN_NOT_FOUND", ["'n'"]),
        (lambda a, b: a.where(a.v), "BAD_EXPRESSION", ["`v`", "bigint"]),
        (lambda a, b: a.where(a.s.z > 1), "BAD_EXPRESSION", ["`z`"]),
    ],
)  # fmt: skip
def test_columns_of_other_streams_are_refused_by_name(
    a: Any, b: Any, call: Callable[[Any, Any], Any], condition: str, names: list[str]
) -> None:
    error = refused(lambda: call(a, b), condition, *names)
    assert "__sw" not in str(error)


def test_methods_come_first(a: Any) -> None:
    """Also those that a stream lacks and a DataFrame has."""
    with pytest.raises(AttributeError, match=r"no 'limit'.*stream\[\"limit\"\]"):
        a.limit  # noqa: B018
    same(a.where(a["limit"] > 1), a.where("`limit` > 1"))
    assert callable(a.alias("b").withColumnRenamed("v", "where").where)
    with pytest.raises(AttributeError, match="no method or column 'valeu'; its columns are: k, ts"):
        a.valeu  # noqa: B018
    assert not hasattr(a, "__array__") and not hasattr(a, "_repr_html_")
    assert copy.copy(a).columns == a.columns
    with pytest.raises(TypeError, match="not a float"):
        a[1.5]
    with pytest.raises(IndexError):
        a[17]
