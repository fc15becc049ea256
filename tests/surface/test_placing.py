"""Sorts behind different filters in one query on Spark, which fails, is changed and moves its rows: deliveries are counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from slackwater.engine.store import failpoints
from tests.progress_schema import check_progress
from tests.surface.helpers import at, feed, seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLACK = {"all": 2, "few": 30, "half": 45, "new": 20}
TESTS = {"all": lambda v: True, "few": lambda v: v % 5 == 0, "half": lambda v: v % 2 == 0,
         "new": lambda v: v % 3 == 0}  # fmt: skip
WHERE = {"all": "v >= 0", "few": "v % 5 = 0", "half": "v % 2 = 0", "new": "v % 3 = 0"}


def batches() -> list[list[tuple[str, Any, int]]]:
    """Twelve seconds a batch, a row each; every fourth row comes a batch late."""
    made: list[list[tuple[str, Any, int]]] = [[] for _ in range(7)]
    for t in range(72):
        made[t // 12 + (t % 4 == 0)].append((f"k{t % 3}", at(t), t))
    return made


@pytest.mark.spark
@pytest.mark.spec("QD-F12")
def test_each_row_reaches_each_sort_once_over_failures_and_changes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sort comes, one goes, rows move behind filters, and the query fails twice in between."""
    folder, data = tmp_path / "in", [*batches(), [("k0", at(400), 30)]]
    feed(folder, data, 0, 1)
    reader = sw.readStream(spark).schema("k string, ts timestamp, v long")
    df = reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
    s = sw.stream(df, time="ts", name="s", progress=sw.BoundedDelay("5 seconds"))
    got: dict[str, dict[int, list[float]]] = {n: {} for n in SLACK}
    records: list[dict[str, Any]] = []

    def writer(name: str) -> Any:
        def take(frame: Any, batch: int) -> None:
            # A batch may be handed over again after a failure: it then has the same rows.
            rows = [seconds(r["ts"]) for r in frame.toArrow().to_pylist()]
            assert got[name].setdefault(batch, rows) == rows

        slack = sw.BoundedDelay(f"{SLACK[name]} seconds")
        made = s.where(WHERE[name]).sort().withQuality(slack)
        return made.writeStream.queryName(name).foreachBatch(take)

    def start(*names: str) -> Any:
        return sw.start(
            [writer(n) for n in names],
            checkpointLocation=str(tmp_path / "ck"),
            trigger={"processingTime": "50 milliseconds"},
            options={"partitionGroups": 1},
        )

    def processed(query: Any, *names: str, fails: str) -> Any:
        """All input is read; on the way the query fails, and is started again."""
        failpoints.reset()
        monkeypatch.setenv(failpoints.ENV, f"{fails}=raise@2")
        with pytest.raises(failpoints.InjectedFailure):
            query.processAllAvailable()
        monkeypatch.delenv(failpoints.ENV)
        records.extend(query.recentProgress)
        query.stop()
        query = start(*names)
        query.processAllAvailable()
        return query

    query = start("all", "few", "half")
    try:
        feed(folder, data, 1, 3)
        query = processed(query, "all", "few", "half", fails="job.after")
        query.add(writer("new"))
        feed(folder, data, 3, 5)
        query = processed(query, "all", "few", "half", "new", fails="manifest.after")
        query.remove("few")
        feed(folder, data, 5, 8)
        query.processAllAvailable()
        records.extend(query.recentProgress)
    finally:
        query.stop()
    for name, found in got.items():
        times = [t for batch in sorted(found) for t in found[batch]]
        assert times == sorted(times) and max(Counter(times).values()) == 1, name
        # The sort that was added gets what came after it: all from here on, and what then came late.
        came = [t for t in range(72) if name != "new" or t // 12 + (t % 4 == 0) > 2]
        want = [t for t in came if TESTS[name](t)]
        if name == "all":
            # Two seconds are not enough for rows that come a batch late.
            assert times == [t for t in want if t % 4]
        elif name == "few":
            assert times == want[: len(times)] and 4 < len(times) < len(want)
        else:
            assert times == want, name
    # One store for all of them, in which rows first waited together and then behind filters.
    places = []
    for record in records:
        check_progress(record)
        (store,) = record["operators"].values()
        assert store["kind"] == "SharedSort"
        places.append(set(store["buffers"]))
    assert places[0] == {"the rows"}
    assert any("`v` % " in place for found in places for place in found), places
