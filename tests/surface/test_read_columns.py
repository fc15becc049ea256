"""Of a DataFrame Spark reads the columns that somebody wants, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.engine.lowlevel.inputs import FrameInput
from tests.surface.helpers import times, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ODD = ("Key.1", "va`lue", "ts")
OTHERS = tuple(f"c{i}" for i in range(40))
SCHEMA = ", ".join(
    ["`Key.1` bigint", "`va``lue` bigint", "ts timestamp", "s struct<x: bigint, y: string>"]
    + [f"{c} string" for c in OTHERS]
)


def rows(seconds: list[float]) -> dict[str, Any]:
    n = len(seconds)
    return {
        "Key.1": [i % 2 for i in range(n)],
        "va`lue": list(range(n)),
        "ts": times(*seconds),
        "s": pa.array([{"x": i, "y": "text"} for i in range(n)]),
        **{c: [f"{c}-{i}" for i in range(n)] for c in OTHERS},
    }


def started(outputs: dict[str, sw.Stream], folder: Path) -> Any:
    writers = [
        s.writeStream.format("parquet").option("path", str(folder / n)).queryName(n)
        for n, s in outputs.items()
    ]
    query = sw.start(
        writers, checkpointLocation=str(folder / "checkpoint"), trigger={"availableNow": True}
    )
    query.awaitTermination()
    return query


def scanned(query: Any) -> set[str]:
    """The columns in Spark's scan of the query's last batch."""
    leaves = query._spark._jsq.streamingQuery().lastExecution().executedPlan().collectLeaves()
    nodes = [leaves.apply(i) for i in range(leaves.size())]
    (scan,) = [n for n in nodes if n.getClass().getSimpleName() == "FileSourceScanExec"]
    assert "ReadSchema" in scan.metadata().keys().toList().toString()
    return set(scan.requiredSchema().fieldNames())


def test_spark_scans_what_is_read(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, "0.parquet", rows([1, 2, 3, 11]))
    frame = spark.readStream.schema(SCHEMA).parquet(str(folder))
    stream = sw.stream(
        frame.withColumn("chance", F.rand()), time="TS", name="s", progress=sw.Ordered()
    )
    windows = stream.withColumn("twice", F.expr("`va``lue` * 2")).groupBy(
        "`Key.1`", sw.window("5 seconds")
    )
    sums = windows.agg(F.sum("twice").alias("total"))
    query = started({"sums": sums}, tmp_path)
    assert scanned(query) == set(ODD)
    found = {(r["Key.1"], r["total"]) for r in spark.read.parquet(str(tmp_path / "sums")).collect()}
    assert found == {(0, 4), (1, 2)}
    # The same checkpoint, with an output that reads more: a field of a struct, and a late row's own column.
    write(folder, "1.parquet", rows([2, 12, 21]))
    fields = stream.groupBy(sw.window("5 seconds")).agg(F.sum("s.x").alias("x"))
    late = stream.late.select("ts", "c7", "_late_by")
    query = started({"sums": sums, "fields": fields, "late": late}, tmp_path)
    assert scanned(query) == {*ODD, "s", "c7"}
    (row,) = spark.read.parquet(str(tmp_path / "late")).collect()
    assert row["c7"] == "c7-0"
    totals = {
        (r["window"]["start"].second, r["x"])
        for r in spark.read.parquet(str(tmp_path / "fields")).collect()
    }
    assert (10, 1) in totals  # the row of second 11 came before this output did
    # And fewer again.
    write(folder, "2.parquet", rows([31]))
    query = started({"sums": sums}, tmp_path)
    assert scanned(query) == set(ODD)
    total = spark.read.parquet(str(tmp_path / "sums")).agg(F.sum("total")).collect()[0][0]
    assert total == 4 + 2 + 6 + 2 + 4


def test_what_spark_keeps_of_rows_has_the_columns_that_it_always_had(spark: SparkSession) -> None:
    """A join of two streams stores rows with the columns that are read above it, so that all are read."""
    rates = [
        spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
        for _ in range(2)
    ]
    fixed = spark.range(3).withColumnRenamed("id", "value")
    left, right = rates[0], rates[1].withColumnsRenamed({"value": "w", "timestamp": "u"})
    both = left.join(
        right, F.expr("value = w AND u BETWEEN timestamp AND timestamp + INTERVAL 1 SECOND")
    )
    assert not FrameInput(both).narrows
    assert not FrameInput(left.dropDuplicates(["value"])).narrows
    assert not FrameInput(left.dropDuplicates(["value"]).select("timestamp")).narrows
    assert FrameInput(left.join(fixed, "value")).narrows
    assert FrameInput(left.union(rates[1]).where("value > 1").select("*", F.rand())).narrows
    assert FrameInput(left.mapInArrow(lambda batches: batches, left.schema)).narrows
