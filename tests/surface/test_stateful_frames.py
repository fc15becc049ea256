"""DataFrames of which Spark itself keeps rows from batch to batch, in front of a stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

import slackwater as sw
from tests.surface.helpers import at, run, times, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "id bigint, ts timestamp"


def test_duplicates_that_spark_removed_stay_away_to_the_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The last batch has no input, and the next start builds on what Spark kept in it."""
    folder = tmp_path / "in"
    write(folder, "0.parquet", {"id": [1, 1, 2], "ts": times(1, 1, 2)})
    frame = spark.readStream.schema(SCHEMA).parquet(str(folder)).dropDuplicates(["id"])
    ids = sw.stream(frame, time="ts", name="s", progress=sw.Ordered()).select("id")
    assert sorted(r["id"] for r in run(ids, tmp_path / "c", end=False).rows()) == [1, 2]
    write(folder, "1.parquet", {"id": [2, 3, 3], "ts": times(3, 4, 4)})
    assert [r["id"] for r in run(ids, tmp_path / "c").rows()] == [3]


def test_rows_that_spark_gives_out_without_new_input_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's own windows leave in the batch after the one that moved the watermark, and that batch has no input."""
    batches = [[(i, at(i)) for i in range(20)], [(i, at(i)) for i in range(30, 50)]]
    windows = (
        sw.replay(spark, batches, SCHEMA)
        .withWatermark("ts", "1 second")
        .groupBy(F.window("ts", "10 seconds"))
        .count()
        .select("count", F.col("window.start").alias("ts"))
    )
    s = sw.stream(windows, time="ts", name="s", progress=sw.BoundedDelay("1 minute"))
    done = run(s.select("count"), tmp_path / "c")
    assert [r["count"] for r in done.rows()] == [10, 10, 10]
