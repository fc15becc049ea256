"""Semi and anti joins as users write them, beside Spark's own batch joins of the whole streams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slackwater as sw
from slackwater.surface.explain import explain_streams
from tests.surface.helpers import at, run
from tests.surface.local import run_locally
from tests.surface.test_joins import (
    BAND,
    A,
    B,
    _sql,
    counted,
    disordered,
    frames,
    streams,
    write_batch,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.surface.stream import Stream

pytestmark = pytest.mark.spark

SEMI, ANTI = ("semi", "leftsemi", "left_semi", "LEFT_SEMI"), ("anti", "leftanti", "left_anti")
BAND_SPEC = sw.band(before="2 seconds", after="3 seconds")
NAMES = ["k", "ts", "v"]


def heavier(v: pa.Array, w: pa.Array) -> pa.Array:
    return pc.less(v, w)


def queries(a: Stream, b: Stream) -> dict[str, Stream]:
    made: dict[str, Stream] = {}
    for how in ("left_semi", "left_anti"):
        made[f"{how} key"] = a.join(b, "k", BAND_SPEC, how)
        made[f"{how} where"] = a.join(b, "k", BAND_SPEC, how, where="v < w AND a_ts >= b_ts")
        made[f"{how} function"] = a.join(b, [("k", "k")], BAND_SPEC, how, where=heavier)
        on = _sql("concat(a_k, 'x') = concat(b_k, 'x') AND v < w")
        made[f"{how} condition"] = a.join(b, on, BAND_SPEC, how)
        near = sw.band(after="500 milliseconds")
        made[f"{how} any"] = a.join(b, None, near, how, where="a_k <> b_k")
        made[f"{how} tumbling"] = a.join(b, "k", sw.window("5 seconds"), how, emit="ordered")
    return made


WANTED = {
    "key": f"a.k = b.k AND {BAND}",
    "where": f"a.k = b.k AND {BAND} AND v < w AND a.ts >= b.ts",
    "function": f"a.k = b.k AND {BAND} AND v < w",
    "condition": f"a.k = b.k AND {BAND} AND v < w",
    "any": "b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 500 MILLISECONDS AND a.k <> b.k",
    "tumbling": "a.k = b.k AND floor(unix_micros(a.ts) / 5000000) = floor(unix_micros(b.ts) / 5000000)",
}


def test_the_whole_answer_is_that_of_sparks_batch_join(spark: SparkSession, tmp_path: Path) -> None:
    # Null keys, rows that come twice, streams of two rates: Spark joins the whole of them.
    left, right = disordered(2, 3, 30, int), disordered(12, 3, 12, float)
    for name, batches, last in (("a", left, "v"), ("b", right, "w")):
        for i, rows in enumerate(batches):
            write_batch(tmp_path / name, i, rows, last)
    read = [
        sw.readStream(spark).schema(s).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / n))
        for n, s in (("a", A), ("b", B))
    ]
    made = queries(*streams(spark, *read))
    done = run_locally(made, tmp_path / "checkpoint")
    x, y = (df.coalesce(1).cache() for df in frames(spark, left, right))
    for name in made:
        how, case = name.split()
        want = x.alias("a").join(y.alias("b").hint("broadcast"), _sql(WANTED[case]), how)
        assert counted(done.rows(name), NAMES) == counted(want.collect(), NAMES), name
        assert made[name].columns == want.columns == NAMES
        assert done.rows(name), name


def test_columns_and_time_are_the_left_ones(spark: SparkSession) -> None:
    from pyspark.sql.types import StructType

    schema = "v bigint, k string, ts timestamp"
    df = spark.createDataFrame([], schema)
    a = sw.stream(sw.replay(spark, [[(1, "x", at(0))]], schema), time="ts", name="a")
    b = sw.stream(sw.replay(spark, [[("x", at(0), 1.0)]], B), time="ts", name="b")
    for names in (SEMI, ANTI):
        texts = set()
        for how in names:
            joined = a.join(b, "k", BAND_SPEC, how)
            want = df.join(spark.createDataFrame([], B).drop("ts"), "k", how)
            assert joined.columns == want.columns == ["k", "v", "ts"]
            assert joined.schema == StructType.fromDDL("k string, v bigint, ts timestamp")
            assert [t.name for t in joined._node.times] == ["ts"]
            texts.add(joined._text())
        assert len(texts) == 1, "names of one kind are one query"
        assert f"left_{names[0]} join" in texts.pop()
    semi = a.join(b, "k", BAND_SPEC, "semi")
    # Its columns are the left stream's, so it is still called so; and a stream may be asked about itself.
    assert "a_v" in semi.join(a.alias("c"), "k", BAND_SPEC).columns
    assert "z_v" in a.alias("z").join(b, "k", BAND_SPEC, "anti").join(a, "k", BAND_SPEC).columns
    assert a.join(a, "k", BAND_SPEC, "semi").columns == ["k", "v", "ts"]
    semi.groupBy("k", sw.window("1 minute")).agg("sum(v) AS s")
    # A key that only Spark can compute is a column below the join, and none of the result.
    upper = a.join(b, _sql("upper(a_k) = upper(b_k)"), BAND_SPEC, "semi")
    assert upper.columns == ["v", "k", "ts"] and len(upper._node.children[0].schema) == 4
    assert "left rows that have found no partner yet" in explain_streams({"semi": semi})


def test_only_what_a_condition_reads_of_the_right_side_is_sent(spark: SparkSession) -> None:
    a, b = streams(
        spark, sw.replay(spark, [[("a", at(0), 1)]], A), sw.replay(spark, [[("a", at(0), 1.0)]], B)
    )
    used = [
        a.join(b, "k", BAND_SPEC, "semi", where=where)._node.used[1]  # type: ignore[attr-defined]
        for where in (None, "v < W", "A_ts < b_TS", "v < 3", "1 = 1", heavier)
    ]
    assert used == [set(), {"w"}, {"ts"}, set(), set(), {"w"}]


def test_wrong_ones_are_refused_by_name(spark: SparkSession) -> None:
    a, b = streams(
        spark, sw.replay(spark, [[("a", at(0), 1)]], A), sw.replay(spark, [[("a", at(0), 1.0)]], B)
    )
    semi = a.join(b, "k", BAND_SPEC, "semi")
    cases: list[tuple[Any, str, str]] = [
        (lambda: a.join(b, "k", BAND_SPEC, "semi", memory="64m"), "BAD_JOIN", "memory: '64m'"),
        (lambda: a.join(b, "k", BAND_SPEC, "anti", deadline="1 second"), "BAD_JOIN", "deadline"),
        (lambda: a.join(b, "k", BAND_SPEC, "right_semi"), "BAD_JOIN", "how: 'right_semi'"),
        (lambda: semi.groupBy(sw.window("1 minute", on="b_ts")).count(), "NOT_PROGRESSING", "b_ts"),
        (lambda: semi.groupBy(sw.window("1 minute", on="max")).count(), "NOT_PROGRESSING", "max"),
        (lambda: semi.select("w"), "COLUMN_NOT_FOUND", "w"),
        (lambda: a.join(a, "k", BAND_SPEC, "semi", where="a_v > 1"), "AMBIGUOUS_COLUMN", "ts"),
    ]
    for make, condition, told in cases:
        with pytest.raises(sw.AnalysisError) as caught:
            make()
        assert caught.value.condition == condition, str(caught.value)
        assert told in str(caught.value) and caught.value.hint
    with pytest.raises(sw.AnalysisError, match="left_semi or left_anti"):
        a.join(b, "k", BAND_SPEC, "cross")


@pytest.mark.parametrize("how", ["left_semi", "left_anti"])
def test_a_recall_target_is_refused(spark: SparkSession, tmp_path: Path, how: str) -> None:
    def sides(policy: Any) -> list[Stream]:
        frames_ = (sw.replay(spark, [[("a", at(0), 1)]], A), sw.replay(spark, [], B))
        return [
            sw.stream(df, time="ts", name=n, progress=policy)
            for n, df in zip("ab", frames_, strict=True)
        ]

    recall = sw.Quality(recall=0.9, over="60 seconds")
    a, b = sides(recall)
    c = b.alias("c")
    joined = a.join(b, "k", BAND_SPEC, how)
    for result in (joined, joined.sort(), joined.join(c, "k", BAND_SPEC, emit="ordered")):
        with pytest.raises(sw.AnalysisError, match=f"a {how} join has no recall"):
            run(result, tmp_path / "checkpoint")
    a, b = sides(sw.Quality(error=0.01))
    with pytest.raises(sw.AnalysisError, match="a join reads it") as caught:
        run(a.join(b, "k", BAND_SPEC, how), tmp_path / "checkpoint")
    assert "BoundedDelay" in str(caught.value.hint)


def test_the_names_of_a_condition_are_part_of_the_query(spark: SparkSession) -> None:
    # Else two streams could change their names, and a restart would go on with another meaning of the condition.
    a, b = streams(
        spark, sw.replay(spark, [[("a", at(0), 1)]], A), sw.replay(spark, [[("a", at(0), 1.0)]], B)
    )
    texts = [
        a.alias(x).join(b.alias(y), "k", BAND_SPEC, "semi", where="x_ts < y_ts")._text()
        for x, y in (("x", "y"), ("y", "x"))
    ]
    assert texts[0] != texts[1]
    assert "where (`x_ts` < `y_ts`) of `_0.ts` AS x_ts, `_1.ts` AS y_ts" in texts[0]


def test_columns_of_the_left_stream_go_on_belonging_to_it(spark: SparkSession) -> None:
    a, b = streams(
        spark, sw.replay(spark, [[("a", at(0), 1)]], A), sw.replay(spark, [[("a", at(0), 1.0)]], B)
    )
    semi = a.join(b, "k", BAND_SPEC, "semi")
    assert semi.select(a.ts, a["v"]).columns == ["ts", "v"]
    with pytest.raises(sw.AnalysisError):
        semi.select("ts", b.w)
