"""Queries that meet stored tables, as they are asked for: predicates on the table, history, surrogate keys, duplicates, new rows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.testing import local_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MINUTE = 60
TRADES = "symbol string, ts bigint, price double, volume bigint"


def table(folder: Path, name: str, **columns: Any) -> str:
    (folder / name).mkdir()
    pq.write_table(pa.table(columns), folder / name / "part.parquet")
    return str(folder / name)


def trades(df: Any) -> sw.Stream:
    return sw.stream(df, time="ts", name="trades", progress=sw.Ordered())


@pytest.mark.spec("XJ-F58")
def test_turnover_of_volatile_symbols(spark: SparkSession, tmp_path: Path) -> None:
    """The last 30 minutes every 5, of symbols with beta above 1.05."""
    path = table(tmp_path, "information", symbol=["A", "B", "C"], beta=[1.2, 1.0, 1.06])

    def job(df: Any) -> Any:
        information = sw.relation(path, "symbol", spark=spark).where("beta > 1.05")
        joined = trades(df).join(information, "symbol")
        windows = sw.window(30 * MINUTE, 5 * MINUTE)
        return joined.groupBy("symbol", windows).agg("sum(volume * price) AS turnover")

    rows = [("A", 0, 2.0, 10), ("B", 60, 9.0, 1), ("C", 400, 1.0, 3), ("A", 500, 1.0, 1)]
    seen = local_job(job, TRADES, spark=spark, splits=True).run([rows, [("A", 1900, 4.0, 1)]])
    totals = {(r["symbol"], r["window"]["end"]): r["turnover"] for r in seen}
    assert totals["A", 300] == 20.0 and totals["A", 600] == 21.0 and totals["A", 1800] == 21.0
    assert totals["A", 2100] == 5.0  # the first trade has left, the last one has come
    assert totals["C", 600] == 3.0 and not any(symbol == "B" for symbol, _ in totals)


@pytest.mark.spec("XJ-F58")
def test_symbols_that_swing_against_their_archive(spark: SparkSession, tmp_path: Path) -> None:
    """At least 6 pairs of a trade and an archived one that differ by 0.05 or more; keys recur in the archive, prices are exact."""
    old = {"A": ["1.00", "1.10", "1.20"], "B": ["5.00", "5.01"], "C": ["2.00"]}
    pairs = [(symbol, Decimal(price)) for symbol, prices in old.items() for price in prices]
    symbols, prices = zip(*pairs, strict=True)
    path = table(tmp_path, "archive", symbol=symbols, old=pa.array(prices, pa.decimal128(8, 2)))

    def job(df: Any) -> Any:
        archive = sw.relation(path, "symbol", spark=spark)
        swings = trades(df).join(archive, "symbol", where="abs(price - old) >= 0.05")
        return swings.groupBy("symbol", sw.window(100)).count().where("count >= 6")

    def trade(symbol: str, ts: int, price: str) -> tuple[Any, ...]:
        return symbol, ts, Decimal(price), 1

    first = [
        trade("A", 1, "1.15"),  # 0.15, 0.05 and 0.05: three
        trade("A", 2, "1.05"),  # 0.05, 0.05 and 0.15: three
        trade("A", 3, "1.04"),  # not against 1.00, but against 1.10 and 1.20: two
        *(trade("B", 4 + n, "5.05") for n in range(5)),  # not against 5.01: five, one too few
        *(trade("C", 10 + n, "2.05") for n in range(6)),  # six
        trade("D", 20, "9.00"),  # the archive has none
    ]
    second = [trade("A", 101, "1.06"), trade("B", 102, "4.00"), *(trade("B", 103 + n, "5.05") for n in range(3)), trade("B", 110, "5.06")]  # fmt: skip
    schema = TRADES.replace("double", "decimal(8,2)")
    for splits in (False, True):
        seen = local_job(job, schema, spark=spark, splits=splits).run([first, second])
        found = sorted((r["window"]["start"], r["symbol"], r["count"]) for r in seen)
        # B in the second window: 4.00 twice, 5.05 three times, 5.06 twice.
        assert found == [(0, "A", 8), (0, "C", 6), (100, "B", 7)]


@pytest.mark.spec("XJ-F59")
def test_loading_a_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    """Keys of two sources become those of the warehouse; rows that are there already, and rows that are new, are told apart."""
    path = table(
        tmp_path, "keys", source=["x", "x", "y"], id=pa.array([1, 2, 1]), skey=[100, 101, 102]
    )

    def job(df: Any) -> dict[str, Any]:
        updates = sw.stream(df, time="ts", name="updates", progress=sw.Ordered())
        keys = sw.relation(path, ["source", "id"], "keys", spark=spark)
        known = updates.join(keys, on=[("origin", "source"), "id"])
        return {
            "keyed": known.select("skey", "amount", "ts"),
            "known": updates.join(keys, on=["id", ("origin", "source")], how="left_semi"),
            "new": updates.join(keys, on=["id", ("origin", "source")], how="left_anti"),
            "lost": known.unmatched,
        }

    schema = "origin string, id bigint, amount bigint, ts bigint"
    rows = [("x", 1, 5, 1), ("y", 1, 6, 2), ("y", 2, 7, 3), (None, 1, 8, 4), ("x", 2, 9, 5)]
    seen = local_job(job, schema, spark=spark, splits=True).run([rows[:2], rows[2:]])
    assert sorted((r["skey"], r["amount"]) for r in seen["keyed"]) == [(100, 5), (101, 9), (102, 6)]
    assert sorted(r["amount"] for r in seen["known"]) == [5, 6, 9]
    assert sorted(r["amount"] for r in seen["new"]) == [7, 8]
    assert sorted(r["amount"] for r in seen["lost"]) == [7, 8]
