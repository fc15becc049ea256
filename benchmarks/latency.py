"""From a near-empty file to the visible result that it brings about.

A query runs all the time, with no pause between batches. Each file holds a few rows, twenty seconds of event
time after those of the file before, and so completes the window of the file before. Measured is the time from
the file's appearance until a reader can see that window's rows: for native until the sink's log has them (a
file that the log does not name is not a result), for ours until the file is in the output directory.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow.parquet as pq

from benchmarks import contenders
from benchmarks.cases import NATIVE, SECOND, TUMBLING
from benchmarks.datagen import START_MICROS, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEP_MICROS = 20 * SECOND
KEYS = 10
POLL_SECONDS = 0.002
GIVE_UP_SECONDS = 120


def measure(
    spark: SparkSession, contender: str, work: Path, *, drops: int, warm_up: int
) -> list[float]:
    """Seconds from file to result, ``drops`` times after ``warm_up`` more."""
    shutil.rmtree(work, ignore_errors=True)
    source = work / "in"
    source.mkdir(parents=True)
    drop(source, 0)
    query = contenders.start(
        spark, contender, TUMBLING, source, work, {"processingTime": "0 seconds"}
    )
    pause = random.Random(5)
    taken = []
    try:
        seen: set[str] = set()
        for number in range(1, drops + warm_up + 1):
            time.sleep(pause.uniform(0.6, 1.2))  # any phase of the query's own rhythm
            wanted = window_end(number - 1)
            begin = drop(source, number)
            while wanted not in ends_of(contender, work / "out", seen):
                if query.exception() is not None:
                    raise RuntimeError(f"{contender} failed: {query.exception()}")
                if time.perf_counter() - begin > GIVE_UP_SECONDS:
                    raise RuntimeError(f"{contender}: no result after {GIVE_UP_SECONDS} s")
                time.sleep(POLL_SECONDS)
            taken.append(time.perf_counter() - begin)
    finally:
        query.stop()
    return taken[warm_up:]


def window_end(number: int) -> int:
    """End of the window that holds the rows of a file, in microseconds."""
    first = START_MICROS + number * STEP_MICROS
    return first // TUMBLING.slide * TUMBLING.slide + TUMBLING.slide


def drop(source: Path, number: int) -> float:
    """Let a file appear at once and whole; the moment it did."""
    ts = START_MICROS + number * STEP_MICROS + np.arange(KEYS, dtype=np.int64)
    rows = table(np.arange(KEYS, dtype=np.int64), np.ones(KEYS, dtype=np.int64), ts)
    hidden = source / f".f{number:05d}"
    pq.write_table(rows, hidden)
    begin = time.perf_counter()
    hidden.rename(source / f"f{number:05d}.parquet")
    return begin


def ends_of(contender: str, out: Path, seen: set[str]) -> set[int]:
    """Ends of the windows in result files that have become visible since the last look."""
    found: set[int] = set()
    for path in (native_files if contender == NATIVE else our_files)(out, seen):
        ends = pq.read_table(path, columns=["window"]).column("window").combine_chunks()
        if len(ends):
            found |= {round(t.timestamp() * SECOND) for t in _utc(ends.field("end").to_pylist())}
    return found


def _utc(times: list[datetime]) -> list[datetime]:
    return [t if t.tzinfo else t.replace(tzinfo=timezone.utc) for t in times]


def our_files(out: Path, seen: set[str]) -> Iterator[Path]:
    """New files of a directory."""
    for path in out.glob("part-*.parquet"):
        if path.name not in seen:
            seen.add(path.name)
            yield path


def native_files(out: Path, seen: set[str]) -> Iterator[Path]:
    """Files that new entries of native's sink log name."""
    log = out / "_spark_metadata"
    for entry in log.iterdir() if log.exists() else ():
        if not entry.name.partition(".")[0].isdigit() or entry.name in seen:
            continue
        seen.add(entry.name)
        for line in entry.read_text().splitlines()[1:]:
            added = Path(unquote(urlparse(json.loads(line)["path"]).path))
            if added.name not in seen:  # a compacted entry repeats earlier ones
                seen.add(added.name)
                yield added
