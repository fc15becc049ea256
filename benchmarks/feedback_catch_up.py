"""Catching up after an outage: a live view that keeps a pace, and one that works through hours that nobody will look at."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks.feedback_data import OLD_DDL, START, old_rows, shown, written
from benchmarks.feedback_live import ratios, spread
from benchmarks.record import say
from benchmarks.windows import WrongAnswerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEHIND, PACED = "all", "paced"
LIMIT_SECONDS = 300
INPUTS = ("clean", "repaired")


@dataclass(frozen=True)
class CatchUp:
    """Old rows in files by time, read in one batch: two streams of ``files`` files each."""

    file_rows: int = 1_000_000
    files: int = 25
    file_seconds: int = 720
    rounds: int = 10

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

    def folders(self, scratch: Path) -> dict[str, Path]:
        """The files of both inputs."""
        found = {}
        for salt, name in enumerate(INPUTS, 20):
            kept = scratch / "data" / f"old-{self.file_rows}-{self.file_seconds}" / name
            found[name] = scratch / "old" / name
            shutil.rmtree(found[name], ignore_errors=True)
            for n in range(self.files):

                def make(n: int = n, salt: int = salt) -> Any:
                    return old_rows(n, self.file_rows, self.file_seconds, salt)

                group = max(1, self.file_rows // 20)
                shown(written(kept, f"f{n:03d}", make, self.file_rows, group=group), found[name], n)
        return found


def catch_up(spark: SparkSession, case: CatchUp, scratch: Path) -> dict[str, Any]:
    """Measure both in turns; the first pair is to warm up."""
    folders = case.folders(scratch)
    size = sum(f.stat().st_size for folder in folders.values() for f in folder.iterdir())
    seconds: dict[str, list[float]] = {BEHIND: [], PACED: []}
    not_read, results = 0, 0
    for number in range(case.rounds + 1):
        order = (BEHIND, PACED) if number % 2 == 0 else (PACED, BEHIND)
        out = {}
        for name in order:
            work = scratch / "out" / name
            record = once(spark, case, folders, work, paced=name == PACED)
            out[name] = work / "out"
            if number:
                seconds[name].append(record["durationMs"]["triggerExecution"] / 1000)
            if name == PACED:
                not_read = int(record.get("feedback", {}).get("notRead", {}).get("bytes", 0))
        results = same(case, out)
        taken = ", ".join(f"{n} {v[-1]:.2f}" for n, v in seconds.items() if v)
        say(f"{case.name}, round {number} of {case.rounds}: {taken} s")
    return {
        "name": case.name, "bars": dict(case.bars), "rows": 2 * case.files * case.file_rows,
        "time": ratios(seconds[BEHIND], seconds[PACED]), "read": 1 - not_read / size, "results": results,
        "seconds": {n: spread(v) for n, v in seconds.items()},
    }  # fmt: skip


def once(
    spark: SparkSession, case: CatchUp, folders: Mapping[str, Path], work: Path, *, paced: bool
) -> dict[str, Any]:
    """One query over all files, in one batch; the record of that batch."""
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
    query = writer.clock(ManualClock(case.newest)).trigger(availableNow=True).start()
    query.awaitTermination()
    (record,) = [r for r in query.recentProgress if r["numInputRows"]]
    return dict(record)


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
