"""Data for the experiments with feedback: sensors of a road, where they stand, cars that pass, and the parts of a map.

A row is a function of its number, so the same rows come out however they are cut into batches. Files are made once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

Ints = NDArray[np.int64]
SECOND = 1_000_000
START = 634_018_212_000_000_000 // 10 - 62_135_596_800 * SECOND
"""2010-02-15 09:00:00 in microseconds since 1970; the sources count ticks of 100 ns from year 1."""
MINUTE = 60 * SECOND

SENSORS, FREEWAYS, STATIONS, PROBES = 150, 5, 10, 50
SENSOR_ROWS, PROBE_ROWS, SENSOR_50_ROWS = 648_000, 14_400, 324_000
PUNCTUATIONS = {"sensor": 1440, "probe": 14_400, "sensor-50": 720}
"""Patterns that the sources carry; here bounded delays stand for them."""
EVERY = 20 * SECOND

SENSOR_DDL = (
    "sensor_id int, ts timestamp, timestamp_text string, volume int, speed int, occupancy int"
)
PROBE_DDL = (
    "probe_id int, ts timestamp, timestamp_text string, freeway_id int, milepost int, speed int"
)
MAP_DDL = "segment int, ts timestamp, speed int"
PEAK_DDL = "k bigint, ts timestamp, v double"
OLD_DDL = "k bigint, ts timestamp"

Made = Callable[[], pa.Table]


def drawn(numbers: Ints, salt: int, below: int) -> Ints:
    """A number from 0 to ``below`` for each of some numbers, always the same (splitmix64).

    >>> drawn(np.arange(4), 1, 100).tolist() == drawn(np.arange(4), 1, 100).tolist()
    True
    """
    z = numbers.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15) % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Ints = ((z ^ (z >> np.uint64(31))) % np.uint64(below)).astype(np.int64)
    return found


def locations() -> pa.Table:
    """Where sensors stand: 5 freeways, 10 stations each, 3 sensors at a station.

    >>> locations().num_rows
    150
    """
    ids = np.arange(SENSORS)
    return _ints(
        sensor_id=ids,
        freeway_id=ids // (STATIONS * 3),
        milepost=ids // 3 % STATIONS,
    )


def sensors(first: int = 0, rows: int = SENSOR_ROWS, *, dirty: bool = False) -> pa.Table:
    """Rows ``first`` to ``first + rows``: each sensor reports every 20 s. If ``dirty``, every other row has the speed -1.

    >>> day = sensors()
    >>> day.num_rows, len(set(day["sensor_id"].to_pylist())), day.schema.names[2:]
    (648000, 150, ['timestamp_text', 'volume', 'speed', 'occupancy'])
    """
    numbers = np.arange(first, first + rows, dtype=np.int64)
    speed = drawn(numbers, 2, 100)
    if dirty:
        speed = np.where(numbers % 2 == 1, -1, speed)
    made = _ints(
        sensor_id=numbers % SENSORS,
        volume=drawn(numbers, 1, 30),
        speed=speed,
        occupancy=drawn(numbers, 3, 100),
    )
    return _timed(made, numbers // SENSORS * EVERY)


def sensors_50() -> pa.Table:
    """Twelve hours of sensors of which every other row has no speed.

    >>> half = sensors_50()
    >>> half.num_rows, pc.sum(pc.equal(half["speed"], -1)).as_py()
    (324000, 162000)
    """
    return sensors(rows=SENSOR_50_ROWS, dirty=True)


def probes(first: int = 0, rows: int = PROBE_ROWS) -> pa.Table:
    """Rows ``first`` to ``first + rows``: each of 50 cars reports every 5 minutes.

    >>> day = probes()
    >>> day.num_rows, pc.count_distinct(day["probe_id"]).as_py()
    (14400, 50)
    """
    numbers = np.arange(first, first + rows, dtype=np.int64)
    made = _ints(
        probe_id=numbers % PROBES,
        freeway_id=drawn(numbers, 4, FREEWAYS),
        milepost=drawn(numbers, 5, STATIONS),
        speed=drawn(numbers, 6, 100),
    )
    # A car has a phase of its own: 300 s / 50.
    return _timed(made, numbers // PROBES * 5 * MINUTE + numbers % PROBES * 6 * SECOND)


def map_rows(batch: int, rows: int, keys: int, seconds: int, *, clustered: bool) -> pa.Table:
    """One batch of speeds of ``keys`` segments within ``seconds``; sorted by segment if the file is clustered."""
    numbers = np.arange(batch * rows, (batch + 1) * rows, dtype=np.int64)
    segment = drawn(numbers, 7, keys)
    if clustered:
        order = np.argsort(segment, kind="stable")
        numbers, segment = numbers[order], segment[order]
    return pa.table(
        {
            "segment": pa.array(segment.astype(np.int32)),
            "ts": instants(numbers * (seconds * SECOND) // rows),
            "speed": pa.array(drawn(numbers, 8, 120).astype(np.int32)),
        }
    )


def peak_rows(batch: int, rows: int, keys: int, seconds: int) -> pa.Table:
    """One batch of values from 0 to 1000 of ``keys`` keys within ``seconds``: one in a thousand is above 999."""
    numbers = np.arange(batch * rows, (batch + 1) * rows, dtype=np.int64)
    return pa.table(
        {
            "k": pa.array(drawn(numbers, 10, keys)),
            "ts": instants(numbers * (seconds * SECOND) // rows),
            "v": pa.array(drawn(numbers, 11, 10_000_000) / 10_000),
        }
    )


def old_rows(file: int, rows: int, seconds: int, salt: int) -> pa.Table:
    """One file of rows of a thousand keys, ``seconds`` long, behind those of the files before."""
    numbers = np.arange(file * rows, (file + 1) * rows, dtype=np.int64)
    return pa.table(
        {
            "k": pa.array(drawn(numbers, salt, 1000)),
            "ts": instants(numbers * (seconds * SECOND) // rows),
        }
    )


def instants(since_start: Ints) -> pa.Array:
    """Microseconds since `START` as timestamps."""
    return pa.array(START + since_start, pa.timestamp("us", "UTC"))


def written(folder: Path, name: str, make: Made, rows: int, *, group: int | None = None) -> Path:
    """The file of a table, which is made unless it is there; its rows are counted."""
    target = folder / f"{name}.parquet"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        hidden = folder / f".{name}"
        pq.write_table(make(), hidden, row_group_size=group)
        hidden.rename(target)
    counted = pq.read_metadata(target).num_rows
    if counted != rows:
        raise ValueError(f"{target.name} has {counted:,} rows, not {rows:,}: remove it")
    return target


def shown(file: Path, folder: Path, number: int) -> None:
    """Let a file appear among those of a stream at once, under a number; it stays one file on disk."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".f{number:05d}"
    try:
        os.link(file, hidden)
    except OSError:
        shutil.copy(file, hidden)
    hidden.rename(folder / f"f{number:05d}.parquet")


def _ints(**columns: Ints) -> pa.Table:
    return pa.table({n: pa.array(c.astype(np.int32)) for n, c in columns.items()})


def _timed(table: pa.Table, since_start: Ints) -> pa.Table:
    """With the time as the second and third columns; the text is of one row each, so it is written once a time."""
    times, places = np.unique(since_start, return_inverse=True)
    texts = pc.strftime(instants(times).cast(pa.timestamp("s", "UTC")), "%Y-%m-%d %H:%M:%S")
    text = pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), texts)
    table = table.add_column(1, "ts", instants(since_start))
    return table.add_column(2, "timestamp_text", text.cast(pa.string()))
