"""Methods that streams have as DataFrames do: distinct, fillna, toDF, transform, dtypes, isStreaming."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.testing import LocalJob, local_job
from tests.examples import examples
from tests.surface.helpers import at, refused, run
from tests.surface.local import run_locally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DELAY = 3
NAN = float("nan")


# --- distinct ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def distinct(spark: SparkSession) -> LocalJob:
    return local_job(
        lambda df: sw.stream(df, time="t", progress=sw.BoundedDelay(DELAY)).distinct(),
        "k string, t long, v double",
        spark=spark,
    )


@pytest.fixture(scope="module")
def distinct_pairs(spark: SparkSession) -> LocalJob:
    def job(a: Any, b: Any) -> Any:
        left, right = (
            sw.stream(f, time="t", name=n, progress=sw.BoundedDelay(DELAY))
            for f, n in ((a, "a"), (b, "b"))
        )
        return left.join(right, "k", sw.band(before=2, after=2)).distinct()

    return local_job(job, {"a": "k string, t long", "b": "k string, t long"}, spark=spark)


def rows(key: Any) -> Any:
    """Batches with few different rows, of times that rise from batch to batch with disorder."""
    moved = st.integers(-6, 6)
    batch = st.lists(st.tuples(*key[:1], moved, *key[1:]), max_size=8)
    return st.lists(batch, min_size=1, max_size=5).map(
        lambda found: [[(r[0], 4 * i + r[1], *r[2:]) for r in b] for i, b in enumerate(found)]
    )


def equal(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Rows that Spark calls equal have equal values here: NaN is itself, and both zeros are one."""
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row)


@examples(60)
@given(rows((st.sampled_from(["a", None]), st.sampled_from([1.0, NAN, None, 0.0, -0.0]))))
def test_distinct_gives_each_row_on_time_once(
    distinct: LocalJob, batches: list[list[tuple[Any, ...]]]
):
    """By definition: a row on time that equals none before it comes out; a late one could be a repetition."""
    expected: Counter[Any] = Counter()
    seen: set[Any] = set()
    newest: int | None = None
    for batch in batches:
        bound = -math.inf if newest is None else newest - DELAY
        for row in batch:
            if row[1] >= bound and equal(row) not in seen:
                seen.add(equal(row))
                expected[equal(row)] += 1
        newest = max([r[1] for r in batch] + ([] if newest is None else [newest]), default=None)
    found = Counter(equal(tuple(r)) for r in distinct.run(batches))
    assert found == expected


@examples(25)
@given(rows((st.sampled_from("ab"),)), rows((st.sampled_from("ab"),)))
def test_distinct_pairs_of_a_join(distinct_pairs: LocalJob, a: Any, b: Any):
    """The time of a pair is no column: it is made of two, and pairs that are equal have equal ones."""
    # Rows that repeat themselves, all on time: the first batch has them all.
    left, right = ([row for batch in side for row in batch] for side in (a, b))
    expected = {(k, t, u) for k, t in left for j, u in right if j == k and abs(t - u) <= 2}
    found = [tuple(r) for r in distinct_pairs.run({"a": [left, []], "b": [right, []]})]
    assert Counter(found) == Counter(expected)


def test_distinct_is_bounded(spark: SparkSession, tmp_path: Path):
    """What the bound has passed is forgotten: state does not grow with the rows that were read."""
    batches = [[("a", t, 1.0), ("b", t, 1.0), ("a", t, 1.0)] for t in range(0, 30, 3)]
    frame = sw.replay(spark, batches, "k string, t long, v double", splits=True)
    s = sw.stream(frame, time="t", progress=sw.BoundedDelay(DELAY))
    done = run_locally(s.distinct(), tmp_path / "ck")
    assert len(done.rows()) == 20
    (name,) = done.last["operators"]
    assert max(r["operators"][name]["state"]["rows"] for r in done.records) <= 8


def test_dropDuplicates_of_pairs_without_their_times_says_which(spark: SparkSession):
    frame = sw.replay(spark, [], "k string, t long")
    a, b = (sw.stream(frame, time="t", name=n) for n in "ab")
    pairs = a.join(b, "k", sw.band(before=2, after=2))
    refused(lambda: pairs.dropDuplicates(["k"]), "UNBOUNDED_STATE", "'a_t' and 'b_t'", "within=")
    refused(lambda: pairs.dropDuplicates(["k", "a_t"]), "UNBOUNDED_STATE", "'a_t' and 'b_t'")


# --- fillna ------------------------------------------------------------------------------------------

COLUMNS = (
    "ts timestamp, k string, b boolean, i1 tinyint, i4 int, i8 bigint, f4 float, f8 double, "
    "d decimal(10,2), o timestamp, m map<string,int>"
)


def given_rows() -> list[tuple[Any, ...]]:
    full = ("x", True, 1, 2, 3, 1.5, 2.5, Decimal("3.25"), at(9), {"a": 1})
    empty = (None,) * len(full)
    nan = ("", False, 0, 0, 0, NAN, NAN, Decimal("0.00"), at(8), {})
    mixed = tuple(v if i % 2 else None for i, v in enumerate(full))
    return [(at(i), *values) for i, values in enumerate((full, empty, nan, mixed))]


