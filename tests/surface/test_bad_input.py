"""Bad input: each mistake gets an error that names the thing and the way out, before anything runs."""

from __future__ import annotations

import datetime as dt
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.model.policy import Policy
from slackwater.surface.session import check_java
from tests.surface.helpers import at, run, seconds, times, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "k string, ts timestamp, v bigint, n timestamp_ntz, offset bigint, wid int"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("empty")
    (made / "in").mkdir()
    return made


@pytest.fixture
def df(spark: SparkSession, folder: Path) -> Any:
    return sw.readStream(spark).schema(SCHEMA).parquet(str(folder / "in"))


@pytest.fixture
def s(df: Any) -> Any:
    return sw.stream(df, time="ts", progress=sw.Ordered())


def refused(
    call: Callable[[], Any],
    condition: str,
    *names: str,
    kind: type[sw.SlackwaterError] = sw.AnalysisError,
) -> sw.SlackwaterError:
    """The error of a call: its kind, condition, the names it must speak of, and that it has a hint."""
    with pytest.raises(sw.SlackwaterError) as caught:
        call()
    error = caught.value
    assert type(error) is kind, repr(error)
    assert error.condition == condition, repr(error)
    for name in names:
        assert name in str(error), f"{name!r} is not named in: {error}"
    assert error.hint, str(error)
    return error


# --- sw.stream --------------------------------------------------------------------------------------


@pytest.mark.spark
def test_what_is_no_stream_is_refused(spark: SparkSession):
    refused(
        lambda: sw.stream(spark.range(3), time="id"), "NOT_A_STREAM", "batch DataFrame", "replay"
    )
    refused(lambda: sw.stream([1, 2], time="id"), "NOT_A_STREAM", "list", "readStream")
    refused(lambda: sw.stream(None, time="id"), "NOT_A_STREAM", "NoneType")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "condition", "names"),
    [
        ({}, "NO_TIME", ['time="ts"']),
        ({"time": "tz"}, "COLUMN_NOT_FOUND", ["'tz'", "time column", "k, ts, v"]),
        (
            {"time": "k"},
            "BAD_TIME_TYPE",
            ["'k'", "string", "timestamp_ntz or long", "to_timestamp"],
        ),
        ({"time": "ts", "late": "?"}, "BAD_OPTION", ["'?'", "admit", "drop", "raise"]),
        ({"time": "ts", "progress": "10 seconds"}, "BAD_POLICY", ["'10 seconds'", "BoundedDelay"]),
        ({"time": "ts", "progress": {"n": sw.Ordered()}}, "BAD_POLICY", ["'ts'", "MaxDelay"]),
        ({"time": "ts", "progress": {"ts": None}}, "BAD_POLICY", ["'ts'", "None"]),
        ({"time": "ts", "progress": Policy()}, "BAD_POLICY", ["Policy", "Ordered"]),
        ({"time": "ts", "progress": sw.BoundedRows(5)}, "ORDER_NEEDED", ["'ts'", 'order="offset"']),
        ({"time": "ts", "progress": sw.BoundedRows(-1), "order": "offset"}, "BAD_POLICY", ["-1"]),
        ({"time": "ts", "progress": sw.BoundedDelay()}, "BAD_DURATION", ["BoundedDelay", "None"]),
        ({"time": "ts", "progress": sw.BoundedDelay(5)}, "BAD_DURATION", ["BoundedDelay", "5"]),
        ({"time": "v", "progress": sw.BoundedDelay("5 s")}, "BAD_DURATION", ["'v'", "int"]),
        ({"time": "ts", "order": "off"}, "COLUMN_NOT_FOUND", ["order column", "'off'", "offset"]),
        ({"time": "ts", "partition": "p"}, "COLUMN_NOT_FOUND", ["partition column", "'p'"]),
        ({"time": "ts", "partitions": 3}, "BAD_OPTION", ["partitions=", "partition="]),
        ({"time": "ts", "timeUnit": "second"}, "BAD_OPTION", ["timeUnit", "'ts'"]),
        ({"time": "v", "timeUnit": "fortnight"}, "BAD_DURATION", ["timeUnit", "fortnight"]),
        (
            {"time": "v", "progress": sw.Ordered().idleAfter("1 s")},
            "TIME_UNIT_NEEDED",
            ["'v'", "timeUnit"],
        ),
        (
            {"time": "ts", "progress": sw.Punctuated("p")},
            "COLUMN_NOT_FOUND",
            ["punctuation", "'p'"],
        ),
        (
            {"time": "ts", "progress": sw.Punctuated("v")},
            "BAD_TIME_TYPE",
            ["'v'", "bigint", "'ts'"],
        ),
    ],
    ids=lambda p: str(p) if isinstance(p, dict) else "",
)
def test_settings_of_a_stream(df: Any, options: dict[str, Any], condition: str, names: list[str]):
    refused(lambda: sw.stream(df, **options), condition, *names)


