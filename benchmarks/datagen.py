"""Data for the benchmarks: a disordered stream, cut into files in the order of arrival.

Row i has event time ``i / rate`` and arrives an exponentially distributed delay later. A batch is the next
``batch_rows`` rows to arrive, dealt out to ``files`` files. The same `Data` gives the same rows, always.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA_DDL = "k bigint, v bigint, ts timestamp"
START_MICROS = (
    1_704_067_200_000_000  # 2024-01-01: in the past, so that no guard against the future acts
)
VERSION = 1
"""Part of what a cached directory is known by: raise it when the same `Data` means other rows."""


@dataclass(frozen=True)
class Data:
    """What the rows are; ``rate`` is in rows per second of event time. ``extra`` columns are read by nobody."""

    batches: int
    batch_rows: int
    keys: int = 1000
    rate: int = 100_000
    mean_delay_seconds: float = 2.0
    files: int = 2
    seed: int = 17
    extra: int = 0

    @property
    def rows(self) -> int:
        """Rows in all batches."""
        return self.batches * self.batch_rows

    @property
    def name(self) -> str:
        """The directory's name."""
        wide = f"-x{self.extra}" if self.extra else ""
        return f"{self.batches}x{self.batch_rows}-k{self.keys}-r{self.rate}-s{self.seed}{wide}"

    def to_json(self) -> dict[str, Any]:
        """By what its directory is known; what is not set is left out, as it was when that was not known."""
        return {k: v for k, v in asdict(self).items() if k != "extra" or v}


@dataclass(frozen=True)
class Rows:
    """Columns in the order of arrival; times in microseconds."""

    k: np.ndarray
    v: np.ndarray
    ts: np.ndarray
    arrival: np.ndarray


def arrange(data: Data) -> Rows:
    """All rows in the order of arrival."""
    rng = np.random.default_rng([VERSION, data.seed, data.rows, data.keys, data.rate])
    ts = START_MICROS + np.arange(data.rows, dtype=np.int64) * 1_000_000 // data.rate
    delay = rng.exponential(data.mean_delay_seconds * 1e6, data.rows).astype(np.int64)
    arrival = ts + delay
    order = np.argsort(arrival, kind="stable")
    keys = rng.integers(0, data.keys, data.rows, dtype=np.int64)
    values = rng.integers(0, 1000, data.rows, dtype=np.int64)
    return Rows(keys, values, ts[order], arrival[order])


def tables(data: Data) -> Iterator[tuple[str, pa.Table]]:
    """(file name, rows) of each file, in the order of arrival; a name says its batch."""
    rows = arrange(data)
    for batch in range(data.batches):
        first, end = batch * data.batch_rows, (batch + 1) * data.batch_rows
        for file in range(data.files):
            part = slice(first + file, end, data.files)
            made = table(rows.k[part], rows.v[part], rows.ts[part])
            for column in range(data.extra):
                made = made.append_column(f"x{column}", _extra(column, made.num_rows))
            yield f"b{batch:04d}-{file}.parquet", made


def _extra(column: int, rows: int) -> pa.Array:
    """A column that nobody reads: every third one is of text."""
    values = (np.arange(rows, dtype=np.int64) * (2 * column + 1)) % (97 + column)
    if column % 3 == 0:
        words = pa.array([f"text {i} of column {column}" for i in range(97 + column)])
        return words.take(pa.array(values))
    return pa.array(values * 1.5 if column % 3 == 1 else values)


def ddl(source: Path) -> str:
    """The schema of the files in a directory that `prepare` made, or that has no extra columns."""
    known = source.with_suffix(".json")
    extra = json.loads(known.read_text()).get("extra", 0) if known.exists() else 0
    kinds = ("string", "double", "bigint")
    return ", ".join([SCHEMA_DDL, *(f"x{i} {kinds[i % 3]}" for i in range(extra))])


def table(k: np.ndarray, v: np.ndarray, ts: np.ndarray) -> pa.Table:
    """Columns as a table of the benchmark's schema."""
    times = pa.array(np.ascontiguousarray(ts), pa.timestamp("us", "UTC"))
    return pa.table({"k": np.ascontiguousarray(k), "v": np.ascontiguousarray(v), "ts": times})


def prepare(data: Data, root: Path) -> Path:
    """The directory with the files, made unless it is there; modification times rise with arrival."""
    folder = root / "data" / data.name
    told, wanted = folder.with_suffix(".json"), {"version": VERSION, **data.to_json()}
    if told.exists() and json.loads(told.read_text()) == wanted:
        return folder
    told.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, (name, rows) in enumerate(tables(data)):
        path = folder / name
        pq.write_table(rows, path)
        # Spark takes the oldest files first; a whole second apart, whatever the file system's precision.
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    told.write_text(json.dumps(wanted))
    return folder
