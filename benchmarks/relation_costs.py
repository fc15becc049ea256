"""What a join with a table larger than memory costs besides time for its rows: memory, batches with hardly a row, and less memory for the table."""

from __future__ import annotations

import shutil
from argparse import Namespace
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import contenders, memory
from benchmarks.cases import NATIVE, SPLITS
from benchmarks.contenders import Run
from benchmarks.large_relations import (
    MEMORY_ALONE,
    NO_JOIN,
    TUNED,
    LargeCase,
    data_of,
    measured,
    started,
)
from benchmarks.record import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EMPTY = LargeCase("uniform", 0.0, 0.0, rounds=2, batch_rows=10, batches=8)
"""Batches of ten rows."""

SHARES = (10, 25, 100)
CURVES = ("clustered", "hot", "uniform")


def near_empty(spark: SparkSession, scratch: Path, *, quick: bool) -> dict[str, float]:
    """Seconds of a batch of ten rows: ours with the join and without, and tuned Spark."""
    case = replace(EMPTY, table_rows=1_000_000, rounds=1) if quick else EMPTY
    source, table = data_of(case, scratch)
    runs: dict[str, list[Run]] = {NO_JOIN: [], SPLITS: [], TUNED: []}
    for number in range(case.rounds):
        for contender, done in runs.items():
            run, _ = measured(spark, contender, case, source, table, scratch)
            done.append(run)
            taken = " ".join(f"{b.seconds:.3f}" for b in run.batches)
            say(f"ten rows: {contender}, round {number + 1} of {case.rounds}: {taken} s a batch")
    return {c: median(b.seconds for r in done for b in r.warm(2)) for c, done in runs.items()}


def curves(spark: SparkSession, scratch: Path, *, quick: bool) -> list[dict[str, Any]]:
    """Ours over tables of 10, 25 and 100 times the memory, by the keys that come: seconds of a warm batch."""
    found = []
    for kind in CURVES:
        for share in SHARES:
            case = replace(LargeCase(kind, 0.0, 0.0), share=share)
            case = replace(case.quick, share=share) if quick else case
            source, table = data_of(case, scratch)
            line: dict[str, Any] = {"kind": kind, "share": share}
            for contender in (SPLITS, MEMORY_ALONE):
                run, reads = measured(spark, contender, case, source, table, scratch)
                line[contender] = median(b.seconds for b in run.warm())
                line[f"{contender}, decoded"] = reads[-1]["reads"]
            say(f"curve: {line}")
            found.append(line)
    return found


def memories(options: Namespace, scratch: Path) -> list[dict[str, Any]]:
    """Peak memory of each contender in a process of its own, where the keys are anywhere."""
    case = LargeCase("uniform", 0.0, 0.0)
    case = case.quick if options.quick else case
    source, table = data_of(case, scratch)
    found = []
    for contender in (NATIVE, TUNED, SPLITS, MEMORY_ALONE):
        job = {
            "contender": contender,
            "large": asdict(case),
            "source": str(source),
            "table": str(table),
            "work": str(scratch / "out" / "child"),
            "heap": options.heap,
        }
        _, peak = memory.run_child(job, scratch / "log" / f"memory-large-{contender}.log")
        say(f"{case.name}: {contender}, memory: {peak.pss / 1e6:.0f} MB at the peak")
        found.append(
            {
                "contender": contender,
                "pss": peak.pss,
                "rss": peak.rss,
                "by_program": peak.by_program or {},
            }
        )
    return found


def child_run(spark: SparkSession, job: dict[str, Any]) -> Run:
    """The run of a job of `memories`, in its process."""
    work = Path(job["work"])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    places = Path(job["source"]), Path(job["table"]), work
    query = started(spark, job["contender"], LargeCase(**job["large"]), *places)
    return contenders.finished(spark, query, work, None)
