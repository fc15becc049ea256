"""Files as streams: what lies in a directory is read, whole and once, as Spark would read it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.engine.lowlevel.splits import plan_splits
from tests.surface.helpers import at, canonical, run, seconds, times, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def counted(df: Any, tmp_path: Path, *aggregates: str, keys: tuple[str, ...] = ()) -> list[Any]:
    s = sw.stream(df, time="ts", progress=sw.BoundedDelay("1 day"))
    return run(s.groupBy(*keys, sw.window("1 hour")).agg(*aggregates), tmp_path / "ck").rows()


@pytest.mark.spark
@pytest.mark.parametrize(
    "names", [("k", "ts", "v"), ("soundex(k) AS k", "ts", "v")], ids=["columns", "rows"]
)
def test_partition_columns_missing_columns_and_wider_types(
    spark: SparkSession, tmp_path: Path, names: tuple[str, ...]
):
    folder = tmp_path / "in"
    write(folder, "k=a/v=1/x.parquet", {"ts": times(1), "n": pa.array([7], pa.int8())})
    write(
        folder,
        "k=b%20c/v=2/x.parquet",
        {"ts": times(2), "n": pa.array([300], pa.int32()), "more": [1]},
    )
    write(folder, "k=__HIVE_DEFAULT_PARTITION__/v=3/x.parquet", {"TS": times(3)})
    schema = "ts timestamp, n bigint, k string, v bigint"
    df = sw.readStream(spark).schema(schema).parquet(str(folder))
    s = sw.stream(df, time="ts", progress=sw.Ordered())
    rows = run(s.select(*names, "n"), tmp_path / "ck", end=False).rows()
    keys = (
        {"a": "A000", "b c": "B200", None: None}
        if "soundex" in names[0]
        else {k: k for k in ("a", "b c", None)}
    )
    assert sorted((r["v"], r["k"], r["n"], seconds(r["ts"])) for r in rows) == [
        (1, keys["a"], 7, 1), (2, keys["b c"], 300, 2), (3, keys[None], None, 3)]  # fmt: skip


@pytest.mark.spark
def test_a_column_of_another_type_is_an_error_that_names_the_file(
    spark: SparkSession, tmp_path: Path
):
    path = write(tmp_path / "in", "x.parquet", {"ts": times(1), "n": ["one"]})
    df = sw.readStream(spark).schema("ts timestamp, n bigint").parquet(str(tmp_path / "in"))
    with pytest.raises(sw.ExecutionError) as caught:
        counted(df, tmp_path, "sum(n) AS n")
    assert caught.value.condition == "BAD_COLUMN_TYPE" and caught.value.hint
    assert str(path) in str(caught.value) and "'n'" in str(caught.value)


@pytest.mark.spark
def test_old_files_and_strange_names(spark: SparkSession, tmp_path: Path):
    folder = tmp_path / "in"
    names = [
        "a b.parquet",
        "c[1].parquet",
        "d?.parquet",
        "e%20f.parquet",
        "g=h.parquet",
        "é.parquet",
    ]
    for i, name in enumerate(names):
        path = write(folder, name, {"ts": times(i), "v": [10**i]})
        if i % 2:
            os.utime(path, (10**9, 10**9))  # 2001: years older than the others
    df = sw.readStream(spark).schema("ts timestamp, v bigint").option("maxFilesPerTrigger", 4)
    (row,) = counted(df.parquet(str(folder)), tmp_path, "sum(v) AS v", "count(*) AS n")
    assert (row["v"], row["n"]) == (111111, 6)


@pytest.mark.spark
def test_csv_and_json(spark: SparkSession, tmp_path: Path):
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("2026-01-01 00:00:01Z,1\n2026-01-01 00:00:02Z,\n")
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "a.json").write_text('{"ts": "2026-01-01T00:00:01Z", "v": 5}\n{"v": 3}\n')
    read = sw.readStream(spark).schema("ts timestamp, v bigint")
    a = sw.stream(read.csv(str(tmp_path / "csv")), time="ts", name="a", progress=sw.Ordered())
    b = sw.stream(read.json(str(tmp_path / "json")), time="ts", name="b", progress=sw.Ordered())
    result = a.union(b).groupBy(sw.window("1 hour")).agg("sum(v) AS v", "count(*) AS n")
    done = run(result, tmp_path / "ck")
    assert [(r["v"], r["n"]) for r in done.rows()] == [(6, 3)]
    assert done.last["streams"]["b"]["nullTime"] == {"ts": 1}


def big(path: Path, groups: int, rows: int = 1000) -> Path:
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
    with pq.ParquetWriter(path, schema, compression="none") as writer:
        for g in range(groups):
            values = [g * rows + i for i in range(rows)]
            table = pa.table([[at(v % 3600) for v in values], values], schema=schema)
            writer.write_table(table, row_group_size=rows)
    return path


def test_a_big_file_is_spread_over_the_tasks(tmp_path: Path):
    path = str(big(tmp_path / "big.parquet", 16))
    for tasks in (1, 2, 3, 8):
        plan = plan_splits([path], tasks)
        assert len(plan) == tasks
        pieces = sorted((s.first, s.end) for p in plan for s in p)
        if tasks == 1:
            assert pieces == [(0, -1)]
            continue
        # Together the pieces are the file, each row once, and no task has much more than its share.
        assert [0, *[end for _, end in pieces]] == [*[first for first, _ in pieces], 16_000]
        loads = [sum(s.end - s.first for s in p) for p in plan]
        assert min(loads) > 0 and max(loads) <= 2 * 16_000 / tasks
    small = [str(write(tmp_path, f"{i}.parquet", {"v": [i]})) for i in range(5)]
    plan = plan_splits(small, 2)
    assert sorted(s.path for p in plan for s in p) == sorted(small)
    assert max(len(p) for p in plan) <= 3


@pytest.mark.spark
def test_splits_of_a_big_file_give_each_row_once(spark: SparkSession, tmp_path: Path):
    (tmp_path / "in").mkdir()
    big(tmp_path / "in" / "big.parquet", 6)
    frame = spark.read.parquet(str(tmp_path / "in"))
    df = sw.readStream(spark).parquet(str(tmp_path / "in"))  # the schema is that of the file
    rows = counted(df, tmp_path, "sum(v) AS v", "count(*) AS n", "min(v) AS lo", "max(v) AS hi")
    expected = frame.selectExpr("sum(v) v", "count(*) n", "min(v) lo", "max(v) hi")
    assert canonical(rows, expected.columns) == canonical(
        expected.toArrow().to_pylist(), expected.columns
    )
