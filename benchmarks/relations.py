"""``python -m benchmarks relations``: joins with a table of 100,000 rows beside Spark's stream–static join, over the same files.

Both read the same stream files, two to a batch, and the same table, and write parquet: the joined rows, or windows of 60 s / 5 s by an
attribute of the table. Delays are far below the slack, so that no row is late and there is one right answer, which a batch query gives.
"""

from __future__ import annotations

import json
import shutil
import time
from argparse import Namespace
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import contenders, large_relations, relation_costs, relations_page, tables
from benchmarks.cases import NATIVE, SPLITS, selected
from benchmarks.contenders import DELAY_TEXT, FILES_PER_BATCH, Run
from benchmarks.datagen import SCHEMA_DDL, Data, prepare
from benchmarks.large_relations import LargeCase
from benchmarks.record import RESULTS, ROOT, heading, say, store, written
from benchmarks.windows import WrongAnswerError, seconds, summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE_ROWS = 100_000
ATTRIBUTES = 100
RANGE, SLIDE, DELAY = 60, 5, 10
PAGE = ROOT / "docs" / "relations-benchmark.md"


@dataclass(frozen=True)
class RelationCase:
    """What is made of the joined rows, and how many times faster it should be, at least."""

    kind: str
    data: Data
    target: float
    rounds: int = 3

    @property
    def name(self) -> str:
        """E.g. ``whole-rows``."""
        return f"whole-{self.kind}"


STREAM = Data(batches=6, batch_rows=500_000, keys=TABLE_ROWS, mean_delay_seconds=0.3)
CASES = (RelationCase("rows", STREAM, 1.3), RelationCase("windows", STREAM, 3.0))


TAKES = "At full size all of it takes about 20 minutes on two cores that nobody else uses, most of them for Spark's two forms."
COSTS = ("empty", "curves", "memory")
"""Parts beside the cases, by which ``--cases`` may name them, too."""


def main(options: Namespace) -> None:
    """Measure, print, write. What is not measured now stays as it was."""
    scratch = Path(options.scratch).absolute()
    every: list[RelationCase | LargeCase] = [*CASES, *large_relations.CASES]
    if options.quick:
        small = replace(STREAM, batches=3, batch_rows=20_000, rate=1_000)
        whole = [replace(c, data=small, rounds=1) for c in CASES]
        every = [*whole, *(c.quick for c in large_relations.CASES)]
    asked = (options.cases or "").split(",")
    costs = [c for c in COSTS if not options.cases or c in asked]
    if not options.cases or set(asked) - {*COSTS}:
        every = selected(every, every, options.cases, options.rounds)
    else:
        every = []
    head = heading(quick=options.quick, heap=options.heap, cores=contenders.CORES)
    stamp = {k: head[k] for k in ("date", "commit")}
    found: dict[str, Any] = {**head, **known(quick=options.quick)}

    def keep(part: str, made: Any) -> None:
        """After each part: what was measured is kept if a later one fails."""
        if part in ("cases", "large"):
            rest = [c for c in found[part] if c["name"] != made["name"]]
            order = [c.name for c in (*CASES, *large_relations.CASES)]
            found[part] = sorted([*rest, {**made, **stamp}], key=lambda c: order.index(c["name"]))
        else:
            found[part] = {"figures": made, **stamp}
        store("relations", found, quick=options.quick)

    parts = [c.name for c in every] + [c for c in costs if not getattr(options, f"no_{c}", False)]
    rounds = ", ".join(f"{c.name} {c.rounds}" for c in every)
    say(
        f"to do: {', '.join(parts)}. Rounds after one to warm up, the contenders in turns: {rounds or 'none'}. "
        + TAKES
    )
    began = time.monotonic()

    def after(part: str) -> None:
        say(f"{part} is done; {(time.monotonic() - began) / 60:.1f} minutes so far")

    spark = contenders.session(options.heap)
    try:
        table = write_table(scratch / "data" / "relation")
        for case in every:
            if isinstance(case, LargeCase):
                keep("large", large_relations.one_case(spark, case, scratch))
            else:
                source = prepare(case.data, scratch)
                keep("cases", one_case(spark, case, source, table, scratch))
            after(case.name)
        if "empty" in costs:
            keep("empty", relation_costs.near_empty(spark, scratch, quick=options.quick))
            after("empty")
        if "curves" in costs and not options.no_curves:
            keep("curves", relation_costs.curves(spark, scratch, quick=options.quick))
            after("curves")
    finally:
        spark.stop()
    if "memory" in costs and not options.no_memory:
        keep("memory", relation_costs.memories(options, scratch))
        after("memory")
    text = relations_page.page(found)
    print(text)
    if not options.quick:
        PAGE.write_text(text)
        written(PAGE)


def known(*, quick: bool) -> dict[str, Any]:
    """What was measured before; a quick run begins with nothing."""
    target = RESULTS / "relations.json"
    parts = ("cases", "large", *COSTS)
    if quick or not target.exists():
        return {"cases": [], "large": []}
    before = json.loads(target.read_text(encoding="utf-8"))
    stamp = {k: before[k] for k in ("date", "commit")}
    stamped = {p: [{**stamp, **c} for c in before.get(p, [])] for p in ("cases", "large")}
    return {p: before[p] for p in parts if p in before} | stamped