FILLS: list[tuple[Any, Any]] = [
    (7, None), (7.9, None), (-0.5, ["f4", "k", "i4"]), ("?", None), ("it's `\\", "k"), (True, None), (False, ("b", "i4")),
    (2**53 + 1, "i8"), ({"i8": 2**53 + 1, "K": "?"}, None), ({"i4": 7.9, "f8": 1, "d": 1.005, "b": True}, None),
    ({"k": 5, "i1": "12", "d": "9.99", "o": "2026-01-02 03:04:05"}, None), (NAN, "f8"), (1e300, ["f4", "f8"]), (7, []),
]  # fmt: skip


def test_fillna_fills_as_spark_does(spark: SparkSession, tmp_path: Path):
    """Every form of value and subset, by the column engine and by Spark, against Spark's own ``fillna``."""
    from pyspark.sql import functions as F

    frame = sw.replay(spark, [given_rows()], COLUMNS, splits=True)
    s = sw.stream(frame, time="ts", progress=sw.Ordered())
    batch = spark.createDataFrame(given_rows(), COLUMNS).coalesce(1)
    results = {f"r{i}": s.fillna(*fill) for i, fill in enumerate(FILLS)}
    done = run_locally(results, tmp_path / "ck")
    frames = []
    for result, fill in zip(results.values(), FILLS, strict=True):
        expected = batch.fillna(*fill)
        assert result.dtypes == expected.dtypes, fill
        columns = getattr(result._node, "columns", ())  # none where nothing is filled
        by_text = batch.select([F.expr(c.expr.sql).alias(c.name) for c in columns] or ["*"])
        frames += [expected, by_text]
    together = reduce(lambda one, other: one.union(other), frames).toArrow().to_pylist()
    count = len(given_rows())
    for i, fill in enumerate(FILLS):
        theirs, by_text = (
            [_shown(r) for r in together[n * count : (n + 1) * count]] for n in (2 * i, 2 * i + 1)
        )
        assert by_text == theirs, fill
        assert [_shown(r) for r in done.rows(f"r{i}")] == theirs, fill


def _shown(row: dict[str, Any]) -> str:
    return repr([v.timestamp() if hasattr(v, "timestamp") else v for v in row.values()])


def test_fillna_keeps_progress_and_stays_in_columns(spark: SparkSession):
    frame = sw.replay(spark, [], COLUMNS, splits=True)
    s = sw.stream(frame, time="ts", progress=sw.Ordered())
    filled = s.fillna(7).fillna("?").fillna(True)
    assert filled.timeColumns == ["ts"]
    assert all(
        c.expr.duck is not None for n in (filled, s.fillna({"i4": "5"})) for c in n._node.columns
    )
    assert s.fillna("?", "i4") is s, "nothing to fill, nothing to do"
    counts = filled.groupBy("k", sw.window("1 minute")).agg("sum(d) AS d")
    assert counts.fillna(0, ["d"]).timeColumns == ["window"]


def test_what_cannot_be_filled_is_refused(spark: SparkSession):
    frame = sw.replay(spark, [], f"{COLUMNS}, t bigint")
    s = sw.stream(frame, time="ts", progress=sw.Ordered())
    n = sw.stream(frame, time="t", progress=sw.Ordered())
    refused(lambda: s.fillna({"ts": "2026-01-01"}), "TIME_FILLED", "'ts'", ".late")
    refused(lambda: n.fillna(0), "TIME_FILLED", "'t'", "subset=['i1', 'i4', 'i8'")
    refused(lambda: n.fillna(0, "t"), "TIME_FILLED", "'t'")
    assert n.fillna("?").timeColumns == ["t"], "a text does not fit"
    pairs = n.alias("a").join(n.alias("b"), "k", sw.band(before=2, after=2), "left")
    refused(lambda: pairs.fillna(0, "b_t"), "TIME_FILLED", "'b_t'")
    refused(lambda: s.fillna({"i4": "five"}), "BAD_FILL", "'five'", "int", "'i4'")
    refused(lambda: s.fillna({"i1": 300}), "BAD_FILL", "300", "tinyint")
    refused(lambda: s.fillna({"d": 10**9}), "BAD_FILL", "decimal(10,2)")
    refused(lambda: s.fillna({"i8": 2**64}), "BAD_FILL", "bigint")
    refused(lambda: s.fillna({"m": 1}), "BAD_FILL", "map<string,int>")
    refused(lambda: s.fillna({"k": None}), "BAD_FILL", "'k'", "NoneType")
    refused(lambda: s.fillna(None), "BAD_FILL", "NoneType", "dict")
    refused(lambda: s.fillna([1]), "BAD_FILL", "list")
    refused(lambda: s.fillna(1, {"i4"}), "BAD_FILL", "set", "subset=")
    refused(lambda: s.fillna(1, [4]), "BAD_FILL", "4")
    refused(lambda: s.fillna({4: 1}), "BAD_FILL", "4")
    refused(lambda: s.fillna(1, "zz"), "COLUMN_NOT_FOUND", "'zz'")
    refused(lambda: s.fillna({"zz": 1}), "COLUMN_NOT_FOUND", "'zz'")


