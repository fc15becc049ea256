"""``python -m benchmarks windows``: Slackwater beside native Structured Streaming."""

from __future__ import annotations

import os
import shutil
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import answers, cold, contenders, join_report, latency, memory, report
from benchmarks.cases import NATIVE, ROWS, SPLITS, Case, cases
from benchmarks.contenders import Run
from benchmarks.datagen import prepare
from benchmarks.record import ROOT, heading, say, store
from benchmarks.tables import between_markers, ratio

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class WrongAnswerError(Exception):
    """A contender's output is not what it should be: the timing means nothing."""


def main(options: Namespace) -> None:
    """Measure, print, write."""
    scratch = Path(options.scratch).absolute()
    chosen = cases(quick=options.quick, only=options.cases, rounds=options.rounds)
    say("data")
    sources = {c.data: prepare(c.data, scratch) for c in chosen}
    found: dict[str, Any] = {
        **heading(quick=options.quick, heap=options.heap, cores=contenders.CORES),
        "cases": [],
    }
    # First the processes of their own: later the session of the throughput runs would sit beside them.
    if not options.no_memory:
        found["memory"] = memories(options, chosen, scratch)
    spark = contenders.session(options.heap)
    try:
        warmed: set[tuple[str, str]] = set()
        for case in chosen:
            found["cases"].append(one_case(spark, case, sources[case.data], scratch, warmed))
        if not options.no_latency:
            found["latency"] = latencies(spark, scratch, options.quick)
    finally:
        spark.stop()
    for case, item in zip(chosen, found["cases"], strict=True):
        say(f"{case.name}: DuckDB in batch")
        item["duckdb_seconds"] = answers.batch_seconds(
            case.window, sources[case.data], scratch / "out" / "duckdb.parquet"
        )
    print(report.terminal(found))
    store("windows", found, quick=options.quick)
    if options.readme:
        write_documents(found)


def one_case(
    spark: SparkSession, case: Case, source: Path, scratch: Path, warmed: set[tuple[str, str]]
) -> dict[str, Any]:
    """All rounds of a case, the contenders in turns."""
    runs: dict[str, list[Run]] = {c: [] for c in case.contenders}
    agreed: dict[str, dict[str, Any]] = {}
    for contender in case.contenders:
        if (contender, case.window.name) not in warmed:
            say(f"{case.name}: {contender}, warm-up")
            warm_up(spark, contender, case, source, scratch)
            warmed.add((contender, case.window.name))
    for number in range(case.rounds):
        for contender in case.contenders:
            work = scratch / "out" / contender
            run = contenders.run(spark, contender, case.window, source, work)
            taken = [b.seconds for b in run.warm()]
            say(
                f"{case.name}: {contender}, round {number + 1} of {case.rounds}: "
                + " ".join(f"{t:.2f}" for t in taken)
                + " s a batch"
            )
            agreed[contender] = checked(contender, case, source, run)
            runs[contender].append(run)
            shutil.rmtree(work, ignore_errors=True)
    measured = {c: summary(r) for c, r in runs.items()}
    for contender, item in measured.items():
        item["agreement"] = agreed[contender]
        if contender != NATIVE and NATIVE in runs:
            item["against_native"] = ratio(seconds(runs[NATIVE]), seconds(runs[contender]))
    return {
        "name": case.name,
        "window": case.window.label,
        "batch_rows": case.data.batch_rows,
        "rows": case.data.rows,
        "rounds": case.rounds,
        "targets": case.targets,
        "contenders": measured,
    }


def warm_up(spark: SparkSession, contender: str, case: Case, source: Path, scratch: Path) -> None:
    """A run over the first two batches, so that code is compiled and workers are there."""
    few = scratch / "warm-up"
    shutil.rmtree(few, ignore_errors=True)
    few.mkdir(parents=True)
    for path in sorted(source.glob("*.parquet"))[: 2 * contenders.FILES_PER_BATCH]:
        os.link(path, few / path.name)
    contenders.run(spark, contender, case.window, few, scratch / "out" / "warm-up")
    shutil.rmtree(few)


