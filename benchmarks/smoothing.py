"""``python -m benchmarks.smoothing``: the longest batch against the median, with and without smoothing.

Many groups, tumbling windows, several batches per window. Without smoothing the batch in which a window ends puts all
groups together and writes them; with it the batches that follow share the work. The totals must be equal.
By default the kernels run alone; ``--spark`` runs the query, where every batch also has Spark's own fixed cost.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.kernels import aggregate, column_engine, smoothing
from slackwater.kernels.aggregate import AggregateSpec
from slackwater.kernels.buckets import BUCKETS
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import Field, column
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.smoothing import Smoothing

SECOND = 1_000_000
WINDOW = 60 * SECOND


def batches(groups: int, rows: int, per_window: int, windows: int) -> list[pa.Table]:
    """Rows in order of time, of groups drawn evenly."""
    rng = np.random.default_rng(11)
    made = []
    width = WINDOW // per_window
    for i in range(per_window * windows):
        times = np.sort(i * width + rng.integers(0, width, rows))
        made.append(
            pa.table(
                {
                    "k": rng.integers(0, groups, rows),
                    "ts": pa.array(times, pa.int64()),
                    "v": rng.integers(0, 1000, rows),
                }
            )
        )
    return made


def by_kernels(data: list[pa.Table], most: int | None) -> tuple[list[float], int, int]:
    """Seconds of each batch, results, and their total."""
    w = TimeWindow(WINDOW, WINDOW, 0, "ts")
    sums = Primitive("_a0", "sum", (column("v", "bigint"),), "bigint")
    spec = AggregateSpec((Field("k", "bigint"),), w, (sums,), "panes", True)
    sql = aggregate.partial_select(spec, ['"k"'], '"ts"', "input")
    con = column_engine.connect()
    rule = Smoothing(most, 2) if most else None
    closed = np.full(BUCKETS, START)
    state = aggregate.partials_schema(spec).empty_table()
    times, results, total = [], 0, 0
    for table in data:
        new = aggregate.partials(column_engine.sql_to_arrow(con, sql, {"input": table}), spec)
        bound = int(table["ts"].to_numpy().max())
        begin = time.perf_counter()
        done = smoothing.step(spec, new, state, (0, BUCKETS), closed, bound // WINDOW - 1, rule)
        if done.output.num_rows:
            pq.write_table(done.output, io.BytesIO(), compression="zstd")
        closed = done.closed
        # As the engine does: what is no longer needed goes by whole runs, here by panes.
        first = aggregate.needed(spec, int(closed.min()))
        state = pa.concat_tables([state, done.keep])
        if state.num_rows and int(state["_pane"].to_numpy().min()) < first:
            state = state.filter(pa.array(state["_pane"].to_numpy() >= first))
        times.append(time.perf_counter() - begin)
        results += done.output.num_rows
        total += sum(done.output["_a0"].to_numpy().tolist())
    last = smoothing.step(spec, state.slice(0, 0), state, (0, BUCKETS), closed, 1 << 62, None)
    return (
        times,
        results + last.output.num_rows,
        total + sum(last.output["_a0"].to_numpy().tolist()),
    )


def by_spark(data: list[pa.Table], most: int | None) -> tuple[list[float], int, int]:
    """The same as a query over files, one file per batch."""
    from pyspark.sql import SparkSession

    import slackwater as sw

    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2").getOrCreate()
    )  # fmt: skip
    spark.sparkContext.setLogLevel("ERROR")
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "in").mkdir()
        for i, table in enumerate(data):
            pq.write_table(table, folder / "in" / f"{i:04d}.parquet")
        df = (
            sw.readStream(spark).schema("k bigint, ts bigint, v bigint")
            .option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        )  # fmt: skip
        s = sw.stream(df, time="ts", name="s", progress=sw.Ordered())
        result = s.groupBy("k", sw.window(WINDOW)).agg("sum(v) AS total")
        options: dict[str, Any] = {"smooth": most} if most else {}
        query = sw.start(
            [result.writeStream.format("parquet").option("path", str(folder / "out"))],
            checkpointLocation=str(folder / "ck"),
            trigger={"availableNow": True},
            options={**options, "endOfStream": True, "partitionGroups": 2},
        )
        query.awaitTermination()
        times = [r["durationMs"]["total"] / 1000 for r in query.recentProgress if not r["final"]]
        found = pq.read_table(folder / "out")
        return times, found.num_rows, int(np.sum(found["total"].to_numpy()))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(
    run: Callable[[list[pa.Table], int | None], tuple[list[float], int, int]],
    data: list[pa.Table],
    most: int,
    skip: int,
) -> dict[str, Any]:
    """Both ways, without the first batches."""
    found: dict[str, Any] = {}
    outcomes = set()
    run(data[: skip + 1], None)  # warm up
    for name, limit in (("plain", None), ("smooth", most)):
        times, results, total = run(data, limit)
        times = times[skip:]
        outcomes.add((results, total))
        found[name] = {
            "max": round(max(times), 4),
            "median": round(median(times), 4),
            "ratio": round(max(times) / median(times), 2),
            "results": results,
            "total": total,
        }
    assert len(outcomes) == 1, "the results differ"
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.smoothing", description=__doc__)
    parser.add_argument("--spark", action="store_true", help="run the query, not just the kernels")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    options = parser.parse_args()
    groups, rows, per_window, windows = (
        (2_000, 2_000, 4, 3) if options.quick else (400_000, 100_000, 12, 4)
    )
    data = batches(groups, rows, per_window, windows)
    tasks = 2 if options.spark else 1
    # Entries of a window are rows, where each comes from a batch of its own; out within two thirds of a window.
    most = int(rows * per_window * 1.5 / per_window / tasks)
    found = measure(by_spark if options.spark else by_kernels, data, most, skip=2)
    found["settings"] = {
        "groups": groups, "rows": rows, "batches": per_window, "most": most, "spark": options.spark,
    }  # fmt: skip
    print(json.dumps(found, indent=1))
    better = found["plain"]["ratio"] / found["smooth"]["ratio"]
    print(
        f"longest batch over median: {found['plain']['ratio']} plain, {found['smooth']['ratio']} smooth; {better:.2g} times better"
    )


if __name__ == "__main__":
    main()
