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

HEAP, ROCKSDB, ROCKSDB_4 = "heap", "rocksdb", "rocksdb-4"
BOUNDED, CLOSED = "bounded", "closed"
NATIVES = (HEAP, ROCKSDB, ROCKSDB_4)
SLOW = (ROCKSDB, ROCKSDB_4)
"""A run takes minutes, so that one is enough."""
LABELS = {
    HEAP: "native, heap",
    ROCKSDB: "native, RocksDB",
    ROCKSDB_4: "native, RocksDB, state version 4",
    ROWS: "row source",
    SPLITS: "split source",
    BOUNDED: "split source, bounded memory",
    CLOSED: "split source, freed by punctuation",
}
SIDES = ("a", "b")
COLUMNS = {"a": "v", "b": "w"}
DELAY_SECONDS = 10
SPREAD_SECONDS = 20
DONE = "done"
VERSION = 1


@dataclass(frozen=True)
class JoinData:
    """Two streams alike; ``rate`` is in rows per second of event time and side, ``zipf`` the skew of keys.

    With ``orders`` the keys are orders: so many begin in each batch, each has its lines in the left stream and one payment in
    the right one, all within `SPREAD_SECONDS`, and both streams say which orders they are done with.

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
    orders: int = 0

    @property
    def rows(self) -> int:
        """Rows of both sides."""
        return self.batches * self.batch_rows

    @property
    def batch_rows(self) -> int:
        """Rows of both sides in a batch."""
        return sum(map(self.rows_of, SIDES))

    def rows_of(self, side: str) -> int:
        """Rows of a side in a batch."""
        return self.orders if self.orders and side == "b" else self.side_rows

    @property
    def name(self) -> str:
        """The directory's name."""
        orders = f"-o{self.orders}" if self.orders else ""
        return f"join-{self.batches}x{self.side_rows}-k{self.keys}-r{self.rate}-z{self.zipf:g}-s{self.seed}{orders}"


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
# Of 2 M rows a batch 20,000 are payments, one for each order that begins in it; as many orders are closed.
ORDERS = JoinData(batches=5, side_rows=1_980_000, rate=20_000, orders=20_000)
GOALS = {HEAP: 8.0, ROCKSDB: 20.0}
FULL = (
    JoinCase("400k", 30, MAIN, (HEAP, *SLOW, ROWS, SPLITS), 2, GOALS, {HEAP: 5.0, ROCKSDB: 16.0}),
    JoinCase("2m", 30, LARGE, (HEAP, SPLITS), 1, {HEAP: 8.0}, {HEAP: 5.0}, skip=1),
    JoinCase("bounded", 270, WIDE, (SPLITS, BOUNDED), 1, {}, {}, skip=8, memory=5_600_000),
    JoinCase("orders", 30, ORDERS, (SPLITS, CLOSED), 1, {}, {SPLITS: 0.5}, skip=2),
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
        data, batches=4, side_rows=10_000, rate=data.rate // share, keys=data.keys // share,
        orders=data.orders // share,
    )  # fmt: skip


