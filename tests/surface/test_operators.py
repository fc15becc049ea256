"""Operators and how they go together, on Spark, through the public surface."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from tests.surface.helpers import at, canonical, run, seconds
from tests.surface.local import run_locally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "k string, ts timestamp, v bigint"
BATCHES = [
    [("a", at(10), 1), ("b", at(70), 2), ("a", at(5), 3), ("a", at(70), 2)],
    [("b", at(130), 4), ("a", at(250), 5), ("a", at(65), 7), ("b", at(130), 4)],
    [("a", at(700), 6), ("b", at(299), 8)],
]
ROWS = [row for batch in BATCHES for row in batch]
DELAY = sw.BoundedDelay("10 minutes")  # nothing is late


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> dict[str, Any]:
    """The batches as a row source and as a split source."""
    return {
        "rows": sw.replay(spark, BATCHES, SCHEMA),
        "splits": sw.replay(spark, BATCHES, SCHEMA, splits=True),
    }


@pytest.fixture(scope="module")
def batch(spark: SparkSession) -> Any:
    """All rows as a batch DataFrame, for Spark's own answer."""
    return spark.createDataFrame(ROWS, SCHEMA).cache()


BOTH = pytest.mark.parametrize("kind", ["rows", "splits"])


def explained(stream: Any) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        stream.explain()
    return out.getvalue()


# --- windows over windows, unions, duplicates, sort ----------------------------------------------------


@pytest.mark.spec("QD-A9")
@BOTH
def test_several_operators_in_one_query(kind: str, frames: Any, tmp_path: Path):
    s = sw.stream(frames[kind], time="ts", progress=DELAY)
    five = sw.window("5 minutes")
    minute = s.groupBy("k", sw.window("1 minute")).agg("sum(v) AS v", "count(*) AS n")
    big, small = s.where("v > 4"), s.where("v <= 4")
    parts = [
        p.groupBy("k", sw.window("1 minute")).agg("sum(v) AS v", "count(*) AS n")
        for p in (big, small)
    ]
    unique = s.dropDuplicates(["k", "ts", "v"])
    done = (run if kind == "rows" else run_locally)(
        {
            "direct": s.groupBy("k", five).agg("sum(v) AS v", "count(*) AS n"),
            "chained": minute.groupBy("k", five).agg("sum(v) AS v", "sum(n) AS n"),
            "united": parts[0].union(parts[1]).groupBy("k", five).agg("sum(v) AS v", "sum(n) AS n"),
            "distinct": unique.groupBy("k", five).agg("sum(v) AS v", "count(*) AS n"),
            "ordered": s.sort(),
        },
        tmp_path / "ck",
    )
    columns = ["k", "wid", "window", "v", "n"]
    direct = canonical(done.rows("direct"), columns)
    assert [(r[0], seconds(r[2][0]), r[3], r[4]) for r in direct] == [
        ("a", 0, 18, 5), ("a", 600, 6, 1), ("b", 0, 18, 4)]  # fmt: skip
    assert canonical(done.rows("chained"), columns) == direct
    assert canonical(done.rows("united"), columns) == direct
    assert [(r["k"], r["v"], r["n"]) for r in sorted(done.rows("distinct"), key=str)] == [
        ("a", 18, 5), ("a", 6, 1), ("b", 14, 3)]  # fmt: skip
    order = [seconds(r["ts"]) for r in done.rows("ordered")]
    assert order == sorted(order) and len(order) == len(ROWS)
    # Some rows left before the end, so that order across batches was put to the test.
    assert sum(1 for rows in done.batches["ordered"].values() if rows) >= 2


