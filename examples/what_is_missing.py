"""Sales per shop and minute, from a stream that says which orders are complete: what is missing, and whom to ask for it.

The stream's team closes orders one by one. Minutes of a shop cannot be closed by that, so the query is refused before it
starts, and the report says what would do. The team can also say up to when a shop has sent everything: then it runs.

Run it with ``slackwater run examples/what_is_missing.py``, or look at the verdict alone with
``slackwater check examples/what_is_missing.py --requirements``.
"""

from datetime import datetime, timedelta, timezone

import slackwater as sw

START = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
SCHEMA = (
    "order int, shop string, ts timestamp, amount int, "
    "done map<string, struct<op: string, value: string>>"
)


def line(order, shop, second, amount):
    return order, shop, START + timedelta(seconds=second), amount, None


def until(shop, second):
    """Punctuation: a shop has sent all from before a time."""
    time = (START + timedelta(seconds=second)).strftime("%Y-%m-%d %H:%M:%S+00:00")
    return None, None, None, None, {"shop": ("=", shop), "ts": ("<", time)}


BATCHES = [
    [line(1, "north", 10, 5), line(2, "south", 20, 7), line(1, "north", 50, 1)],
    [line(3, "north", 70, 4), until("north", 60)],
    # South's till was offline: its first minute is complete only now.
    [line(2, "south", 40, 2), until("south", 120), until("north", 120)],
]


def sales(rows, *scheme):
    lines = sw.stream(
        rows, time="ts", name="lines", progress=sw.Punctuated("done", scheme=list(scheme))
    )
    return lines.groupBy("shop", sw.window("60 seconds")).agg("sum(amount) AS sum")


def query(spark):
    rows = sw.replay(spark, BATCHES, SCHEMA)
    wanted = sales(rows, "[[order:#]]").contracts()
    for problem in wanted.problems:
        print("refused:", problem.message)
    for needed in wanted.requirements:
        columns = ", ".join(needed.columns)
        print(f"ask the team of '{needed.stream}' for punctuation on some of {columns}")
    # They have it, by shop and time: with that the same query is safe.
    result = sales(rows, "[[order:#]]", "[[shop:#, ts:+]]")
    print("now:", "safe" if result.contracts().ok else "unsafe")
    return (
        result.writeStream.format("console")
        .queryName("sales")
        .option("truncate", False)
        .trigger(availableNow=True)
    )


if __name__ == "__main__":
    sw.start([query(sw.session())]).awaitTermination()