def arrange(data: JoinData, side: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, values and times of a side's rows in the order of arrival."""
    rows = data.batches * data.rows_of(side)
    number = SIDES.index(side)
    rng = np.random.default_rng([VERSION, data.seed, number, rows, data.keys, data.rate])
    ts = START_MICROS + np.arange(rows, dtype=np.int64) * 1_000_000 // data.rate
    if data.rows_of(side) != data.side_rows:
        ts = START_MICROS + (ts - START_MICROS) * data.side_rows // data.rows_of(side)
    delay = rng.exponential(data.mean_delay_seconds * 1e6, rows)
    delay = np.minimum(delay, (DELAY_SECONDS - 1) * 1e6).astype(np.int64)
    order = np.argsort(ts + delay, kind="stable")
    if data.orders:
        return _orders(data, side, ts, order, rng)
    keys = (
        rng.choice(data.keys, rows, p=weights(data))
        if data.zipf
        else rng.integers(0, data.keys, rows, dtype=np.int64)
    )
    return keys.astype(np.int64), rng.integers(0, 1000, rows, dtype=np.int64), ts[order]


def _orders(
    data: JoinData, side: str, ts: np.ndarray, order: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lines name an order that began in the last seconds; a payment is the next order's."""
    rows = len(ts)
    begun = np.arange(rows, dtype=np.int64) * data.orders // data.rows_of(side)
    spread = SPREAD_SECONDS * data.orders * data.rate // data.side_rows
    back = rng.integers(0, spread, rows) if side == "a" else np.zeros(rows, np.int64)
    return np.maximum(begun - back, 0)[order], rng.integers(0, 1000, rows), ts[order]


def closed_orders(data: JoinData, keys: np.ndarray, side: str) -> list[np.ndarray]:
    """By batch, the orders of which no later row of a side comes; ``keys`` are those of its rows as they arrive."""
    last = np.zeros(int(keys.max()) + 1, np.int64)
    np.maximum.at(last, keys, np.arange(len(keys)))
    batch = last // data.rows_of(side)
    return [np.flatnonzero(batch == n) for n in range(data.batches)]


def weights(data: JoinData) -> np.ndarray:
    """The probability of each key."""
    found = np.arange(1, data.keys + 1, dtype=np.float64) ** -data.zipf
    return np.asarray(found / found.sum())


def tables(
    data: JoinData, side: str, *, punctuated: bool = False
) -> Iterator[tuple[str, pa.Table]]:
    """(file name, rows) of each file of a side, in the order of arrival; a name says its batch.

    If ``punctuated``, the last file of a batch says which orders are closed.
    """
    k, v, ts = arrange(data, side)
    closed = closed_orders(data, k, side) if punctuated else []
    size = data.rows_of(side)
    for batch in range(data.batches):
        first, end = batch * size, (batch + 1) * size
        for file in range(data.files):
            part = slice(first + file, end, data.files)
            times = pa.array(np.ascontiguousarray(ts[part]), pa.timestamp("us", "UTC"))
            columns = {
                "k": np.ascontiguousarray(k[part]),
                COLUMNS[side]: np.ascontiguousarray(v[part]),
            }
            table = pa.table({**columns, "ts": times})
            if punctuated:
                table = table.append_column(DONE, pa.nulls(table.num_rows, PATTERN))
                if file == data.files - 1:
                    table = pa.concat_tables([table, _closing(closed[batch], table.schema)])
            yield f"b{batch:04d}-{file}.parquet", table


PATTERN = pa.map_(pa.string(), pa.struct([("op", pa.string()), ("value", pa.string())]))


def _closing(orders: np.ndarray, schema: pa.Schema) -> pa.Table:
    said = [[("k", {"op": "=", "value": str(o)})] for o in orders.tolist()]
    columns = {f.name: pa.nulls(len(said), f.type) for f in schema if f.name != DONE}
    return pa.table({**columns, DONE: pa.array(said, PATTERN)}, schema=schema)


def schema_ddl(side: str, *, punctuated: bool = False) -> str:
    """The schema of a side as Spark reads it."""
    done = f", {DONE} map<string, struct<op: string, value: string>>" if punctuated else ""
    return f"k bigint, {COLUMNS[side]} bigint, ts timestamp{done}"


def folders(data: JoinData) -> tuple[str, ...]:
    """The folders of a pair of streams: one a side, and once more with punctuation."""
    return (*SIDES, *(f"{CLOSED}-{side}" for side in SIDES)) if data.orders else SIDES


def prepare(data: JoinData, root: Path) -> Path:
    """The directory with the `folders` of the streams, made unless it is there."""
    folder = root / "data" / data.name
    told, wanted = folder.with_suffix(".json"), {"version": VERSION, **asdict(data)}
    if told.exists() and json.loads(told.read_text()) == wanted:
        return folder
    told.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    for sub in folders(data):
        (folder / sub).mkdir(parents=True)
        made = tables(data, sub[-1], punctuated=sub not in SIDES)
        for number, (name, rows) in enumerate(made):
            path = folder / sub / name
            pq.write_table(rows, path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    told.write_text(json.dumps(wanted))
    return folder
