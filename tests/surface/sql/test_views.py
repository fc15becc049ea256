"""Streams that a text reads by name alone: views of Spark's with a watermark, and streams that Python named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import slackwater as sw
from slackwater.model.render import render
from tests.surface.helpers import times, write

pytestmark = pytest.mark.spark

MINUTES = "SELECT k, window_start, count(*) AS n FROM {} GROUP BY k, window(ts, '1 minute')"
WATERMARK = "STREAM arrivals WATERMARK ts DELAY OF INTERVAL 10 SECONDS"


@pytest.fixture
def arrivals(spark: Any, tmp_path: Path) -> Any:
    """A streaming view of Spark's, and a batch table beside it."""
    write(
        tmp_path / "in", "0.parquet", {"k": ["a", "b", "a", "a"], "ts": times(1, 2, 3, 61), "v": [1, 2, 3, 4]}
    )  # fmt: skip
    frame = spark.readStream.schema("k string, ts timestamp, v bigint").parquet(
        str(tmp_path / "in")
    )
    frame.createOrReplaceTempView("arrivals")
    spark.createDataFrame([(1,)], "v int").createOrReplaceTempView("all_there")
    yield frame
    spark.catalog.dropTempView("arrivals")
    spark.catalog.dropTempView("all_there")


def refused(text: str, **streams: Any) -> sw.AnalysisError:
    with pytest.raises(sw.AnalysisError) as caught:
        sw.sql(text, streams=streams)
    return caught.value


def test_a_streaming_view_with_a_watermark_is_a_stream_with_a_bounded_delay(
    spark: Any, arrivals: Any, tmp_path: Path
):
    stream = sw.stream(arrivals, time="ts", name="arrivals", progress=sw.BoundedDelay("10 seconds"))
    expected = render(sw.sql(MINUTES.format("s"), streams={"s": stream})._node)
    for spelling in (
        WATERMARK,
        "STREAM(arrivals) WATERMARK ts DELAY OF INTERVAL '10' SECOND",
        "arrivals WATERMARK ts DELAY OF '10 seconds' AS x",
        "STREAM arrivals a WATERMARK TS DELAY OF INTERVAL 10 SECONDS",
    ):
        assert render(sw.sql(MINUTES.format(spelling))._node) == expected, spelling
    script = sw.script(
        spark,
        f"""SET endOfStream = true; SET trigger = 'available now'; SET checkpointLocation = '{tmp_path}/ck';
        CREATE STREAMING TABLE minutes USING parquet OPTIONS (path '{tmp_path}/out') AS {MINUTES.format(WATERMARK)};
        CREATE STREAMING TABLE twice USING parquet OPTIONS (path '{tmp_path}/twice') AS
          SELECT a.k, a.ts, b.v FROM {WATERMARK} a JOIN {WATERMARK} b ON a.k = b.k AND a.ts = b.ts""",
    )
    script.start().awaitTermination()
    rows = spark.read.parquet(f"{tmp_path}/out").select("k", "n").collect()
    assert sorted(tuple(r) for r in rows) == [("a", 1), ("a", 2), ("b", 1)]
    assert spark.read.parquet(f"{tmp_path}/twice").count() == 4