# --- toDF, transform, dtypes, isStreaming ------------------------------------------------------------


@pytest.fixture(scope="module")
def s(spark: SparkSession) -> Any:
    return sw.stream(sw.replay(spark, [], "k string, ts timestamp, v decimal(5,2)"), time="ts")


def test_toDF_renames_all_columns_and_the_time_with_them(s: Any):
    renamed = s.toDF("key", "at", "value")
    assert renamed.columns == ["key", "at", "value"]
    assert renamed.timeColumns == ["at"]
    assert renamed.groupBy("key", sw.window("1 minute")).count().columns[0] == "key"
    refused(lambda: s.toDF("a", "b"), "BAD_NAMES", "2 name(s) for 3 columns", "k, ts, v")
    refused(lambda: s.toDF("a", "b", 3), "BAD_NAMES", "3", "int")
    refused(lambda: s.toDF("a", "b", "A"), "DUPLICATE_COLUMN", "'A'")
    refused(lambda: s.toDF("a", "b", "__sw_x"), "RESERVED_NAME", "'__sw_x'")


def test_transform_chains_functions(s: Any):
    def minutes(stream: Any, n: int, *, name: str) -> Any:
        return stream.groupBy("k", sw.window(f"{n} minutes")).agg(f"count(*) AS {name}")

    assert s.transform(minutes, 5, name="n").columns == ["k", "wid", "window", "n"]
    refused(lambda: s.transform(lambda stream: stream.groupBy("k")), "NOT_A_STREAM", "transform")
    refused(lambda: s.transform(lambda stream: None), "NOT_A_STREAM", "NoneType")


def test_types_are_listed_as_spark_lists_them(s: Any, spark: SparkSession):
    frame = spark.createDataFrame([], "k string, ts timestamp, v decimal(5,2)")
    assert s.dtypes == frame.dtypes
    counts = s.groupBy(sw.window("1 minute")).count()
    assert counts.dtypes == [
        ("wid", "bigint"), ("window", "struct<start:timestamp,end:timestamp>"), ("count", "bigint"),
    ]  # fmt: skip


def test_streams_and_results_are_streaming(s: Any):
    assert s.isStreaming is True
    assert s.groupBy(sw.window("1 minute")).count().isStreaming is True
    assert s.late.isStreaming is True


# --- what is no stream -------------------------------------------------------------------------------


def test_other_things_in_place_of_streams(s: Any, spark: SparkSession):
    static = spark.createDataFrame([("a", 1)], "k string, w int")
    live = sw.replay(spark, [], "k string, ts timestamp, v decimal(5,2)")
    band = sw.band(before="1 minute", after="1 minute")
    refused(
        lambda: s.join(static, "k", band),
        "NOT_A_STREAM",
        "static",
        "df.join(static",
        "frame.join(static",
    )
    refused(lambda: s.join(static, "k"), "NOT_A_STREAM", "static")
    refused(lambda: sw.joinAll([s, static], "k", ["1 s", "1 s"]), "NOT_A_STREAM", "static")
    refused(
        lambda: s.join(live, "k", band),
        "NOT_A_STREAM",
        "streaming DataFrame",
        'sw.stream(df, time="ts")',
    )
    refused(lambda: s.join("t", "k", band), "NOT_A_STREAM", "str")
    refused(lambda: s.union(static), "NOT_A_STREAM", "static", "sw.replay")
    refused(lambda: s.unionByName(live), "NOT_A_STREAM", "streaming")
    refused(lambda: s.union(None), "NOT_A_STREAM", "NoneType")
    refused(lambda: sw.stream(s, time="ts"), "NOT_A_STREAM", "already", ".alias")
    refused(lambda: s.sort(3), "NOT_PROGRESSING", "3", "ts")


def test_a_static_frame_joins_as_the_refusal_says(spark: SparkSession, tmp_path: Path):
    """Both ways: before the stream is made, and as results leave."""
    static = spark.createDataFrame([("a", "red"), ("b", "blue")], "k string, colour string")
    df = sw.replay(spark, [[("a", at(1)), ("c", at(2))], [("b", at(3))]], "k string, ts timestamp")
    before = sw.stream(df.join(static, "k"), time="ts", progress=sw.Ordered())
    done = run(before, tmp_path / "ck")
    assert sorted((r["k"], r["colour"]) for r in done.rows()) == [("a", "red"), ("b", "blue")]
    found: list[Any] = []
    query = (
        sw.stream(df, time="ts", progress=sw.Ordered())
        .writeStream.foreachBatch(lambda frame, batch: found.extend(frame.join(static, "k").collect()))
        .option("checkpointLocation", str(tmp_path / "other"))
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    query.awaitTermination()
    assert sorted((r.k, r.colour) for r in found) == [("a", "red"), ("b", "blue")]