def test_an_unknown_setting_of_the_future_guard():
    refused(lambda: sw.Ordered().futureGuard("1 s", future="lost"), "BAD_OPTION", "lost", "side")


# --- durations --------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize(
    "text",
    ["", " ", "10", "seconds", "10 parsecs", "ten seconds", "10 seconds ago", "1,5 seconds", "5 s 3",
     "1e3 seconds", "--5 seconds", "0 seconds", "-5 seconds", "1 minute -60 seconds", "0.0000001 seconds",
     "∞ seconds", "10\x00seconds", None, 10, 1.5, b"10 seconds", True, [], dt.timedelta(0),
     dt.timedelta(seconds=-1)],
    ids=repr,
)  # fmt: skip
def test_malformed_durations(s: Any, text: Any):
    window = sw.window(text)
    refused(lambda: s.groupBy(window).count(), "BAD_DURATION", "window range")
    refused(lambda: s.groupBy(sw.window("1 minute", text if text is not None else "")).count(),
            "BAD_DURATION", "window slide")  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("text", ["1 month", "2 months", "1 year", "1 day 1 month", "1 quarter"])
def test_months_have_no_length(s: Any, text: str):
    refused(
        lambda: s.groupBy(sw.window(text)).count(), "BAD_DURATION", text, "no fixed length", "days"
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "micros"),
    [("10 seconds", 10**7), ("1 minute 30 seconds", 9 * 10**7), ("1.5 hours", 54 * 10**8),
     ("INTERVAL 2 DAYS", 2 * 864 * 10**8), ("1 week", 7 * 864 * 10**8), ("250 ms", 250_000),
     (dt.timedelta(seconds=2), 2 * 10**6), ("1 µs", 1)],
    ids=str,
)  # fmt: skip
def test_good_durations(s: Any, text: Any, micros: int):
    assert s.groupBy(sw.window(text)).count()._node.window.range == micros


@pytest.mark.spark
def test_windows_on_integer_times_take_integers(df: Any):
    t = sw.stream(df, time="v", progress=sw.Ordered())
    for bad in ("10 seconds", 1.5, True, dt.timedelta(seconds=1)):
        refused(lambda bad=bad: t.groupBy(sw.window(bad)).count(), "BAD_DURATION", "'v'", "int")
    refused(lambda: t.groupBy(sw.window(0)).count(), "BAD_DURATION", "not positive")
    refused(
        lambda: t.groupBy(sw.window(5, origin="x")).count(), "BAD_INSTANT", "window origin", "'x'"
    )


@pytest.mark.spark
@pytest.mark.parametrize("origin", ["noon", 5, True, "2026-13-01"])
def test_bad_origins(s: Any, origin: Any):
    refused(
        lambda: s.groupBy(sw.window("1 minute", origin=origin)).count(),
        "BAD_INSTANT",
        "origin",
        repr(origin),
    )


