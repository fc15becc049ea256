"""Payments and the accounts they belong to, which are created a little later than the first payment.

The accounts are a table that another system writes. A payment whose account is not there yet waits for a version of the table that
has it, for one minute of the payments' own time; after that it leaves as one without an account.

Run it with ``slackwater run examples/late_accounts.py`` or ``python examples/late_accounts.py``.
"""

import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import slackwater as sw

START = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
ACCOUNTS = Path(tempfile.mkdtemp(prefix="accounts-"))


def payment(account, second, amount):
    return account, START + timedelta(seconds=second), amount


PAYMENTS = [
    [payment(1, 0, 20.0), payment(2, 5, 7.5), payment(3, 10, 3.0)],
    [payment(1, 30, 5.0)],
    [payment(2, 90, 1.0)],
]


def create(owners, file):
    """New accounts are a new file, which is complete when it has its name."""
    table = pa.table({"id": pa.array(list(owners), pa.int64()), "owner": list(owners.values())})
    pq.write_table(table, ACCOUNTS / f"_{file}")
    (ACCOUNTS / f"_{file}").rename(ACCOUNTS / file)


def query(spark):
    create({1: "ann"}, "first.parquet")
    rows = sw.replay(spark, PAYMENTS, "account long, at timestamp, amount double")
    payments = sw.stream(rows, time="at", name="payments", progress=sw.Ordered())
    accounts = sw.relation(str(ACCOUNTS), key="id", name="accounts", spark=spark)
    full = payments.join(accounts, on=[("account", "id")], hold="1 minute")

    def written(frame, batch):
        frame.show(truncate=False)
        if batch == 0:
            create({2: "bob"}, "second.parquet")  # the account comes after its first payment

    return [
        full.writeStream.foreachBatch(written)
        .queryName("payments")
        .option("checkpointLocation", tempfile.mkdtemp(prefix="payments-"))
        .option("endOfStream", True)
        .trigger(availableNow=True),
        full.unmatched.writeStream.format("console")
        .queryName("without an account")
        .option("truncate", False),
    ]


if __name__ == "__main__":
    sw.start(query(sw.session())).awaitTermination()
