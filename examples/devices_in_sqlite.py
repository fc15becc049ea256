"""Readings and the devices they come from, which are a table in SQLite.

A function gives the table some rows at a time. The query copies it once, sorted by its key, below the checkpoint; what a batch reads is the copy.

Run it with ``slackwater run examples/devices_in_sqlite.py`` or ``python examples/devices_in_sqlite.py``.
"""

import sqlite3
import tempfile
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa

import slackwater as sw

START = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
DATABASE = Path(tempfile.mkdtemp(prefix="devices-")) / "devices.db"
DEVICES = pa.schema([("id", pa.int64()), ("room", pa.string())])


def make():
    with closing(sqlite3.connect(DATABASE)) as db, db:
        db.execute("CREATE TABLE IF NOT EXISTS devices (id INTEGER PRIMARY KEY, room TEXT)")
        rooms = [(n, f"room {n % 10}") for n in range(100_000)]
        db.executemany("INSERT OR REPLACE INTO devices VALUES (?, ?)", rooms)


def devices():
    """The table as it is now. The connection is made here: a copy may be made in another thread."""

    def batches():
        with closing(sqlite3.connect(DATABASE)) as db:
            rows = db.execute("SELECT id, room FROM devices")
            while some := rows.fetchmany(20_000):
                columns = [pa.array(c, f.type) for c, f in zip(zip(*some), DEVICES)]
                yield pa.record_batch(columns, DEVICES)

    return pa.RecordBatchReader.from_batches(DEVICES, batches())


def query(spark):
    make()
    readings = [
        [(7, START, 20.5), (99_999, START + timedelta(seconds=1), 21.0)],
        [(17, START + timedelta(seconds=2), 22.0), (123_456, START + timedelta(seconds=3), 19.0)],
    ]
    rows = sw.replay(spark, readings, "device long, at timestamp, degrees double")
    stream = sw.stream(rows, time="at", name="readings", progress=sw.Ordered())
    table = sw.relation(devices, key="id", name="devices", spark=spark)
    joined = stream.join(table, on=[("device", "id")])
    return [
        joined.select("at", "device", "room", "degrees")
        .writeStream.format("console")
        .queryName("readings")
        .option("truncate", False)
        .option("checkpointLocation", tempfile.mkdtemp(prefix="readings-"))
        .option("endOfStream", True)
        .trigger(availableNow=True),
        joined.unmatched.writeStream.format("console")
        .queryName("of no device")
        .option("truncate", False),
    ]


if __name__ == "__main__":
    sw.start(query(sw.session())).awaitTermination()
