"""Directories of ``partitionBy``: named as Spark names them, and read back by Spark."""

from __future__ import annotations

import math
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.engine.paths.partition_dirs import NULL_DIRECTORY, partition_tables
from slackwater.errors import ExecutionError
from tests.surface.helpers import refused, times, write
from tests.surface.test_settings import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MICROS = [
    0, -1, 1, 1_767_323_045_120_000, 1_793_510_999_999_999, 1_793_511_000_000_000, 1_793_514_600_000_000,
    253_402_300_799_999_999, 253_402_300_800_000_000, -62_135_596_800_000_001, -62_167_219_200_000_001,
    -99_999_999_999_999_999, -2_000_000_000_000_000, 4_102_444_800_000_000, 32_503_680_000_000_000,
    800_000_000_000_000_000, (1 << 63) - 1, None,
]  # fmt: skip
DAYS = [
    0,
    -1,
    20_455,
    2_932_896,
    2_932_897,
    -719_162,
    -719_163,
    -719_529,
    -800_000,
    100_000_000,
    None,
]
DOUBLES = [
    math.nan, math.inf, -math.inf, 0.0, -0.0, 1e7, 9_999_999.0, 12_345_678.9, 0.001, 0.00099, 1e-5, 1.5, 100.0,
    5e-324, 1.7976931348623157e308, 123_456.789, -2.5e-10, 0.1 + 0.2, 1 / 3, 1e22, 65_536.5, None,
]  # fmt: skip
FLOATS = [
    math.nan,
    -math.inf,
    0.0,
    -0.0,
    1e7,
    16_777_216.0,
    0.1,
    1e-3,
    9.9e-4,
    3.4028235e38,
    1e-45,
    1.1,
    None,
]
TEXTS = [
    *(f"x{chr(i)}y" for i in range(1, 128)), " ", "é", "日本", "😀", "a/b=c", "%41", ".", "..", "_x", "1.0",
    "NaN", "2026-01-01", "null", None,
]  # fmt: skip
DECIMALS = [Decimal("0.0000000100"), Decimal("123.4500000000"), Decimal(0), Decimal("-1.5"), None]
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False, None]),
    "tinyint": (pa.int8(), [-128, 0, None]),
    "bigint": (pa.int64(), [-(1 << 63), 7, None]),
    "float": (pa.float32(), FLOATS),
    "double": (pa.float64(), DOUBLES),
    "decimal(20,10)": (pa.decimal128(20, 10), DECIMALS),
    "string": (pa.string(), TEXTS),
    "binary": (pa.binary(), [b"A", "é".encode(), b"/=", None]),
    "date": (pa.date32(), DAYS),
    "timestamp": (pa.timestamp("us", "UTC"), MICROS),
    "timestamp_ntz": (pa.timestamp("us"), MICROS[:-2]),
}


def column(kind: str) -> pa.Array:
    arrow, values = VALUES[kind]
    if pa.types.is_timestamp(arrow) or pa.types.is_date32(arrow):
        return pa.array(values, pa.int32() if pa.types.is_date32(arrow) else pa.int64()).cast(arrow)
    return pa.array(values, arrow)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("zone", "ansi"),
    [("UTC", "true"), ("America/New_York", "false"), ("+05:30", "true"), ("Europe/Berlin", "true")],
)
def test_every_value_is_written_as_spark_writes_it(
    spark: SparkSession, tmp_path: Path, zone: str, ansi: str
) -> None:
    """Spark's names come from its own function, on all values of all types in one job."""
    kinds = (
        VALUES if zone == "UTC" else {k: v for k, v in VALUES.items() if k[:4] in ("time", "deci")}
    )
    rows = max(len(v) for _, v in kinds.values())
    table = pa.table({f"c{i}": _padded(column(kind), rows) for i, kind in enumerate(kinds)})
    pq.write_table(table, tmp_path / "values.parquet")
    schema = ", ".join(f"c{i} {kind}" for i, kind in enumerate(kinds))
    path = spark.sparkContext._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils  # type: ignore[union-attr]
    with settings(spark, session__timeZone=zone, ansi__enabled=ansi):
        frame = spark.read.schema(schema).parquet(str(tmp_path / "values.parquet"))
        texts = frame.selectExpr(*(f"CAST(c{i} AS STRING)" for i in range(len(kinds)))).collect()
    for i, kind in enumerate(kinds):
        one = pa.table({"c": table[f"c{i}"], "row": list(range(rows))})
        found = {}
        for directory, part in partition_tables(one, ["c"], zone=zone, ansi=ansi == "true"):
            found.update(dict.fromkeys(part["row"].to_pylist(), directory))
        for row in range(len(VALUES[kind][1])):
            want = path.getPartitionPathString("c", texts[row][i])
            assert found[row] == want, (kind, column(kind)[row])


