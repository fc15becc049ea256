"""Joins on Spark: beside Spark's own batch joins, through restarts, and into further operators."""

from __future__ import annotations

import os
import random
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.surface.stream import Stream
from tests.surface.helpers import at, run, write
from tests.surface.local import run_locally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

A = "k string, ts timestamp, v bigint"
B = "k string, ts timestamp, w double"


def disordered(seed: int, batches: int, rows: int, kind: type) -> list[list[tuple[Any, ...]]]:
    """Rows whose times are at most 8 s out of order; some keys are null, some rows come twice."""
    rng = random.Random(seed)
    made = []
    for b in range(batches):
        batch: list[tuple[Any, ...]] = []
        for _ in range(rows):
            key = rng.choice(["a", "b", "c", None])
            batch.append((key, at(10 * b + rng.randrange(0, 16) / 2), kind(rng.randrange(5))))
        batch.append(batch[0])
        made.append(batch)
    return made


def write_batch(folder: Path, i: int, rows: list[tuple[Any, ...]], last: str) -> None:
    keys, times, values = zip(*rows, strict=True)
    columns = {
        "k": list(keys),
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
        last: list(values),
    }
    write(folder, f"{i}.parquet", columns)


def frames(spark: SparkSession, left: Any, right: Any) -> tuple[DataFrame, DataFrame]:
    a = spark.createDataFrame([r for b in left for r in b], A).alias("a")
    b = spark.createDataFrame([r for b in right for r in b], B).alias("b")
    return a, b


def counted(rows: list[dict[str, Any]] | list[Any], names: list[str]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(_plain(r[n]) for n in names) for r in rows)


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def streams(spark: SparkSession, a: Any, b: Any) -> tuple[Stream, Stream]:
    policy = sw.BoundedDelay("8 seconds")
    return (
        sw.stream(a, time="ts", name="a", progress=policy),
        sw.stream(b, time="ts", name="b", progress=policy),
    )


BAND = "b.ts >= a.ts - INTERVAL 2 SECONDS AND b.ts <= a.ts + INTERVAL 3 SECONDS"
NAMES = ["k", "a_ts", "v", "b_ts", "w"]


