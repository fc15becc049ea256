"""Queries that live side by side and get the same batches in turns, so that each round compares them in the same minute.

A query without work looks for files five times a second, which costs the others next to nothing.
"""

from __future__ import annotations

import gc
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from math import comb
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import contenders
from benchmarks.feedback_data import shown
from benchmarks.record import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLLING = "spark.sql.streaming.pollingDelay"

Build = Callable[[Mapping[str, Path]], Any]
"""The result stream of a query over the folders of its inputs, by name."""
Files = Mapping[str, Path]
"""The files of one batch, by input."""
Cpu = Mapping[tuple[str, int], float]
"""CPU seconds of the driver, by a query's part of its checkpoint and the batch."""


@contextmanager
def driver_cpu() -> Iterator[Cpu]:
    """What batches take of the thread that runs them in the driver.

    That is all of the driver's own work on a batch: it decides, writes, makes the job, reads its reports and commits. Threads of
    py4j and of this benchmark are not in it, and a thread's CPU does not grow while it waits for a core that others use.
    """
    from slackwater.engine.driver.loop import Loop

    found: dict[tuple[str, int], float] = {}
    run = Loop.run

    def measured(loop: Loop, frame: Any, batch: int) -> None:
        begin = time.thread_time()
        try:
            run(loop, frame, batch)
        finally:
            found[str(loop.checkpoint.root), batch] = time.thread_time() - begin

    Loop.run = measured  # type: ignore[method-assign, assignment]
    try:
        yield found
    finally:
        Loop.run = run  # type: ignore[method-assign]


@contextmanager
def collected_between() -> Iterator[None]:
    """Collect garbage between batches, and not in whichever one comes to it."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


@dataclass(frozen=True)
class Treatment:
    """One of the queries that are compared: what is ignored from the first batch on, and the reach of that.

    ``sparse``: its files are those with nearly no rows.
    """

    name: str
    ignored: tuple[Any, ...] = ()
    reach: str = "source"
    sparse: bool = False
    build: Build | None = None


@dataclass
class Step:
    """What files gave: seconds of the batch and of its first stage, CPU seconds of the driver, and progress records.

    ``sending`` are CPU seconds in which something was sent to the query; ``cpu`` are those of the batch (`driver_cpu`).

    There is one record, or there are several where a batch began between the files of two inputs. ``alone`` says whether
    there was no other batch: one that begins just before the files are there takes in by itself what was sent.
    """

    seconds: float
    cpu: float
    records: list[dict[str, Any]]
    sending: float = 0.0
    scan: float = 0.0
    alone: bool = True

    @property
    def record(self) -> dict[str, Any]:
        """The last one."""
        return self.records[-1]


@dataclass
class Live:
    """A query that runs until `stop`, and is given its batches one by one."""

    spark: SparkSession
    treatment: Treatment
    query: Any
    folders: Mapping[str, Path]
    work: Path
    cpu: Cpu
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        spark: SparkSession,
        treatment: Treatment,
        build: Build,
        inputs: Sequence[str],
        work: Path,
        cpu: Cpu,
    ) -> Live:
        """Start a query over empty folders."""
        import slackwater as sw

        shutil.rmtree(work, ignore_errors=True)
        folders = {name: work / "in" / name for name in inputs}
        for folder in folders.values():
            folder.mkdir(parents=True)
        spark.conf.set(POLLING, "200")
        result = (treatment.build or build)(folders)
        name = re.sub(r"\W", "_", treatment.name)
        writer = result.writeStream.queryName(name).format("parquet")
        query = sw.start(
            [writer.option("path", str(work / "out"))],
            checkpointLocation=str(work / "checkpoint"),
            trigger={"processingTime": "0 seconds"},
            options={"feedback": treatment.reach},
            feedback={name: list(treatment.ignored)} if treatment.ignored else None,
        )
        return cls(spark, treatment, query, folders, work, cpu)

    def step(self, files: Files, send: Callable[[Live], None] | None = None) -> Step:
        """One batch of files, from their appearance to the end of the batch; ``send`` is called as they appear."""
        known = {r["batchId"] for r in self.query.recentProgress}
        if not gc.isenabled():
            gc.collect()
        for name, file in files.items():
            shown(file, self.folders[name], len(self.steps))
        begin = time.thread_time()
        if send is not None:
            send(self)
        sent = time.thread_time() - begin
        self.query.processAllAvailable()
        records = [r for r in self.query.recentProgress if r["batchId"] not in known]
        with_rows = [r for r in records if r["numInputRows"]]
        if not with_rows:
            raise RuntimeError(f"{self.treatment.name}: no batch had rows")
        seconds = sum(r["durationMs"]["triggerExecution"] for r in with_rows) / 1000
        root = str(self.work / "checkpoint" / "slackwater")
        cpu = sum(self.cpu[root, r["batchId"]] for r in with_rows)
        alone = len(records) == len(with_rows)
        self.steps.append(Step(seconds, cpu, with_rows, sent, alone=alone))
        return self.steps[-1]

    def stop(self) -> None:
        """Stop the query; the times of its stages are looked up."""
        run = str(self.query.runId)
        self.query.stop()
        stages = contenders.stage_seconds(self.spark, run)
        for step in self.steps:
            times = stages.get(int(step.record["batchId"]), [])
            step.scan = times[0] if times else 0.0

    @property
    def out(self) -> Path:
        """Where its results are."""
        return self.work / "out"


@dataclass(frozen=True)
class Ran:
    """What the rounds gave: the steps of each treatment, those to warm up left out, and where results are."""

    steps: Mapping[str, list[Step]]
    all: Mapping[str, list[Step]]
    out: Mapping[str, Path]


def rounds(
    spark: SparkSession,
    treatments: Sequence[Treatment],
    build: Build,
    batches: Sequence[tuple[Files, Files]],
    work: Path,
    *,
    warm_up: int,
    before: Callable[[Live], None] | None = None,
    send: Callable[[Live], None] | None = None,
    label: str = "",
    collect: bool = True,
) -> Ran:
    """Give each query the same batches in turns. A batch is its files, and the files for treatments that are ``sparse``.

    ``before`` is called in front of each batch of a query, ``send`` as its files appear. Without ``collect``, garbage of the
    driver is collected between batches.
    """
    inputs = list(batches[0][0])
    lives: list[Live] = []
    with driver_cpu() as cpu, nullcontext() if collect else collected_between():
        try:
            lives.extend(
                Live.start(spark, t, build, inputs, work / t.name, cpu) for t in treatments
            )
            for number, (whole, sparse) in enumerate(batches):
                # The one that begins changes: what a batch leaves in caches helps the next.
                order = lives[number % len(lives) :] + lives[: number % len(lives)]
                for live in order:
                    if before is not None:
                        before(live)
                    live.step(sparse if live.treatment.sparse else whole, send)
                if label:
                    taken = ", ".join(
                        f"{x.treatment.name} {x.steps[-1].seconds:.2f}" for x in lives
                    )
                    say(f"{label}, batch {number + 1} of {len(batches)}: {taken} s")
        finally:
            for live in lives:
                live.stop()
    steps = {x.treatment.name: x.steps for x in lives}
    # Where a query began a batch between the files of two inputs, or between these and what was sent, the round is no
    # comparison of times.
    same = [
        i
        for i in range(warm_up, len(batches))
        if all(len(s[i].records) == 1 and (send is None or s[i].alone) for s in steps.values())
    ]
    return Ran(
        {name: [s[i] for i in same] for name, s in steps.items()},
        steps,
        {x.treatment.name: x.out for x in lives},
    )


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median, the least and the greatest.

    >>> spread([3.0, 1.0, 2.0])
    {'median': 2.0, 'least': 1.0, 'most': 3.0}
    """
    return {"median": median(values), "least": min(values), "most": max(values)}


