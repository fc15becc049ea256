"""After an outage: hours of measurements lie there, and a live view needs the last minutes.

``pace("5 minutes", clock=True)`` leaves out what is more than five minutes old. Files that hold nothing else are not opened, and
windows do not wait for them. The same query runs without it as well, and both show the same newest results.

Run it with ``python examples/catch_up.py``.
"""

import datetime as dt
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import slackwater as sw

FOLDER = Path("catch-up-example")
MICROS = 1_000_000


def write(folder, minutes, rows):
    """One file per minute of the outage, up to now."""
    folder.mkdir(parents=True)
    now = time.time_ns() // 1_000_000_000
    for minute in range(minutes, 0, -1):
        start = now - minute * 60
        ts = [(start * MICROS + i * 60 * MICROS // rows) for i in range(rows)]
        table = pa.table(
            {
                "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
                "segment": pa.array([i % 50 for i in range(rows)], pa.int32()),
                "speed": pa.array([50 + i % 61 for i in range(rows)], pa.int32()),
            }
        )
        pq.write_table(table, folder / f"{minutes - minute:06d}.parquet")


def view(spark, folder, *, paced):
    files = sw.readStream(spark).schema("ts timestamp, segment int, speed int").parquet(str(folder))
    cars = sw.stream(files, time="ts", name="cars", progress=sw.BoundedDelay("10 seconds"))
    live = cars.pace("5 minutes", clock=True) if paced else cars
    by_segment = live.groupBy("segment", sw.window("1 minute"))
    return by_segment.agg("count(*) AS cars", "avg(speed) AS speed")


def caught_up(spark, folder, name, *, paced):
    """Run over all that is there: the results by window and segment, and what the batch did."""
    results = {}

    def keep(frame, batch):
        for row in frame.collect():
            results[row.window.end, row.segment] = (row.cars, row.speed)

    query = sw.start(
        [view(spark, folder, paced=paced).writeStream.queryName(name).foreachBatch(keep)],
        checkpointLocation=str(FOLDER / f"checkpoint-{name}"),
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    first = next(r for r in query.recentProgress if r["numInputRows"])
    skipped = first.get("feedback", {}).get("notRead", {"rows": 0, "bytes": 0})
    rows = first["numInputRows"]
    print(
        f"{name}: {rows - skipped['rows']:,} of {rows:,} rows read, {first['durationMs']['total'] / 1000:.1f} s"
    )
    for figures in first.get("pace", {}).values():
        print(
            f"  limit {figures['limit']}, {figures['rowsDropped']:,} rows dropped behind the scan"
        )
    return results, skipped["rows"]


def main(minutes=240, rows=20_000):
    shutil.rmtree(FOLDER, ignore_errors=True)
    spark = sw.session()
    try:
        write(FOLDER / "in", minutes, rows)
        skipping, skipped = caught_up(spark, FOLDER / "in", "paced", paced=True)
        whole, _ = caught_up(spark, FOLDER / "in", "whole", paced=False)
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    newest = max(end for end, _ in whole)
    recent = newest - dt.timedelta(minutes=2)
    last = {key: value for key, value in whole.items() if key[0] >= recent}
    assert last.items() <= skipping.items()
    print(
        f"{len(last)} results of the last minutes are the same; {len(whole) - len(skipping)} old ones were left out"
    )
    return skipped


if __name__ == "__main__":
    main()
