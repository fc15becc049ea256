"""The contenders of the join benchmark: native stream–stream join on two state stores, and Slackwater.

All read the same files, two a side and batch, hold the bound of each side ten seconds behind its newest time, join
on the key within a band, and write parquet.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cases import ROWS
from benchmarks.contenders import FILES_PER_BATCH, Run, finished
from benchmarks.join_cases import (
    BOUNDED,
    CLOSED,
    COLUMNS,
    DELAY_SECONDS,
    DONE,
    NATIVES,
    ROCKSDB_4,
    SIDES,
    SLOW,
    schema_ddl,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELAY_TEXT = f"{DELAY_SECONDS} seconds"
STATE = "org.apache.spark.sql.execution.streaming.state."
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
JOIN_STATE = "spark.sql.streaming.join.stateFormatVersion"
"""2 is Spark's default; 4 is for RocksDB alone."""


def run(
    spark: SparkSession,
    contender: str,
    band: int,
    source: Path,
    work: Path,
    *,
    memory: int | None = None,
    limit: float | None = None,
) -> Run:
    """Run a contender over all files; ``band`` in microseconds to each side, at most ``limit`` seconds."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    if contender in NATIVES:
        name = "RocksDBStateStoreProvider" if contender in SLOW else "HDFSBackedStateStoreProvider"
        spark.conf.set(PROVIDER, STATE + name)
        spark.conf.set(CHANGELOG, "true")
        spark.conf.set(JOIN_STATE, "4" if contender == ROCKSDB_4 else "2")
    query = _start(spark, contender, band, source, work, memory)
    found = finished(spark, query, work, limit)
    if contender == BOUNDED and found.finished:
        # Pairs that are still owed come out with the end of the streams: not timed, since it comes once.
        _start(spark, contender, band, source, work, memory, endOfStream=True).awaitTermination()
    return found


def _start(
    spark: SparkSession,
    contender: str,
    band: int,
    source: Path,
    work: Path,
    memory: int | None,
    **options: Any,
) -> Any:
    if contender in NATIVES:
        writer = _native(spark, band, source)
    else:
        writer = _ours(spark, contender, band, source, memory)
    writer = writer.format("parquet").option("path", str(work / "out"))
    writer = writer.option("checkpointLocation", str(work / "checkpoint"))
    for name, value in options.items():
        writer = writer.option(name, value)
    return writer.trigger(availableNow=True).start()


def _rows(spark: SparkSession, side: str, source: Path) -> Any:
    reader = spark.readStream.schema(schema_ddl(side)).option("maxFilesPerTrigger", FILES_PER_BATCH)
    return reader.parquet(str(source / side))


def _native(spark: SparkSession, band: int, source: Path) -> Any:
    from pyspark.sql import functions as F

    a, b = (
        _rows(spark, side, source).withWatermark("ts", DELAY_TEXT).alias(side) for side in SIDES
    )
    reach = f"INTERVAL {band} MICROSECONDS"
    near = f"b.ts >= a.ts - {reach} AND b.ts <= a.ts + {reach}"
    pairs = a.join(b, F.expr(f"a.k = b.k AND {near}"))
    return pairs.selectExpr(
        "a.k AS k", "v", "a.ts AS a_ts", "w", "b.ts AS b_ts"
    ).writeStream.outputMode("append")


def _ours(spark: SparkSession, contender: str, band: int, source: Path, memory: int | None) -> Any:
    import slackwater as sw

    if contender == CLOSED:
        return _closed(spark, source)
    streams = []
    for side in SIDES:
        if contender == ROWS:
            frame = _rows(spark, side, source)
        else:
            reader = sw.readStream(spark).schema(schema_ddl(side))
            reader = reader.option("maxFilesPerTrigger", FILES_PER_BATCH)
            frame = reader.parquet(str(source / side))
        policy = sw.BoundedDelay(DELAY_TEXT)
        streams.append(sw.stream(frame, time="ts", name=side, progress=policy))
    a, b = streams
    reach = f"{band} microseconds"
    pairs = a.join(
        b,
        on="k",
        within=sw.band(before=reach, after=reach),
        memory=memory if contender == BOUNDED else None,
    )
    return pairs.select("k", COLUMNS["a"], "a_ts", COLUMNS["b"], "b_ts").writeStream


def _closed(spark: SparkSession, source: Path) -> Any:
    """The join at any distance in time, freed by punctuation of orders."""
    import slackwater as sw

    streams = []
    for side in SIDES:
        reader = sw.readStream(spark).schema(schema_ddl(side, punctuated=True))
        frame = reader.option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(
            str(source / f"{CLOSED}-{side}")
        )
        policy = sw.Punctuated(DONE, scheme=["[[k:#]]"])
        streams.append(sw.stream(frame, time="ts", name=side, progress=policy).drop(DONE))
    a, b = streams
    return (
        a.join(b, on="k", within=None)
        .select("k", COLUMNS["a"], "a_ts", COLUMNS["b"], "b_ts")
        .writeStream
    )