@pytest.mark.spec("OO-F36", "WQ-F58", "WQ-F64", "WQ-F67", "XJ-F80")
@pytest.mark.parametrize("splits", [False, True], ids=["rows", "splits"])
def test_all_kinds_equal_sparks_batch_joins(
    spark: SparkSession, tmp_path: Path, splits: bool
) -> None:
    left, right = disordered(1, 3, 12, int), disordered(2, 3, 12, float)
    if splits:
        for name, batches, last in (("a", left, "v"), ("b", right, "w")):
            for i, rows in enumerate(batches):
                write_batch(tmp_path / name, i, rows, last)
        read = [
            sw.readStream(spark).schema(s).option("maxFilesPerTrigger", 1).parquet(
                str(tmp_path / n)
            )
            for n, s in (("a", A), ("b", B))
        ]  # fmt: skip
        a, b = streams(spark, *read)
    else:
        a, b = streams(spark, sw.replay(spark, left, A), sw.replay(spark, right, B))
    band = sw.band(before="2 seconds", after="3 seconds")
    joined = {how: a.join(b, "k", band, how) for how in ("inner", "left", "right", "full")}
    near = a.join(b, "k", band, "left", where="v < w")
    tumbling = a.join(b, "k", sw.window("5 seconds"))
    loose = a.join(b, None, sw.band(after="500 milliseconds"), where="a_k <> b_k")
    near_null = a.join(b, "a.k <=> b.k", sw.window("5 seconds"), "full")
    unequal = a.join(b, _sql("v < w"), band)
    other = a.alias("c")
    itself = a.join(other.where("v > 1"), "k", sw.band(before="1 second"))
    three = sw.joinAll([a, b, other], "k", ["1 second", "2 seconds", "0 seconds"])
    # What Spark does for rows is the larger part; splits are read by the same tasks in this process.
    done = (run_locally if splits else run)(
        {
            **joined, "near": near, "tumbling": tumbling, "loose": loose, "itself": itself,
            "three": three, "near_null": near_null, "unequal": unequal,
        },
        tmp_path / "checkpoint",
    )  # fmt: skip
    x, y = frames(spark, left, right)
    for how in joined:
        want = x.join(y, (x.k == y.k) & _sql(BAND), how).selectExpr(
            "coalesce(a.k, b.k) AS k", "a.ts AS a_ts", "v", "b.ts AS b_ts", "w"
        )
        assert counted(done.rows(how), NAMES) == counted(want.collect(), NAMES), how
    want = x.join(y, (x.k == y.k) & _sql(f"{BAND} AND v < w"), "left").selectExpr(
        "a.k AS k", "a.ts AS a_ts", "v", "b.ts AS b_ts", "w"
    )
    assert counted(done.rows("near"), NAMES) == counted(want.collect(), NAMES)
    same = "floor(unix_micros(a.ts) / 5000000) = floor(unix_micros(b.ts) / 5000000)"
    want = x.join(y, (x.k == y.k) & _sql(same)).selectExpr(
        "a.k AS k", "a.ts AS a_ts", "v", "b.ts AS b_ts", "w"
    )
    assert counted(done.rows("tumbling"), NAMES) == counted(want.collect(), NAMES)
    close = "b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 500 MILLISECONDS AND a.k <> b.k"
    names = ["a_k", "a_ts", "v", "b_k", "b_ts", "w"]
    keyless = {
        "near_null": (f"{same} AND a.k <=> b.k", "full"),
        "unequal": (f"{BAND} AND v < w", "inner"),
    }
    for name, (condition, how) in keyless.items():
        want = x.join(y, _sql(condition), how).selectExpr(
            "a.k AS a_k", "a.ts AS a_ts", "v", "b.k AS b_k", "b.ts AS b_ts", "w"
        )
        assert counted(done.rows(name), names) == counted(want.collect(), names), name
    want = x.join(y, _sql(close)).selectExpr(
        "a.k AS a_k", "a.ts AS a_ts", "v", "b.k AS b_k", "b.ts AS b_ts", "w"
    )
    assert counted(done.rows("loose"), names) == counted(want.collect(), names)
    z = x.alias("c")
    back = "c.ts <= a.ts AND c.ts >= a.ts - INTERVAL 1 SECOND AND c.v > 1"
    names = ["k", "a_ts", "a_v", "c_ts", "c_v"]
    want = x.join(z, _sql(f"a.k = c.k AND {back}")).selectExpr(
        "a.k AS k", "a.ts AS a_ts", "a.v AS a_v", "c.ts AS c_ts", "c.v AS c_v"
    )
    assert counted(done.rows("itself"), names) == counted(want.collect(), names)
    spans = {"a": 1_000_000, "b": 2_000_000, "c": 0}
    mutual = " AND ".join(
        f"unix_micros({i}.ts) - unix_micros({j}.ts) <= {spans[j]}"
        for i in spans for j in spans if i != j
    )  # fmt: skip
    names = ["k", "a_ts", "a_v", "b_ts", "w", "c_ts", "c_v"]
    want = (
        x.join(y, _sql("a.k = b.k"))
        .join(z, _sql(f"a.k = c.k AND {mutual}"))
        .selectExpr(
            "a.k AS k",
            "a.ts AS a_ts",
            "a.v AS a_v",
            "b.ts AS b_ts",
            "w",
            "c.ts AS c_ts",
            "c.v AS c_v",
        )
    )
    assert counted(done.rows("three"), names) == counted(want.collect(), names)
    assert counted(done.rows("three"), names)


