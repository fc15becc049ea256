"""What the join benchmark measures: two streams, bands, memory budgets, targets."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.cases import ROWS, SECOND, SPLITS, selected
from benchmarks.datagen import START_MICROS

HEAP, ROCKSDB, BOUNDED = "heap", "rocksdb", "bounded"
NATIVES = (HEAP, ROCKSDB)
LABELS = {
    HEAP: "native, heap",
    ROCKSDB: "native, RocksDB",
    ROWS: "row source",
    SPLITS: "split source",
    BOUNDED: "split source, bounded memory",
}
SIDES = ("a", "b")
COLUMNS = {"a": "v", "b": "w"}
DELAY_SECONDS = 10
VERSION = 1


@dataclass(frozen=True)
class JoinData:
    """Two streams alike; ``rate`` is in rows per second of event time and side, ``zipf`` the skew of keys.

    No row is delayed by more than `DELAY_SECONDS`, so that no contender drops one and all give the same pairs.
    """

    batches: int
    side_rows: int
    """Rows of one side in one batch."""
    keys: int = 100_000
    rate: int = 5_000
    zipf: float = 0.0
    mean_delay_seconds: float = 2.0
    files: int = 2
    seed: int = 23

    @property
    def rows(self) -> int:
        """Rows of both sides."""
        return 2 * self.batches * self.side_rows

    @property
    def batch_rows(self) -> int:
        """Rows of both sides in a batch."""
        return 2 * self.side_rows

    @property
    def name(self) -> str:
        """The directory's name."""
        return f"join-{self.batches}x{self.side_rows}-k{self.keys}-r{self.rate}-z{self.zipf:g}-s{self.seed}"


@dataclass(frozen=True)
class JoinCase:
    """One band over one pair of streams; ``targets`` are ours against a native contender, at least.

    ``floors``, as targets, say what must never be missed.
    """

    size: str
    band_seconds: float
    data: JoinData
    contenders: tuple[str, ...]
    rounds: int
    targets: dict[str, float]
    floors: dict[str, float]
    skip: int = 2
    """Batches left out: until the state has its full size."""
    memory: int | None = None
    """Budget in bytes of one partition-group, for the bounded contender."""

    @property
    def name(self) -> str:
        """E.g. ``400k-30s``."""
        return f"{self.size}-{self.band_seconds:g}s"

    @property
    def band(self) -> int:
        """The reach on each side in microseconds."""
        return round(self.band_seconds * SECOND)


# 400 s of event time: 40 s a batch, and a state of 70 s of rows, full from the third batch on.
MAIN = JoinData(batches=10, side_rows=200_000)
# Batches in which the fixed cost of a batch matters less; RocksDB would take minutes for each.
LARGE = JoinData(batches=4, side_rows=1_000_000, rate=10_000, keys=200_000)
# Over 280 s of rows of each side are stored, at some 36 bytes: about 50 MB in each of two groups.
WIDE = JoinData(batches=14, side_rows=200_000, keys=900_000)
GOALS = {HEAP: 8.0, ROCKSDB: 20.0}
FULL = (
    JoinCase("400k", 30, MAIN, (HEAP, ROCKSDB, ROWS, SPLITS), 2, GOALS, {HEAP: 5.0, ROCKSDB: 16.0}),
    JoinCase("2m", 30, LARGE, (HEAP, SPLITS), 1, {HEAP: 8.0}, {HEAP: 5.0}, skip=1),
    JoinCase("bounded", 270, WIDE, (SPLITS, BOUNDED), 1, {}, {}, skip=8, memory=5_600_000),
)


def cases(
    *, quick: bool = False, only: str | None = None, rounds: int | None = None
) -> list[JoinCase]:
    """The cases to run; parameters as of `benchmarks.cases.cases`."""
    chosen = list(FULL)
    if quick:
        chosen = [
            replace(c, data=_small(c.data), rounds=1, skip=1, memory=c.memory and 280_000)
            for c in chosen
            if c.size != "2m"
        ]
    return selected(chosen, FULL, only, rounds)


def _small(data: JoinData) -> JoinData:
    share = data.side_rows // 10_000
    return replace(
        data, batches=4, side_rows=10_000, rate=data.rate // share, keys=data.keys // share
    )


def arrange(data: JoinData, side: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, values and times of a side's rows in the order of arrival."""
    rows = data.rows // 2
    number = SIDES.index(side)
    rng = np.random.default_rng([VERSION, data.seed, number, rows, data.keys, data.rate])
    ts = START_MICROS + np.arange(rows, dtype=np.int64) * 1_000_000 // data.rate
    delay = rng.exponential(data.mean_delay_seconds * 1e6, rows)
    delay = np.minimum(delay, (DELAY_SECONDS - 1) * 1e6).astype(np.int64)
    order = np.argsort(ts + delay, kind="stable")
    keys = (
        rng.choice(data.keys, rows, p=weights(data))
        if data.zipf
        else rng.integers(0, data.keys, rows, dtype=np.int64)
    )
    return keys.astype(np.int64), rng.integers(0, 1000, rows, dtype=np.int64), ts[order]


def weights(data: JoinData) -> np.ndarray:
    """The probability of each key."""
    found = np.arange(1, data.keys + 1, dtype=np.float64) ** -data.zipf
    return np.asarray(found / found.sum())


def tables(data: JoinData, side: str) -> Iterator[tuple[str, pa.Table]]:
    """(file name, rows) of each file of a side, in the order of arrival; a name says its batch."""
    k, v, ts = arrange(data, side)
    for batch in range(data.batches):
        first, end = batch * data.side_rows, (batch + 1) * data.side_rows
        for file in range(data.files):
            part = slice(first + file, end, data.files)
            times = pa.array(np.ascontiguousarray(ts[part]), pa.timestamp("us", "UTC"))
            columns = {
                "k": np.ascontiguousarray(k[part]),
                COLUMNS[side]: np.ascontiguousarray(v[part]),
            }
            yield f"b{batch:04d}-{file}.parquet", pa.table({**columns, "ts": times})


def schema_ddl(side: str) -> str:
    """The schema of a side as Spark reads it."""
    return f"k bigint, {COLUMNS[side]} bigint, ts timestamp"


def prepare(data: JoinData, root: Path) -> Path:
    """The directory with folders ``a`` and ``b``, made unless it is there."""
    folder = root / "data" / data.name
    told, wanted = folder.with_suffix(".json"), {"version": VERSION, **asdict(data)}
    if told.exists() and json.loads(told.read_text()) == wanted:
        return folder
    told.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    for side in SIDES:
        (folder / side).mkdir(parents=True)
        for number, (name, rows) in enumerate(tables(data, side)):
            path = folder / side / name
            pq.write_table(rows, path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    told.write_text(json.dumps(wanted))
    return folder