@pytest.mark.spec("OO-F9")
def test_a_union_holds_no_rows_and_its_bound_is_the_lesser_one(spark: SparkSession, tmp_path: Path):
    left = sw.replay(spark, [[("a", at(100), 1)]], SCHEMA)
    right = sw.replay(spark, [[("b", at(30), 2)]], SCHEMA)
    a = sw.stream(left, time="ts", name="a", progress=sw.Ordered())
    b = sw.stream(right, time="ts", name="b", progress=sw.Ordered())
    plain = run_locally(a.union(b), tmp_path / "plain", end=False)
    assert sorted(r["k"] for r in plain.rows()) == ["a", "b"]
    assert plain.last["operators"] == {} and plain.last["stateOperators"] == []
    counted = run_locally(
        a.union(b).groupBy(sw.window("10 seconds")).count(), tmp_path / "counted", end=False
    )
    (operator,) = counted.last["operators"].values()
    assert operator["bounds"]["window"].startswith("2026-01-01T00:00:39.999")
    assert counted.rows() == []


# --- row operators -----------------------------------------------------------------------------------


@pytest.mark.spec("QD-A9")
@BOTH
def test_row_operators_behave_as_pysparks(kind: str, frames: Any, batch: Any, tmp_path: Path):
    from pyspark.sql import functions as F

    s = sw.stream(frames[kind], time="ts", progress=DELAY)

    def ways(f: Any) -> dict[str, Any]:
        return {
            "select": f.select("ts", F.col("v") * 2, F.upper("k").alias("K"), F.expr("v % 2 = 0")),
            "star": f.select("*", F.lit(1).alias("one")),
            "list": f.select(["k", "ts"]),
            "replaced": f.withColumn("v", F.col("v") + 1).withColumn("w", F.col("v") * 10),
            "together": f.withColumns({"v": F.col("v") + 1, "w": F.col("v") * 10}),
            "renamed": f.withColumnRenamed("k", "key").withColumnRenamed("nobody", "x"),
            "dropped": f.drop("v", "nobody"),
            "united": f.unionByName(f.select("v", "ts", "k").where("v > 5")),
            "position": f.union(f.select(F.lit("x").alias("y"), "ts", F.col("v").cast("int"))),
            "aliased": f.alias("q").filter(F.col("v").between(2, 4)).where("k = 'a'"),
        }

    mine, sparks = ways(s), ways(batch)
    for name in mine:
        assert mine[name].columns == sparks[name].columns, name
        assert [f.dataType for f in mine[name].schema] == [
            f.dataType for f in sparks[name].schema], name  # fmt: skip
    done = run(mine, tmp_path / "ck", end=False)
    for name, frame in sparks.items():
        expected = canonical(frame.toArrow().to_pylist(), frame.columns)
        assert canonical(done.rows(name), frame.columns) == expected, name


def test_inputs_of_different_shapes_do_not_meet_each_others_values(
    spark: SparkSession, tmp_path: Path
):
    """Columns of one type share a place on the way to Python; an expression sees those of its own input only."""
    texts = sw.replay(
        spark, [[("12", at(1), 7), ("30", at(2), 8)]], "n string, ts timestamp, v bigint"
    )
    words = sw.replay(spark, [[(5, "no number", at(1), "x")]], "v bigint, w string, ts timestamp, n string")  # fmt: skip
    a = sw.stream(texts, time="ts", name="a", progress=DELAY)
    b = sw.stream(words, time="ts", name="b", progress=DELAY)
    # format_number is Spark's alone, so Spark evaluates it; the cast fails for a word.
    numbers = a.selectExpr("ts", "format_number(cast(n AS int), 1) AS n", "v")
    others = b.selectExpr("ts", "concat(w, '/', n) AS n", "v")
    done = run(numbers.union(others), tmp_path / "ck")
    assert sorted((r["n"], r["v"]) for r in done.rows()) == [("12.0", 7), ("30.0", 8), ("no number/x", 5)]  # fmt: skip


