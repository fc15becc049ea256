"""Examples of Flink's pages on window functions, cascades and joins: only their DDL is changed, the rows are those that the pages print."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.surface.sql.script import Script
from slackwater.surface.sql.text import SqlText
from tests.surface.helpers import write

pytestmark = pytest.mark.spark

DDL = """
SET endOfStream = true;
SET trigger = 'available now';
CREATE STREAM Bid (
    bidtime TIMESTAMP,
    price DECIMAL(10, 2),
    item STRING,
    supplier_id STRING,
    WATERMARK FOR bidtime AS bidtime - INTERVAL '1' SECOND
) USING parquet OPTIONS (path '${work}/Bid');
CREATE STREAM LeftTable (row_time TIMESTAMP, num INT, id STRING)
  USING parquet OPTIONS (path '${work}/LeftTable') TIME row_time PROGRESS DELAY 1 HOUR;
CREATE STREAM RightTable (row_time TIMESTAMP, num INT, id STRING)
  USING parquet OPTIONS (path '${work}/RightTable') TIME row_time PROGRESS DELAY 1 HOUR;
CREATE STREAM Orders (id INT, order_time TIMESTAMP)
  USING parquet OPTIONS (path '${work}/Orders') TIME order_time PROGRESS DELAY 1 DAY;
CREATE STREAM Shipments (order_id INT, ship_time TIMESTAMP)
  USING parquet OPTIONS (path '${work}/Shipments') TIME ship_time PROGRESS DELAY 1 DAY;
"""
EXAMPLES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        """SELECT window_start, window_end, SUM(price) AS total_price
  FROM TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)
  GROUP BY window_start, window_end;""",
        [("08:00", "08:10", "11.00"), ("08:10", "08:20", "10.00")],
    ),
    (
        """SELECT window_start, window_end, supplier_id, SUM(price) AS total_price
  FROM SESSION(TABLE Bid PARTITION BY supplier_id, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES)
  GROUP BY supplier_id, window_start, window_end;""",
        [("08:05", "08:09", "supplier1", "6.00"), ("08:09", "08:13", "supplier2", "8.00"),
         ("08:13", "08:15", "supplier1", "1.00"), ("08:17", "08:19", "supplier2", "6.00")],
    ),
    (
        """SELECT window_start, window_end, SUM(price) AS total_price
  FROM TABLE(
    TUMBLE(
      DATA => TABLE Bid,
      TIMECOL => DESCRIPTOR(bidtime),
      SIZE => INTERVAL '10' MINUTES))
  GROUP BY window_start, window_end;""",
        [("08:00", "08:10", "11.00"), ("08:10", "08:20", "10.00")],
    ),
    (
        """SELECT window_start, window_end, SUM(price) AS total_price
  FROM TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES, INTERVAL '1' MINUTES)
  GROUP BY window_start, window_end;""",
        [("08:01", "08:11", "11.00"), ("08:11", "08:21", "10.00")],
    ),
    (
        """SELECT window_start, window_end, SUM(price) AS total_price
  FROM HOP(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES)
  GROUP BY window_start, window_end;""",
        [("08:00", "08:10", "11.00"), ("08:05", "08:15", "15.00"), ("08:10", "08:20", "10.00"), ("08:15", "08:25", "6.00")],
    ),
    (
        """SELECT window_start, window_end, SUM(price) AS total_price
  FROM TABLE(
    HOP(
      DATA => TABLE Bid,
      TIMECOL => DESCRIPTOR(bidtime),
      SLIDE => INTERVAL '5' MINUTES,
      SIZE => INTERVAL '10' MINUTES))
  GROUP BY window_start, window_end;""",
        [("08:00", "08:10", "11.00"), ("08:05", "08:15", "15.00"), ("08:10", "08:20", "10.00"), ("08:15", "08:25", "6.00")],
    ),
    (
        """-- tumbling 5 minutes for each supplier_id
CREATE VIEW window1 AS
-- Note: The window start and window end fields of inner Window TVF are optional in the select clause.
SELECT window_start AS window_5mintumble_start, window_end AS window_5mintumble_end, window_time AS rowtime, SUM(price) AS partial_price
  FROM TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES)
  GROUP BY supplier_id, window_start, window_end, window_time;

