"""Joins with a table larger than memory, beside Spark's stream–static join as it is usually written, and tuned.

The table is sorted by its key and may take a 25th of its decoded size in memory. The stream's keys are near each other in time (``clustered``), in
a hot spot that moves on with each batch (``hot``), anywhere (``uniform``), or by Zipf's law, scattered over the table (``zipf``). In one case rows of
ours may wait for a read as long as ten batches take.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import contenders, tables
from benchmarks.cases import NATIVE, SPLITS
from benchmarks.contenders import FILES_PER_BATCH, Run
from benchmarks.datagen import SCHEMA_DDL, START_MICROS
from benchmarks.record import say
from benchmarks.windows import WrongAnswerError, seconds, summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TUNED = "tuned"
"""Spark with the stream's side broadcast and the relation persisted."""

MEMORY_ALONE = "memory alone"
"""Ours with ``relationDisk`` at 0: executors keep no more than ``memory`` of the table decoded."""

NO_JOIN = "no join"
"""Ours without the join: the rows as they come."""

ROW_BYTES = 44
"""What a row of the table takes decoded, about."""

GROUPS = 400
"""Row groups of the table: of 50,000 rows each at full size."""
MEMORY_SHARE = 25


@dataclass(frozen=True)
class LargeCase:
    """Which keys come, and how many times faster than Spark it should be: as it is written, and tuned."""

    kind: str
    target: float
    tuned: float
    rounds: int = 3
    table_rows: int = 20_000_000
    batch_rows: int = 500_000
    batches: int = 3
    share: int = MEMORY_SHARE
    wait: int = 0
    """How many batches rows of ours may wait."""
    batch_seconds: float = 1.0
    """How long a batch takes, about: the deadline is a time."""

    @property
    def name(self) -> str:
        """E.g. ``large-uniform``."""
        return f"large-{self.kind}" + ("-deadline" if self.wait else "")

    @property
    def deadline(self) -> str:
        """How long rows of ours may wait."""
        return f"{round(1000 * self.wait * self.batch_seconds)} milliseconds"

    @property
    def memory(self) -> int:
        """How much of the table may be in memory."""
        return self.table_rows * ROW_BYTES // self.share

    @property
    def quick(self) -> LargeCase:
        """A small one, to see that it runs."""
        return replace(self, rounds=1, table_rows=1_000_000, batch_rows=10_000, batch_seconds=0.3)


CASES = (
    LargeCase("clustered", 15.0, 3.0),
    LargeCase("hot", 8.0, 1.5),
    LargeCase("hot", 12.0, 2.5, batches=14, wait=10),
    LargeCase("uniform", 6.0, 1.0),
    LargeCase("zipf", 6.0, 1.0),
)


def write_table(folder: Path, rows: int) -> Path:
    """The table: five columns, sorted by its key, in `GROUPS` row groups."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng, writer = np.random.default_rng(7), None
    for first in range(0, rows, 1_000_000):
        keys = np.arange(first, min(rows, first + 1_000_000), dtype=np.int64)
        made = pa.table(
            {
                "k": keys,
                "weight": rng.integers(0, 1000, len(keys)),
                "price": rng.random(len(keys)),
                "factor": rng.random(len(keys)),
                "name": pa.array((keys % 99_991).astype(str)),
            }
        )
        if writer is None:
            writer = pq.ParquetWriter(folder / "part.parquet", made.schema)
        writer.write_table(made, row_group_size=max(1, rows // GROUPS))
    assert writer is not None
    writer.close()
    return folder


def write_stream(folder: Path, case: LargeCase) -> Path:
    """The stream's files, `FILES_PER_BATCH` to a batch."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = np.random.default_rng(17)
    for batch in range(case.batches):
        keys = keys_of(case, batch, rng)
        at = START_MICROS + np.arange(batch * len(keys), (batch + 1) * len(keys)) * 10
        made = pa.table(
            {
                "k": keys,
                "v": rng.integers(0, 100, len(keys)),
                "ts": pa.array(at, pa.timestamp("us", "UTC")),
            }
        )
        share = len(keys) // FILES_PER_BATCH
        for part in range(FILES_PER_BATCH):
            path = folder / f"{batch:04d}-{part}.parquet"
            pq.write_table(made.slice(part * share, share), path)
    return folder


