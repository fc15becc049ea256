"""Several results of one stream in one query: each with its own slack, one scan, one state for those that are alike."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from slackwater.errors import AnalysisError
from tests.surface.helpers import at, feed, run, seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.surface.stream import Stream

Row = tuple[str, Any, int]
SLACK = {"early": 0, "exact": 40, "other": 5, "new": 5, "soon": 0, "later": 40}
WINDOWS = {"early": (10, 5), "exact": (10, 5), "other": (15, 15), "new": (20, 10)}
FIRST = ["early", "exact", "other", "soon", "later"]
SECOND = ["early", "exact", "new", "later"]


def batches() -> list[list[Row]]:
    """Twelve seconds a batch; every third row comes a batch late, some of them two."""
    made: list[list[Row]] = [[] for _ in range(6)]
    for t in range(48):
        late = (t % 3 == 0) + (t % 9 == 0)
        made[t // 12 + late].append((f"k{t % 4}", at(t), t * t))
    return made


def results(spark: SparkSession, folder: Path) -> dict[str, Stream]:
    reader = sw.readStream(spark).schema("k string, ts timestamp, v long")
    df = reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
    s = sw.stream(df, time="ts", name="s", progress=sw.BoundedDelay("5 seconds")).where("v <> 25")
    sums = s.groupBy("k", sw.window("10 seconds", "5 seconds")).agg(
        "count(*) AS n", "sum(v) AS total"
    )
    soon, late = sw.BoundedDelay("0 seconds"), sw.BoundedDelay("40 seconds")
    return {
        "early": sums.withQuality(soon),
        "exact": sums.withQuality(late),
        "other": s.groupBy("k", sw.window("15 seconds")).agg("count(*) AS n", "sum(v) AS total"),
        "new": s.groupBy("k", sw.window("20 seconds", "10 seconds")).agg(
            "count(*) AS n", "sum(v) AS total"
        ),
        "soon": s.sort().withQuality(soon),
        "later": s.sort().withQuality(late),
    }


def expected(name: str, data: list[list[Row]], first: int) -> list[list[tuple[Any, ...]]]:
    """What an aggregate gives batch by batch, from batch ``first`` on, by the definition; the last batch is the end."""
    span, slide = WINDOWS[name]
    seen: list[tuple[str, float, int]] = []
    newest, closed, found = -1.0, 0.0, []
    for i, rows in enumerate([*data, []]):
        newest = max([newest, *(seconds(t) for _, t, _ in rows)])
        if i >= first:
            seen += [(k, seconds(t), v) for k, t, v in rows if v != 25]
        bound = newest - SLACK[name] if i < len(data) else 1000.0
        ends = [e for e in range(slide, 200, slide) if closed < e <= bound]
        out = []
        for end in ends:
            inside = [r for r in seen if end - span <= r[1] < end]
            for k in {r[0] for r in inside}:
                mine = [v for key, _, v in inside if key == k]
                out.append((k, end, len(mine), sum(mine)))
        found.append(sorted(out))
        closed = max(closed, bound)
    return found


@pytest.mark.spark
def test_results_share_panes_and_keep_their_own_slack(spark: SparkSession, tmp_path: Path) -> None:
    """Five results, then a restart on other groups without two of them and with a new one."""
    folder, place, data = tmp_path / "in", tmp_path / "ck", batches()
    feed(folder, data, 0, 3)
    made = results(spark, folder)
    one = run({n: made[n] for n in FIRST}, place, end=False, options={"partitionGroups": 2})
    feed(folder, data, 3, 6)
    two = run({n: made[n] for n in SECOND}, place, options={"partitionGroups": 3})
    got: dict[str, list[list[tuple[Any, ...]]]] = {}
    for name in WINDOWS:
        rows = {**one.batches.get(name, {}), **two.batches.get(name, {})}
        got[name] = [
            sorted((r["k"], seconds(r["window"]["end"]), r["n"], r["total"]) for r in rows[b])
            for b in sorted(rows)
        ]
        want = expected(name, data, 3 if name == "new" else 0)
        want = want[:3] if name == "other" else want[3:] if name == "new" else want
        assert [b for b in got[name] if b] == [b for b in want if b], name
    # More slack, later results, all rows in them.
    counted = {n: sum(r[2] for b in got[n] for r in b) for n in ("early", "exact")}
    assert counted["exact"] == 47 * 2 > counted["early"]
    # In order, each row once; what is late for one sort is in time for the other.
    later = [seconds(r["ts"]) for run in (one, two) for r in run.rows("later")]
    assert later == [t for t in range(48) if t != 5]
    soon = [seconds(r["ts"]) for r in one.rows("soon")]
    assert soon == sorted(soon) and max(Counter(soon).values()) == 1 and 3 not in soon
    # One store for three aggregates and one for two sorts; the new aggregate has a state of its own.
    assert sorted(op.partition("-")[0] for op in one.last["operators"]) == ["panes", "sorts"]
    kinds = sorted(op.partition("-")[0] for op in two.last["operators"])
    assert kinds == ["aggregate", "panes", "sorts"]
    assert set(one.last["operators"]) <= set(two.last["operators"])
    # Rows are counted once, though several streams judge them.
    assert sum(r["numInputRows"] for run in (one, two) for r in run.records) == 48
    assert set(one.last["streams"]) == {"s", "s~early", "s~exact", "s~soon", "s~later"}
    assert one.rows("later") == []


@pytest.mark.spark
def test_a_policy_that_a_result_cannot_have(spark: SparkSession) -> None:
    df = sw.replay(spark, [[]], "ts long, p long")
    s = sw.stream(df, time="ts", name="s", progress=sw.Ordered())
    with pytest.raises(AnalysisError, match="can have for itself"):
        s.sort().withQuality(sw.Punctuated("p"))
    with pytest.raises(AnalysisError, match="can have for itself"):
        s.sort().withQuality("5 seconds")  # type: ignore[arg-type]
    punctuated = sw.stream(df, time="ts", name="t", progress=sw.Punctuated("p"))
    with pytest.raises(AnalysisError, match="has punctuation"):
        punctuated.sort().withQuality(sw.Ordered())


@pytest.mark.spark
@pytest.mark.spec("XJ-F84")
def test_results_come_and_go_while_the_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    """A sort runs all along; its rows are counted while another result is added and one is removed."""
    folder, data = tmp_path / "in", [*batches(), [("k0", at(100), 1)]]
    got: dict[str, list[dict[str, Any]]] = {n: [] for n in SLACK}
    feed(folder, data, 0, 1)
    made = results(spark, folder)

    def writer(name: str) -> Any:
        def take(frame: Any, batch: int) -> None:
            got[name] += frame.toArrow().to_pylist()

        return made[name].writeStream.queryName(name).foreachBatch(take)

    q = sw.start(
        [writer("later"), writer("early")],
        checkpointLocation=str(tmp_path / "ck"),
        trigger={"processingTime": "100 milliseconds"},
    )
    try:
        q.processAllAvailable()
        with pytest.raises(AnalysisError, match="name of its own"):
            q.add(writer("early"))
        with pytest.raises(AnalysisError, match="no output is called"):
            q.remove("exact")
        # A name of a running query, in the words of this version of Spark.
        again = made["exact"].writeStream.queryName("later").format("noop")
        with pytest.raises(AnalysisError, match="'later' is running in this session"):
            sw.start([again], checkpointLocation=str(tmp_path / "other"))
        q.add(writer("soon"))
        feed(folder, data, 1, 3)
        q.processAllAvailable()
        q.remove("early")
        count = len(got["early"])
        feed(folder, data, 3, 7)
        q.processAllAvailable()
        assert {op.partition("-")[0] for op in q.lastProgress["operators"]} == {"sort"}
        q.remove("soon")
        with pytest.raises(AnalysisError, match="only output"):
            q.remove("later")
    finally:
        q.stop()
    assert count == len(got["early"]) > 0
    # The one that ran all along got every row once, in order; the new one what came after it.
    assert [seconds(r["ts"]) for r in got["later"]] == [t for t in range(48) if t != 5]
    soon = [seconds(r["ts"]) for r in got["soon"]]
    assert soon == sorted(soon) and max(Counter(soon).values()) == 1
    assert not set(soon) & {seconds(t) for _, t, _ in data[0]}
    assert set(soon) >= {t for t in range(14, 48) if t % 3}
    assert got["exact"] == []
