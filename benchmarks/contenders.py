"""The contenders: native Structured Streaming, and Slackwater over a row source and over a split source.

All read the same files, two to a batch, hold a bound ten seconds behind the newest time, group by key and
window, compute sum and count, and write parquet.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cases import DELAY_SECONDS, NATIVE, ROWS, Window
from benchmarks.datagen import ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
FILES_PER_BATCH = 2
DELAY_TEXT = f"{DELAY_SECONDS} seconds"


@dataclass
class Batch:
    """What a batch with data took; times in seconds."""

    id: int
    rows: int
    seconds: float
    parts: dict[str, float]
    stages: list[float] = field(default_factory=list)


@dataclass
class Run:
    """One query from an empty checkpoint to the end of its files."""

    batches: list[Batch]
    out: Path
    state_rows: int = 0
    state_bytes: int = 0
    out_rows: int = 0
    finished: bool = True

    def warm(self, skip: int = 1) -> list[Batch]:
        """Batches after the first, which pays for planning and compiling."""
        return self.batches[skip:]


def session(heap: str) -> SparkSession:
    """A session tuned for native streaming: as many shuffle partitions as cores, heap state store."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    store = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    settings = {
        "spark.driver.memory": heap,
        "spark.sql.streaming.stateStore.providerClass": store,
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.default.parallelism": str(CORES),
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # As `sw.session` has it; native queries run no Python.
        "spark.python.unix.domain.socket.enabled": "true",
    }
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("slackwater-benchmarks")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def start(
    spark: SparkSession,
    contender: str,
    window: Window,
    source: Path,
    work: Path,
    trigger: dict[str, Any],
) -> Any:
    """Start a contender's query over ``source``; output and checkpoint go below ``work``."""
    build = _native if contender == NATIVE else _ours
    writer = build(spark, contender, window, source).format("parquet")
    writer = writer.option("path", str(work / "out"))
    writer = writer.option("checkpointLocation", str(work / "checkpoint"))
    return writer.trigger(**trigger).start()


def _rows(spark: SparkSession, source: Path) -> Any:
    reader = spark.readStream.schema(ddl(source)).option("maxFilesPerTrigger", FILES_PER_BATCH)
    return reader.parquet(str(source))


def _native(spark: SparkSession, contender: str, window: Window, source: Path) -> Any:
    from pyspark.sql import functions as F

    rows = _rows(spark, source).withWatermark("ts", DELAY_TEXT)
    windows = F.window("ts", window.range_text, window.slide_text)
    result = rows.groupBy(windows, "k").agg(F.sum("v").alias("s"), F.count("*").alias("n"))
    return result.writeStream.outputMode("append")


def _ours(spark: SparkSession, contender: str, window: Window, source: Path) -> Any:
    from pyspark.sql import functions as F

    import slackwater as sw

    if contender == ROWS:
        frame = _rows(spark, source)
    else:
        reader = sw.readStream(spark).schema(ddl(source))
        frame = reader.option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(source))
    stream = sw.stream(frame, time="ts", name="input", progress=sw.BoundedDelay(DELAY_TEXT))
    windows = sw.window(window.range_text, window.slide_text)
    result = stream.groupBy("k", windows).agg(F.sum("v").alias("s"), F.count("*").alias("n"))
    return result.writeStream


def run(
    spark: SparkSession,
    contender: str,
    window: Window,
    source: Path,
    work: Path,
    *,
    limit: float | None = None,
) -> Run:
    """Run a contender over all files of ``source``, at most ``limit`` seconds."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    query = start(spark, contender, window, source, work, {"availableNow": True})
    found = finished(spark, query, work, limit)
    if contender != NATIVE:
        found.out_rows = sum(o["rows"] for r in query.recentProgress for o in r["outputs"].values())
    return found


def finished(spark: SparkSession, query: Any, work: Path, limit: float | None) -> Run:
    """What a query did until its end, or until the limit of seconds, at which it is stopped."""
    ended = query.awaitTermination(limit) if limit is not None else query.awaitTermination()
    run_id = str(query.runId)
    if ended is False:
        query.stop()
    records = list(query.recentProgress)
    found = Run(
        batches_of(records, stage_seconds(spark, run_id)), work / "out", finished=ended is not False
    )
    states = [r["stateOperators"] for r in records if r["stateOperators"]]
    if states:
        found.state_rows = max(sum(int(o["numRowsTotal"]) for o in s) for s in states)
        found.state_bytes = max(sum(int(o["memoryUsedBytes"]) for o in s) for s in states)
    return found


def batches_of(records: list[Any], stages: dict[int, list[float]] | None = None) -> list[Batch]:
    """Batches with data from progress records; native's batches without are left out."""
    found = {}
    for record in records:
        times = {k: v / 1000 for k, v in dict(record["durationMs"]).items()}
        if not record["numInputRows"] or "triggerExecution" not in times:
            continue
        id = int(record["batchId"])
        found[id] = Batch(
            id,
            int(record["numInputRows"]),
            times["triggerExecution"],
            parts_of(times),
            (stages or {}).get(id, []),
        )
    return [found[id] for id in sorted(found)]


def parts_of(times: dict[str, float]) -> dict[str, float]:
    """A batch's time by what it went to; the parts add up to the whole (but for rounding).

    ``spark``: Structured Streaming's own work, mostly its logs. Ours: ``plan``, ``job``, ``commit`` (the
    manifest), ``publish``, and ``rest`` (the way in and out of the callback). Native: ``batch``.
    """
    whole, inside = times["triggerExecution"], times.get("addBatch", 0.0)
    parts = {"spark": whole - inside}
    if "job" not in times:
        return {**parts, "batch": inside}
    own = {name: times.get(name, 0.0) for name in ("plan", "job", "commit", "publish")}
    return {**parts, **own, "rest": inside - sum(own.values())}


def stage_seconds(spark: SparkSession, run_id: str) -> dict[int, list[float]]:
    """Seconds of each stage by batch, from Spark's status store; nothing if this Spark has another."""
    try:
        gateway: Any = spark.sparkContext._gateway
        store = spark.sparkContext._jsc.sc().statusStore()
        none = gateway.new_array(gateway.jvm.double, 0)
        stages = store.stageList(None, False, False, none, gateway.jvm.java.util.ArrayList())
        found: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for i in range(stages.size()):
            stage = stages.apply(i)
            text = stage.description().get() if stage.description().isDefined() else ""
            batch = re.search(r"batch = (\d+)", text)
            if run_id not in text or batch is None or stage.completionTime().isEmpty():
                continue
            begin = stage.submissionTime().get().getTime()
            end = stage.completionTime().get().getTime()
            found[int(batch.group(1))].append((int(stage.stageId()), (end - begin) / 1000))
    except Exception as error:  # an internal interface of Spark, and only a detail of the report
        print(f"no times of stages: {error}", file=sys.stderr)
        return {}
    return {batch: [s for _, s in sorted(items)] for batch, items in found.items()}