def _sql(text: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(text)


@pytest.mark.spec("XJ-F85")
def test_a_join_feeds_windows_unions_and_joins_through_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    left, right = disordered(3, 4, 10, int), disordered(4, 4, 10, float)

    def query() -> dict[str, Stream]:
        read = [
            sw.readStream(spark).schema(s).option("maxFilesPerTrigger", 1).parquet(
                str(tmp_path / n)
            )
            for n, s in (("a", A), ("b", B))
        ]  # fmt: skip
        a, b = streams(spark, *read)
        pairs = a.join(b, [("k", "k")], sw.band(before="2 seconds", after="3 seconds"), "left")
        inner = a.join(b, "k", sw.band(before="2 seconds", after="3 seconds"))
        total = sw.window("10 seconds")
        return {
            "sums": inner.groupBy("k", total).agg("count(*) AS n", "sum(v) AS s"),
            "by_left": inner.groupBy("k", sw.window("10 seconds", on="a_ts")).agg("sum(w) AS s"),
            "both": inner.select("k", "a_ts", "b_ts", "v").union(
                inner.select("k", "a_ts", "b_ts", "-v AS v")
            ),
            "again": pairs.select("a_k", "a_ts", "b_ts", "v").join(
                b.alias("c"), [("a_k", "k")], sw.band(after="1 second"), times=["a_ts", "ts"]
            ),
            "sorted": a.join(b, "k", sw.window("5 seconds"), emit="ordered"),
        }

    for name, batches, last in (("a", left, "v"), ("b", right, "w")):
        for i, rows in enumerate(batches[:2]):
            write_batch(tmp_path / name, i, rows, last)
    first = run_locally(query(), tmp_path / "checkpoint", end=False, options={"partitionGroups": 2})
    for name, batches, last in (("a", left, "v"), ("b", right, "w")):
        for i, rows in enumerate(batches[2:]):
            write_batch(tmp_path / name, 2 + i, rows, last)
    second = run_locally(query(), tmp_path / "checkpoint", options={"partitionGroups": 3})

    def found(name: str) -> list[dict[str, Any]]:
        return [*first.rows(name), *second.rows(name)]

    x, y = frames(spark, left, right)
    pairs = x.join(y, _sql(f"a.k = b.k AND {BAND}"))
    sums = pairs.groupBy("a.k", _sql("window(greatest(a.ts, b.ts), '10 seconds').start")).agg(
        _sql("count(*) AS n"), _sql("sum(v) AS s")
    )
    want = Counter((r[0], r[1], r[2], r[3]) for r in sums.collect())
    assert (
        Counter((r["k"], _plain(r["window"]["start"]), r["n"], r["s"]) for r in found("sums"))
        == want
    )
    left_sums = pairs.groupBy("a.k", _sql("window(a.ts, '10 seconds').start")).agg(_sql("sum(w)"))
    assert Counter(
        (r["k"], _plain(r["window"]["start"]), r["s"]) for r in found("by_left")
    ) == Counter(tuple(r) for r in left_sums.collect())
    both = pairs.selectExpr("a.k", "a.ts", "b.ts", "v").collect()
    assert counted(found("both"), ["k", "a_ts", "b_ts", "v"]) == Counter(
        (r[0], r[1], r[2], s * r[3]) for r in both for s in (1, -1)
    )
    outer = x.join(y, _sql(f"a.k = b.k AND {BAND}"), "left")
    c = y.alias("c")
    close = "a.k = c.k AND c.ts >= a.ts AND c.ts <= a.ts + INTERVAL 1 SECOND"
    again = outer.join(c, _sql(close)).selectExpr("a.k", "a.ts", "b.ts", "v", "c.ts", "c.w")
    names = ["a_k", "a_ts", "b_ts", "v", "ts", "w"]
    assert counted(found("again"), names) == Counter(tuple(r) for r in again.collect())
    for part in (first, second):
        for batch in part.batches["sorted"].values():
            times = [max(r["a_ts"], r["b_ts"]) for r in batch]
            assert times == sorted(times)


def test_wrong_joins_name_what_is_wrong(spark: SparkSession) -> None:
    a, b = streams(
        spark, sw.replay(spark, [[("a", at(0), 1)]], A), sw.replay(spark, [[("a", at(0), 1.0)]], B)
    )
    numbers = sw.stream(sw.replay(spark, [[("a", 1)]], "k string, n bigint"), time="n", name="n")
    band = sw.band(after="1 second")
    ended = sw.stream(
        sw.replay(spark, [[("a", at(0), 1)]], A), time="ts", name="e", endOfStream=True
    )
    cases: list[tuple[Any, str]] = [
        (lambda: a.join(b, "q", band), "COLUMN_NOT_FOUND"),
        (lambda: a.join(b, "k"), "BAD_JOIN"),
        (lambda: a.join(b, "k", band, "cross"), "BAD_JOIN"),
        (lambda: a.join(b, "k", sw.window("10 seconds", "5 seconds")), "BAD_JOIN"),
        (lambda: a.join(b, "k", band, memory="much"), "BAD_JOIN"),
        (lambda: a.join(b, "k", band, emit="later"), "BAD_JOIN"),
        (lambda: a.join(numbers, "k", band), "TIME_MISMATCH"),
        (lambda: a.join(a, "k", band), "AMBIGUOUS_COLUMN"),
        (lambda: a.join(b, [("v", "ts")], band), "JOIN_TYPES"),
        (lambda: ended.join(ended.alias("c"), _sql("e.v < c.v")), "JOIN_CONDITION"),
        (lambda: sw.joinAll([a, b], "k", ["1 second"]), "BAD_JOIN"),
        (lambda: sw.joinAll([a], "k", ["1 second"]), "BAD_JOIN"),
        (lambda: a.join(b, "k", sw.band(after="2 months")), "BAD_DURATION"),
        (
            lambda: a.join(b, "k", band, "left").groupBy(sw.window("1 minute", on="b_ts")).count(),
            "NOT_PROGRESSING",
        ),
    ]
    for make, condition in cases:
        with pytest.raises(sw.AnalysisError) as caught:
            make()
        assert caught.value.condition == condition, str(caught.value)
        assert caught.value.hint


def test_a_condition_gives_the_keys(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    a, b = streams(
        spark,
        sw.replay(spark, [[("x", at(0), 1), ("y", at(1), 2)]], A),
        sw.replay(spark, [[("X", at(0), 1.0), ("Y", at(1), 2.0), ("Y", at(1), 9.0)]], B),
    )
    on = (F.upper("a_k") == F.col("b_k")) & (F.col("w") < 5)
    joined = a.join(b, on, sw.band(before="1 second", after="1 second"))
    rows = run(joined, tmp_path / "checkpoint").rows()
    assert sorted((r["a_k"], r["b_k"], r["w"]) for r in rows) == [("x", "X", 1.0), ("y", "Y", 2.0)]


def test_little_memory_changes_no_result_and_holds_windows_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Pairs that wait for a pass over the disk still reach their windows: the join promises less meanwhile."""
    left, right = disordered(5, 3, 40, int), disordered(6, 3, 40, float)
    joined = {}
    for memory in (None, "3k"):
        a, b = streams(spark, sw.replay(spark, left, A), sw.replay(spark, right, B))
        pairs = a.join(
            b, "k", sw.band(before="20 seconds", after="15 seconds"), "left", memory=memory
        )
        named = {
            "pairs": pairs,
            "sums": pairs.groupBy("k", sw.window("4 seconds")).agg("sum(v) AS s"),
        }
        joined[memory] = run_locally(named, tmp_path / str(memory), options={"partitionGroups": 2})
    whole, little = joined[None], joined["3k"]
    assert counted(little.rows("pairs"), NAMES) == counted(whole.rows("pairs"), NAMES)
    assert Counter((r["k"], r["wid"], r["s"]) for r in little.rows("sums")) == Counter(
        (r["k"], r["wid"], r["s"]) for r in whole.rows("sums")
    )
    figures = [
        op["join"] for r in little.records for op in r["operators"].values() if op.get("join")
    ]
    assert any(f["delayedResults"] for f in figures)
    assert any(f["readBytes"] for f in figures)
    # What steers the division of memory.
    assert all(sum(f["residentBySide"]) == f["residentBytes"] for f in figures)
    assert min(figures[0]["frequency"]) > 0 and any(sum(f["worth"]) for f in figures)
    assert any(f["evicted"] for f in figures)
    assert figures[-1]["owedRows"] == 0


@pytest.mark.spec("XJ-F09")
def test_an_executor_reads_no_block_that_one_of_its_workers_had(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both windows fit into the resident part: whichever worker gets a task, warm batches read nothing."""
    left, right = disordered(7, 5, 30, int), disordered(8, 5, 30, float)
    a, b = streams(spark, sw.replay(spark, left, A), sw.replay(spark, right, B))
    pairs = a.join(b, "k", sw.band(before="20 seconds", after="15 seconds"), "left", memory="4m")
    done = run(pairs, tmp_path / "checkpoint", options={"partitionGroups": 3})
    figures = [o["join"] for r in done.records for o in r["operators"].values() if "join" in o]
    assert len(figures) >= 5 and all(f["readBytes"] == f["reads"] == 0 for f in figures)
    assert sum(f["keptBytes"] > 0 for f in figures) >= 4
    (told,) = spark.range(0, 1, 1, 1).mapInArrow(_local_folders, "folder string").collect()
    folders = map(Path, told.folder.split(","))
    homes = [f / "slackwater-kept" for f in folders if (f / "slackwater-kept").exists()]
    assert len(homes) == 1 and stat.S_IMODE(homes[0].stat().st_mode) == 0o700
    assert list(homes[0].rglob("*@*")) == [], "the query took its blocks along"


def _local_folders(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.record_batch([pa.array([os.environ["SPARK_LOCAL_DIRS"]])], names=["folder"])