# --- operators --------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize(
    ("call", "condition", "names"),
    [
        (lambda s: s.groupBy("k").count(), "UNBOUNDED_STATE", ["without a window", "sw.window"]),
        (lambda s: s.groupBy("k", sw.window("1 s"), sw.window("2 s")).count(), "SEVERAL_WINDOWS", []),
        (lambda s: s.groupBy(sw.window("1 s")).agg(), "NO_AGGREGATE", ["count(*)"]),
        (lambda s: s.groupBy(sw.window("1 s", on="n")).count(), "NOT_PROGRESSING", ["'n'", "ts"]),
        (lambda s: s.groupBy("k", sw.window("1 s", emitEmpty=True)).count(), "BAD_OPTION", ["emitEmpty"]),
        (lambda s: s.groupBy("x", sw.window("1 s")).count(), "COLUMN_NOT_FOUND", ["'x'", "k, ts"]),
        (lambda s: s.groupBy("wid", sw.window("1 s")).count(), "DUPLICATE_COLUMN", ["'wid'", "alias"]),
        (lambda s: s.groupBy(sw.window("1 s")).agg("count(*) AS window"), "DUPLICATE_COLUMN", ["'window'"]),
        (lambda s: s.groupBy(sw.window("1 s")).agg("count(*) AS WID"), "DUPLICATE_COLUMN", ["'wid'"]),
        (lambda s: s.groupBy(sw.window("1 s").alias("k"), "k").count(), "DUPLICATE_COLUMN", ["'k'"]),
        (lambda s: s.groupBy(sw.window("1 s")).agg("skewness(v)"), "UNSUPPORTED_AGGREGATE", ["skewness"]),
        (lambda s: s.groupBy(sw.window("1 s")).agg("regr_slope(v, v)"), "UNSUPPORTED_AGGREGATE", ["regr_slope"]),
        (lambda s: s.groupBy(sw.window("1 s")).agg("histogram_numeric(v, 5)"), "UNSUPPORTED_AGGREGATE", ["histogram_numeric"]),
        (lambda s: s.groupBy(sw.window("1 s")).agg("bit_xor(v)"), "UNSUPPORTED_AGGREGATE", ["bit_xor"]),
        (lambda s: s.groupBy(sw.window("1 s")).agg("sum("), "BAD_EXPRESSION", ["sum("]),
        (lambda s: s.groupBy(sw.window("1 s")).agg("sum(x)"), "COLUMN_NOT_FOUND", ["'x'"]),
        (lambda s: s.groupBy(sw.window("1 s")).agg("sum(array(v))"), "BAD_EXPRESSION", ["sum(array(v))"]),
        (lambda s: s.dropDuplicates(["k"]), "UNBOUNDED_STATE", ["'ts'", "within"]),
        (lambda s: s.dropDuplicates(["x"]), "COLUMN_NOT_FOUND", ["'x'"]),
        (lambda s: s.dropDuplicates(["k"], within="1 month"), "BAD_DURATION", ["within", "1 month"]),
        (lambda s: s.drop("ts"), "NO_PROGRESS", ["ts", "keep"]),
        (lambda s: s.select("k", "v"), "NO_PROGRESS", ["ts"]),
        (lambda s: s.withColumn("ts", "date_trunc('hour', ts)"), "NO_PROGRESS", ["ts"]),
        (lambda s: s.withColumn("ts", "timestamp_micros(v)"), "NO_PROGRESS", ["ts"]),
        (lambda s: s.select("ts", "k", "k"), "DUPLICATE_COLUMN", ["'k'", "alias"]),
        (lambda s: s.withColumnRenamed("k", "v"), "DUPLICATE_COLUMN", ["'v'"]),
        (lambda s: s.select("ts", "x"), "COLUMN_NOT_FOUND", ["'x'", "k, ts, v"]),
        (lambda s: s.where("v"), "BAD_EXPRESSION", ["v"]),
        (lambda s: s.where("v >"), "BAD_EXPRESSION", ["v >"]),
        (lambda s: s.where("rand() > 0.5"), "UNSUPPORTED_EXPRESSION", ["rand", "deterministic"]),
        (lambda s: s.where("sum(v) > 1"), "UNSUPPORTED_EXPRESSION", ["aggregate", "agg("]),
        (lambda s: s.select("ts", "explode(array(1, 2)) AS e"), "UNSUPPORTED_EXPRESSION", ["row"]),
        (lambda s: s.sort("k"), "NOT_PROGRESSING", ["'k'"]),
        (lambda s: s.sort("x"), "NOT_PROGRESSING", ["'x'"]),
        (lambda s: s.union(s.drop("k")), "UNION_MISMATCH", []),
        (lambda s: s.where("v > 0").late, "NOT_A_SOURCE", ["sw.stream"]),
        (lambda s: s.alias(""), "BAD_OPTION", ["alias"]),
    ],
)  # fmt: skip
def test_operators(s: Any, call: Callable[[Any], Any], condition: str, names: list[str]):
    refused(lambda: call(s), condition, *names)


