"""Quality targets as users state them, on Spark."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import slackwater as sw
from slackwater.errors import AnalysisError
from slackwater.testing.job import run
from slackwater.testing.oracle.quality import simulate

pytestmark = pytest.mark.spark

SCHEMA = "n long, t long, v double"
ERROR = 0.1


def arrivals(seed: int, rows: int) -> list[tuple[int, int, float]]:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.integers(0, 3, rows))
    delays = np.where(rng.random(rows) < 0.3, rng.exponential(8, rows), 0)
    delays += np.where(rng.random(rows) < 0.02, rng.integers(40, 200, rows), 0)
    order = np.argsort(times + delays, kind="stable")
    return [(i, int(times[at]), float(rng.integers(1, 9))) for i, at in enumerate(order)]


def cut(rows: list[Any], *cuts: int) -> list[list[Any]]:
    return [rows[a:b] for a, b in pairwise([0, *cuts, len(rows)])]


@pytest.mark.spec("QD-A1", "QD-D1", "QD-D2", "QD-B9")
def test_strict_results_are_those_of_the_simulation_for_rows_and_for_files(spark: Any) -> None:
    rows = arrivals(1, 1_400)
    wanted = simulate([(t, v) for _, t, v in rows], width=60, slide=20, error=ERROR)

    def job(df: Any) -> dict[str, sw.Stream]:
        s = sw.stream(
            df, time="t", order="n", progress=sw.Quality(error=ERROR, strict=True), name="s"
        )
        # A filter that only Spark evaluates for rows, and a projection on the way.
        doubled = s.where("hash(n) is not null").withColumn("w", "v * 2")
        sums = doubled.groupBy(sw.window(60, 20)).agg("sum(w) AS total")
        return {"sums": sums, "late": s.late}

    first = run(job, cut(rows, 90, 700), SCHEMA, spark=spark)
    again = run(job, cut(rows, 400, 401, 1_100), SCHEMA, spark=spark, splits=True)
    found = {r.wid: r.total for r in first["sums"]}
    assert found == {wid: 2 * total for wid, total in wanted.sums.items()}
    assert {r.wid: r.total for r in again["sums"]} == found
    assert wanted.sums != wanted.true
    missed = sum(r._late_windows for r in first["late"])
    assert missed > 0 and missed == sum(r._late_windows for r in again["late"])
    bounds = bounds_before(rows, wanted.changes)
    assert any(t == b for (_, t, _), b in zip(rows, bounds, strict=True))
    # A row at the bound is on time.
    late = {n for (n, t, _), b in zip(rows, bounds, strict=True) if b is not None and t < b}
    assert {r.n for r in first["late"]} == {r.n for r in again["late"]} == late


def bounds_before(rows: list[Any], changes: list[tuple[int, int]]) -> list[int | None]:
    """The bound that each row came upon, if the slack changed at these rows."""
    clock = bound = None
    slack, out = 0, []
    for number, (_, time, _) in enumerate(rows):
        out.append(bound)
        clock = time if clock is None else max(clock, time)
        bound = clock - slack if bound is None else max(bound, clock - slack)
        slack = dict(changes).get(number, slack)
    return out


@pytest.mark.spec("QD-B10", "QD-D13")
def test_one_result_can_have_a_target_of_its_own(spark: Any, tmp_path: Any) -> None:
    rows = arrivals(2, 3_000)
    s = sw.stream(sw.replay(spark, cut(rows, *range(375, 3_000, 375)), SCHEMA), time="t", name="s")
    sums = s.groupBy(sw.window(60, 20)).agg("sum(v) AS total", "count(*) AS n")
    with pytest.raises(AnalysisError, match="a join reads it"):
        sw.start([s.alias("x").withQuality(sw.Quality(error=0.1)).join(
            s, on="n", within=sw.band(before=5, after=5)).writeStream.format("noop")])  # fmt: skip
    q = sw.start(
        [
            sums.writeStream.queryName("all").format("memory"),
            sums.withQuality(sw.Quality(error=ERROR))
            .writeStream.queryName("soon")
            .format("memory"),
        ],
        checkpointLocation=str(tmp_path / "ck"),
        trigger={"availableNow": True},
        options={"endOfStream": "true"},
    )
    q.awaitTermination()
    records = [r for r in q.recentProgress if not r["final"]]
    (name,) = [n for n in records[-1]["streams"] if n != "s"]
    promised = records[-1]["streams"][name]["quality"]["t"]
    assert promised["target"] == {"error": ERROR, "confidence": 0.95}
    assert promised["warm"] and promised["slack"] < promised["delays"]["largest"]
    (judged,) = promised["consumers"].values()
    assert 0.8 < judged["needed"] <= judged["estimated"] + 0.02

    true: dict[int, float] = {}
    for _, t, v in rows:
        for wid in range(t // 20, (t + 60) // 20):
            true[wid] = true.get(wid, 0.0) + v
    found = {r.wid: r.total for r in spark.table("soon").collect()}
    kept = [abs(found.get(w, 0.0) - total) <= ERROR * total for w, total in true.items()]
    assert np.mean(kept) >= 0.95
    behind = [r["streams"]["s"]["bounds"]["t"]["behind"] for r in records[4:]]
    ours = [r["streams"][name]["bounds"]["t"]["behind"] for r in records[4:]]
    assert sum(ours) < 0.7 * sum(behind)
