"""Orders and their payments, however long a payment takes: a row is kept until its order is closed.

No span of time fits. Some orders are paid at once, some after weeks, and a band of weeks would keep all of them. Both
streams say which orders they are done with, so the join needs no band: ``within=None``.

Run it with ``slackwater run examples/closed_orders.py``, or look at what frees what with
``slackwater check examples/closed_orders.py``.
"""

from datetime import datetime, timedelta, timezone

import slackwater as sw

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
DONE = "done map<string, struct<op: string, value: string>>"
ORDERS = f"order int, ts timestamp, what string, {DONE}"
PAYMENTS = f"order int, ts timestamp, paid int, {DONE}"


def on(day):
    return START + timedelta(days=day)


def closed(op, value):
    """Punctuation: no more rows of these orders."""
    return None, None, None, {"order": (op, value)}


LINES = [
    [(1, on(0), "tea", None), (2, on(0), "rice", None), (3, on(1), "oil", None)],
    [closed("<", "3")],  # orders 1 and 2 have all their lines
    [(4, on(40), "salt", None)],
    [closed("<", "5")],
]
PAID = [
    [(1, on(0), 7, None)],
    [(3, on(30), 5, None), closed("=", "1")],
    [closed("in", "[2, 3]")],  # 2 was cancelled
    [(4, on(41), 2, None), closed("=", "4")],
]


def query(spark):
    def stream(name, rows, schema):
        progress = sw.Punctuated("done", scheme=["[[order:#]]"])
        return sw.stream(sw.replay(spark, rows, schema), time="ts", name=name, progress=progress)

    orders, payments = stream("orders", LINES, ORDERS), stream("payments", PAID, PAYMENTS)
    bill = orders.drop("done").join(payments.drop("done"), on="order", within=None, how="left")
    print("the join is", "safe" if bill.contracts().ok else "unsafe")
    return (
        bill.select("order", "what", "paid")
        .writeStream.format("console")
        .queryName("bill")
        .option("truncate", False)
        .trigger(availableNow=True)
    )


if __name__ == "__main__":
    sw.start([query(sw.session())]).awaitTermination()