def test_views_that_cannot_be_read_say_what_to_write(arrivals: Any):
    error = refused("SELECT k FROM arrivals")
    assert error.condition == "NO_PROGRESS"
    assert error.hint == "write FROM STREAM arrivals WATERMARK ts DELAY OF INTERVAL 10 SECONDS"
    assert refused("SELECT v FROM all_there").condition == "NOT_A_STREAM"
    batch = refused("SELECT v FROM STREAM all_there WATERMARK v DELAY OF INTERVAL 1 SECOND")
    assert batch.condition == "NOT_A_STREAM" and "relation" in batch.hint
    gone = refused("SELECT v FROM STREAM nowhere WATERMARK v DELAY OF INTERVAL 1 SECOND")
    assert gone.condition == "NO_TABLE" and "createOrReplaceTempView('nowhere')" in gone.hint
    wrong = refused(f"SELECT k FROM {WATERMARK.replace('ts', 'tz')}")
    assert (wrong.condition, wrong.line, wrong.column) == ("COLUMN_NOT_FOUND", 1, 41)
    other = WATERMARK.replace("10", "5")
    twice = refused(f"SELECT a.k FROM {WATERMARK} a JOIN {other} b ON a.k = b.k AND a.ts = b.ts")
    assert twice.condition == "SEVERAL_WATERMARKS"
    own = refused(
        "SELECT k FROM s WATERMARK ts DELAY OF INTERVAL 1 SECOND",
        s=sw.stream(arrivals, time="ts"),
    )
    assert own.condition == "SEVERAL_WATERMARKS" and "WITH DELAY" in own.hint
    behind = refused(f"SELECT k FROM (SELECT * FROM {WATERMARK}) WATERMARK ts DELAY OF '1 second'")
    assert behind.condition == "SYNTAX" and "STREAM v WATERMARK" in behind.hint


def test_sql_finds_a_stream_by_the_name_that_python_gave_it(spark: Any, arrivals: Any):
    stream = sw.stream(arrivals, time="ts", name="arrivals")
    stream.createOrReplaceTempView("Packets")
    expected = render(stream.where("v > 1")._node)
    assert render(sw.sql("SELECT * FROM packets WHERE v > 1")._node) == expected
    text = "CREATE TEMPORARY VIEW w AS SELECT * FROM PACKETS WHERE v > 1; SELECT * FROM w"
    script = sw.script(spark, text)
    assert render(script.outputs["query"]._stream._node) == expected
    stream.where("v > 2").createOrReplaceTempView("packets")
    assert render(sw.sql("SELECT * FROM packets")._node) == render(stream.where("v > 2")._node)
    given = sw.sql("SELECT * FROM packets", streams={"packets": stream})
    assert render(given._node) == render(stream._node), "what the call gives comes first"
    assert "did you mean packets" in refused("SELECT * FROM packet").hint
    with pytest.raises(sw.AnalysisError, match="no name of a view"):
        stream.createOrReplaceTempView("")


@pytest.mark.parametrize(
    ("text", "condition", "part"),
    [
        ("FROM ROWS(TABLE s, INTERVAL 5 MINUTES)", "BAD_WINDOW", "a number of rows, not a time"),
        ("FROM ROWS(TABLE s, DESCRIPTOR(ts))", "SYNTAX", "ROWS has no SIZE"),
        ("FROM ROWS(TABLE s, SIZE => INTERVAL 5 MINUTES)", "BAD_WINDOW", "a number of rows"),
        ("FROM LANDMARK(TABLE s, DESCRIPTOR(ts))", "SYNTAX", "LANDMARK has no SLIDE"),
        ("FROM LANDMARK(TABLE s, DESCRIPTOR(ts), '1 minute', v + 1)", "BAD_WINDOW", "no literal"),
        ("FROM BY_TUPLE(TABLE s, ts, '1 minute', 1, arival)", "SYNTAX", "ARRIVAL"),
        ("FROM BY_TUPLE(TABLE s PARTITION BY k, ts, '1 minute')", "SYNTAX", "no PARTITION BY"),
        ("FROM ROWS(TABLE s, 5, 5) WHERE window_start > 4 OR v > 1", "BAD_WINDOW", "only windows of TUMBLE take that"),
        ("FROM ROWS(TABLE s PARTITION BY srcIP, 10)", "BAD_WINDOW", "PARTITION BY"),
        ("FROM LANDMARKS(TABLE s, ts, '1 minute')", "NO_FUNCTION", "LANDMARK"),
    ],
)  # fmt: skip
def test_our_table_functions_say_what_they_take(
    text: str, condition: str, part: str, streams: dict[str, Any]
):
    error = refused(
        f"SELECT count(*) AS n {text} GROUP BY window_end".replace("TABLE s", "TABLE events"),
        **streams,
    )
    assert error.condition == condition and part in str(error), str(error)
