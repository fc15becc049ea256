"""Catching up after an outage: a live view that keeps a pace, and one that works through hours that nobody will look at.

Beside them runs one that keeps a pace and has next to no rows: what its batch takes, the first batch of any query takes.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks import contenders
from benchmarks.feedback_data import OLD_DDL, START, old_rows, shown, written
from benchmarks.feedback_live import driver_cpu, ratios, spread
from benchmarks.record import say
from benchmarks.windows import WrongAnswerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEHIND, PACED, FEW = "all", "paced", "near-empty"
FEW_ROWS = 200
LIMIT_SECONDS = 300
INPUTS = ("clean", "repaired")


@dataclass(frozen=True)
class CatchUp:
    """Old rows in files by time, read in one batch: two streams of ``files`` files each."""

    file_rows: int = 1_000_000
    files: int = 25
    file_seconds: int = 720
    rounds: int = 10
    first: int = 0

    @property
    def name(self) -> str:
        """What ``--cases`` finds it by."""
        return "catch-up"

    @property
    def bars(self) -> Mapping[str, float]:
        """What is to be reached: times faster, and the share of bytes that is read."""
        return {"time": 4.0, "read": 0.02}

    @property
    def missing(self) -> str:
        """What the product lacks for it; empty if nothing."""
        import slackwater as sw

        return "" if hasattr(sw.Stream, "pace") else "streams have no pace yet"

    @property
    def newest(self) -> int:
        """The clock's reading, microseconds: the end of the files."""
        return START + self.files * self.file_seconds * 1_000_000

    def folders(self, scratch: Path, *, few: bool = False) -> dict[str, Path]:
        """The files of both inputs; if there are to be ``few`` rows, one file of each."""
        if few:
            last = {"file_rows": FEW_ROWS, "files": 1, "file_seconds": LIMIT_SECONDS}
            ends = self.files * self.file_seconds // LIMIT_SECONDS - 1
            return replace(self, **last, first=ends).folders(scratch / "few")
        found = {}
        for salt, name in enumerate(INPUTS, 20):
            size = f"old-{self.file_rows}-{self.file_seconds}"
            kept = scratch / "data" / (f"{size}-{self.first}" if self.first else size) / name
            found[name] = scratch / "old" / name
            shutil.rmtree(found[name], ignore_errors=True)
            for n in range(self.first, self.first + self.files):

                def make(n: int = n, salt: int = salt) -> Any:
                    return old_rows(n, self.file_rows, self.file_seconds, salt)

                group = max(1, self.file_rows // 20)
                shown(written(kept, f"f{n:03d}", make, self.file_rows, group=group), found[name], n)
        return found


@dataclass(frozen=True)
class Once:
    """One query, of one batch: its progress record, CPU milliseconds of the driver, and milliseconds by what they went to."""

    record: Mapping[str, Any]
    cpu: float
    phases: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """Of the batch, by Spark's count."""
        return float(self.record["durationMs"]["triggerExecution"]) / 1000


def catch_up(spark: SparkSession, case: CatchUp, scratch: Path) -> dict[str, Any]:
    """Measure all in turns; the first round is to warm up."""
    folders, few = case.folders(scratch), case.folders(scratch, few=True)
    size = sum(f.stat().st_size for folder in folders.values() for f in folder.iterdir())
    found: dict[str, list[Once]] = {BEHIND: [], PACED: [], FEW: []}
    not_read, results = 0, 0
    for number in range(case.rounds + 1):
        names = list(found) if number % 2 == 0 else list(found)[::-1]
        for name in names:
            work = scratch / "out" / name
            read = few if name == FEW else folders
            done = once(spark, case, read, work, paced=name != BEHIND)
            if number:
                found[name].append(done)
            if name == PACED:
                not_read = int(done.record.get("feedback", {}).get("notRead", {}).get("bytes", 0))
        results = same(case, {name: scratch / "out" / name / "out" for name in (BEHIND, PACED)})
        taken = ", ".join(f"{n} {v[-1].seconds:.2f}" for n, v in found.items() if v)
        say(f"{case.name}, round {number} of {case.rounds}: {taken} s")
    seconds = {name: [o.seconds for o in each] for name, each in found.items()}
    return {
        "name": case.name, "bars": dict(case.bars), "rows": 2 * case.files * case.file_rows,
        "time": ratios(seconds[BEHIND], seconds[PACED]), "read": 1 - not_read / size, "results": results,
        "seconds": {n: spread(v) for n, v in seconds.items()},
        "phases": {n: _medians([o.phases for o in each]) for n, each in found.items()},
        "cpu_ms": {n: median(o.cpu for o in each) for n, each in found.items()},
    }  # fmt: skip


def _medians(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {phase: median(one[phase] for one in each) for phase in each[0]}


def once(
    spark: SparkSession, case: CatchUp, folders: Mapping[str, Path], work: Path, *, paced: bool
) -> Once:
    """One query over all files, in one batch."""
    import slackwater as sw
    from slackwater.testing import ManualClock

    shutil.rmtree(work, ignore_errors=True)
    streams = [
        sw.stream(
            sw.readStream(spark).schema(OLD_DDL).parquet(str(folders[name])),
            time="ts", name=name, progress=sw.BoundedDelay("1 second"),
        )
        for name in INPUTS
    ]  # fmt: skip
    both: Any = streams[0].union(streams[1])
    if paced:
        both = both.pace(f"{LIMIT_SECONDS} seconds", clock=True)
    counts = both.groupBy("k", sw.window("1 minute")).agg("count(*) AS n")
    writer = counts.writeStream.format("parquet").option("path", str(work / "out"))
    writer = writer.option("checkpointLocation", str(work / "checkpoint"))
    with driver_cpu() as cpu:
        query = writer.clock(ManualClock(case.newest)).trigger(availableNow=True).start()
        query.awaitTermination()
    (record,) = [r for r in query.recentProgress if r["numInputRows"]]
    number = int(record["batchId"])
    stages = contenders.stage_seconds(spark, str(query.runId)).get(number, [])
    used = next(1000 * v for (_, batch), v in cpu.items() if batch == number)
    return Once(dict(record), used, phases(record["durationMs"], [1000 * s for s in stages]))


def phases(times: Mapping[str, float], stages: Sequence[float]) -> dict[str, float]:
    """A batch's milliseconds by what they went to; they add up to the whole.

    >>> made = phases({"triggerExecution": 90, "addBatch": 60, "plan": 10, "job": 40, "commit": 4, "publish": 1}, [15, 5])
    >>> made["Spark's own"], made["launch"], made["in and out of the callback"], sum(made.values())
    (30, 20, 5, 90)
    """
    inside = sum(times[n] for n in ("plan", "job", "commit", "publish"))
    return {
        "Spark's own": times["triggerExecution"] - times["addBatch"],
        "in and out of the callback": times["addBatch"] - inside,
        "plan": times["plan"],
        "launch": times["job"] - sum(stages),
        "first stage": sum(stages[:1]),
        "group stages": sum(stages[1:]),
        "commit and publish": times["commit"] + times["publish"],
    }


def same(case: CatchUp, out: Mapping[str, Path]) -> int:
    """How many results of the last minutes there are: the same in both."""
    con = duckdb.connect()
    first = case.newest - LIMIT_SECONDS * 1_000_000
    texts = [
        f"""SELECT k, epoch_us("window"."end"), n FROM read_parquet('{out[name]}/*.parquet')
            WHERE epoch_us("window"."start") >= {first}"""
        for name in (BEHIND, PACED)
    ]
    for one, other in (texts, texts[::-1]):
        odd = con.sql(f"SELECT count(*) FROM (({one}) EXCEPT ALL ({other}))").fetchall()[0][0]
        if odd:
            raise WrongAnswerError(f"{case.name}: {odd} results of the last minutes differ")
    return int(con.sql(f"SELECT count(*) FROM ({texts[0]})").fetchall()[0][0])
