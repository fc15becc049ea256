"""Orders per minute and, as a second output of the same query, the orders that came too late.

One shop's till was offline: its orders arrive minutes after their time. A late order still counts in
each window that is open; ``late`` says by how much it was late and how many windows it missed.

Run it with ``slackwater run examples/late_rows.py`` or ``python examples/late_rows.py``.
"""

from datetime import datetime, timedelta, timezone

import slackwater as sw

START = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)


def order(shop, second, amount):
    return shop, START + timedelta(seconds=second), amount


BATCHES = [
    [order("north", 10, 5), order("south", 20, 7), order("north", 50, 1)],
    [order("north", 100, 4), order("south", 95, 2)],
    # The bound is now at 80 s, twenty seconds behind the newest order: these two are late.
    [order("west", 15, 9), order("west", 70, 3), order("north", 130, 6)],
]


def query(spark):
    arriving = sw.replay(spark, BATCHES, "shop string, ts timestamp, amount int")
    orders = sw.stream(arriving, time="ts", name="orders", progress=sw.BoundedDelay("20 seconds"))
    sales = orders.groupBy(sw.window("60 seconds")).agg("count(*) AS orders", "sum(amount) AS sum")
    late = orders.late.select(
        "shop", "ts", "_late_reason", "_late_by / 1000000 AS seconds", "_late_windows"
    )
    return [
        sales.writeStream.format("console")
        .queryName("sales")
        .option("truncate", False)
        .option("endOfStream", True)
        .trigger(availableNow=True),
        late.writeStream.format("console").queryName("late").option("truncate", False),
    ]


if __name__ == "__main__":
    sw.start(query(sw.session())).awaitTermination()
