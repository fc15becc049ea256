"""``pace`` and ``sw.paced`` as users write them: trees, errors with a place, and the example."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import slackwater as sw
from slackwater.engine.lowlevel import map_side
from slackwater.errors import AnalysisError
from slackwater.model.node import Outpaced, Pace, Union

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
MINUTE = 60_000_000


@pytest.fixture
def streams(spark: Any) -> dict[str, Any]:
    rows = sw.replay(spark, [[]], "ts timestamp, k int, at bigint")
    other = sw.replay(spark, [[]], "t timestamp, k int, at bigint")
    return {
        "a": sw.stream(rows, time=["ts", "at"], name="a"),
        "b": sw.stream(other, time=["t", "at"], name="b"),
    }


def test_a_pace_is_over_any_stream(streams: dict[str, Any]) -> None:
    live = streams["a"].pace("5 minutes", clock=True)
    node = live._node
    assert isinstance(node, Pace) and (node.limit, node.clock, node.on) == (5 * MINUTE, True, "ts")
    late = live.late._node
    assert type(late) is Outpaced and late.child is node.child and late.limit == node.limit
    assert live.columns == live.late.columns == ["ts", "k", "at"]
    assert live.timeColumns == ["ts", "at"]
    assert streams["a"].pace(7, on="at")._node.limit == 7
    for same in (live.alias("live"), live.withFeedback(propagate=False)):
        assert type(same.late._node) is Outpaced and same.late._node.child is node.child


def test_what_is_no_pace_any_more_has_no_late_rows(streams: dict[str, Any]) -> None:
    live = streams["a"].pace("5 minutes")
    for other in (live.where("k > 1"), live.late):
        with pytest.raises(AnalysisError, match="keeps a pace") as error:
            _ = other.late
        assert error.value.condition == "NOT_A_SOURCE"


@pytest.mark.parametrize(
    ("made", "condition", "words"),
    [
        (lambda s: s.pace("0 seconds"), "BAD_DURATION", "not positive"),
        (lambda s: s.pace("-1 minute"), "BAD_DURATION", "not positive"),
        (lambda s: s.pace(5), "BAD_DURATION", "not a duration"),
        (lambda s: s.pace("5 minutes", on="at"), "BAD_DURATION", "holds integers"),
        (lambda s: s.pace(0, on="at"), "BAD_DURATION", "not positive"),
        (lambda s: s.pace(5, on="at", clock=True), "UNIT_NEEDED", "relate to the clock"),
        (lambda s: s.pace("5 minutes", on="k"), "NOT_PROGRESSING", "'k'"),
        (lambda s: s.pace("5 minutes", clock="yes"), "BAD_OPTION", "clock='yes'"),
    ],
)
def test_bad_input_is_refused(
    streams: dict[str, Any], made: Any, condition: str, words: str
) -> None:
    with pytest.raises(AnalysisError, match=words) as error:
        made(streams["a"])
    assert error.value.condition == condition and error.value.hint


def test_a_pace_by_the_clock_is_refused_where_there_is_none(spark: Any, tmp_path: Path) -> None:
    rows = sw.replay(spark, [[]], "ts timestamp, k int", splits=True)
    live = sw.stream(rows, time="ts", name="s").pace("5 minutes", clock=True)
    writer = live.writeStream.foreachBatch(lambda frame, batch: None).queryName("none")
    with pytest.raises(AnalysisError, match="replays alone has none") as error:
        sw.start([writer], checkpointLocation=str(tmp_path / "ck"))
    assert error.value.condition == "NO_CLOCK"


@pytest.mark.spec("FC-F10")
@pytest.mark.parametrize(
    "text",
    [
        "a UNION b WITH PACE ON MAX(a.ts, b.t) 1 MINUTE",
        "SELECT * FROM a UNION ALL b WITH PACE ON MAX(b.t, a.ts) INTERVAL '1' MINUTE",
        "A union B with pace on max(A.ts, B.`t`) 60 seconds -- to be of use",
    ],
)
def test_the_clause_makes_the_same_tree(streams: dict[str, Any], text: str) -> None:
    node = sw.paced(text, streams)._node
    wanted = streams["a"].union(streams["b"]).pace("1 minute")._node
    assert isinstance(node, Pace) and isinstance(node.child, Union)
    assert node == wanted


def test_the_clause_takes_integers_and_a_clock(spark: Any) -> None:
    rows = sw.replay(spark, [[]], "ts bigint, k int")
    s = sw.stream(rows, time="ts", name="s", timeUnit="second")
    node = sw.paced("s WITH PACE ON MAX(s.ts) 90", {"s": s}, clock=True)._node
    assert isinstance(node, Pace) and (node.limit, node.clock) == (90, True)


@pytest.mark.spec("FC-F10")
@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("a UNION c WITH PACE ON MAX(a.ts) 1 MINUTE", "c", "no stream 'c'"),
        ("a UNION a WITH PACE ON MAX(a.ts) 1 MINUTE", "a", "with itself"),
        ("a UNION b WITH PACE ON MAX(a.ts) 1 MINUTE", "b", "no time of stream 'b'"),
        ("a WITH PACE ON MAX(a.ts, b.t) 1 MINUTE", "b", "no stream of the union"),
        ("a WITH PACE ON MAX(a.ts, a.at) 1 MINUTE", "a", "has it twice"),
        ("a UNION b WITH PACE ON MAX(a.ts, b.at) 1 MINUTE", "b.at", "b.at' is bigint"),
        ("a WITH PACE ON MAX(a.k) 1 MINUTE", "k", "not a progressing column"),
        ("a WITH PACE ON MAX(a.ts) 0 SECONDS", "0 SECONDS", "not positive"),
        ("a WITH PACE ON MAX(a.ts) 5", "5", "not a duration"),
        ("a WITH PACE ON MAX(a.at) 5 MINUTES", "5 MINUTES", "holds integers"),
        ("a WITH PACE ON MIN(a.ts) 5 MINUTES", "MIN", "MAX was expected"),
        ("a WITH PACE ON MAX(a.ts) 5 MINUTES c", "c", "the end of the text"),
        ("a WITH PEACE ON MAX(a.ts) 5 MINUTES", "PEACE", "PACE was expected"),
    ],
)
def test_errors_of_the_clause_have_a_place(
    streams: dict[str, Any], text: str, at: str, words: str
) -> None:
    with pytest.raises(AnalysisError, match=words) as error:
        sw.paced(text, streams)
    place = error.value.place
    assert place is not None
    start = place.column - 1
    assert text[start : start + place.length] == at and "^" in str(error.value)


def test_the_time_of_a_joins_result_is_no_column_of_the_clause(streams: dict[str, Any]) -> None:
    both = streams["a"].join(streams["b"], on="k", within=sw.band(before="1 minute"))
    assert "greatest(ts, t)" in both.timeColumns
    with pytest.raises(AnalysisError, match="made of several columns") as error:
        sw.paced("j WITH PACE ON MAX(j.`greatest(ts, t)`) 1 MINUTE", {"j": both})
    assert error.value.place is not None and "name one of: ts, t;" in (error.value.hint or "")
    assert both.pace("1 minute")._node.on == "greatest(ts, t)", "the way out"


@pytest.mark.parametrize("streams_", [None, {1: None}, ["a"]])
def test_streams_without_names_are_refused(streams_: Any) -> None:
    with pytest.raises(AnalysisError, match="by name"):
        sw.paced("a WITH PACE ON MAX(a.ts) 1 MINUTE", streams_)


@pytest.mark.parametrize(
    ("also", "condition", "words"),
    [
        (lambda s: {"b": None}, "NOT_A_STREAM", "streams\\['b'\\] is a NoneType"),
        (lambda s: {"A": s["b"]}, "DUPLICATE_NAME", "'A' twice"),
    ],
)
def test_what_the_clause_cannot_read_is_refused(
    streams: dict[str, Any], also: Any, condition: str, words: str
) -> None:
    with pytest.raises(AnalysisError, match=words) as error:
        sw.paced("a WITH PACE ON MAX(a.ts) 1 MINUTE", {"a": streams["a"], **also(streams)})
    assert error.value.condition == condition


def test_the_jvm_reduces_rows_behind_a_pace_with_one_plan(spark: Any, tmp_path: Path) -> None:
    """The limit of each batch is a number in the plan that is kept."""
    batches = [
        [(100, 1), (91, 2)],
        [(94, 4), (95, 8), (120, 16)],
        [(114, 32), (115, 64), (135, 128)],
    ]
    rows = sw.replay(spark, batches, "ts bigint, v bigint")
    s = sw.stream(rows, time="ts", name="s", progress=sw.BoundedDelay(30))
    found: dict[int, tuple[int, int]] = {}

    def keep(frame: Any, batch: int) -> None:
        found.update({r.wid: (r.n, r.total) for r in frame.collect()})

    sums = s.pace(5).groupBy(sw.window(10)).agg("count(*) AS n", "sum(v) AS total")
    before = len(map_side._known)
    query = sw.start(
        [sums.writeStream.queryName("sums").foreachBatch(keep)],
        checkpointLocation=str(tmp_path / "ck"),
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    assert found == {9: (2, 10), 10: (1, 1), 11: (1, 64), 12: (1, 16)}
    assert [
        next(iter(r["pace"].values()))["rowsDropped"]
        for r in query.recentProgress
        if r["numInputRows"]
    ] == [0, 1, 1]
    assert len(map_side._known) == before + 1


def test_the_example_of_catching_up(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(EXAMPLES / "catch_up.py"))
    monkeypatch.setattr(sw, "session", lambda: spark, raising=False)
    assert example["main"](minutes=20, rows=200) >= 13 * 200
    assert "results of the last minutes are the same" in capsys.readouterr().out