def confident(values: Sequence[float]) -> dict[str, float]:
    """The median, and the range in which that of all such values lies with a confidence of 95 %: by ranks, whatever they are like.

    >>> confident([float(v) for v in range(11)])
    {'median': 5.0, 'low': 1.0, 'high': 9.0, 'values': 11}
    """
    ranked, count = sorted(values), len(values)
    rank, below = 0, 1.0
    while below <= 0.025 * 2**count:
        rank, below = rank + 1, below + comb(count, rank + 1)
    at = max(0, rank - 1)
    return {"median": median(ranked), "low": ranked[at], "high": ranked[-1 - at], "values": count}


def ratios(off: Sequence[float], on: Sequence[float]) -> dict[str, float]:
    """By how many times the second is less, pair by pair."""
    return spread([a / b if b else float("inf") for a, b in zip(off, on, strict=True)])


def saved(off: Sequence[float], on: Sequence[float], empty: Sequence[float]) -> dict[str, float]:
    """Which share of the time above a near-empty batch was saved, round by round.

    >>> saved([1.3, 1.3], [0.8, 1.05], [0.3, 0.3])
    {'median': 0.375, 'least': 0.25, 'most': 0.5}
    """
    return spread(
        [
            round((a - b) / (a - e), 4) if a > e else 0.0
            for a, b, e in zip(off, on, empty, strict=True)
        ]
    )


def seconds(steps: Sequence[Step]) -> list[float]:
    """Of whole batches."""
    return [s.seconds for s in steps]


def between(steps: Sequence[Step]) -> int:
    """Rows that operators were given and gave out, and rows of the outputs."""
    total = 0
    for record in records(steps):
        total += sum(o["rowsIn"] + o["rowsOut"] for o in record["operators"].values())
        total += sum(o["rows"] for o in record["outputs"].values())
    return total


def records(steps: Sequence[Step]) -> Iterator[dict[str, Any]]:
    """The progress records of some batches."""
    for step in steps:
        yield from step.records


def state_rows(step: Step) -> int:
    """Rows that operators keep after a batch."""
    return sum(int(o["state"]["rows"]) for o in step.record["operators"].values())


def dropped(steps: Sequence[Step]) -> dict[str, int]:
    """By place, rows that feedback dropped in some batches; a place is there as long as records are."""
    total: dict[str, int] = {}
    for record in records(steps):
        for name, place in record.get("feedback", {}).get("places", {}).items():
            total[name] = total.get(name, 0) + int(place["rowsDropped"])
    return {name: rows for name, rows in total.items() if rows}
