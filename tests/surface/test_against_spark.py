"""Where the slide divides the range, windows are Spark's: every aggregate must equal Spark's batch result."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.kernels.types import arrow_schema
from tests.surface.helpers import START, UTC, canonical, run, times, write
from tests.surface.local import run_locally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = (
    "k string, ts timestamp, u int, i1 tinyint, i2 smallint, i4 int, i8 bigint, x8 bigint, f4 float, f8 double, "
    "x float, d5 decimal(5,2), d18 decimal(18,4), d38 decimal(38,10), s string, b boolean, d date, t timestamp, "
    "n timestamp_ntz"
)
NUMBERS = ("i1", "i2", "i4", "i8", "f4", "f8", "d5", "d18", "d38")
ALL = (*NUMBERS, "x8", "x", "s", "b", "d", "t", "n")


def aggregates() -> list[str]:
    found = ["count(*)", "count(1)", "count(k, f8)"]
    found += [f"{f}({c})" for c in ALL for f in ("count", "min", "max")]
    found += [f"{f}({c})" for c in NUMBERS for f in ("sum", "avg")]
    found += [
        f"{f}({c})"
        for c in ("i4", "f8", "d18")
        for f in ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
    ]
    found += ["bool_and(b)", "bool_or(b)", "every(i4 > 0)", "some(s IS NULL)"]
    found += [f"{f}({c}, u)" for c in ("s", "f8", "d38", "n", "b") for f in ("max_by", "min_by")]
    found += ["max_by(u, d38)"]
    found += [
        "sum(i4) FILTER (WHERE b)",
        "count(*) FILTER (WHERE s IS NOT NULL AND f8 > 0)",
        "avg(d5) FILTER (WHERE i1 < 0)",
        "max_by(s, u) FILTER (WHERE b)",
        "sum(i2 + u) / count(*)",
        "coalesce(max(length(s)), -1) + min(u)",
        "CASE WHEN count(b) > 2 THEN sum(u) ELSE -sum(u) END",
        "sum(CASE WHEN b THEN 1 ELSE 0 END) * 2",
        "concat(min(s), '/', max(s))",
        "count(*) > 3 AND bool_or(b)",
    ]
    return [f"{a} AS a{i}" for i, a in enumerate(found)]


def values(seed: int, n: int) -> list[dict[str, Any]]:
    """Rows with nulls, NaN, infinities and extremes. Values whose sum depends on the order stay apart."""
    rng = random.Random(seed)
    unique = rng.sample(range(-5_000, 5_000), n)

    def decimal(precision: int, scale: int) -> Decimal:
        top = 10**precision - 1
        digits = rng.choice([rng.randint(-top, top), rng.randint(-9, 9), top, -top])
        return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))

    rows = []
    for i in range(n):
        odd = rng.random() < 0.08
        row = {
            "u": unique[i],
            "i1": rng.choice([-128, 127, rng.randint(-9, 9)]),
            "i2": rng.choice([-(2**15), 2**15 - 1, rng.randint(-9, 9)]),
            "i4": rng.choice([-(2**31), 2**31 - 1, rng.randint(-9, 9)]),
            "i8": rng.choice([2**44, 1 - 2**44, rng.randint(-9, 9)]),
            "x8": rng.choice([-(2**63), 2**63 - 1, 0]),
            "f4": rng.choice([math.nan, math.inf, -math.inf]) if odd else rng.randint(-99, 99) / 8,
            "f8": rng.choice([math.nan, math.inf, -math.inf]) if odd else rng.randint(0, 999) / 8,
            "x": rng.choice([3.4e38, -3.4e38, 1e-45, 0.0, math.inf, -math.inf]),
            "d5": decimal(5, 2),
            "d18": decimal(18, 4),
            "d38": Decimal(rng.randint(-(10**20), 10**20)),
            "s": rng.choice(["", "a", "é", "a😀b", "Z", " ", "ß"]),
            "b": rng.random() < 0.5,
            "d": dt.date(2000, 1, 1) + dt.timedelta(days=rng.choice([-700_000, 2_900_000, 5])),
            "t": START + dt.timedelta(microseconds=rng.choice([-(10**16), 10**16, 7])),
            "n": dt.datetime(1, 1, 1) + dt.timedelta(days=rng.choice([0, 3_000_000])),  # noqa: DTZ001
        }
        row = {c: None if c != "u" and rng.random() < 0.15 else v for c, v in row.items()}
        row["k"] = rng.choice(["a", "b", None])
        row["ts"] = START + dt.timedelta(microseconds=rng.randint(0, 150_000_000))
        rows.append(row)
    # One group of all nulls, one with a single row, one row at a border of windows.
    rows += [dict.fromkeys(rows[0]) | {"k": "null", "ts": START, "u": 9_000 + i} for i in range(2)]
    rows.append(rows[0] | {"k": "single", "u": 9_010})
    rows.append(rows[1] | {"k": "single", "u": 9_011, "ts": START + dt.timedelta(seconds=60)})
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    from pyspark.sql.types import StructType

    from slackwater.engine.analysis.analyse import fields_of

    schema = arrow_schema(fields_of(StructType.fromDDL(SCHEMA)))
    made = tmp_path_factory.mktemp("values")
    rows = values(1, 160)
    for number, part in enumerate((rows[:90], rows[90:])):
        table = pa.Table.from_pylist(part, schema)
        write(made, f"{number}.parquet", dict(zip(schema.names, table.columns)))
    return made


@pytest.fixture(scope="module")
def expected(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    from pyspark.sql import functions as F

    window = F.window("ts", "60 seconds", "20 seconds")
    items = [F.expr(a) for a in aggregates()]
    frame = spark.read.schema(SCHEMA).parquet(str(folder)).groupBy("k", window).agg(*items)
    return canonical(frame.toArrow().to_pylist(), ["k", "window", *aliases()])


def aliases() -> list[str]:
    return [a.rsplit(" AS ", 1)[1] for a in aggregates()]


def source(spark: SparkSession, folder: Path, kind: str) -> Any:
    if kind == "splits":
        return (
            sw.readStream(spark).schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
        )
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


@pytest.mark.spec("WQ-F13")
@pytest.mark.parametrize("plan", ["panes", "wids"])
@pytest.mark.parametrize("kind", ["rows", "splits"])
def test_every_aggregate_equals_sparks(
    kind: str,
    plan: str,
    spark: SparkSession,
    folder: Path,
    expected: Any,
    tmp_path: Path,
    request: pytest.FixtureRequest,
):
    if (kind, plan) == ("rows", "panes"):  # where Spark has the most to compile
        request.getfixturevalue("compiled_code")
    s = sw.stream(source(spark, folder, kind), time="ts", progress=sw.BoundedDelay("10 minutes"))
    result = s.groupBy("k", sw.window("60 seconds", "20 seconds")).agg(*aggregates())
    done = run(result, tmp_path / "ck", options={"windowPlan": plan})
    assert {op["plan"] for op in done.last["operators"].values()} == {plan}
    found = canonical(done.rows(), ["k", "window", *aliases()])
    assert len(found) == len(expected)
    names = ["k", "window", *[a.rsplit(" AS ", 1)[0] for a in aggregates()]]
    wrong = {
        (row[0], str(row[1][0]), name): (mine, sparks)
        for row, other in zip(found, expected)
        for name, mine, sparks in zip(names, row, other)
        if mine != sparks
    }
    assert not wrong, sorted({name for _, _, name in wrong})


def test_column_objects_dicts_and_shortcuts_are_pysparks(
    spark: SparkSession, folder: Path, tmp_path: Path
):
    from pyspark.sql import functions as F

    frame = (
        spark.read.schema(SCHEMA).parquet(str(folder)).groupBy("k", F.window("ts", "60 seconds"))
    )
    window = sw.window("60 seconds")
    s = sw.stream(source(spark, folder, "rows"), time="ts", progress=sw.Ordered())
    ways = {
        "columns": (F.sum("u").alias("t"), F.avg(F.col("i2") + 1), F.count_if(F.col("b"))),
        "dict": ({"u": "max", "i2": "min", "*": "count"},),
    }
    results = {n: s.groupBy("k", window).agg(*a) for n, a in ways.items()}
    wanted = {n: frame.agg(*a) for n, a in ways.items()}
    results["sum"], wanted["sum"] = s.groupBy("k", window).sum("u", "i1"), frame.sum("u", "i1")
    results["count"], wanted["count"] = s.groupBy("k", window).count(), frame.count()
    for name, result in results.items():
        assert [c for c in result.columns if c != "wid"] == wanted[name].columns, name
    # One batch of both files, so that no row is late.
    reader = spark.readStream.schema(SCHEMA).parquet(str(folder))
    s = sw.stream(reader, time="ts", progress=sw.Ordered())
    results = {n: s.groupBy("k", window).agg(*a) for n, a in ways.items()}
    results["sum"] = s.groupBy("k", window).sum("u", "i1")
    results["count"] = s.groupBy("k", window).count()
    done = run(results, tmp_path / "ck")
    for name, batch in wanted.items():
        rows = batch.toArrow().to_pylist()
        assert canonical(done.rows(name), batch.columns) == canonical(rows, batch.columns), name


@pytest.mark.parametrize("kind", ["rows", "splits"])
def test_an_overflowing_sum_raises_as_in_spark_and_the_checkpoint_stays_usable(
    kind: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
):
    from pyspark.errors import PySparkException

    if kind == "rows":  # Spark adds up, and the code that it compiles has checks of its own
        request.getfixturevalue("compiled_code")
    folder = tmp_path / "in"
    schema = "ts timestamp, v bigint"
    write(folder, "0.parquet", {"ts": times(1, 2), "v": [5, 6]})
    df = (
        sw.readStream(spark).schema(schema).parquet(str(folder))
        if kind == "splits"
        else spark.readStream.schema(schema).parquet(str(folder))
    )
    s = sw.stream(df, time="ts", progress=sw.Ordered())
    result = s.groupBy(sw.window("10 seconds")).agg("sum(v) AS total")
    # What Spark does for rows is the larger part; splits are read by the same tasks in this process.
    play = run if kind == "rows" else run_locally
    checkpoint = tmp_path / "ck" if kind == "rows" else tmp_path / "ck" / "checkpoint"
    assert play(result, tmp_path / "ck", end=False).rows() == []
    good = manifests.last(Checkpoint(str(checkpoint)))
    assert good is not None

    bad = write(folder, "1.parquet", {"ts": times(3, 11), "v": [2**63 - 1, 1]})
    with pytest.raises(PySparkException):
        spark.read.schema(schema).parquet(str(folder)).where("v > 1").agg({"v": "sum"}).collect()
    for _ in range(2):  # a second try meets the same error, not another one
        with pytest.raises((sw.ExecutionError, PySparkException), match=r"(?i)overflow"):
            play(result, tmp_path / "ck", end=False)
        after = manifests.last(Checkpoint(str(checkpoint)))
        assert after is not None and (after.batch, after.runs) == (good.batch, good.runs)
    assert bad.exists()

    # Without ANSI mode Spark wraps around; that is another meaning, so the checkpoint refuses it.
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        again = sw.stream(df, time="ts", progress=sw.Ordered())
        other = again.groupBy(sw.window("10 seconds")).agg("sum(v) AS total")
        with pytest.raises(sw.CheckpointError, match="ansi"):
            play(other, tmp_path / "ck", end=False)
        found = play(other, tmp_path / "fresh").rows()
        frame = spark.read.schema(schema).parquet(str(folder)).where("v > 1").agg({"v": "sum"})
        assert found[0]["total"] == frame.collect()[0][0] == -(2**63) + 10
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")


def test_the_comparison_can_fail():
    row = {"a": 0.1 + 0.2, "w": {"s": START.astimezone(UTC)}}
    assert canonical([row], ["a", "w"]) == canonical([row | {"a": 0.3}], ["a", "w"])
    assert canonical([row], ["a"]) != canonical([{"a": 0.31}], ["a"])
    assert canonical([{"a": math.nan}], ["a"]) == canonical([{"a": math.nan}], ["a"])
