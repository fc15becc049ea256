"""Operators and how they go together, on Spark, through the public surface."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.testing import ManualClock
from tests.surface.helpers import at, canonical, run, seconds, times, write

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
    done = run(
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
    plain = run(a.union(b), tmp_path / "plain", end=False)
    assert sorted(r["k"] for r in plain.rows()) == ["a", "b"]
    assert plain.last["operators"] == {} and plain.last["stateOperators"] == []
    counted = run(
        a.union(b).groupBy(sw.window("10 seconds")).count(), tmp_path / "counted", end=False
    )
    (operator,) = counted.last["operators"].values()
    assert operator["bounds"]["window"].startswith("2026-01-01T00:00:39.999")
    assert counted.rows() == []


# --- row operators -----------------------------------------------------------------------------------


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
    done = run(
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
    done = run(
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
    done = run(result, tmp_path / "ck")
    assert [(seconds(r["window"]["start"]), r["n"], r["v"]) for r in done.rows()] == [
        (0, 1, 1), (10, 0, None), (20, 0, None), (30, 1, 2), (40, 0, None), (50, 0, None), (60, 1, 3)
    ]  # fmt: skip


# --- running -------------------------------------------------------------------------------------------


def test_outputs_come_and_go_and_groups_change_between_restarts(
    spark: SparkSession, tmp_path: Path
):
    folder = tmp_path / "in"
    folder.mkdir()
    df = sw.readStream(spark).schema(SCHEMA).parquet(str(folder))
    s = sw.stream(df, time="ts", name="s", progress=sw.Ordered())
    sums = s.groupBy("k", sw.window("1 minute")).agg("sum(v) AS v")
    counts = s.groupBy(sw.window("1 minute")).agg("count(*) AS n")

    def arrive(name: str, *rows: tuple[str, float, int]) -> None:
        write(folder, name, {"k": [r[0] for r in rows], "ts": times(*[r[1] for r in rows]),
                             "v": pa.array([r[2] for r in rows], pa.int64())})  # fmt: skip

    keys = [f"k{i}" for i in range(20)]
    arrive("0.parquet", *[(k, i % 50, i) for i, k in enumerate(keys)])
    first = run({"sums": sums}, tmp_path / "ck", end=False, options={"partitionGroups": 1})
    assert first.rows("sums") == [] and first.last["partitionGroups"] == 1

    arrive("1.parquet", *[(k, 55, 100) for k in keys])
    second = run(
        {"sums": sums, "counts": counts}, tmp_path / "ck", end=False, options={"partitionGroups": 5}
    )
    assert second.query.id == first.query.id and second.last["partitionGroups"] == 5

    arrive("2.parquet", ("late", 0, 9), ("x", 119, 7))
    third = run({"counts": counts}, tmp_path / "ck", end=False, options={"partitionGroups": 2})
    # The new output saw only what came after it was added, in its window of the first minute.
    assert [r["n"] for r in third.rows("counts")] == [21]
    assert set(third.last["outputs"]) == {"counts"}

    fourth = run({"sums": sums}, tmp_path / "fresh", options={"partitionGroups": 3})
    assert len(fourth.rows("sums")) == 22


def test_an_output_that_stays_keeps_its_state_over_other_group_counts(
    spark: SparkSession, tmp_path: Path
):
    folder = tmp_path / "in"
    df = sw.readStream(spark).schema("k bigint, ts timestamp").parquet
    folder.mkdir()
    s = sw.stream(df(str(folder)), time="ts", name="s", progress=sw.Ordered())
    counts = s.groupBy("k", sw.window("1 minute")).agg("count(*) AS n")
    unique = s.dropDuplicates(["k"], within="10 minutes")
    seen = []
    for number, groups in enumerate((3, 1, 7)):
        write(folder, f"{number}.parquet", {"k": list(range(30)), "ts": times(*[number] * 30)})
        done = run(
            {"counts": counts, "unique": unique}, tmp_path / "ck", end=groups == 7,
            options={"partitionGroups": groups, "compactRuns": 2},
        )  # fmt: skip
        seen.append((done.rows("counts"), done.rows("unique")))
    assert [len(u) for _, u in seen] == [30, 0, 0]
    assert sorted((r["k"], r["n"]) for r in seen[2][0]) == [(k, 3) for k in range(30)]


def test_a_live_query_flushes_and_processes_what_is_there(spark: SparkSession, tmp_path: Path):
    folder = tmp_path / "in"
    write(folder, "0.parquet", {"k": ["a"], "ts": times(5), "v": pa.array([1], pa.int64())})
    df = sw.readStream(spark).schema(SCHEMA).parquet(str(folder))
    s = sw.stream(df, time="ts", name="s", progress=sw.BoundedDelay("1 hour"))
    result = s.groupBy(sw.window("1 minute")).agg("count(*) AS n")
    q = (
        result.writeStream.format("memory")
        .queryName("flushed")
        .option("checkpointLocation", str(tmp_path / "ck"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        assert q.isActive and q.name == "flushed" and q.exception() is None
        q.processAllAvailable()
        assert spark.table("flushed").count() == 0
        q.flush()
        assert [r.n for r in spark.table("flushed").collect()] == [1]
        assert q.lastProgress["streams"]["s"]["bounds"]["ts"]["bound"].startswith(
            "2026-01-01T00:01:00"
        )
        # What comes later for a flushed window is late.
        write(folder, "1.parquet", {"k": ["b"], "ts": times(6), "v": pa.array([1], pa.int64())})
        q.processAllAvailable()
        assert q.lastProgress["streams"]["s"]["late"] == {"ts": 1}
        assert q.awaitTermination(0.01) is False
        assert set(q.status) >= {"message", "isDataAvailable"}
    finally:
        q.stop()
    assert not q.isActive and q.awaitTermination(1) is True
    assert spark.table("flushed").count() == 1


def test_one_stream_ends_beside_a_live_one(spark: SparkSession, tmp_path: Path):
    old, live = tmp_path / "old", tmp_path / "live"
    for folder, second in ((old, 5), (live, 100)):
        write(folder, "0.parquet", {"ts": times(second)})
    read = sw.readStream(spark).schema("ts timestamp")
    a = sw.stream(
        read.parquet(str(old)), time="ts", name="old", progress=sw.MaxDelay(), endOfStream=True
    )
    b = sw.stream(read.parquet(str(live)), time="ts", name="live", progress=sw.Ordered())
    counts = a.union(b).groupBy(sw.window("10 seconds")).agg("count(*) AS n")
    first = run(counts, tmp_path / "ck", end=False)
    assert first.rows() == []  # the old stream has spoken and not yet ended
    write(live, "1.parquet", {"ts": times(120)})
    second = run(counts, tmp_path / "ck", end=False)
    assert [(seconds(r["window"]["start"]), r["n"]) for r in second.rows()] == [(0, 1), (100, 1)]
    assert second.last["streams"]["old"]["bounds"]["ts"]["bound"] == "end"
    assert second.last["final"] is False


def test_after_the_end_of_the_streams(spark: SparkSession, tmp_path: Path):
    folder = tmp_path / "in"
    write(folder, "0.parquet", {"ts": times(5, 8)})
    df = sw.readStream(spark).schema("ts timestamp").parquet(str(folder))
    counts = sw.stream(df, time="ts").groupBy(sw.window("10 seconds")).agg("count(*) AS n")
    done = run(counts, tmp_path / "ck")
    assert [r["n"] for r in done.rows()] == [2] and done.last["final"] is True
    assert run(counts, tmp_path / "ck").rows() == []  # nothing new: nothing happens
    write(folder, "1.parquet", {"ts": times(50)})
    with pytest.raises(sw.CheckpointError) as caught:
        run(counts, tmp_path / "ck")
    assert caught.value.condition == "STREAM_HAS_ENDED" and caught.value.hint


def test_preview(frames: Any, tmp_path: Path):
    s = sw.stream(frames["rows"], time="ts", progress=sw.Ordered())
    rows = s.where("k = 'a'").select("ts", "v").preview(3, seconds=60)
    assert [tuple(r)[1] for r in rows] == [1, 3, 2]


def test_progress_follows_the_clock_without_rows(spark: SparkSession, tmp_path: Path):
    folder = tmp_path / "in"
    write(folder, "0.parquet", {"ts": times(5)})
    df = sw.readStream(spark).schema("ts timestamp").parquet(str(folder))
    s = sw.stream(df, time="ts", progress=sw.BoundedDelay("3 seconds").idleAfter("10 seconds"))
    counts = s.groupBy(sw.window("10 seconds")).agg("count(*) AS n")
    start = int(at(0).timestamp() * 10**6)
    clock = ManualClock(start + 5 * 10**6)
    assert run(counts, tmp_path / "ck", end=False, clock=clock).rows() == []
    clock.advance(20 * 10**6)
    done = run(counts, tmp_path / "ck", end=False, clock=clock)
    assert [r["n"] for r in done.rows()] == [1]
    assert done.last["numInputRows"] == 0 and done.last["clock"].startswith("2026-01-01T00:00:25")


# --- sinks ---------------------------------------------------------------------------------------------


def test_file_sinks_and_foreach_batch(spark: SparkSession, tmp_path: Path, capsys: Any):
    s = sw.stream(sw.replay(spark, BATCHES, SCHEMA), time="ts", name="s", progress=DELAY)
    result = s.groupBy("k", sw.window("5 minutes")).agg("sum(v) AS v")
    calls: list[tuple[int, list[Any]]] = []
    writers = [
        result.writeStream.queryName(kind).format(kind).option("path", str(tmp_path / kind))
        for kind in ("parquet", "json", "csv")
    ]
    writers[2].option("header", True)
    writers += [
        result.writeStream.queryName("parts").partitionBy("k").option("path", str(tmp_path / "parts")),
        result.writeStream.queryName("call").foreachBatch(lambda df, n: calls.append((n, df.collect()))),
        result.writeStream.queryName("seen").format("memory"),
        result.writeStream.queryName("shown").format("console"),
        result.writeStream.queryName("none").format("noop"),
    ]  # fmt: skip

    def start() -> Any:
        q = sw.start(
            writers,
            checkpointLocation=str(tmp_path / "ck"),
            trigger={"availableNow": True},
            options={"endOfStream": True},
        )
        q.awaitTermination()
        return q

    q = start()
    expected = [("a", 0, 18), ("a", 600, 6), ("b", 0, 18)]

    def found(frame: Any, column: str = "window.start") -> list[Any]:
        rows = frame.selectExpr("k", f"{column} AS start", "v").toArrow().to_pylist()
        return sorted((r["k"], seconds(r["start"]), r["v"]) for r in rows)

    assert found(spark.read.parquet(str(tmp_path / "parquet"))) == expected
    schema = "k string, wid bigint, window struct<start: timestamp, end: timestamp>, v bigint"
    assert found(spark.read.schema(schema).json(str(tmp_path / "json"))) == expected
    csv = spark.read.option("header", True).option("inferSchema", True).csv(str(tmp_path / "csv"))
    assert csv.columns == ["k", "wid", "window_start", "window_end", "v"]
    assert found(csv, "window_start") == expected
    parts = spark.read.parquet(str(tmp_path / "parts"))
    assert found(parts) == expected
    assert sorted(p.name for p in (tmp_path / "parts").glob("k=*")) == ["k=a", "k=b"]
    assert found(spark.table("seen")) == expected
    ids = [n for n, _ in calls]
    assert ids == sorted(set(ids)) and sum(len(rows) for _, rows in calls) == 3
    assert "Batch:" in capsys.readouterr().out
    assert {n: o["rows"] for n, o in q.lastProgress["outputs"].items()} == dict.fromkeys(
        ("parquet", "json", "csv", "parts", "call", "seen", "shown", "none"), 3
    )
    once = {s["name"]: s["exactlyOnce"] for s in q.lastProgress["sinks"]}
    assert once["parquet"] and once["csv"] and not once["call"]

    # A restart publishes nothing twice, and the memory sink's view is there again.
    spark.catalog.dropTempView("seen")
    start()
    assert found(spark.read.parquet(str(tmp_path / "parquet"))) == expected
    assert found(spark.read.schema(schema).json(str(tmp_path / "json"))) == expected
    assert found(spark.table("seen")) == expected


def test_a_table_as_sink(spark: SparkSession, tmp_path: Path):
    s = sw.stream(sw.replay(spark, BATCHES[:1], SCHEMA), time="ts", name="s", progress=DELAY)
    result = s.groupBy("k", sw.window("5 minutes")).agg("sum(v) AS v").select("k", "window", "v")
    table = "slackwater_sums"
    spark.sql(f"DROP TABLE IF EXISTS {table}")
    # The session's warehouse is fixed when it starts: the table gets a place of its own.
    spark.sql(
        f"CREATE TABLE {table} (k string, window struct<start: timestamp, end: timestamp>, v bigint) "
        f"USING parquet LOCATION '{tmp_path / 'table'}'"
    )
    q = (
        result.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "ck"))
        .option("endOfStream", True)
        .trigger(availableNow=True)
        .toTable(table)
    )
    q.awaitTermination()
    assert sorted((r.k, r.v) for r in spark.table(table).collect()) == [("a", 6), ("b", 2)]
    assert q.lastProgress["sink"]["table"] == table
    spark.sql(f"DROP TABLE {table}")