-- tumbling 10 minutes on the first window
SELECT window_start, window_end, SUM(partial_price) AS total_price
  FROM TUMBLE(TABLE window1, DESCRIPTOR(rowtime), INTERVAL '10' MINUTES)
  GROUP BY window_start, window_end;""",
        [("08:00", "08:10", "11.00"), ("08:10", "08:20", "10.00")],
    ),
    (
        """SELECT *
FROM Orders o, Shipments s
WHERE o.id = s.order_id
AND o.order_time BETWEEN s.ship_time - INTERVAL '4' HOUR AND s.ship_time;""",
        [(1, "08:00", 1, "12:00"), (2, "08:00", 2, "08:00")],
    ),
    (
        """SELECT L.num as L_Num, L.id as L_Id, R.num as R_Num, R.id as R_Id,
COALESCE(L.window_start, R.window_start) as window_start,
COALESCE(L.window_end, R.window_end) as window_end
FROM (
    SELECT * FROM TABLE(TUMBLE(TABLE LeftTable, DESCRIPTOR(row_time), INTERVAL '5' MINUTES))
) L
FULL JOIN (
    SELECT * FROM TABLE(TUMBLE(TABLE RightTable, DESCRIPTOR(row_time), INTERVAL '5' MINUTES))
) R
ON L.num = R.num AND L.window_start = R.window_start AND L.window_end = R.window_end;""",
        [(1, "L1", None, None, "12:00", "12:05"), (None, None, 2, "R2", "12:00", "12:05"), (3, "L3", 3, "R3", "12:00", "12:05"),
         (2, "L2", None, None, "12:05", "12:10"), (None, None, 4, "R4", "12:05", "12:10")],
    ),
]  # fmt: skip


def _at(clock: str) -> dt.datetime:
    hour, minute = map(int, clock.split(":"))
    return dt.datetime(2020, 4, 15, hour, minute, tzinfo=dt.timezone.utc)


def _times(*clocks: str) -> pa.Array:
    return pa.array([_at(c) for c in clocks], pa.timestamp("us", "UTC"))


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.timezone.utc).strftime("%H:%M")
    return str(value) if isinstance(value, Decimal) else value


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write(tmp_path / "Bid", "a.parquet", {
        "bidtime": _times("08:05", "08:07", "08:09", "08:11", "08:13", "08:17"),
        "price": pa.array([Decimal(f"{p}.00") for p in (4, 2, 5, 3, 1, 6)], pa.decimal128(10, 2)),
        "item": list("CADBEF"), "supplier_id": [f"supplier{n}" for n in (1, 1, 2, 2, 1, 2)],
    })  # fmt: skip
    for name, rows in (("LeftTable", [("12:02", 1), ("12:06", 2), ("12:03", 3)]),
                       ("RightTable", [("12:01", 2), ("12:04", 3), ("12:05", 4)])):  # fmt: skip
        write(tmp_path / name, "a.parquet", {
            "row_time": _times(*(c for c, _ in rows)), "num": pa.array([n for _, n in rows], pa.int32()),
            "id": [f"{name[0]}{n}" for _, n in rows],
        })  # fmt: skip
    numbers = pa.array([1, 2, 3], pa.int32())
    write(
        tmp_path / "Orders",
        "a.parquet",
        {"id": numbers, "order_time": _times("08:00", "08:00", "08:00")},
    )
    write(
        tmp_path / "Shipments",
        "a.parquet",
        {"order_id": numbers, "ship_time": _times("12:00", "08:00", "12:01")},
    )
    return tmp_path


def test_the_examples_give_the_rows_that_the_pages_print(spark: Any, work: Path):
    rows: list[list[tuple[Any, ...]]] = [[] for _ in EXAMPLES]
    names: list[str] = []

    def shown(stream: Any, name: str) -> Any:
        number = len(names)
        names.append(name)

        def take(table: pa.Table, _: int) -> None:
            rows[number] += [tuple(_plain(v) for v in r.values()) for r in table.to_pylist()]

        return stream.writeStream._foreach_table(take).queryName(name)

    text = SqlText(DDL + "\n".join(t for t, _ in EXAMPLES), "pages.sql")
    script = Script(spark, text, {"work": work}, shown=shown)
    script.start(checkpointLocation=str(work / "ck")).awaitTermination()
    assert len(names) == len(EXAMPLES)
    for (example, expected), got in zip(EXAMPLES, rows, strict=True):
        assert sorted(got, key=repr) == sorted(expected, key=repr), example