def _padded(values: pa.Array, rows: int) -> pa.Array:
    return pa.concat_arrays([values, pa.nulls(rows - len(values), values.type)])


@pytest.mark.spark
def test_what_a_query_writes_is_read_back(spark: SparkSession, tmp_path: Path) -> None:
    """Through the sink, in a zone that is not UTC, with and without a schema."""
    doubles = [math.nan, math.inf, -math.inf, -0.0, 1e-5, 2.0]
    write(tmp_path / "in", "0.parquet", {
        "ts": times(*range(6)), "d": doubles, "s": ["a}b", "", None, "%/", "é", "x"], "v": list(range(6)),
    })  # fmt: skip
    with settings(spark, session__timeZone="America/New_York"):
        schema = "ts timestamp, d double, s string, v bigint"
        df = sw.readStream(spark).schema(schema).parquet(str(tmp_path / "in"))
        s = sw.stream(df, time="ts", name="s").withColumn("t", "ts")
        writer = s.writeStream.partitionBy("t", "d", "s").option("path", str(tmp_path / "out"))
        q = (
            writer.option("checkpointLocation", str(tmp_path / "ck"))
            .trigger(availableNow=True)
            .start()
        )
        q.awaitTermination()
        wanted = [
            (v, repr(d), t or None)
            for v, d, t in zip(range(6), doubles, ["a}b", "", None, "%/", "é", "x"], strict=True)
        ]
        for read in (
            spark.read,
            spark.read.schema("v bigint, t timestamp, ts timestamp, d double, s string"),
        ):
            got = read.parquet(str(tmp_path / "out")).where("t = ts").orderBy("v").collect()
            assert [(r.v, repr(r.d), r.s) for r in got] == wanted
    first = sorted(p for p in os.listdir(tmp_path / "out") if "=" in p)[0]
    assert first == "t=2025-12-31 19%3A00%3A00"


def test_what_spark_writes_alike_has_one_directory() -> None:
    table = pa.table({"c": ["", None, "x"], "v": [1, 2, 3]})
    found = {d: p["v"].to_pylist() for d, p in partition_tables(table, ["c"])}
    assert found == {f"c={NULL_DIRECTORY}": [1, 2], "c=x": [3]}


@pytest.mark.parametrize("value", ["a\0b", "é" * 150])
def test_a_value_that_is_no_name_is_refused(value: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        list(partition_tables(pa.table({"c": [value]}), ["c"]))
    assert caught.value.condition == "BAD_PARTITION_VALUE" and "'c'" in str(caught.value)


@pytest.mark.spark
def test_columns_that_cannot_be_directories_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    df = sw.readStream(spark).schema("ts timestamp, k string").parquet(str(tmp_path / "in"))
    s = sw.stream(df, time="ts", name="s")
    counts = s.groupBy(sw.window("1 second")).count()
    refused(lambda: counts.writeStream.partitionBy("window"), "BAD_PARTITION_COLUMN", "'window'")
    refused(lambda: s.writeStream.partitionBy("ts", "k"), "BAD_PARTITION_COLUMN")
    s.writeStream.partitionBy("k")


@pytest.mark.spark
def test_times_in_text_files_are_in_the_querys_zone(spark: SparkSession, tmp_path: Path) -> None:
    """The sink writes with the user's session, whose zone may change while the query runs."""
    write(tmp_path / "in", "0.parquet", {"ts": times(0), "k": ["a"]})
    df = sw.readStream(spark).schema("ts timestamp, k string").parquet(str(tmp_path / "in"))
    s = sw.stream(df, time="ts", name="s").where("k = 'a'")
    before = spark.conf.get("spark.sql.session.timeZone")

    def change(table: Any, batch: int) -> None:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")

    try:
        writers = [
            s.writeStream.queryName("a")._foreach_table(change),
            s.writeStream.queryName("b").format("csv").option("path", str(tmp_path / "out")),
        ]
        q = sw.start(
            writers, checkpointLocation=str(tmp_path / "ck"), trigger={"availableNow": True}
        )
        q.awaitTermination()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    (file,) = (tmp_path / "out").glob("part-*.csv")
    assert file.read_text().startswith("2026-01-01T00:00:00.000Z")
