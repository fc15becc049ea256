"""Quality targets on Spark: latency by the clock under a replay at a set pace, and what gathering the statistics costs."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.quality_data import GENERATORS, Rows
from benchmarks.quality_join_data import SECOND, Ints
from benchmarks.record import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE = 1_700_000_000 * SECOND
WIDTH, SLIDE = SECOND, SECOND // 2
ERROR = 0.01


def session() -> SparkSession:
    """A small one."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "3g")
        .config("spark.sql.session.timeZone", "UTC").getOrCreate()
    )  # fmt: skip
    spark.sparkContext.setLogLevel("ERROR")
    return spark


# ---- a replay at a set pace ----


def pieces(arrival: Ints, every: int) -> Iterator[tuple[int, slice]]:
    """Rows by the piece of time in which they arrive: when each piece is over, and its rows."""
    stops = np.arange(every, int(arrival[-1]) + every + 1, every)
    at = np.searchsorted(arrival, stops)
    for stop, low, high in zip(stops.tolist(), [0, *at[:-1].tolist()], at.tolist(), strict=True):
        yield stop, slice(low, high)


def replay(
    arrival: Ints,
    every: int,
    pace: float,
    put: Callable[[slice], None],
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Hand over the rows of each piece when it is over, ``pace`` times as fast as they came; returns when it began."""
    began = clock()
    for stop, rows in pieces(arrival, every):
        wait = began + stop / SECOND / pace - clock()
        if wait > 0:
            sleep(wait)
        put(rows)
    return began


def exact(data: Rows) -> dict[int, float]:
    """Sums of all windows by end."""
    out: dict[int, float] = {}
    for end in range(0, int(data.times.max()) + WIDTH, SLIDE):
        inside = (data.times >= end - WIDTH) & (data.times < end)
        if inside.any():
            out[end] = float(data.values[inside].sum())
    return out


# ---- latency by the clock ----


def latency(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """A target beside a fixed delay that is as long as the largest one."""
    import slackwater as sw

    seconds, skip, every = (40, 10, 1.0) if quick else (100, 40, 1.0)
    data = GENERATORS["game1"](1, seconds)
    largest = int(np.max(np.maximum.accumulate(data.times) - data.times))
    ways = {
        f"Quality(error={ERROR:g})": sw.Quality(error=ERROR),
        f"BoundedDelay of {largest / SECOND:.2f} s, the largest delay": sw.BoundedDelay(
            timedelta(microseconds=largest)
        ),
    }
    spark = session()
    lines = []
    for way, policy in ways.items():
        lines.append({"way": way, **_one(spark, data, policy, scratch, skip, every)})
        say(f"{way}: mean wait {lines[-1]['mean']:.2f} s")
    settings = {"seconds": seconds, "skip": skip, "every": every, "data": "game1"}
    return {"settings": settings, "runs": lines}


def _one(
    spark: SparkSession, data: Rows, policy: Any, scratch: Path, skip: int, every: float
) -> dict[str, Any]:
    import slackwater as sw

    work = scratch / "quality-latency"
    shutil.rmtree(work, ignore_errors=True)
    source = work / "in"
    source.mkdir(parents=True)
    times = pa.array(data.times + BASE, pa.timestamp("us", tz="UTC"))
    rows = pa.table({"ts": times, "v": data.values})
    count = 0

    def put(part: slice) -> None:
        nonlocal count
        hidden = source / f".f{count:05d}"
        pq.write_table(rows.slice(part.start, part.stop - part.start), hidden)
        hidden.rename(source / f"f{count:05d}.parquet")
        count += 1

    df = sw.readStream(spark).schema("ts timestamp, v double").parquet(str(source))
    s = sw.stream(df, time="ts", name="s", progress=policy)
    sums = s.groupBy(sw.window("1 second", "0.5 seconds")).agg("sum(v) AS total")
    query = (
        sums.writeStream.format("parquet").option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "ck")).trigger(processingTime="0 seconds").start()
    )  # fmt: skip
    arrival = np.arange(len(data.times)) * SECOND // data.rate
    began: list[float] = []
    feeder = threading.Thread(
        target=lambda: began.append(replay(arrival, round(every * SECOND), 1.0, put))
    )
    feeder.start()
    feeder.join()
    query.processAllAvailable()
    batches = [o["latencyMs"] for p in query.recentProgress for o in p["outputs"].values() if "latencyMs" in o]  # fmt: skip
    query.stop()
    waits, kept = [], []
    true = exact(data)
    for path in (work / "out").glob("part-*.parquet"):
        found = pq.read_table(path)
        for window, total in zip(found["window"].to_pylist(), found["total"].to_pylist(), strict=True):  # fmt: skip
            end = round(window["end"].timestamp() * SECOND) - BASE
            if end > skip * SECOND and end in true:
                waits.append(path.stat().st_mtime - began[0] - end / SECOND)
                kept.append(abs(total - true[end]) <= ERROR * true[end])
    shutil.rmtree(work, ignore_errors=True)
    return {
        "results": len(waits),
        "mean": float(np.mean(waits)),
        "p95": float(np.quantile(waits, 0.95)),
        "latency_ms": float(median(batches)),
        "kept": float(np.mean(kept)),
    }


# ---- what the statistics cost ----


def cost(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """Batches with and without a target, in turns."""
    import slackwater as sw

    rows, files, rounds = (20_000, 3, 1) if quick else (2_000_000, 5, 3)
    keys = 1_000 if quick else 100_000
    work = scratch / "quality-cost"
    shutil.rmtree(work, ignore_errors=True)
    (work / "in").mkdir(parents=True)
    rng = np.random.default_rng(1)
    span = 20 * SECOND
    for i in range(files):
        ts = BASE + i * span + np.sort(rng.integers(0, span, rows))
        late = rng.random(rows) < 0.1
        ts[late] -= rng.exponential(0.2 * SECOND, int(late.sum())).astype(np.int64)
        columns = {
            "k": rng.integers(0, keys, rows),
            "v": rng.integers(0, 1000, rows),
            "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
        }
        pq.write_table(pa.table(columns), work / "in" / f"f{i:03d}.parquet")
    spark = session()
    ways = {
        "BoundedDelay of 2 s": sw.BoundedDelay("2 seconds"),
        "Quality(error=0.01)": sw.Quality(error=0.01),
    }
    found: dict[str, list[list[float]]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        # The first round only warms up; the others begin with one way and the other in turns.
        for way in list(ways) if number % 2 else list(ways)[::-1]:
            times = _batches(spark, work, ways[way])
            say(f"round {number}, {way}: {median(times):.2f} s a batch")
            if number:
                found[way].append(times)
    shutil.rmtree(work, ignore_errors=True)
    lines = [
        {
            "way": way,
            "median": median([x for each in times for x in each]),
            "rounds": [median(each) for each in times],
        }
        for way, times in found.items()
    ]
    settings = {"rows": f"{rows:,}", "keys": f"{keys:,}", "rounds": rounds}
    return {"settings": settings, "runs": lines}


def _batches(spark: SparkSession, work: Path, policy: Any) -> list[float]:
    """Seconds of each warm batch of one run."""
    import slackwater as sw

    for name in ("out", "ck"):
        shutil.rmtree(work / name, ignore_errors=True)
    df = (
        sw.readStream(spark).schema("k bigint, v bigint, ts timestamp")
        .option("maxFilesPerTrigger", 1).parquet(str(work / "in"))
    )  # fmt: skip
    s = sw.stream(df, time="ts", name="s", progress=policy)
    sums = s.groupBy("k", sw.window("60 seconds", "5 seconds")).agg("sum(v) AS total")
    query = (
        sums.writeStream.format("parquet").option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "ck")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    times = [p["durationMs"]["total"] / 1000 for p in query.recentProgress if not p["final"]]
    return times[2:]
