"""Results that leave their time out, on their way to a sink."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from tests.surface.helpers import at, canonical, run, times, write
from tests.surface.local import run_locally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "k string, ts timestamp, seen timestamp, v bigint"


def rows(folder: Path) -> None:
    """In each file one row more is late on ``ts``, on ``seen``, or without a time."""
    for i in range(3):
        base = 10 * i
        columns = {
            "k": ["a", "b", "a", "b"],
            "ts": times(base, base + 3, base - 9, None),
            "seen": times(base + 1, base - 12, base + 4, base + 5),
            "v": [4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3],
        }
        write(folder, f"{i}.parquet", columns)


def test_no_row_comes_or_goes_by_it(spark: SparkSession, tmp_path: Path) -> None:
    rows(tmp_path / "in")

    def query(splits: bool) -> dict[str, Any]:
        reader = sw.readStream(spark) if splits else spark.readStream
        df = reader.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
        s = sw.stream(
            df,
            name="s",
            late="drop",
            progress={"ts": sw.Ordered(), "seen": sw.BoundedDelay("1 second")},
        )
        means = s.groupBy("k", sw.window("5 seconds")).agg("avg(v) AS mean")
        joined = s.join(s.alias("t"), "k", sw.band(after="5 seconds"))
        return {
            "by_ts": s.select("ts", "k", "v"), "ts": s.select("k", "v"),
            "by_seen": s.select("seen", "k", "v"), "seen": s.select("seen", "v", "k").select("k", "v"),
            "by_window": means, "window": means.drop("window").where("mean >= 0").withColumn("m", "mean + 1"),
            "by_pair": joined, "pair": joined.select("k", "s_v AS v"),
        }  # fmt: skip

    done = run_locally(query(True), tmp_path / "splits")
    for name, columns in (("ts", "kv"), ("seen", "kv"), ("window", ["k", "mean"])):
        with_time = canonical(done.rows(f"by_{name}"), columns)
        assert canonical(done.rows(name), columns) == with_time and with_time
    pairs = [{"k": r["k"], "v": r["s_v"]} for r in done.rows("by_pair")]
    assert canonical(done.rows("pair"), "kv") == canonical(pairs, "kv") and pairs
    assert set(done.rows("ts")[0]) == {"k", "v"}
    assert len(done.rows("ts")) != len(done.rows("seen"))
    few = {n: s for n, s in query(False).items() if n in ("ts", "seen", "window")}
    by_rows = run(few, tmp_path / "rows", options={"partitionGroups": 1})
    for name in few:
        assert canonical(by_rows.rows(name), "k") == canonical(done.rows(name), "k")


def test_it_is_written_explained_and_previewed(spark: SparkSession, tmp_path: Path) -> None:
    s = sw.stream(
        sw.replay(spark, [[("a", at(0), 1), ("b", at(1), 2)]], "k string, ts timestamp, v int"),
        time="ts",
    )
    means = s.groupBy("k", sw.window("1 minute")).agg("avg(v) AS mean").select("k", "mean")
    assert means.timeColumns == [] and means.where("mean > 0").columns == ["k", "mean"]
    query = (
        means.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint")).option("endOfStream", True)
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    assert sorted(map(tuple, spark.read.parquet(str(tmp_path / "out")).collect())) == [("a", 1.0), ("b", 2.0)]  # fmt: skip
    means.explain()