@BOTH
def test_what_the_column_engine_cannot_do_is_done_by_spark(
    kind: str, frames: Any, batch: Any, tmp_path: Path
):
    from pyspark.sql import functions as F

    s = sw.stream(frames[kind], time="ts", progress=DELAY)
    before = s.withColumn("k", "regexp_replace(soundex(k), '0+$', format_number(v % 2, 1))")
    counts = before.groupBy("k", sw.window("5 minutes")).agg("count(*) AS n")
    argument = s.groupBy(F.soundex("k").alias("k"), sw.window("5 minutes")).agg(
        "max(format_number(v, 2)) AS m"
    )
    after = s.groupBy("k", sw.window("5 minutes")).agg(
        "format_number(sum(v), 3) AS m", "count(*) AS n"
    )
    after = after.where("regexp_replace(m, '[0-9]', 'x') = 'xx.xxx'").withColumn("s", "soundex(k)")
    shown = explained(before)
    assert "row engine" in shown and "because" in shown and "soundex" in shown.lower()
    assert "format_number" in explained(after)
    done = run({"counts": counts, "argument": argument, "after": after}, tmp_path / "ck")

    window = F.window("ts", "5 minutes")
    told = batch.withColumn(
        "k", F.expr("regexp_replace(soundex(k), '0+$', format_number(v % 2, 1))")
    )
    expected = {
        "counts": told.groupBy("k", window).agg(F.expr("count(*) AS n")),
        "argument": batch.groupBy(F.soundex("k").alias("k"), window).agg(
            F.expr("max(format_number(v, 2)) AS m")
        ),
        "after": batch.groupBy("k", window)
        .agg(F.expr("format_number(sum(v), 3) AS m"), F.expr("count(*) AS n"))
        .where("regexp_replace(m, '[0-9]', 'x') = 'xx.xxx'")
        .withColumn("s", F.soundex("k")),
    }
    for name, frame in expected.items():
        rows = canonical(frame.toArrow().to_pylist(), frame.columns)
        assert rows and canonical(done.rows(name), frame.columns) == rows, name


@BOTH
def test_late_rows_can_be_computed_on(kind: str, spark: SparkSession, tmp_path: Path):
    batches = [
        [("a", at(100), 1)],
        [("b", at(20), 2), ("c", at(99), 3), ("d", at(100), 4), ("e", None, 5)],
    ]
    s = sw.stream(
        sw.replay(spark, batches, SCHEMA, splits=kind == "splits"), time="ts", progress=sw.Ordered()
    )
    late = s.late.where("_late_by > 1000000 OR _late_reason = 'null_time'")
    spoken = late.select("ts", "soundex(k) AS k", "format_number(v, 1) AS v", "_late_reason")
    done = run(
        {"counts": s.groupBy(sw.window("50 seconds")).count(), "late": spoken}, tmp_path / "ck"
    )
    assert sorted((r["k"], r["v"], r["_late_reason"]) for r in done.rows("late")) == [
        ("B000", "2.0", "late"), ("E000", "5.0", "null_time")]  # fmt: skip
    assert done.last["streams"]["stream"]["totalLate"] == {"ts": 2}
    assert {r["wid"] % 100: r["count"] for r in done.rows("counts")}
    assert sum(r["count"] for r in done.rows("counts")) == 2


def test_several_progressing_columns(spark: SparkSession, tmp_path: Path):
    schema = "k string, start timestamp, stop timestamp"
    batches = [
        [("a", at(0), at(100)), ("b", at(10), at(20))],
        [("c", at(12), at(130)), ("d", at(5), at(140))],  # d is late by its start
    ]
    s = sw.stream(
        sw.replay(spark, batches, schema),
        progress={"start": sw.Ordered(), "stop": sw.BoundedDelay("200 seconds")},
    )
    assert s.timeColumns == ["start", "stop"]
    window = "10 seconds"
    done = run_locally(
        {
            "starts": s.groupBy(sw.window(window)).count(),
            "stops": s.groupBy(sw.window(window, on="stop")).count(),
        },
        tmp_path / "ck",
    )
    assert done.last["streams"]["stream"]["totalLate"] == {"start": 1, "stop": 0}
    base = done.rows("starts")[0]["wid"]
    assert {r["wid"] - base: r["count"] for r in done.rows("starts")} == {0: 1, 1: 2}
    assert sum(r["count"] for r in done.rows("stops")) == 4


