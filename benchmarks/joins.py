"""``python -m benchmarks joins``: joins beside native stream–stream joins, over the same files."""

from __future__ import annotations

import shutil
from argparse import Namespace
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from benchmarks import contenders, join_answers, join_contenders, join_curves, join_report, memory
from benchmarks.cases import SPLITS
from benchmarks.contenders import Run
from benchmarks.join_cases import (
    BOUNDED,
    CLOSED,
    HEAP,
    NATIVES,
    SLOW,
    JoinCase,
    cases,
    folders,
    prepare,
)
from benchmarks.record import ROOT, file_name, folder, heading, say, store, written
from benchmarks.tables import ratio
from benchmarks.windows import WrongAnswerError, seconds, summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Measured:
    """All runs of one contender in a case."""

    runs: list[Run]
    skip: int

    @property
    def seconds(self) -> list[list[float]]:
        """Seconds of warm batches, a list for each run."""
        return seconds(self.runs, self.skip)

    def summary(self) -> dict[str, Any]:
        """Medians over the warm batches of all runs, and the raw numbers."""
        # Passes over what is on disk come now and then: for throughput a mean tells more there.
        return {**summary(self.runs, self.skip), "mean_seconds": mean(chain(*self.seconds))}


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
    if not options.no_memory:
        found["memory"] = [
            m for c in chosen for m in memories(options, c, sources[c.data], scratch)
        ]
    spark = contenders.session(options.heap)
    try:
        for case in chosen:
            found["cases"].append(one_case(spark, case, sources[case.data], scratch))
        if not options.no_curves:
            found["curves"] = join_curves.measure(spark, scratch, quick=options.quick)
    finally:
        spark.stop()
    print(join_report.terminal(found))
    store("joins", found, quick=options.quick)
    if found.get("curves"):
        picture = folder(quick=options.quick) / f"{file_name('joins', quick=options.quick)}.svg"
        join_curves.plot(found["curves"], picture)
        written(picture)
    if options.readme:
        page = ROOT / "docs" / "benchmarks.md"
        page.write_text(join_report.with_section(page.read_text(), join_report.section(found)))
        written(page)


def one_case(spark: SparkSession, case: JoinCase, source: Path, scratch: Path) -> dict[str, Any]:
    """All rounds of a case, the contenders in turns; every output is compared with DuckDB's answer."""
    say(f"{case.name}: DuckDB in batch")
    answer = join_answers.in_batch(case.band, source, scratch / "out" / "duckdb.parquet")
    runs: dict[str, list[Run]] = {c: [] for c in case.contenders}
    for contender in case.contenders:
        say(f"{case.name}: {contender}, warm-up")
        warm_up(spark, contender, case, source, scratch)
    for number in range(case.rounds):
        for contender in case.contenders:
            if contender in SLOW and number:
                continue  # once takes minutes
            work = scratch / "out" / contender
            run = join_contenders.run(spark, contender, case.band, source, work, memory=case.memory)
            taken = " ".join(f"{b.seconds:.2f}" for b in run.batches)
            say(f"{case.name}: {contender}, round {number + 1} of {case.rounds}: {taken} s a batch")
            checked(case, contender, run, answer.content)
            runs[contender].append(run)
            shutil.rmtree(work, ignore_errors=True)
    measured = {c: Measured(r, case.skip) for c, r in runs.items()}
    items = {c: m.summary() for c, m in measured.items()}
    for contender, item in items.items():
        if contender in NATIVES:
            continue
        against = [n for n in (*NATIVES, SPLITS) if n in runs and n != contender]
        item["against"] = {
            n: ratio(measured[n].seconds, measured[contender].seconds[: len(runs[n])])
            for n in against
            if n in NATIVES or contender in (BOUNDED, CLOSED)
        }
    return {
        "name": case.name,
        "band_seconds": case.band_seconds,
        "batch_rows": case.data.batch_rows,
        "rows": case.data.rows,
        "keys": case.data.keys,
        "pairs": answer.content[0],
        "rounds": case.rounds,
        "memory": case.memory,
        "targets": case.targets,
        "floors": case.floors,
        "contenders": items,
        "duckdb_seconds": answer.seconds,
    }


def warm_up(
    spark: SparkSession, contender: str, case: JoinCase, source: Path, scratch: Path
) -> None:
    """A run over the first batches, so that code is compiled and workers are there."""
    few = scratch / "warm-up"
    shutil.rmtree(few, ignore_errors=True)
    for sub in folders(case.data):
        (few / sub).mkdir(parents=True)
        for path in sorted((source / sub).glob("*.parquet"))[: contenders.FILES_PER_BATCH]:
            (few / sub / path.name).hardlink_to(path)
    work = scratch / "out" / "warm-up"
    join_contenders.run(spark, contender, case.band, few, work, memory=case.memory)
    shutil.rmtree(few)


def checked(case: JoinCase, contender: str, run: Run, right: tuple[int, int]) -> None:
    """A run with other pairs than the right ones, or other batches, ends the benchmark."""
    batches = [b.rows for b in run.batches]
    if batches != [case.data.batch_rows] * case.data.batches:
        raise WrongAnswerError(f"{case.name}: {contender} had batches of {batches} rows")
    got = join_answers.content(run.out)
    if got != right:
        raise WrongAnswerError(
            f"{case.name}: {contender} gave {got[0]} pairs (checksum {got[1]}), "
            f"right are {right[0]} (checksum {right[1]})"
        )


def memories(
    options: Namespace, case: JoinCase, source: Path, scratch: Path
) -> list[dict[str, Any]]:
    """Peak memory of each contender in a process of its own; RocksDB is left out for its time."""
    found = []
    for contender in case.contenders:
        if contender in NATIVES and contender != HEAP:
            continue
        job = {
            "contender": contender,
            "band": case.band,
            "memory": case.memory,
            "source": str(source),
            "work": str(scratch / "out" / "child"),
            "heap": options.heap,
        }
        log = scratch / "log" / f"memory-join-{case.name}-{contender}.log"
        _, peak = memory.run_child(job, log)
        say(f"{case.name}: {contender}, memory: {peak.pss / 1e6:.0f} MB at the peak")
        found.append({"case": case.name, "contender": contender, **asdict(peak)})
    return found
