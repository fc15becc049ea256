"""Feedback on Spark: rows, partial aggregates in the JVM, steps that only Spark evaluates, and outputs that come."""

from __future__ import annotations

import datetime as dt
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.engine.clock import monotonic, sleep
from slackwater.errors import AnalysisError, ExecutionError
from slackwater.testing import ManualClock
from tests.progress_schema import check_progress
from tests.surface.helpers import Run, at, run, seconds, times, write

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


def arrive(folder: Path, name: str, rows: list[tuple[Any, ...]]) -> None:
    segments, stamps, values = zip(*rows, strict=True)
    columns = {
        "segment": pa.array(segments, pa.int32()),
        "ts": pa.array(stamps, pa.timestamp("us", tz="UTC")),
        "v": pa.array(values),
    }
    write(folder, f"{name}.parquet", columns)


@pytest.mark.spec("FC-F12", "FC-F39")
def test_a_running_query_takes_feedback_and_other_outputs(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An output that comes reads an aggregate whose rows were given up: what it shows is whole. One that goes takes its feedback along."""
    from pyspark.sql import functions as F

    folder = tmp_path / "in"
    folder.mkdir()
    df = spark.readStream.schema(SCHEMA).parquet(str(folder))
    cars = sw.stream(df, time="ts", name="cars", progress=sw.BoundedDelay("0 seconds"))
    result = counted(cars)

    def writer(name: str, one: sw.Stream) -> Any:
        return one.writeStream.queryName(name).format("memory")

    q = sw.start(
        [writer("fb_map", result), writer("fb_all", cars.late)],
        checkpointLocation=str(tmp_path / "ck"), trigger={"processingTime": "100 milliseconds"},
    )  # fmt: skip
    with pytest.raises(AnalysisError, match="several outputs"):
        q.feedback(sw.ignore("segment = 1"))
    with pytest.raises(AnalysisError, match="no test of a single column"):
        q.feedback(sw.ignore(F.col("segment") + 1 == 2), output="fb_map", lease="forever")
    view = q.feedback(
        sw.only(F.col("segment").isin(2, 3)), output="fb_map", name="view", lease="forever"
    )
    arrive(folder, "early", [row for rows in batches()[:2] for row in rows])
    awaited(q, lambda: [f["state"] for f in q.feedbacks()] == ["standing"])
    q.processAllAvailable()
    capsys.readouterr()
    q.explain()
    _, guards = capsys.readouterr().out.split("== Feedback ==\n")
    assert guards.startswith("view on output fb_map: ~{segment < 2 OR >= 4 OR IS NULL}\n")
    assert re.search(r"^cars -> aggregate-\w+, behind 0 step\(s\): may drop", guards, re.MULTILINE)
    # What goes takes its feedback along, and another output of its name does not inherit it.
    q.feedback("~{segment = 1}", output="fb_all", name="gone", lease="forever")
    awaited(q, lambda: {f["state"] for f in q.feedbacks()} == {"standing"})
    q.remove("fb_all")
    # What comes wants all rows, and some have been dropped, the newest of them 20 seconds after the start.
    q.add(writer("fb_all", result))
    awaited(q, lambda: [f["name"] for f in q.feedbacks()] == ["view"])
    arrive(folder, "later", [row for rows in batches()[2:] for row in rows])
    arrive(folder, "last", [(2, at(10 * COUNT + 15), 0.0)])
    q.processAllAvailable()
    assert "out:fb_map" in q.lastProgress["feedback"]["places"]
    view.retract()
    awaited(q, lambda: q.feedbacks() == [])
    q.stop()
    with pytest.raises(ExecutionError, match="has ended"):
        q.feedback("~{segment = 1}", output="fb_map", lease="forever")
    whole = expected(until=10 * (COUNT + 1))
    seen = {name: shown(spark.table(name).collect()) for name in ("fb_map", "fb_all")}
    assert all(len(rows) == len(set(rows)) for rows in seen.values())
    assert set(seen["fb_map"]) == {r for r in whole if r[0] in (2, 3)}
    # Rows before 20 seconds are missing, and windows that would hold one stay dark.
    late = {r for r in whole if r[1] >= 40}
    assert set(seen["fb_all"]) == late | {r for r in whole if r[1] >= 20 and r[0] in (2, 3)}


def test_a_filter_above_a_maximum_drops_rows_in_the_jvm(
    spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A text and a column of the analyser's making, one output each, and the results of the definition."""
    windows = sw.window("20 seconds", "10 seconds")
    peaks = stream(spark).groupBy("segment", windows).agg("max(v) AS peak", "max(v) * 2 AS twice")
    rare = peaks.where((peaks.peak >= 4) & (peaks.twice > 1))
    rare.explain()
    shown_plan = capsys.readouterr().out
    assert "partial aggregation in the JVM" in shown_plan
    assert "of the query itself: ~{peak < 4.0 OR IS NULL}" in shown_plan
    assert "may drop" in shown_plan and "`v` < CAST('4.0' AS DOUBLE)" in shown_plan
    q = rare.writeStream.queryName("rare_rows").format("memory").option("endOfStream", True)
    q = q.trigger(availableNow=True).start()
    q.awaitTermination()
    for progress in q.recentProgress:
        check_progress(progress)
    zone = dt.datetime.now().astimezone().tzinfo
    got = sorted(
        (r.segment, (r.window.end.replace(tzinfo=zone) - START).total_seconds(), r.peak)
        for r in spark.table("rare_rows").collect()
    )
    assert got == sorted((s, end, peak) for s, end, _, peak in expected() if peak >= 4) and got
    dropped = q.recentProgress[-1]["feedback"]["places"]["cars"]["totalRowsDropped"]
    assert dropped == sum(r[2] < 4 for rows in batches() for r in rows)


@pytest.mark.spec("FC-F52")
def test_an_operator_is_told_how_to_deal_with_feedback(spark: Any) -> None:
    """The operator is told, and neither its columns nor its name change."""
    counts = stream(spark).groupBy("segment", sw.window("10 seconds")).agg("count(*) AS n")
    told = counts.withFeedback(propagate=False, log=True)
    assert told.columns == counts.columns and told.where(counts.n > 1).columns == counts.columns
    assert str(told._node) == str(counts._node) and told._node.reacting != counts._node.reacting
    with pytest.raises(AnalysisError, match="PROPAGATE_WITHOUT_EXPLOIT"):
        counts.withFeedback(exploit=False)
    with pytest.raises(AnalysisError, match="NOTHING_TO_LOG"):
        counts.where("n > 1").withFeedback(log=True)
    rare = told.where("segment = 3").writeStream.queryName("rare_told").format("memory")
    q = rare.option("endOfStream", True).trigger(availableNow=True).start()
    q.awaitTermination()
    assert {r.segment for r in spark.table("rare_told").collect()} == {3}
    (operator,) = q.recentProgress[0]["operators"]
    progress = [p["feedback"] for p in q.recentProgress]
    assert all(p["places"] == {} and operator in p["log"] for p in progress)


@pytest.mark.parametrize(
    ("made", "late", "reading"),
    [
        (counted, False, "reading: partial aggregates by the JVM"),
        (blocked, True, "reading: rows, and Spark evaluates the row steps"),
    ],
    ids=["partials", "rows with steps"],
)
@pytest.mark.spec("FC-F17")
def test_a_guard_in_the_jvm_spares_a_row_far_ahead_of_the_clock(
    spark: Any, tmp_path: Path, made: Callable[[sw.Stream], sw.Stream], late: bool, reading: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """It is newer than all that is missing, so its window comes out once the feedback has ended, and must be whole."""
    folder = tmp_path / "in"
    folder.mkdir()
    df = spark.readStream.schema(SCHEMA).parquet(str(folder))
    guarded = sw.BoundedDelay("0 seconds").futureGuard("3 seconds")
    cars = sw.stream(df, time="ts", name="cars", progress=guarded)
    outputs = {"output": made(cars), **({"late": cars.late} if late else {})}
    clock = ManualClock()
    ran: list[Run] = []
    for second, seen, wanted in [
        (10, {1: (8, 9, 32), 4: (10,)}, ["~{segment = 1}"]),
        (33, {1: (31, 33), 4: (32,)}, []),
    ]:
        clock.script({0: int(at(second).timestamp() * 10**6)})
        rows = [(s, t) for s, each in seen.items() for t in each]
        columns = {
            "segment": pa.array([s for s, _ in rows], pa.int32()),
            "ts": times(*(t for _, t in rows)),
            "v": pa.array([0.0] * len(rows)),
        }
        write(folder, f"{second}.parquet", columns)
        ran.append(
            run(outputs, tmp_path / "ck", end=not wanted, clock=clock, feedback={"output": wanted})
        )
        ran[-1].query.explain()
        assert reading in capsys.readouterr().out
    dropped = ran[0].last["feedback"]["places"]
    assert sum(p["rowsDropped"] for p in dropped.values()) == 2
    counts = {(r["segment"], seconds(r["window"]["end"])): r["n"] for r in ran[1].rows()}
    in_view = {(4, 20): 1, (4, 30): 1, (4, 40): 1, (4, 50): 1}
    assert counts == {**in_view, (1, 40): 3, (1, 50): 3}, "other windows of segment 1 lack rows"


def test_the_viewport_example(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(EXAMPLES / "viewport.py"))
    monkeypatch.setattr(sw, "session", lambda: spark, raising=False)
    assert example["main"](views=((40, 60),), batches=3) > 0
    assert "in view: 40 to 60" in capsys.readouterr().out


def test_what_is_parsed_behind_the_stream_is_parsed_for_rows_in_view_alone(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message out of view would fail the query if anybody parsed it."""
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(EXAMPLES / "parse_behind.py"))
    monkeypatch.setattr(sw, "session", lambda: spark, raising=False)
    assert example["main"]() == (8, True)
    assert "parsed behind sw.stream: 8 averages" in capsys.readouterr().out


def test_the_example_of_rare_maxima(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(EXAMPLES / "rare_maxima.py"))
    monkeypatch.setattr(sw, "session", lambda: spark, raising=False)
    state, more = example["main"](minutes=3, rows=20_000, keys=20_000)
    assert 0 < state <= more / 50
    shown = capsys.readouterr().out
    assert "of the query itself: ~{peak < 999000 OR IS NULL}" in shown and "with feedback" in shown
