"""The greatest value of each key and minute, of which the query wants those above a limit that one row in a thousand reaches.

The query says so itself: ``where("peak >= ...")`` stands above the maximum. A row below the limit can lift no maximum to
it, so such rows are dropped in the scan, and neither shuffled nor kept as state. The query runs twice, the second time
with ``option("feedback", "off")``: results are the same, and what they cost is not.

Run it with ``python examples/rare_maxima.py``.
"""

import shutil
import statistics
import tempfile
from pathlib import Path

import slackwater as sw

MOST = 1_000_000
LIMIT = MOST - MOST // 1000
SCHEMA = "key bigint, ts timestamp, v bigint"


def write(spark, folder, minutes, rows, keys):
    """One file a minute, of ``rows`` random values of ``keys`` keys."""
    for minute in range(minutes):
        spark.range(0, rows, 1, 1).selectExpr(
            f"CAST(rand({minute}) * {keys} AS BIGINT) AS key",
            f"timestamp_millis({minute * 60_000} + id % 60000) AS ts",
            f"CAST(rand({minute + 1000}) * {MOST} AS BIGINT) AS v",
        ).write.mode("append").parquet(folder)


def rare(spark, folder):
    files = sw.readStream(spark).schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)
    values = sw.stream(files, time="ts", name="values", progress=sw.BoundedDelay("1 minute"))
    peaks = values.groupBy("key", sw.window("1 minute")).agg("max(v) AS peak")
    return peaks.where(f"peak >= {LIMIT}")


def measured(spark, folder, feedback):
    """The results of the query, seconds of a batch, and the most rows of its state."""
    query = (
        rare(spark, str(folder / "in"))
        .writeStream.format("memory")
        .queryName(f"rare_{feedback}")
        .option("checkpointLocation", str(folder / feedback))
        .option("feedback", feedback)
        .option("endOfStream", True)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [p for p in query.recentProgress if p["numInputRows"]]
    seconds = statistics.median(p["durationMs"]["total"] for p in batches[1:]) / 1000
    state = max(p["stateOperators"][0]["numRowsTotal"] for p in batches)
    rows = spark.table(f"rare_{feedback}").selectExpr("key", "window.end", "peak").collect()
    return sorted(rows), seconds, state


def main(minutes=8, rows=1_000_000, keys=1_000_000):
    spark = sw.session()
    folder = Path(tempfile.mkdtemp(prefix="rare-maxima-"))
    try:
        write(spark, str(folder / "in"), minutes, rows, keys)
        rare(spark, str(folder / "in")).explain()
        found, seconds, state = measured(spark, folder, "source")
        same, without, more = measured(spark, folder, "off")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert found == same, "feedback changes no result"
    print(f"{len(found)} maxima of at least {LIMIT}")
    print(f"with feedback:    {seconds:.2f} s a batch, {state} rows of state")
    print(f"without feedback: {without:.2f} s a batch, {more} rows of state")
    return state, more


if __name__ == "__main__":
    main()
