"""One side of `benchmarks.between`: runs the rounds that it is asked for, with the modules of the tree on the path.

It is not imported but given to Python as text, so that an earlier commit, which does not have it, can be measured.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from statistics import mean, median
from typing import Any

import slackwater
from benchmarks import cases, contenders, datagen, join_answers, join_cases, join_contenders, joins
from benchmarks import windows as window_benchmark
from slackwater.engine.store import history


def main() -> None:
    """Read an order a line, answer with seconds a line."""
    scratch, name, heap = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    assert str(slackwater.__file__).startswith(str(Path.cwd())), "the package of another tree"
    spark = contenders.session(heap)
    for line in sys.stdin:
        order = json.loads(line)
        run = windows if order["benchmark"] == "windows" else join
        seconds = run(spark, order, scratch, scratch / name)
        print(f"answer: {seconds}", flush=True)
    spark.stop()


def windows(spark: Any, order: dict[str, Any], scratch: Path, own: Path) -> float:
    """Median seconds of a warm batch; 0 if the round is only to warm up."""
    case = next(c for c in cases.FULL if c.name == order["case"])
    source, contender = datagen.prepare(case.data, scratch), order["contender"]
    if order["warm_up"]:
        window_benchmark.warm_up(spark, contender, case, source, own)
        return 0.0
    run = contenders.run(spark, contender, case.window, source, own / "out" / contender)
    window_benchmark.checked(contender, case, source, run)
    return median(b.seconds for b in run.warm())


def join(spark: Any, order: dict[str, Any], scratch: Path, own: Path) -> float:
    """Mean seconds of a warm batch, since passes over what is on disk come now and then; 0 as for windows."""
    case = next(c for c in join_cases.FULL if c.name == order["case"])
    case = replace(case, memory=order["memory"] or case.memory)
    source, contender = join_cases.prepare(case.data, scratch), order["contender"]
    if order["warm_up"]:
        joins.warm_up(spark, contender, case, source, own)
        return 0.0
    work = own / "out" / contender
    run = join_contenders.run(spark, contender, case.band, source, work, memory=case.memory)
    joins.checked(case, contender, run, _right(case.band, source, own / "duckdb.parquet"))
    if order["tasks"]:
        warm = {b.id for b in run.warm(case.skip)}
        records = [r for r in history.read(work / "checkpoint") if r["batchId"] in warm]
        return mean([float(o["seconds"]) for r in records for o in r["operators"].values()])
    return mean(b.seconds for b in run.warm(case.skip))


@lru_cache(maxsize=1)
def _right(band: int, source: Path, out: Path) -> tuple[int, int]:
    """The right answer to a case, computed once for all rounds."""
    return join_answers.in_batch(band, source, out).content


if __name__ == "__main__":
    main()
