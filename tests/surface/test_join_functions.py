"""Joins with a Python condition, and groups on several of their times, on Spark through a restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

import slackwater as sw
from slackwater.surface.stream import Stream
from tests.surface.helpers import at, run
from tests.surface.test_joins import A, B, _plain, _sql, disordered, frames, streams, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def near(v: Any, w: Any, c_v: Any) -> Any:
    """A condition over three streams that SQL would have to write out: values within 2 of their mean."""
    mean = pc.divide(pc.add(pc.add(pc.cast(v, "double"), w), pc.cast(c_v, "double")), 3.0)
    far = [pc.abs(pc.subtract(pc.cast(x, "double"), mean)) for x in (v, w, c_v)]
    return pc.less_equal(pc.max_element_wise(*far), 1.0)


def nearer(v: Any, w: Any, c_v: Any) -> Any:
    return pc.equal(v, c_v)


def broken(a_ts: Any, b_ts: Any) -> Any:
    return pc.equal(a_ts, b_ts).slice(1)


@pytest.mark.spec("XJ-F80", "WQ-F63", "OO-F22")
def test_functions_and_groups_on_both_times_through_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    left, right = disordered(7, 4, 10, int), disordered(8, 4, 10, float)

    def query(where: Callable[..., Any]) -> dict[str, Stream]:
        read = [
            sw.readStream(spark).schema(s).option("maxFilesPerTrigger", 1).parquet(
                str(tmp_path / n)
            )
            for n, s in (("a", A), ("b", B))
        ]  # fmt: skip
        a, b = streams(spark, *read)
        c = a.alias("c").withColumnRenamed("v", "c_v").withColumnRenamed("ts", "c_ts")
        pairs = a.join(b, "k", sw.band(before="6 seconds", after="6 seconds"))
        windows = [sw.window("4 seconds", on="a_ts"),
                   sw.window("4 seconds", "2 seconds", on="b_ts").alias("right")]  # fmt: skip
        return {
            "three": sw.joinAll([a, b, c], "k", ["2 seconds", "3 seconds", "1 second"], where),
            # soundex is Spark's alone.
            "pair": pairs.groupBy("k", *windows).agg("count(*) AS n", "max(soundex(k)) AS x"),
            "left": pairs.groupBy("k", sw.window("4 seconds", on="a_ts")).agg("count(*) AS n"),
        }

    def add(batches: range) -> None:
        for name, rows, last in (("a", left, "v"), ("b", right, "w")):
            for i in batches:
                write_batch(tmp_path / name, i, rows[i], last)

    add(range(2))
    first = run(query(near), tmp_path / "checkpoint", end=False, options={"partitionGroups": 2})
    add(range(2, 4))
    with pytest.raises(sw.CheckpointError, match=r"(?s)near@.*nearer@") as caught:
        run(query(nearer), tmp_path / "checkpoint")
    assert "version=" in str(caught.value)
    second = run(query(near), tmp_path / "checkpoint", options={"partitionGroups": 3})

    def found(name: str) -> list[dict[str, Any]]:
        return [*first.rows(name), *second.rows(name)]

    x, y = frames(spark, left, right)
    z = x.alias("c")
    close = (
        "a.k = b.k AND a.k = c.k"
        " AND b.ts <= a.ts + INTERVAL 2 SECONDS AND c.ts <= a.ts + INTERVAL 2 SECONDS"
        " AND a.ts <= b.ts + INTERVAL 3 SECONDS AND c.ts <= b.ts + INTERVAL 3 SECONDS"
        " AND a.ts <= c.ts + INTERVAL 1 SECOND AND b.ts <= c.ts + INTERVAL 1 SECOND"
        " AND greatest(abs(a.v - (a.v + w + c.v) / 3), abs(w - (a.v + w + c.v) / 3),"
        " abs(c.v - (a.v + w + c.v) / 3)) <= 1"
    )
    three = x.crossJoin(y).crossJoin(z).where(_sql(close))
    names = ["k", "ts", "v", "b_ts", "w", "c_ts", "c_v"]
    got = found("three")
    names = [n if n in got[0] else f"a_{n}" for n in names]
    assert len(got) > 10
    assert Counter(tuple(_plain(r[n]) for n in names) for r in got) == Counter(
        tuple(r)
        for r in three.selectExpr("a.k", "a.ts", "a.v", "b.ts", "w", "c.ts", "c.v").collect()
    )
    band = "b.ts >= a.ts - INTERVAL 6 SECONDS AND b.ts <= a.ts + INTERVAL 6 SECONDS"
    pairs = x.join(y, _sql(f"a.k = b.k AND {band}"))
    want: Counter[tuple[Any, ...]] = Counter()
    for k, a_ts, b_ts in pairs.selectExpr("a.k", "a.ts", "b.ts").collect():
        lower = int(a_ts.replace(tzinfo=at(0).tzinfo).timestamp()) // 4 * 4
        second_of = int(b_ts.replace(tzinfo=at(0).tzinfo).timestamp()) // 2 * 2
        for start in (second_of - 2, second_of):
            want[k, lower, start] += 1
    shown = {
        (
            r["k"],
            int(r["a_ts_window"]["start"].timestamp()),
            int(r["right"]["start"].timestamp()),
        ): r
        for r in found("pair")
    }
    assert {g: r["n"] for g, r in shown.items()} == want and len(found("pair")) == len(want)
    assert all(r["x"] == r["k"].upper()[:1] + "000" for r in shown.values())
    # Before the restart groups on the pair are complete, and none on the left time alone.
    assert first.rows("pair") and not first.rows("left")


def test_a_function_that_fails_is_named(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("x", at(0), 1), ("x", at(1), 2)]
    right = [(k, t, float(v)) for k, t, v in rows]
    a, b = streams(spark, sw.replay(spark, [rows], A), sw.replay(spark, [right], B))
    joined = a.join(b, "k", sw.band(before="1 second", after="1 second"), where=broken)
    with pytest.raises(Exception, match=r"'broken' in where= .* returned 3 values for 4 rows"):
        run(joined, tmp_path / "checkpoint")
    with pytest.raises(sw.AnalysisError, match="parameter 'w_x'"):
        a.join(b, "k", sw.band(after="1 second"), where=lambda v, w_x: None)
    pairs = a.join(b, "k", sw.band(after="1 second"))
    for wrong, told in (
        (
            lambda: a.groupBy(sw.window("1 second"), sw.window("2 seconds")),
            "not the result of a join",
        ),
        (lambda: pairs.groupBy(sw.window("1 second"), sw.rows(3)), "only time windows"),
        (lambda: pairs.groupBy(sw.window("1 second"), sw.window("2 seconds")), "would be called"),
        (
            lambda: pairs.sort().groupBy(sw.window("1 second", on="a_ts")).count(),
            "not a progressing column",
        ),
    ):
        with pytest.raises(sw.AnalysisError, match=told):
            wrong()
