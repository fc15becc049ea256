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


def moving(query, views, seconds):
    """Look at one part after the other, then at all."""
    for low, high in views:
        time.sleep(seconds)
        condition = f"segment BETWEEN {low} AND {high}"
        view = query.feedback(sw.only(condition), name="view", lease="1 minute")
        print(f"in view: {low} to {high}")
    time.sleep(seconds)
    view.retract()
    print("in view: all")
    time.sleep(seconds)
    record = query.lastProgress.get("feedback", {})
    print("still dark:", record.get("dark", {}))


def main(views=((40, 60), (55, 75)), seconds=8.0):
    shutil.rmtree(CHECKPOINT, ignore_errors=True)
    writer = speeds(sw.session()).writeStream.queryName("map").foreachBatch(show)
    query = sw.start(
        [writer], checkpointLocation=CHECKPOINT, trigger={"processingTime": "500 milliseconds"}
    )
    try:
        moving(query, views, seconds)
    finally:
        query.stop()
        shutil.rmtree(CHECKPOINT, ignore_errors=True)


if __name__ == "__main__":
    main()