@pytest.mark.spark
@pytest.mark.spec("OO-F29", "WQ-F29")
def test_plans_that_could_not_progress_are_refused_with_the_reason(df: Any, s: Any):
    """Whatever keeps state needs something that progresses to free it by."""
    t = sw.stream(df, time="ts", name="t", progress=sw.Ordered())
    refused(lambda: s.groupBy("k").count(), "UNBOUNDED_STATE", "without a window", "sw.window")
    refused(lambda: s.groupBy(sw.window("1 s", on="n")).count(), "NOT_PROGRESSING", "'n'", "ts")
    refused(lambda: s.dropDuplicates(["k"]), "UNBOUNDED_STATE", "'ts'", "within")
    refused(lambda: s.sort("v"), "NOT_PROGRESSING", "'v'")
    refused(lambda: s.drop("ts"), "NO_PROGRESS", "ts")
    refused(lambda: s.join(t, on="k", within=None), "BAD_JOIN", "within")


@pytest.mark.spark
def test_user_defined_functions_are_refused_by_name(s: Any):
    from pyspark.sql import functions as F

    @F.udf("long")
    def twice(x):  # type: ignore[no-untyped-def]
        return x * 2

    refused(
        lambda: s.withColumn("w", twice("v")), "UNSUPPORTED_EXPRESSION", "twice", "before sw.stream"
    )


@pytest.mark.spark
def test_columns_of_the_names_that_the_engine_adds(spark: SparkSession, folder: Path):
    df = sw.readStream(spark).schema("ts timestamp, _late_by long").parquet(str(folder / "in"))
    refused(lambda: sw.stream(df, time="ts").late, "DUPLICATE_COLUMN", "_late_by")


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
def test_a_file_that_is_no_parquet_is_named_and_the_query_goes_on_without_it(
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
    assert "rename" in error.hint


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


# --- Java -------------------------------------------------------------------------------------------


def fake_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    refused(sw.session, "NO_JAVA", "17", "PATH", "JAVA_HOME", kind=sw.SetupError)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    refused(sw.session, "NO_JAVA", "gone", "install", kind=sw.SetupError)


@pytest.mark.parametrize(
    ("text", "shown"), [("1.8.0_392", "8"), ("11.0.2", "11"), ("weird", "unknown")]
)
def test_old_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, shown: str):
    java = fake_java(tmp_path, text)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    refused(sw.session, "OLD_JAVA", "17", shown, str(java), kind=sw.SetupError)


@pytest.mark.parametrize("text", ["17", "17.0.9", "21.0.1", "25-ea"])
def test_new_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    fake_java(tmp_path, text)
    check_java()


def test_the_times_of_the_helpers():
    assert seconds(at(5)) == 5
