"""Spark numbers sources, not inputs: a DataFrame may read several, and two may read one."""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.engine.driver.old_meaning import check_numbers
from slackwater.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "k string, ts timestamp"
START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)


def write(folder: Path, files: int) -> Counter[str]:
    """Files of one to so many rows, each under the folder's name; how many rows there are."""
    folder.mkdir()
    for n in range(files):
        times = [START + dt.timedelta(seconds=i) for i in range(n + 1)]
        columns = {
            "k": [folder.name] * len(times),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
        pq.write_table(pa.table(columns), folder / f"{n}.parquet")
        os.utime(folder / f"{n}.parquet", (1_700_000_000 + n,) * 2)
    return Counter({folder.name: files * (files + 1) // 2})


@pytest.mark.spark
def test_inputs_of_several_sources_are_read_whole(spark: SparkSession, tmp_path: Path) -> None:
    rows = sum(
        (write(tmp_path / n, f) for n, f in (("a", 1), ("b", 3), ("c", 2), ("d", 2))), Counter()
    )

    def files(name: str) -> DataFrame:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(tmp_path / name))

    shared = files("d")
    splits = sw.readStream(spark).schema(SCHEMA).option("maxFilesPerTrigger", 1)
    inputs = [
        files("a").union(files("b")),  # two sources; b still has files when a has none
        splits.parquet(str(tmp_path / "c")),
        shared.where("k IS NOT NULL"),  # one source, which the next input reads too
        shared.where("k IS NULL"),
    ]
    streams = [
        sw.stream(df, time="ts", name=f"s{i}", progress=sw.BoundedDelay("1 hour"))
        for i, df in enumerate(inputs)
    ]
    whole = streams[0]
    for stream in streams[1:]:
        whole = whole.union(stream)
    counts = whole.groupBy("k", sw.window("1 hour")).agg("count(*) AS n")
    query = sw.start(
        [counts.writeStream.format("parquet").option("path", str(tmp_path / "out"))],
        checkpointLocation=str(tmp_path / "checkpoint"),
        trigger={"availableNow": True},
        options={"endOfStream": True},
    )
    query.awaitTermination()
    shown: Counter[str] = Counter()
    for row in pq.read_table(tmp_path / "out").to_pylist():
        shown[row["k"]] += row["n"]
    assert shown == rows


def test_a_checkpoint_that_read_the_wrong_sources_is_refused() -> None:
    check_numbers(0, [(0,), (1,)], "here")
    check_numbers(1, [(0, 1), (2,)], "here")
    for numbers in ([(0, 1), (2,)], [(0,), (0,)], [(), (0,)]):
        with pytest.raises(CheckpointError, match="wrong source"):
            check_numbers(0, numbers, "here")