@BOTH
def test_streams_over_one_frame_share_one_source(kind: str, frames: Any, tmp_path: Path):
    a = sw.stream(frames[kind], time="ts", name="a", progress=sw.Ordered(), late="drop")
    b = sw.stream(frames[kind], time="ts", name="b", progress=DELAY)
    window = sw.window("5 minutes")
    done = run({"a": a.groupBy(window).count(), "b": b.groupBy(window).count()}, tmp_path / "ck")
    assert len(done.last["sources"]) == 2  # the frame and the heartbeat
    assert sum(r["count"] for r in done.rows("a")) == len(ROWS) - 1  # 65 was late
    assert sum(r["count"] for r in done.rows("b")) == len(ROWS)


# --- kinds of time -------------------------------------------------------------------------------------


@BOTH
def test_naive_and_integer_times(kind: str, spark: SparkSession, tmp_path: Path):
    naive = [[(at(s).replace(tzinfo=None), s) for s in (1, 12, 3)], [(None, 40), (at(41).replace(tzinfo=None), 41)]]  # fmt: skip
    splits = kind == "splits"
    n = sw.stream(
        sw.replay(spark, naive, "n timestamp_ntz, v bigint", splits=splits),
        time="n", name="n", progress=sw.Ordered(),
    )  # fmt: skip
    longs = [[(-7,), (3,)], [(14,), (-6,)]]
    t = sw.stream(
        sw.replay(spark, longs, "t bigint", splits=splits),
        time="t",
        name="t",
        progress=sw.BoundedDelay(5),
    )
    counts = n.groupBy(sw.window("10 seconds")).agg("sum(v) AS v")
    numbers = t.groupBy(sw.window(10, 5, origin=2)).agg("count(*) AS n")
    again = numbers.groupBy(sw.window(20, origin=2)).agg("sum(n) AS n")
    done = run_locally(
        {"counts": counts, "numbers": numbers, "again": again, "late": t.late}, tmp_path / "ck"
    )
    assert (
        counts.schema["window"].dataType.simpleString()
        == "struct<start:timestamp_ntz,end:timestamp_ntz>"
    )
    assert [(seconds(r["window"]["start"]), r["v"]) for r in done.rows("counts")] == [
        (0, 4),
        (10, 12),
        (40, 41),
    ]
    found = {
        r["wid"]: (r["window"]["start"], r["window"]["end"], r["n"]) for r in done.rows("numbers")
    }
    # -6 came when the bound stood at -2: of its windows [-13, -3) was closed and [-8, 2) took it.
    assert found[-2] == (-13, -3, 1) and found[-1] == (-8, 2, 2) and found[0] == (-3, 7, 1)
    assert found[2] == (7, 17, 1) and found[3] == (12, 22, 1) and 1 in found
    assert sum(r["n"] for r in done.rows("again")) == sum(v[2] for v in found.values())
    (late,) = done.rows("late")
    assert (late["t"], late["_late_by"], late["_late_bound"]) == (-6, 4, -2)
    assert late["_late_windows"] == 1


def test_empty_windows_are_reported_on_request(spark: SparkSession, tmp_path: Path):
    batches = [[("a", at(5), 1)], [("a", at(37), 2)], [("a", at(61), 3)]]
    s = sw.stream(sw.replay(spark, batches, SCHEMA), time="ts", progress=sw.Ordered())
    result = s.groupBy(sw.window("10 seconds", emitEmpty=True)).agg("count(*) AS n", "sum(v) AS v")
    done = run_locally(result, tmp_path / "ck")
    assert [(seconds(r["window"]["start"]), r["n"], r["v"]) for r in done.rows()] == [
        (0, 1, 1), (10, 0, None), (20, 0, None), (30, 1, 2), (40, 0, None), (50, 0, None), (60, 1, 3)
    ]  # fmt: skip