def keys_of(case: LargeCase, batch: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The keys of a batch."""
    n, domain = case.batch_rows, case.table_rows
    if case.kind == "uniform":
        return rng.integers(0, domain, n)
    if case.kind == "zipf":
        # Zipf's law with exponent 1, by the inverse of its distribution; a rank's key is anywhere.
        ranks = np.exp(rng.random(n) * np.log(domain)).astype(np.int64)
        return np.asarray(ranks * 2_654_435_761 % domain)
    width = domain // 50
    near = (batch * width + rng.integers(0, width, n)) % domain
    if case.kind == "clustered":
        return near
    return np.where(rng.random(n) < 0.9, near, rng.integers(0, domain, n))


def data_of(case: LargeCase, scratch: Path) -> tuple[Path, Path]:
    """The stream's files and the table's, which is written once."""
    table = scratch / "data" / f"large-{case.table_rows}"
    if not (table / "done").exists():
        write_table(table, case.table_rows)
        (table / "done").touch()
    return write_stream(scratch / "data" / case.name, case), table


def one_case(spark: SparkSession, case: LargeCase, scratch: Path) -> dict[str, Any]:
    """All rounds of a case, the contenders in turns. Before them those whose rounds are short run once as a warm-up."""
    source, table = data_of(case, scratch)
    runs: dict[str, list[Run]] = {NATIVE: [], TUNED: [], SPLITS: [], MEMORY_ALONE: []}
    reads: dict[str, list[Any]] = {}
    for number in range(case.rounds + 1):
        for contender, done in runs.items():
            if contender == NATIVE and not number:
                continue
            run, reads[contender] = measured(spark, contender, case, source, table, scratch)
            taken = " ".join(f"{b.seconds:.2f}" for b in run.batches)
            say(f"{case.name}: {contender}, round {number} of {case.rounds}: {taken} s a batch")
            if number:
                done.append(run)
    ours = seconds(runs[SPLITS])
    return {
        "name": case.name,
        "target": case.target,
        "tuned_target": case.tuned,
        "data": asdict(case),
        "contenders": {c: summary(r) for c, r in runs.items()},
        "reads": {c: reads[c] for c in (SPLITS, MEMORY_ALONE)},
        "against_native": tables.ratio(seconds(runs[NATIVE]), ours),
        "against_tuned": tables.ratio(seconds(runs[TUNED]), ours),
    }


def measured(
    spark: SparkSession, contender: str, case: LargeCase, source: Path, table: Path, scratch: Path
) -> tuple[Run, list[Any]]:
    """One run, its answer checked; and what it read of the table in each batch."""
    work = scratch / "out" / contender.replace(" ", "-")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    query = started(spark, contender, case, source, table, work)
    run = contenders.finished(spark, query, work, None)
    records = list(query.recentProgress)
    if case.wait and contender in (SPLITS, MEMORY_ALONE):
        # What still waits comes out when the stream ends, which is another start.
        last = started(spark, contender, case, source, table, work, endOfStream=True)
        last.awaitTermination()
        drained = sum(r["durationMs"]["total"] for r in last.recentProgress) / 1000
        run = evened(run, drained)
    elif case.wait:
        run = evened(run, 0.0)
    if contender == TUNED:
        spark.catalog.clearCache()
    if contender != NO_JOIN:
        check(contender, case, source, table, work / "out")
    shutil.rmtree(work, ignore_errors=True)
    names = ("hits", "misses", "reads", "residentBytes")
    read = []
    for record in records if contender in (SPLITS, MEMORY_ALONE) else ():
        figures = record["relations"]["r"]
        read.append({n: figures[n] for n in names})
    return run, read


def evened(run: Run, drained: float) -> Run:
    """The run with the mean in the place of each warm batch, with the seconds of the batch in which those leave that still wait: rows that
    wait leave others their work.
    """
    first, *warm = run.batches
    mean = (sum(b.seconds for b in warm) + drained) / len(warm)
    return replace(run, batches=[first, *(replace(b, seconds=mean) for b in warm)])


def started(
    spark: SparkSession,
    contender: str,
    case: LargeCase,
    source: Path,
    table: Path,
    work: Path,
    **options: Any,
) -> Any:
    """A contender's query: joined rows, written as parquet."""
    from pyspark.sql import functions as F

    import slackwater as sw

    writer: Any
    if contender in (SPLITS, MEMORY_ALONE, NO_JOIN):
        files = sw.readStream(spark).schema(SCHEMA_DDL)
        frame = files.option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(source))
        stream = sw.stream(frame, time="ts", name="input", progress=sw.BoundedDelay("1 second"))
        if contender != NO_JOIN:
            relation = sw.relation(str(table), "k", "r", memory=case.memory, spark=spark)
            stream = stream.join(relation, "k", deadline=case.deadline if case.wait else None)
        writer = stream.writeStream
        for name, value in options.items():
            writer = writer.option(name, value)
        if contender == MEMORY_ALONE:
            writer = writer.option("relationDisk", "0")
    else:
        reader = spark.readStream.schema(SCHEMA_DDL)
        rows = reader.option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(source))
        static = spark.read.parquet(str(table))
        if contender == TUNED:
            static, rows = static.persist(), F.broadcast(rows)
        writer = rows.join(static, "k").writeStream.outputMode("append")
    writer = writer.format("parquet").option("path", str(work / "out"))
    writer = writer.option("checkpointLocation", str(work / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def check(contender: str, case: LargeCase, source: Path, table: Path, out: Path) -> None:
    """Compare an answer with that of a batch query; a difference ends the benchmark."""
    totals = "count(*), sum(k * v), sum(weight), sum(length(name)), round(sum(price), 3)"
    joined = f"FROM '{source}/*.parquet' JOIN '{table}/*.parquet' USING (k)"
    written = max(p.stat().st_mtime_ns for p in (*source.iterdir(), *table.iterdir()))
    wanted = _answer(f"SELECT {totals} {joined}", written)
    given = _answer(f"SELECT {totals} FROM read_parquet('{out}/*.parquet')", time.monotonic_ns())
    if wanted != given:
        raise WrongAnswerError(f"{case.name}: {contender} gave {given}, not {wanted}")


@lru_cache(maxsize=8)
def _answer(sql: str, _: int) -> list[Any]:
    """What a batch query gives; asked once for all rounds over the same files."""
    return duckdb.connect().sql(sql).fetchall()
