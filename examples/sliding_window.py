"""Mean temperature of the last minute, every twenty seconds, from readings that come out of order.

Run it with ``slackwater run examples/sliding_window.py`` or ``python examples/sliding_window.py``.
"""

from datetime import datetime, timedelta, timezone

from pyspark.sql import functions as F

import slackwater as sw

START = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)


def reading(sensor, second, value):
    return sensor, START + timedelta(seconds=second), value


# Each list arrives as one micro-batch. Within ten seconds, order does not matter.
BATCHES = [
    [reading("roof", 5, 20.0), reading("roof", 0, 18.0), reading("cellar", 12, 11.0)],
    [reading("roof", 31, 22.0), reading("roof", 27, 24.0), reading("cellar", 44, 12.0)],
    [reading("roof", 66, 21.0), reading("cellar", 58, 10.0), reading("roof", 61, 23.0)],
]


def query(spark):
    arriving = sw.replay(spark, BATCHES, "sensor string, ts timestamp, value double")
    readings = sw.stream(
        arriving, time="ts", name="readings", progress=sw.BoundedDelay("10 seconds")
    )
    means = readings.groupBy("sensor", sw.window("60 seconds", "20 seconds")).agg(
        F.avg("value").alias("mean"), "count(*) AS n"
    )
    # The replay ends, so that windows which are still open can be reported too.
    return (
        means.writeStream.format("console")
        .queryName("means")
        .option("truncate", False)
        .option("numRows", 100)
        .option("endOfStream", True)
        .trigger(availableNow=True)
    )


if __name__ == "__main__":
    query(sw.session()).start().awaitTermination()
