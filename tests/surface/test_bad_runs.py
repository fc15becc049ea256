"""Bad writers, checkpoints, files and times: refused by name, or harmless."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from tests.surface.helpers import at, refused, run, times, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# --- writers ----------------------------------------------------------------------------------------


@pytest.mark.spark
def test_writers(s: Any, tmp_path: Path):
    w = s.writeStream
    for mode in ("update", "complete", "Upsert"):
        refused(
            lambda mode=mode: s.writeStream.outputMode(mode),
            "UNSUPPORTED_OUTPUT_MODE",
            mode,
            "append",
        )
    assert s.writeStream.outputMode("APPEND") is not None
    refused(lambda: w.trigger(continuous="1 second"), "UNSUPPORTED_TRIGGER", "processingTime")
    refused(lambda: w.trigger(), "BAD_OPTION", "exactly one")
    refused(lambda: w.trigger(availableNow=True, once=True), "BAD_OPTION", "exactly one")
    refused(lambda: w.queryName(""), "BAD_OPTION", "queryName")
    refused(lambda: w.partitionBy("x"), "COLUMN_NOT_FOUND", "'x'")
    refused(lambda: s.writeStream.format("parquet").start(), "NO_PATH", "parquet", "path")
    refused(lambda: s.writeStream.format("csv").start(), "NO_PATH", "csv")
    refused(lambda: s.writeStream.format("memory").start(), "NO_NAME", "queryName")
    refused(lambda: s.writeStream.format("parquet").start(str(tmp_path / "o")), "NO_CHECKPOINT",
            "checkpointLocation")  # fmt: skip
    assert not (tmp_path / "o").exists()
    refused(lambda: sw.start([]), "NO_OUTPUT", "writers")
    refused(lambda: sw.start([s]), "NOT_A_WRITER", "Stream", "writeStream")
    noop = s.writeStream.format("noop")
    refused(
        lambda: sw.start([noop], options={"partitionGroups": 0}),
        "BAD_OPTION",
        "partitionGroups",
        "0",
    )
    refused(
        lambda: sw.start([noop], options={"partitionGroups": "many"}), "BAD_OPTION", "'many'", "256"
    )
    refused(
        lambda: sw.start([noop], options={"windowPlan": "best"}), "BAD_OPTION", "'best'", "panes"
    )
    refused(
        lambda: sw.start([noop], options={"endOfStream": True}, trigger={"processingTime": "1 second"}),
        "BAD_OPTION", "endOfStream", "availableNow",
    )  # fmt: skip
    two = [s.writeStream.format("noop").queryName("same") for _ in range(2)]
    refused(lambda: sw.start(two), "DUPLICATE_NAME", "output", "'same'")


@pytest.mark.spark
def test_two_streams_of_one_name(df: Any, s: Any):
    other = sw.stream(df, time="ts", progress=sw.MaxDelay())
    refused(
        lambda: sw.start([s.union(other).writeStream.format("noop")]),
        "DUPLICATE_NAME",
        "stream",
        "name=",
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "options", "names"),
    [
        ("noop", {"partitionGroup": 4}, ["'partitionGroup'", "did you mean 'partitionGroups'?"]),
        ("parquet", {"compression": "zstd"}, ["parquet sink", "'compression'"]),
        ("json", {"checkpointLocatoin": "x"}, ["did you mean 'checkpointLocation'?"]),
        ("console", {"numRows": "many"}, ["numRows", "'many'"]),
        ("console", {"truncate": "20 letters"}, ["truncate", "true"]),
        ("noop", {"endOfStream": "yes"}, ["endOfStream", "'yes'"]),
        ("noop", {"compactRuns": "few"}, ["compactRuns", "'few'", "8"]),
        ("noop", {"compactRows": -1}, ["compactRows", "-1"]),
        ("noop", {"memory": "lots"}, ["memory", "'lots'", "2GB"]),
        ("noop", {"memory": "0GB"}, ["memory", "'0GB'"]),
        ("parquet", {"path": " "}, ["path", "empty"]),
    ],
)
def test_options_that_nobody_would_read(
    s: Any, tmp_path: Path, kind: str, options: dict[str, Any], names: list[str]
):
    given = {"path": tmp_path / "out"} if kind in ("parquet", "json") else {}
    w = s.writeStream.format(kind).options(
        checkpointLocation=tmp_path / "ck", **{**given, **options}
    )
    refused(w.start, "BAD_OPTION", *names)
    assert list(tmp_path.iterdir()) == []  # nothing was begun


@pytest.mark.spark
def test_triggers_of_start(s: Any):
    noop = s.writeStream.format("noop")
    both = {"availableNow": True, "once": True}
    refused(lambda: sw.start([noop], trigger={"availablenow": True}), "BAD_OPTION", "availablenow")
    refused(lambda: sw.start([noop], trigger=both), "BAD_OPTION", "exactly one")
    for interval in ("fast", "-1 seconds", 1):
        refused(
            lambda i=interval: sw.start([noop], trigger={"processingTime": i}),
            "BAD_DURATION",
            "processingTime",
            str(interval),
        )
    refused(lambda: sw.start([noop], options={"truncate": True}), "BAD_OPTION", "truncate")


@pytest.mark.spark
def test_names_formats_and_places(s: Any, tmp_path: Path):
    def start(kind: str, path: Any = None, ck: Any = tmp_path / "ck", stream: Any = s) -> Any:
        w = stream.writeStream.format(kind).option("checkpointLocation", ck)
        return lambda: w.start(None if path is None else str(path))

    for name in ("a/b", "..", "x" * 101):
        refused(lambda name=name: s.writeStream.queryName(name), "BAD_OPTION", "queryName", name)
    refused(start("nosuch"), "FORMAT_NOT_FOUND", "'nosuch'", "spark.jars.packages")
    refused(start("text", tmp_path / "o"), "BAD_SINK_SCHEMA", "one string column")
    arrays = s.withColumn("a", "array(v)")
    refused(start("csv", tmp_path / "o", stream=arrays), "BAD_SINK_SCHEMA", "'a'", "array<bigint>")
    refused(start("parquet", "s3a://bucket/x"), "NOT_LOCAL", "s3a", "foreachBatch")
    refused(start("noop", ck="hdfs://host/x"), "NOT_LOCAL", "hdfs", "checkpointLocation")
    refused(start("parquet", tmp_path / "o", tmp_path / "o" / "ck"), "CHECKPOINT_IN_SINK", "beside")
    assert list(tmp_path.iterdir()) == []
    # Where a streaming query of Spark's wrote, spark.read would not see our files.
    (tmp_path / "native" / "_spark_metadata").mkdir(parents=True)
    for kind in ("parquet", "json"):
        refused(start(kind, tmp_path / "native"), "SPARK_METADATA_IN_SINK", "native", "own")
    shutil.rmtree(tmp_path / "native")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "in").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "in")
    spark = s._spark
    for df in (
        sw.readStream(spark).schema("ts timestamp").parquet(str(tmp_path / "in")),
        spark.readStream.schema("ts timestamp").parquet(str(tmp_path / "in")),
    ):
        own = start("parquet", tmp_path / "alias", stream=sw.stream(df, time="ts"))
        refused(own, "SINK_IS_SOURCE", "alias", "own")
    (tmp_path / "alias").unlink()
    (tmp_path / "in").rmdir()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("in the way")
    refused(
        start("noop", ck=tmp_path / "file" / "ck"), "NOT_WRITABLE", "file/ck", kind=sw.SetupError
    )
    refused(start("json", tmp_path / "file"), "NOT_WRITABLE", "sink", "file", kind=sw.SetupError)


@pytest.mark.spark
def test_a_memory_sink_may_have_any_name(spark: SparkSession, s: Any):
    w = s.writeStream.format("memory").queryName("my `results.é")
    w.trigger(availableNow=True).start().awaitTermination()
    assert spark.table("`my ``results.é`").columns == s.columns


# --- checkpoints ------------------------------------------------------------------------------------


@pytest.mark.spark
def test_a_checkpoint_of_another_query_is_refused_with_a_diff(s: Any, df: Any, tmp_path: Path):
    def one(seconds: str, stream: Any = s) -> Any:
        return stream.groupBy("k", sw.window(seconds)).agg("count(*) AS n")

    run(one("10 seconds"), tmp_path / "ck", end=False)
    before = sorted(p for p in (tmp_path / "ck").rglob("*.json"))
    error = refused(lambda: run(one("20 seconds"), tmp_path / "ck"), "QUERY_CHANGED", "ck",
                    kind=sw.CheckpointError)  # fmt: skip
    changed = [
        x[1:] for x in str(error).splitlines() if x[:1] in "+-" and x[:3] not in ("+++", "---")
    ]
    assert len(changed) == 2 and "10" in changed[0] and "20" in changed[1]
    assert sorted(p for p in (tmp_path / "ck").rglob("*.json")) == before
    # What may change: policy parameters and late.
    wider = sw.stream(df, time="ts", progress=sw.BoundedDelay("1 minute"), late="drop")
    run(one("10 seconds", wider), tmp_path / "ck", end=False)


@pytest.mark.spark
def test_a_checkpoint_of_spark_and_one_in_use(s: Any, tmp_path: Path):
    (tmp_path / "spark" / "offsets").mkdir(parents=True)
    (tmp_path / "spark" / "offsets" / "0").write_text("v1\n{}\n-")
    refused(lambda: run(s, tmp_path / "spark"), "FOREIGN_CHECKPOINT", "checkpoint of Spark",
            kind=sw.CheckpointError)  # fmt: skip
    q = s.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck")).start()
    try:
        refused(lambda: run(s, tmp_path / "ck"), "CHECKPOINT_IN_USE", str(os.getpid()),
                kind=sw.CheckpointError)  # fmt: skip
        assert q.isActive
    finally:
        q.stop()


# --- sources ----------------------------------------------------------------------------------------


@pytest.mark.spark
def test_sources(spark: SparkSession, tmp_path: Path):
    read = sw.readStream(spark)
    refused(lambda: read.parquet(str(tmp_path / "no")), "PATH_NOT_FOUND", "no", "create it")
    refused(lambda: read.parquet(str(tmp_path)), "NO_SCHEMA", str(tmp_path), "schema")
    refused(lambda: read.csv(str(tmp_path)), "NO_SCHEMA", "csv")
    refused(lambda: read.json(str(tmp_path)), "NO_SCHEMA", "json")


@pytest.mark.spark
def test_a_file_that_is_no_parquet_is_named_and_the_hint_leads_out(
    spark: SparkSession, tmp_path: Path
):
    folder = tmp_path / "in"
    write(folder, "a.parquet", {"ts": times(1, 5)})
    garbage = folder / "b.parquet"
    garbage.write_bytes(b"PAR1 this is not one PAR1")
    df = sw.readStream(spark).schema("ts timestamp").parquet(str(folder))
    s = sw.stream(df, time="ts", progress=sw.Ordered())
    result = s.groupBy(sw.window("10 seconds")).count()
    error = refused(
        lambda: run(result, tmp_path / "ck"), "BAD_FILE", str(garbage), kind=sw.ExecutionError
    )
    assert "new checkpointLocation" in error.hint
    garbage.unlink()
    refused(
        lambda: run(result, tmp_path / "ck"), "INPUT_CHANGED", str(garbage), kind=sw.CheckpointError
    )
    done = run(result, tmp_path / "new")
    assert [r["count"] for r in done.rows("output")] == [2]


@pytest.mark.spark
def test_an_expression_that_fails_for_some_row(spark: SparkSession, tmp_path: Path):
    write(tmp_path / "in", "a.parquet", {"ts": times(1, 2), "v": [1, 2**63 - 1]})
    df = sw.readStream(spark).schema("ts timestamp, v bigint").parquet(str(tmp_path / "in"))
    s = sw.stream(df, time="ts", progress=sw.Ordered())
    error = refused(lambda: run(s.withColumn("w", "v + 1"), tmp_path / "ck"), "EXPRESSION_FAILED",
                    "verflow", str(2**63 - 1), kind=sw.ExecutionError)  # fmt: skip
    assert "try_add" in error.hint


# --- times ------------------------------------------------------------------------------------------

FIRST = dt.datetime(1, 1, 1, tzinfo=dt.timezone.utc)
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.timezone.utc)


@pytest.mark.spark
@pytest.mark.parametrize("splits", [False, True], ids=["rows", "splits"])
def test_null_and_absurd_times_do_no_harm(spark: SparkSession, tmp_path: Path, splits: bool):
    values = [None, FIRST, at(1), LAST, at(2)]
    write(tmp_path / "in", "0.parquet", {"ts": pa.array(values, pa.timestamp("us", "UTC"))})
    read = sw.readStream(spark).schema("ts timestamp")
    df = read.parquet(str(tmp_path / "in"))
    df = df if splits else df.rows_frame()
    # Against the clock the last time is in the future: it is data of its own window and advances nothing.
    s = sw.stream(df, time="ts", progress=sw.BoundedDelay("10 seconds"))
    counts = s.groupBy(sw.window("10 seconds")).count()
    done = run({"counts": counts, "late": s.late}, tmp_path / "ck", end=False)
    stream = done.last["streams"]["stream"]
    assert (stream["nullTime"], stream["future"], stream["late"]) == (
        {"ts": 1},
        {"ts": 1},
        {"ts": 0},
    )
    assert stream["bounds"]["ts"]["newest"].startswith("2026-01-01T00:00:02")
    assert [r["_late_reason"] for r in done.rows("late")] == ["null_time"]
    assert {r["window"]["start"].year: r["count"] for r in done.rows("counts")} == {1: 1}


@pytest.mark.spark
@pytest.mark.parametrize("late", [False, True], ids=["reduced", "rows"])
@pytest.mark.parametrize("splits", [False, True], ids=["frame", "splits"])
def test_the_ends_of_64_bits(spark: SparkSession, tmp_path: Path, splits: bool, late: bool):
    """Integer times at the ends of their range neither overflow into another window nor stop the query."""
    values = [-(2**63), 2**63 - 1, 5, None, -5]
    write(tmp_path / "in", "0.parquet", {"t": pa.array(values, pa.int64())})
    df = sw.readStream(spark).schema("t bigint").parquet(str(tmp_path / "in"))
    df = df if splits else df.rows_frame()
    s = sw.stream(df, time="t", progress=sw.Ordered())
    counts = s.groupBy(sw.window(10)).agg("count(*) AS n", "min(t) AS t")
    done = run({"counts": counts, "late": s.late} if late else counts, tmp_path / "ck")
    rows = done.rows("counts" if late else "output")
    assert sorted((r["t"], r["wid"], r["n"]) for r in rows) == [(-5, -1, 1), (5, 0, 1)]
    assert done.last["streams"]["stream"]["nullTime"] == {
        "t": 3
    }  # no time that windows could be made for
    assert done.last["streams"]["stream"]["bounds"]["t"]["newest"] == 5
    if late:
        assert [r["_late_reason"] for r in done.rows("late")] == ["null_time"] * 3