def write_table(folder: Path) -> Path:
    """The table: a key, an attribute, a weight, and a text that nobody reads."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = np.random.default_rng(7)
    keys = np.arange(TABLE_ROWS, dtype=np.int64)
    made = pa.table(
        {
            "k": keys,
            "attribute": pa.array([f"kind {i}" for i in rng.integers(0, ATTRIBUTES, TABLE_ROWS)]),
            "weight": rng.integers(0, 10, TABLE_ROWS),
            "remark": pa.array([f"remark number {i}" for i in keys]),
        }
    )
    pq.write_table(made, folder / "part.parquet")
    return folder


def one_case(
    spark: SparkSession, case: RelationCase, source: Path, table: Path, scratch: Path
) -> dict[str, Any]:
    """All rounds of a case, the contenders in turns; the first round of each is a warm-up."""
    runs: dict[str, list[Run]] = {NATIVE: [], SPLITS: []}
    for number in range(case.rounds + 1):
        for contender, done in runs.items():
            work = scratch / "out" / contender
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            query = started(spark, contender, case, source, table, work)
            run = contenders.finished(spark, query, work, None)
            check(contender, case, source, table, work / "out")
            taken = " ".join(f"{b.seconds:.2f}" for b in run.warm())
            say(f"{case.name}: {contender}, round {number} of {case.rounds}: {taken} s a batch")
            shutil.rmtree(work, ignore_errors=True)
            if number:
                done.append(run)
    measured = {c: summary(r) for c, r in runs.items()}
    gained = tables.ratio(seconds(runs[NATIVE]), seconds(runs[SPLITS]))
    return {
        "name": case.name,
        "target": case.target,
        "data": asdict(case.data),
        "contenders": measured,
        "against_native": gained,
    }


def started(
    spark: SparkSession, contender: str, case: RelationCase, source: Path, table: Path, work: Path
) -> Any:
    """A contender's query."""
    from pyspark.sql import functions as F

    import slackwater as sw

    windows = f"{RANGE} seconds", f"{SLIDE} seconds"
    made = [F.sum("v").alias("s"), F.count("*").alias("n")]
    writer: Any
    if contender == NATIVE:
        reader = spark.readStream.schema(SCHEMA_DDL)
        rows = reader.option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(source))
        joined = rows.join(spark.read.parquet(str(table)), "k").drop("remark")
        if case.kind == "windows":
            late = joined.withWatermark("ts", DELAY_TEXT)
            joined = late.groupBy(F.window("ts", *windows), "attribute").agg(*made)
        writer = joined.writeStream.outputMode("append")
    else:
        files = sw.readStream(spark).schema(SCHEMA_DDL)
        frame = files.option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(source))
        stream = sw.stream(frame, time="ts", name="input", progress=sw.BoundedDelay(DELAY_TEXT))
        pairs: Any = stream.join(sw.relation(str(table), "k", "r", spark=spark).drop("remark"), "k")
        if case.kind == "windows":
            pairs = pairs.groupBy("attribute", sw.window(*windows)).agg(*made)
        writer = pairs.writeStream
    writer = writer.format("parquet").option("path", str(work / "out"))
    writer = writer.option("checkpointLocation", str(work / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def check(contender: str, case: RelationCase, source: Path, table: Path, out: Path) -> None:
    """Compare an answer with that of a batch query; a difference ends the benchmark."""
    joined = f"FROM '{source}/*.parquet' JOIN '{table}/*.parquet' USING (k)"
    read = f"read_parquet('{out}/*.parquet')"
    con = duckdb.connect()
    if case.kind == "rows":
        totals = "count(*), sum(k * v), sum(weight), sum(length(attribute))"
        wanted = con.sql(f"SELECT {totals} {joined}").fetchall()
        given = con.sql(f"SELECT {totals} FROM {read}").fetchall()
        if wanted != given:
            raise WrongAnswerError(f"{case.name}: {contender} gave {given}, not {wanted}")
        return
    ends = f"(epoch_us(ts) // {SLIDE * 1_000_000} + 1 + i) * {SLIDE * 1_000_000}"
    whole = f"""
        SELECT attribute, w, sum(v) AS s, count(*) AS n FROM (
            SELECT attribute, v, {ends} AS w {joined}, range({RANGE // SLIDE}) AS r(i))
        WHERE w <= (SELECT epoch_us(max(ts)) - {DELAY * 1_000_000} FROM '{source}/*.parquet')
        GROUP BY ALL"""
    own = f'SELECT attribute, epoch_us("window"."end") AS w, s, n FROM {read}'
    wrong = con.sql(f"SELECT count(*) FROM (({own}) EXCEPT ({whole}))").fetchall()[0][0]
    # Native closes a window by the watermark of the batch before, and may not have come to the last ones.
    lacks = con.sql(f"SELECT count(*) FROM (({whole}) EXCEPT ({own}))").fetchall()[0][0]
    if wrong or (contender != NATIVE and lacks):
        raise WrongAnswerError(f"{case.name}: {contender} has {wrong} wrong, lacks {lacks} windows")
