"""Queries that run, end and start again, and the sinks they write, through the public surface."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.testing import ManualClock
from tests.surface.helpers import at, run, seconds, times, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "k string, ts timestamp, v bigint"
BATCHES = [
    [("a", at(10), 1), ("b", at(70), 2), ("a", at(5), 3), ("a", at(70), 2)],
    [("b", at(130), 4), ("a", at(250), 5), ("a", at(65), 7), ("b", at(130), 4)],
    [("a", at(700), 6), ("b", at(299), 8)],
]
DELAY = sw.BoundedDelay("10 minutes")  # nothing is late


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


def test_preview(spark: SparkSession):
    s = sw.stream(sw.replay(spark, BATCHES, SCHEMA), time="ts", progress=sw.Ordered())
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


def test_input_is_processed_although_the_bound_follows_the_clock(
    spark: SparkSession, tmp_path: Path
):
    """As PySpark has it: all input is processed, whatever time may complete later."""
    write(tmp_path / "in", "0.parquet", {"k": ["a"], "ts": times(5), "v": pa.array([1], pa.int64())})  # fmt: skip
    df = sw.readStream(spark).schema(SCHEMA).parquet(str(tmp_path / "in"))
    policy = sw.BoundedDelay("1 second").idleAfter("10 milliseconds")
    s = sw.stream(df, time="ts", name="s", progress=policy)
    writer = s.where("v > 0").writeStream.format("memory").queryName("all_idle")
    q = writer.option("checkpointLocation", str(tmp_path / "ck")).start()
    try:
        done = Thread(target=q.processAllAvailable, daemon=True)
        done.start()
        done.join(15)
        assert not done.is_alive(), "it never returns"
        assert spark.table("all_idle").count() == 1
        batch = q.lastProgress["batchId"]
        done = Thread(target=q.processAllAvailable, daemon=True)
        done.start()
        done.join(15)
        assert q.lastProgress["batchId"] > batch, "the bound does not follow the clock"
        assert not done.is_alive(), "it never returns without new input"
    finally:
        q.stop()
