"""``python -m benchmarks.smoothing``: the longest batch against the median, with and without smoothing.

Many groups, tumbling windows, several batches per window. Without smoothing the batch in which a window ends puts all
groups together and writes them; with it the batches that follow share the work. The totals must be equal.
Low-level tables spread what groups get over the window, and merge partials over batches before that.
By default the kernels run alone; ``--spark`` runs the query, where every batch also has Spark's own fixed cost.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.record import heading, store
from slackwater.kernels import column_engine
from slackwater.kernels.buckets import BUCKETS
from slackwater.kernels.windows import low_table, smoothing
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import AggregateSpec, ints
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import Field, column
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.semantics.low_table import LowTable, bound_of_pane, due, first_open, held_pane
from slackwater.semantics.smoothing import Smoothing

SECOND = 1_000_000
WINDOW = 60 * SECOND
WAYS = ("plain", "smooth", "lazy", "slow", "both")
SOURCE = (
    "source: with 260,000 groups and 540,000 slots the order-free low level sustains 1.9 (lazy) to 2 (slow) times "
    "the rate of the ordered one, which stalls at window ends (see benchmarks.low_level)"
)


class Outcome(NamedTuple):
    """Seconds of each batch, number of results, and their total."""

    times: list[float]
    results: int
    total: int


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


@dataclass(frozen=True)
class Way:
    """How the end of a window is spread: ``most`` partials put together per batch and task (0: all at once), ``slots`` of
    a low-level table (0: none), from which one old entry leaves per ``every`` arrivals.
    """

    most: int = 0
    slots: int = 0
    every: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """As a query's options."""
        named = {"smooth": self.most, "lowTable": self.slots, "lowFlush": self.every}
        return {k: v for k, v in named.items() if v}


def by_kernels(data: list[pa.Table], way: Way) -> Outcome:
    """The kernels alone, as one task."""
    w = TimeWindow(WINDOW, WINDOW, 0, "ts")
    sums = Primitive("_a0", "sum", (column("v", "bigint"),), "bigint")
    spec = AggregateSpec((Field("k", "bigint"),), w, (sums,), "panes", True)
    sql = aggregate.partial_select(spec, ['"k"'], '"ts"', "input")
    con = column_engine.connect()
    rule = Smoothing(way.most, 2) if way.most else None
    low = LowTable(way.slots, way.every) if way.slots else None
    closed = np.full(BUCKETS, START)
    table = low_table.empty(spec)
    state = aggregate.partials_schema(spec).empty_table()
    times, results, total = [], 0, 0
    before = START
    for rows in [*data, None]:
        bound = END if rows is None else int(rows["ts"].to_numpy().max())
        begin = time.process_time()
        new, held = state.slice(0, 0), bound
        if rows is not None:
            new = aggregate.partials(column_engine.sql_to_arrow(con, sql, {"input": rows}), spec)
        if low is not None:
            done = low_table.step(spec, table, [new], low, first_open(before, 0, WINDOW))
            opened = first_open(bound, 0, WINDOW)
            gone, entries = low_table.below(done.state.entries, due(opened, 1, low.windows))
            table = done.state._replace(entries=entries)
            _stored(entries)
            new = pa.concat_tables([done.sent, gone.drop_columns([low_table.SLOT])])
            present = ints(entries, "_pane")
            held = bound_of_pane(
                held_pane(opened, present.min(keepdims=True).tolist() if len(present) else []),
                bound, 0, WINDOW,
            )  # fmt: skip
        _stored(new)
        close_to = END if held >= END else held // WINDOW - 1
        out = smoothing.step(
            spec, new, state, (0, BUCKETS), closed, close_to, None if held >= END else rule
        )
        if out.output.num_rows:
            pq.write_table(out.output, io.BytesIO(), compression="zstd")
        closed, before = out.closed, bound
        # As the engine does: what is no longer needed goes by whole runs, here by panes.
        first = aggregate.needed(spec, int(closed.min()))
        state = pa.concat_tables([state, out.keep])
        if state.num_rows and int(ints(state, "_pane").min()) < first:
            state = state.filter(pa.array(ints(state, "_pane") >= first))
        if rows is not None:
            times.append(time.process_time() - begin)
        results += out.output.num_rows
        total += sum(out.output["_a0"].to_numpy().tolist())
    return Outcome(times, results, total)


def _stored(table: pa.Table) -> None:
    """What writing a state file, or a message, costs without the disk."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def by_spark(data: list[pa.Table], way: Way) -> Outcome:
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
        query = sw.start(
            [result.writeStream.format("parquet").option("path", str(folder / "out"))],
            checkpointLocation=str(folder / "ck"),
            trigger={"availableNow": True},
            options={**way.options, "endOfStream": True, "partitionGroups": 2},
        )
        query.awaitTermination()
        times = [r["durationMs"]["total"] / 1000 for r in query.recentProgress if not r["final"]]
        found = pq.read_table(folder / "out")
        return Outcome(times, found.num_rows, int(np.sum(found["total"].to_numpy())))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(
    run: Callable[[list[pa.Table], Way], Outcome],
    data: list[pa.Table],
    ways: dict[str, Way],
    skip: int,
) -> dict[str, Any]:
    """Each way, without the first batches."""
    found: dict[str, Any] = {}
    outcomes = set()
    run(data[: skip + 1], Way())  # warm up
    for name, way in ways.items():
        done = run(data, way)
        times = done.times[skip:]
        outcomes.add((done.results, done.total))
        found[name] = {
            **way.options,
            "max": round(max(times), 4),
            "median": round(median(times), 4),
            "sum": round(sum(times), 3),
            "ratio": round(max(times) / median(times), 2),
            "results": done.results,
            "total": done.total,
        }
        print(name, found[name], flush=True)
    assert len(outcomes) == 1, "the results differ"
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.smoothing", description=__doc__)
    parser.add_argument("--spark", action="store_true", help="run the query, not just the kernels")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--groups", type=int, default=400_000)
    parser.add_argument("--rows", type=int, default=100_000, help="rows per batch")
    parser.add_argument("--per-window", type=int, default=12, help="batches per window")
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    given = parser.parse_args()
    if given.quick:
        given.groups, given.rows, given.per_window, given.windows = 2_000, 2_000, 4, 3
    data = batches(given.groups, given.rows, given.per_window, given.windows)
    tasks = 2 if given.spark else 1
    # A window's partials are its rows or its groups, whichever are fewer; out within two thirds of a window.
    # With tables they are one per group; a window's entries have left by the end of the next one.
    most = int(given.rows * 1.5 / tasks)
    fewer = int(min(given.groups, given.rows * given.per_window) * 1.5 / given.per_window / tasks)
    slots = 2 * given.groups  # a task sees rows of all groups
    ways = {
        "plain": Way(),
        "smooth": Way(most),
        "lazy": Way(0, slots),
        "slow": Way(0, slots, 2),
        "both": Way(fewer, slots, 2),
    }
    chosen = {k: v for k, v in ways.items() if k in ("plain", *given.ways)}
    found = measure(by_spark if given.spark else by_kernels, data, chosen, skip=2)
    settings = {n: v for n, v in vars(given).items() if n != "quick"}
    name = "smoothing-spark" if given.spark else "smoothing"
    store(name, {**heading(quick=given.quick, **settings), "ways": found}, quick=given.quick)
    plain = found["plain"]["ratio"]
    for name in chosen:
        ratio = found[name]["ratio"]
        print(
            f"{name:7} longest batch over median {ratio:6.2f}, {plain / ratio:.2g} times less than plain"
        )
    print(SOURCE)


if __name__ == "__main__":
    main()
