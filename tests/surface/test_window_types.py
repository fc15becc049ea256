"""Types of windows as users write them, on timestamps; and what bad ones get."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import slackwater as sw
from slackwater.errors import AnalysisError
from slackwater.testing import local_job
from tests.surface.helpers import START, at, run, seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.surface.stream import Stream

pytestmark = pytest.mark.spark

SCHEMA = "i long, g string, ts timestamp, v long"
ROWS = [
    (1, "a", at(1), 10), (2, "b", at(4), 20), (3, "a", at(6), 30), (4, "a", at(13), 40),
    (5, "b", at(2), 50), (6, "b", at(9), 60), (7, "a", at(12), 70), (8, "a", at(20), 80),
]  # fmt: skip
MICROS = int(START.timestamp()) * 1_000_000


def stream(spark: SparkSession, **options: Any) -> Stream:
    df = sw.replay(spark, [ROWS[:4], ROWS[4:]], SCHEMA)
    return sw.stream(df, time="ts", name="s", progress=sw.BoundedDelay("11 seconds"), **options)


def shown(window: Any) -> tuple[float, float]:
    return seconds(window["start"]), seconds(window["end"])


SECOND = 1_000_000


def halves(times: Any) -> tuple[Any, Any]:
    """Even and odd half-minutes have ids that do not follow each other."""
    return np.arange(len(times)), times // (30 * SECOND) * 100


@pytest.mark.spec("WQ-F11", "WQ-F105")
def test_all_types_over_one_stream(spark: SparkSession, tmp_path: Path) -> None:
    s = stream(spark, order="i")
    own = sw.customWindow(
        lambda low, high: np.arange(low // (30 * SECOND), (high - 1) // (30 * SECOND) + 1) * 100,
        lambda ids: (ids // 100 * 30 * SECOND, (ids // 100 + 1) * 30 * SECOND),
        halves,
        name="half minutes",
    )
    done = run(
        {
            "rows": s.where("g = 'a'").groupBy(sw.rows(4)).agg("count(*) AS n"),
            "per": s.groupBy(sw.rows(2, per="g")).agg("sum(v) AS total"),
            "mark": s.groupBy("g", sw.landmark("10 seconds", at(0))).agg("sum(v) AS total"),
            "third": s.groupBy(sw.byTuple("10 seconds", 3, over="rank")).agg("count(*) AS n"),
            "sessions": s.groupBy("g", sw.sessionWindow("5 seconds").alias("session")).count(),
            "own": s.groupBy(own).agg("max(v) AS high"),
        },
        tmp_path / "checkpoint",
    )
    assert [
        (r["wid"], r["window"]["start"], r["window"]["end"], r["n"]) for r in done.rows("rows")
    ] == [
        (0, 0, 4, 3),
        (1, 4, 8, 2),
    ]
    assert list(done.rows("per")[0]) == ["g", "wid", "window", "total"]
    per = {(r["g"], r["wid"]): r["total"] for r in done.rows("per")}
    assert per == {("a", 0): 40, ("a", 1): 110, ("a", 2): 80, ("b", 0): 70, ("b", 1): 60}
    mark = {(r["g"], r["wid"]): (*shown(r["window"]), r["total"]) for r in done.rows("mark")}
    assert mark == {
        ("a", 0): (0, 10, 40),
        ("b", 0): (0, 10, 130),
        ("a", 1): (0, 20, 150),
        ("a", 2): (0, 30, 230),
    }
    third = {r["wid"] - MICROS: (*shown(r["window"]), r["n"]) for r in done.rows("third")}
    assert third == {4 * SECOND: (-6, 4, 3), 12 * SECOND: (2, 12, 4)}
    sessions = done.rows("sessions")
    assert "wid" not in sessions[0]
    assert sorted((r["g"], *shown(r["session"]), r["count"]) for r in sessions) == [
        ("a", 1, 6, 1),
        ("a", 6, 11, 1),
        ("a", 12, 18, 2),
        ("a", 20, 25, 1),
        ("b", 2, 9, 2),
        ("b", 9, 14, 1),
    ]
    first = MICROS // (30 * SECOND) * 100
    assert [(r["wid"], r["high"], *shown(r["window"])) for r in done.rows("own")] == [
        (first, 80, 0, 30)
    ]


def refused(window: Any, s: Stream) -> AnalysisError:
    with pytest.raises(AnalysisError) as e:
        s.groupBy("g", window).agg("count(*) AS n")
    assert e.value.hint
    return e.value


def test_what_needs_an_order_of_arrival_says_so(spark: SparkSession) -> None:
    s = stream(spark)
    for window, name in ((sw.rows(4), "sw.rows"), (sw.byTuple("1 second"), "sw.byTuple")):
        error = refused(window, s)
        assert error.condition == "NO_ARRIVAL_ORDER"
        assert name in str(error) and "'s'" in str(error) and "order=" in str(error.hint)
    counts = s.groupBy("g", sw.window("1 second")).agg("count(*) AS n")
    assert refused(sw.rows(4), counts).condition == "NOT_AT_SOURCE"
    # These need none.
    s.groupBy("g", sw.rows(4, at="operator")).agg("count(*) AS n")
    s.groupBy("g", sw.byTuple("1 second", over="rank")).agg("count(*) AS n")
    counts.groupBy(sw.rows(4, at="operator")).agg("sum(n) AS n")


@pytest.mark.parametrize(
    ("window", "condition"),
    [
        (lambda: sw.rows(0), "BAD_OPTION"),
        (lambda: sw.rows("4"), "BAD_OPTION"),
        (lambda: sw.rows(4, 2, at="sink"), "BAD_OPTION"),
        (lambda: sw.rows(4, per="nobody"), "COLUMN_NOT_FOUND"),
        (lambda: sw.landmark("5 seconds", "yesterday"), "BAD_INSTANT"),
        (lambda: sw.landmark(5, "2026-01-01"), "BAD_DURATION"),
        (lambda: sw.byTuple("5 seconds", 0), "BAD_OPTION"),
        (lambda: sw.byTuple("5 seconds", over="size"), "BAD_OPTION"),
        (lambda: sw.sessionWindow("1 month"), "BAD_DURATION"),
        (lambda: sw.sessionWindow("5 seconds", on="v"), "NOT_PROGRESSING"),
        (lambda: sw.customWindow(1, 2, 3, name="x"), "BAD_OPTION"),
        (lambda: sw.customWindow(halves, halves, halves, name="x"), "BAD_WINDOW"),
    ],
)
def test_bad_windows_are_named(window: Any, condition: str, spark: SparkSession) -> None:
    assert refused(window(), stream(spark, order="i")).condition == condition


def test_explain_tells_the_class_of_a_window(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    s = stream(spark, order="i")
    for window, text in (
        (sw.rows(4), "aggregate by rows, rows before it"),
        (sw.landmark("1 second", at(0)), "aggregate by landmark, a row tells"),
        (sw.sessionWindow("1 second"), "aggregate by sessions, rows after it"),
    ):
        s.groupBy("g", window).agg("count(*) AS n").explain()
        assert text in capsys.readouterr().out


def test_rows_are_counted_where_nothing_but_their_time_is_read(spark: SparkSession) -> None:
    def job(df: Any) -> Any:
        s = sw.stream(df, time="t", progress=sw.Ordered())
        return s.groupBy(sw.rows(2, at="operator")).count()

    rows = local_job(job, "t long", spark=spark).run([[(1,), (2,), (3,)], [(4,), (5,)]])
    assert [(r.wid, r["count"]) for r in rows] == [(0, 2), (1, 2), (2, 1)]
