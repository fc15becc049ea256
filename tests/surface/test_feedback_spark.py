"""Feedback on Spark: rows, partial aggregates in the JVM, steps that only Spark evaluates, and outputs that come."""

from __future__ import annotations

import datetime as dt
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import slackwater as sw
from slackwater.engine.clock import monotonic, sleep
from slackwater.errors import AnalysisError, ExecutionError
from tests.conftest import check_progress

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCHEMA = "segment int, ts timestamp, v double"
START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
COUNT = 5


def batches() -> list[list[tuple[Any, ...]]]:
    return [
        [
            (s, START + dt.timedelta(seconds=10 * n + (7 * s + i) % 10), float(s * i % 5))
            for s in range(8)
            for i in range(6)
        ]
        for n in range(COUNT)
    ]


def expected(
    more: float = 0.0, until: int = 10 * (COUNT + 1)
) -> set[tuple[int, float, int, float]]:
    """Segment, end of window, count and peak of all windows that end by then, by the definition."""
    groups: dict[tuple[int, int], list[float]] = {}
    for segment, ts, v in (row for rows in batches() for row in rows):
        second = int((ts - START).total_seconds())
        for end in (second // 10 * 10 + 10, second // 10 * 10 + 20):
            groups.setdefault((segment, end), []).append(v + more)
    return {(s, end, len(vs), max(vs)) for (s, end), vs in groups.items() if end <= until}


def shown(rows: list[Any]) -> list[tuple[int, float, int, float]]:
    zone = dt.datetime.now().astimezone().tzinfo
    return sorted(
        (r.segment, (r.window.end.replace(tzinfo=zone) - START).total_seconds(), r.n, r.peak)
        for r in rows
    )


def stream(spark: Any, **others: Any) -> sw.Stream:
    df = sw.replay(spark, batches(), SCHEMA, **others)
    return sw.stream(df, time="ts", name="cars", progress=sw.BoundedDelay("0 seconds"))


def counted(cars: sw.Stream) -> sw.Stream:
    return cars.groupBy("segment", sw.window("20 seconds", "10 seconds")).agg(
        "count(*) AS n", "max(v) AS peak"
    )


def blocked(cars: sw.Stream) -> sw.Stream:
    """Steps below and above the aggregate that the column engine cannot evaluate."""
    below = cars.withColumn("v", "v + length(soundex(cast(segment AS string)))")
    return counted(below).withColumn("word", "soundex(cast(n AS string))")


def written(spark: Any, result: sw.Stream, folder: Path, **options: Any) -> tuple[Any, list[Any]]:
    out = str(folder / "out")
    writer = result.writeStream.queryName("map").format("parquet").option("path", out)
    q = sw.start(
        [writer], checkpointLocation=str(folder / "ck"), trigger={"availableNow": True},
        options={"endOfStream": True}, **options,
    )  # fmt: skip
    q.awaitTermination()
    return q, spark.read.parquet(out).collect()


@pytest.mark.parametrize(
    ("made", "more", "splits"), [(counted, 0.0, False), (counted, 0.0, True), (blocked, 1.0, False)]
)
@pytest.mark.spec("FC-F12")
def test_what_a_start_declares_is_not_made(
    spark: Any, tmp_path: Path, made: Callable[[sw.Stream], sw.Stream], more: float, splits: bool
) -> None:
    wanted = [sw.only("segment BETWEEN 2 AND 3"), "~{n < 7}"]
    q, view = written(spark, made(stream(spark, splits=splits)), tmp_path, feedback={"map": wanted})
    assert shown(view) == sorted(r for r in expected(more) if r[0] in (2, 3) and r[2] >= 7)
    record = q.lastProgress
    check_progress(record)
    assert record["feedback"]["places"]["cars"]["totalRowsDropped"] == 6 * 6 * COUNT
    assert {s["records"] for s in record["feedback"]["standing"]} == {
        "~{segment < 2 OR >= 4 OR IS NULL}", "~{n < 7}",
    }  # fmt: skip


def awaited(q: Any, holds: Callable[[], bool]) -> None:
    started = monotonic()
    while not holds():
        assert monotonic() - started < 60 and q.isActive
        sleep(0.05)


def test_a_running_query_takes_feedback_and_other_outputs(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    cars = stream(spark)
    result = counted(cars)

    def writer(name: str, one: sw.Stream) -> Any:
        return one.writeStream.queryName(name).format("memory")

    q = sw.start(
        [writer("fb_map", result), writer("fb_late", cars.late)],
        checkpointLocation=str(tmp_path / "ck"), trigger={"processingTime": "100 milliseconds"},
    )  # fmt: skip
    with pytest.raises(AnalysisError, match="several outputs"):
        q.feedback(sw.ignore("segment = 1"))
    with pytest.raises(AnalysisError, match="no test of a single column"):
        q.feedback(sw.ignore(F.col("segment") + 1 == 2), output="fb_map", lease="forever")
    view = q.feedback(
        sw.only(F.col("segment").isin(2, 3)), output="fb_map", name="view", lease="forever"
    )
    awaited(q, lambda: [f["state"] for f in q.feedbacks()] == ["standing"])
    q.processAllAvailable()
    q.remove("fb_late")
    assert [f["name"] for f in q.feedbacks()] == ["view"]
    view.retract()
    awaited(q, lambda: q.feedbacks() == [])
    q.stop()
    with pytest.raises(ExecutionError, match="has ended"):
        q.feedback("~{segment = 1}", output="fb_map", lease="forever")
    rows = shown(spark.table("fb_map").collect())
    # The bound is the newest time, the last second of the last batch.
    whole = expected(until=10 * COUNT - 1)
    assert len(rows) == len(set(rows)) and set(rows) <= whole
    assert {r for r in rows if r[0] in (2, 3)} == {r for r in whole if r[0] in (2, 3)}


def test_the_viewport_example(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(EXAMPLES / "viewport.py"))
    monkeypatch.setattr(sw, "session", lambda: spark, raising=False)
    assert example["main"](views=((40, 60),), batches=3) > 0
    assert "in view: 40 to 60" in capsys.readouterr().out
