"""Bad input: each mistake gets an error that names the thing and the way out, before anything runs."""

from __future__ import annotations

import datetime as dt
import logging
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.model.policy import Policy
from slackwater.surface.session import check_java
from tests.surface.helpers import at, refused, seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# --- sw.stream --------------------------------------------------------------------------------------


@pytest.mark.spark
def test_what_is_no_stream_is_refused(spark: SparkSession):
    refused(
        lambda: sw.stream(spark.range(3), time="id"), "NOT_A_STREAM", "batch DataFrame", "replay"
    )
    refused(lambda: sw.stream([1, 2], time="id"), "NOT_A_STREAM", "list", "readStream")
    refused(lambda: sw.stream(None, time="id"), "NOT_A_STREAM", "NoneType")


@pytest.mark.spark
def test_pyspark_logs_nothing_of_an_error_that_is_raised(spark: SparkSession):
    """Its log of an error in a text, or in a Column, is a line with some hundred frames of Java."""
    s = sw.stream(sw.replay(spark, [[]], "k string, ts timestamp"), time="ts", name="s")
    logged: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = logged.append  # type: ignore[method-assign]
    loggers = [
        PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")
    ]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        refused(lambda: s.where("nosuch > 1"), "COLUMN_NOT_FOUND", "nosuch")
        refused(lambda: s.where(F.col("nosuch") > 1), "COLUMN_NOT_FOUND", "nosuch")
        refused(lambda: s.select(F.col("k.x")), "BAD_EXPRESSION", "k.x")
        assert logged == []
        with pytest.raises(PySparkException):
            spark.range(1).select(F.col("nosuch"))
        assert logged, "PySpark logs errors of the user's own frames as before"
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


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
        (lambda s: s.groupBy("k").count().writeStream.format("noop").start(), "UNBOUNDED_STATE",
         ["without a window", "sw.window"]),
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
        (lambda s: s.drop("ts").sort(), "NO_PROGRESS", ["sort", "ts", "the columns k, v", "leave it out", "keep"]),
        (lambda s: s.select("k", "v").where("v > 1").groupBy(sw.window("1 s")).count(), "NO_PROGRESS",
         ["a window", "the columns k, v leave it out", "progresses on ts"]),
        (lambda s: s.select("k", "v").groupBy("k").count(), "NO_PROGRESS", ["the columns k, v leave it out"]),
        (lambda s: s.select("k", "v").dropDuplicates(["k"], within="1 s"), "NO_PROGRESS", ["dropDuplicates", "the columns k, v"]),
        (lambda s: s.select("k").join(s.alias("t"), "k", sw.band()), "NO_PROGRESS", ["a join", "the columns k leave it out"]),
        (lambda s: s.select("k").union(s.select("k")), "NO_PROGRESS", ["a union", "the columns k leave it out"]),
        (lambda s: s.select("k", "ts").union(s.selectExpr("k", "CAST(NULL AS TIMESTAMP) AS ts")), "NO_PROGRESS",
         ["a union", "ts is CAST(NULL AS TIMESTAMP)"]),
        (lambda s: s.withColumn("ts", "date_trunc('hour', ts)").sort(), "NO_PROGRESS", ["ts is date_trunc", "does not progress"]),
        (lambda s: s.withColumn("ts", "timestamp_micros(v)").sort("ts"), "NO_PROGRESS", ["ts is timestamp_micros(`v`)"]),
        (lambda s: s.groupBy(sw.window("1 s")).count().select("count").sort(), "NO_PROGRESS", ["the columns count", "progresses on window"]),
        (lambda s: s.select("ts - ts AS d").writeStream.format("noop").start(), "UNSUPPORTED_TYPE",
         ["'d'", "interval day to second", "CAST(`d` AS STRING)"]),
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
def test_frames_that_no_batch_can_run_alone(spark: SparkSession):
    df = sw.replay(spark, [[]], "k string, ts timestamp")
    frames = {"limit": df.limit(5), "orderBy": df.orderBy("k"), "offset": df.offset(2)}
    for name, frame in frames.items():
        refused(lambda f=frame: sw.stream(f, time="ts"), "UNSUPPORTED_FRAME", name)  # type: ignore[misc]


@pytest.mark.spark
@pytest.mark.spec("OO-F29", "WQ-F29")
def test_plans_that_could_not_progress_are_refused_with_the_reason(df: Any, s: Any):
    """Whatever keeps state needs something that progresses to free it by."""
    t = sw.stream(df, time="ts", name="t", progress=sw.Ordered())
    counts = s.groupBy("k").count().writeStream.format("noop")
    refused(lambda: counts.start(), "UNBOUNDED_STATE", "without a window", "sw.window")
    refused(lambda: s.groupBy(sw.window("1 s", on="n")).count(), "NOT_PROGRESSING", "'n'", "ts")
    refused(lambda: s.dropDuplicates(["k"]), "UNBOUNDED_STATE", "'ts'", "within")
    refused(lambda: s.sort("v"), "NOT_PROGRESSING", "'v'")
    refused(lambda: s.drop("ts").sort(), "NO_PROGRESS", "ts")
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
