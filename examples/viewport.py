"""Speeds by segment of a road, of which a dashboard shows a part: the view moves while the query runs.

What is out of view is neither shuffled nor kept as state. After the view has moved, the first window of a segment that comes
into it is the first that is whole: a window that lacks rows stays dark.

Run it with ``python examples/viewport.py``. A second terminal may move the view, too:
``slackwater feedback viewport-checkpoint --only 'segment >= 90' --name view --lease 1m``.
"""

import shutil
import time

import slackwater as sw

CHECKPOINT = "viewport-checkpoint"


def speeds(spark):
    """Two thousand measurements a second, of a hundred segments."""
    arriving = spark.readStream.format("rate").option("rowsPerSecond", 2000).load()
    rows = arriving.selectExpr(
        "timestamp AS ts", "CAST(value % 100 AS INT) AS segment", "50 + value % 61 AS speed"
    )
    cars = sw.stream(rows, time="ts", name="cars", progress=sw.BoundedDelay("1 second"))
    by_segment = cars.groupBy("segment", sw.window("4 seconds", "2 seconds"))
    return by_segment.agg("count(*) AS cars", "round(avg(speed), 1) AS speed")


def show(frame, batch):
    seen = frame.selectExpr("min(segment)", "max(segment)", "count(*)", "max(window.end)").first()
    if seen[2]:
        print(f"batch {batch}: segments {seen[0]} to {seen[1]}, {seen[2]} results up to {seen[3]}")


def wait(query, batches):
    """Let some batches pass."""
    begun = (query.lastProgress or {"batchId": -1})["batchId"]
    while query.isActive and (query.lastProgress or {"batchId": -1})["batchId"] < begun + batches:
        time.sleep(0.1)


def moving(query, views, batches):
    """Look at one part after the other, then at all; the rows that were dropped meanwhile."""
    wait(query, 2)
    for low, high in views:
        condition = f"segment BETWEEN {low} AND {high}"
        view = query.feedback(sw.only(condition), name="view", lease="1 minute")
        print(f"in view: {low} to {high}")
        wait(query, batches)
    dropped = query.lastProgress["feedback"]["places"]["cars"]["totalRowsDropped"]
    view.retract()
    print(f"in view: all; {dropped} rows were dropped where they were read")
    wait(query, batches)
    return dropped


def main(views=((40, 60), (55, 75)), batches=12):
    shutil.rmtree(CHECKPOINT, ignore_errors=True)
    writer = speeds(sw.session()).writeStream.queryName("map").foreachBatch(show)
    query = sw.start(
        [writer], checkpointLocation=CHECKPOINT, trigger={"processingTime": "500 milliseconds"}
    )
    try:
        return moving(query, views, batches)
    finally:
        query.stop()
        shutil.rmtree(CHECKPOINT, ignore_errors=True)


if __name__ == "__main__":
    main()
