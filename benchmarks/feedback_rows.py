"""``python -m benchmarks.feedback_rows``: rows of a DataFrame that nobody needs, whole and bare, on their way from the JVM to Python.

Two queries are given the same batches in turns: rows of many columns, of which one in a hundred is in view. In one of them rows
leave the JVM whole, and the first Python stage drops them; in the other, all but what progress needs of them is null. CPU
is that of all processes of the run, so that others on the machine blur it less than they blur times.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from benchmarks import contenders
from benchmarks.feedback_data import drawn, map_rows, written
from benchmarks.feedback_live import Live, Treatment, driver_cpu, ratios
from benchmarks.record import heading, say, store
from benchmarks.windows import WrongAnswerError
from slackwater.engine.lowlevel.bare import Bare

WARM_UP = 2
KEYS, SECONDS = 10_000, 10
WHOLE, BARE = "whole", "bare"
TICKS = os.sysconf("SC_CLK_TCK")


def wide_rows(batch: int, rows: int, texts: int, numbers: int) -> pa.Table:
    """One batch of rows with so many columns of texts and of numbers besides."""
    table = map_rows(batch, rows, KEYS, SECONDS, clustered=False)
    at = table["segment"].to_numpy().astype("int64") + batch
    words = pa.array([f"this is text number {n}, of a length as texts have" for n in range(5000)])
    for i in range(texts):
        table = table.append_column(f"t{i}", words.take(pa.array(drawn(at, 20 + i, 5000))))
    for i in range(numbers):
        table = table.append_column(f"n{i}", pa.array(drawn(at, 60 + i, 10**9) / 8))
    return table


def cpu() -> float:
    """Seconds of CPU of this process and of all below it, those that have ended included."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents[int(folder.name)] = int(fields[1])
        used[int(folder.name)] = sum(map(int, fields[11:15]))
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(used.get(pid, 0) for pid in mine) / TICKS


def result(texts: int, numbers: int, folders: Mapping[str, Path]) -> Any:
    """The rows themselves."""
    from pyspark.sql import SparkSession

    import slackwater as sw

    spark = SparkSession.getActiveSession()
    assert spark is not None
    columns = ["segment int", "ts timestamp", "speed int"]
    columns += [f"t{i} string" for i in range(texts)] + [f"n{i} double" for i in range(numbers)]
    frame = spark.readStream.schema(", ".join(columns)).parquet(str(folders["in"]))
    return sw.stream(frame, time="ts", name="cars", progress=sw.BoundedDelay("1 second"))


def measure(
    spark: Any, texts: int, numbers: int, rows: int, count: int, work: Path
) -> dict[str, Any]:
    """Both ways in turns."""
    import slackwater as sw

    files = [
        written(work / "data", f"b{n}", partial(wide_rows, n, rows, texts, numbers), rows, group=max(1, rows // 4))
        for n in range(count + WARM_UP)
    ]  # fmt: skip
    low = KEYS * 2 // 5
    view = (sw.only(f"segment BETWEEN {low} AND {low + KEYS // 100 - 1}"),)
    lives: list[Live] = []
    used: dict[str, list[float]] = {WHOLE: [], BARE: []}
    with driver_cpu() as driver:
        try:
            made = partial(result, texts, numbers)
            lives.extend(
                Live.start(spark, Treatment(name, view), made, ["in"], work / name, driver)
                for name in (WHOLE, BARE)
            )
            for number, file in enumerate(files):
                for live in lives[number % 2 :] + lives[: number % 2]:
                    before = cpu()
                    if live.treatment.name == WHOLE:
                        with patch.object(Bare, "of", lambda *_, **__: None):
                            live.step({"in": file})
                    else:
                        live.step({"in": file})
                    used[live.treatment.name].append(cpu() - before)
        finally:
            for live in lives:
                live.stop()
    whole, bare = (x.steps[WARM_UP:] for x in lives)
    for a, b in zip(whole, bare, strict=True):
        if a.record["outputs"][WHOLE]["rows"] != b.record["outputs"][BARE]["rows"]:
            raise WrongAnswerError("rows that leave the JVM bare change what comes out")
    costs = {name: each[WARM_UP:] for name, each in used.items()}
    return {
        "texts": texts,
        "numbers": numbers,
        "cpu": {name: median(each) for name, each in costs.items()},
        "cpu_ratio": ratios(costs[WHOLE], costs[BARE]),
        "scan_ratio": ratios([s.scan for s in whole], [s.scan for s in bare]),
        "batch_ratio": ratios([s.seconds for s in whole], [s.seconds for s in bare]),
    }


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.feedback_rows", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a batch")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--heap", default="4g")
    parser.add_argument("--columns", nargs="*", default=["8+9", "1+16", "60+2"], help="of texts + of numbers")  # fmt: skip
    args = parser.parse_args(given)
    if args.quick:
        args.rows, args.rounds, args.columns = 2_000, 1, ["2+2"]
    spark = contenders.session(args.heap)
    points = []
    for columns in args.columns:
        texts, _, numbers = columns.partition("+")
        work = Path(tempfile.mkdtemp(prefix="slackwater-rows-"))
        try:
            points.append(measure(spark, int(texts), int(numbers), args.rows, args.rounds, work))
        finally:
            shutil.rmtree(work)
        p = points[-1]
        shown = "; ".join(
            f"{n} {p[f'{n}_ratio']['median']:.2f} ({p[f'{n}_ratio']['least']:.2f} to {p[f'{n}_ratio']['most']:.2f})"
            for n in ("cpu", "scan", "batch")
        )  # fmt: skip
        say(
            f"{columns} columns, whole / bare: {shown}; CPU {p['cpu'][WHOLE]:.2f} s and {p['cpu'][BARE]:.2f} s"
        )
    settings = {n: v for n, v in vars(args).items() if n != "quick"}
    store("feedback-rows", {**heading(quick=args.quick, **settings), "points": points}, quick=args.quick)  # fmt: skip


if __name__ == "__main__":
    main()