def checked(contender: str, case: Case, source: Path, run: Run) -> dict[str, Any]:
    """Compare the run's answer with the right one; a difference ends the benchmark."""
    batches = [b.rows for b in run.batches]
    if batches != [case.data.batch_rows] * case.data.batches:
        raise WrongAnswerError(f"{case.name}: {contender} had batches of {batches} rows")
    found = answers.check(contender, case.window, source, run.out)
    if not found.exact:
        raise WrongAnswerError(f"{case.name}: {contender} gave a wrong answer: {found}")
    return asdict(found)


def seconds(runs: list[Run], skip: int = 1) -> list[list[float]]:
    """Seconds of warm batches, a list for each run; ``skip``: how many of each are left out."""
    return [[b.seconds for b in r.warm(skip)] for r in runs]


def summary(runs: list[Run], skip: int = 1) -> dict[str, Any]:
    """Medians over the warm batches of all runs, and the raw numbers."""
    batches = [b for r in runs for b in r.warm(skip)]
    names = list(batches[0].parts)
    stages = max((len(b.stages) for b in batches), default=0)
    return {
        "median_seconds": median(b.seconds for b in batches),
        "batch_seconds": seconds(runs, skip),
        "first_batch_seconds": [r.batches[0].seconds for r in runs],
        "parts": {n: median(b.parts.get(n, 0.0) for b in batches) for n in names},
        "stages": [
            median(b.stages[i] for b in batches if len(b.stages) > i) for i in range(stages)
        ],
        "state_rows": max(r.state_rows for r in runs),
        "state_bytes": max(r.state_bytes for r in runs),
    }


def memories(options: Namespace, chosen: list[Case], scratch: Path) -> list[dict[str, Any]]:
    """Peak memory of each contender in a process of its own.

    60 s / 1 s is left out for time alone: native takes minutes for it. Its memory is not known from the others.
    """
    wanted = [c for c in chosen if c.window.overlap <= 12]
    found = []
    for case in wanted:
        for contender in case.contenders:
            job = {
                "contender": contender,
                "range": case.window.range,
                "slide": case.window.slide,
                "source": str(prepare(case.data, scratch)),
                "work": str(scratch / "out" / "child"),
                "heap": options.heap,
            }
            _, peak = memory.run_child(job, scratch / "log" / f"memory-{case.name}-{contender}.log")
            say(f"{case.name}: {contender}, memory: {peak.pss / 1e6:.0f} MB at the peak")
            found.append(
                {
                    "case": case.name,
                    "contender": contender,
                    "window": case.window.label,
                    "batch_rows": case.data.batch_rows,
                    "pss": peak.pss,
                    "rss": peak.rss,
                    "by_program": peak.by_program or {},
                }
            )
    return found


def latencies(spark: SparkSession, scratch: Path, quick: bool) -> dict[str, list[float]]:
    """From file to result, the contenders in turns."""
    rounds, drops, warm = (1, 2, 1) if quick else (2, 5, 2)
    found: dict[str, list[float]] = {NATIVE: [], ROWS: [], SPLITS: []}
    for _ in range(rounds):
        for contender, taken in found.items():
            more = latency.measure(spark, contender, scratch / "latency", drops=drops, warm_up=warm)
            say(f"{contender}, latency: " + " ".join(f"{t:.2f}" for t in more) + " s")
            taken.extend(more)
    return found


def write_documents(found: dict[str, Any]) -> None:
    """The table in the README, and ``docs/benchmarks.md``."""
    readme = ROOT / "README.md"
    readme.write_text(between_markers(readme.read_text(), report.readme(found)))
    page = ROOT / "docs" / "benchmarks.md"
    joins = join_report.section_of(page.read_text()) if page.exists() else None
    new_processes = cold.section_of(page.read_text()) if page.exists() else None
    text = report.document(found)
    if new_processes is not None:
        text = cold.with_section(text, new_processes)
    page.write_text(text if joins is None else join_report.with_section(text, joins))
    say("written: README.md, docs/benchmarks.md")
