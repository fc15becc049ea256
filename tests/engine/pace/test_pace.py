"""Paces on the whole engine: what inputs need not read, texts that stay as they are, idle clocks, feedback from above."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.driver.feedback import Reach
from slackwater.engine.driver.pace import pace_lines
from slackwater.engine.driver.passes import Shown as PlanShown
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.lowlevel.fused import Dialect, Fused, numbers_of, query
from slackwater.engine.paths.batch import Batch
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.paces import paced
from slackwater.engine.plan.plan import Output
from slackwater.engine.plan.reading import JvmPartials
from slackwater.engine.plan.steps import PaceStep
from slackwater.model.node import Aggregate, Filter, Node, Outpaced, Pace, Sort, Source, Union
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Expr, Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.feedback.text import parsed
from slackwater.semantics.limits import END, START
from slackwater.semantics.pace import Marks
from slackwater.testing.local.run import LocalInput, LocalRun
from slackwater.testing.transcripts.query import aggregate

TS = TimeColumn("ts", "long", 1_000_000)
FIELDS = (Field("ts", "bigint"), Field("k", "bigint"))
SECOND = 1_000_000


def source(name: str, index: int) -> Source:
    return Source(FIELDS, (TS,), name, index, (BoundedDelay(delay=2),))


A, B = source("a", 0), source("b", 1)


def pace(child: Node, limit: int = 5, *, clock: bool = False) -> Pace:
    return Pace(child.schema, child.times, child, child.times[0].name, limit, clock)


def late(node: Pace) -> Outpaced:
    return Outpaced(node.schema, node.times, node.child, node.on, node.limit, node.clock)


def counts(child: Node) -> Aggregate:
    return aggregate(child, {"window": {"range": 10}, "agg": {"n": "count(*)"}})


class Shown:
    """A clock that shows these seconds, batch by batch; unlike those of other tests it may be set back."""

    def __init__(self, seconds: Sequence[int]):
        self.seconds = seconds

    def ended(self, batch: int) -> frozenset[str]:
        return frozenset()

    def now(self, batch: int) -> int | None:
        return self.seconds[min(batch, len(self.seconds) - 1)] * SECOND


class Played:
    """A run, batch by batch, with what tasks were told."""

    def __init__(
        self,
        folder: Path,
        outputs: Mapping[str, Node],
        *,
        splits: bool = True,
        clock: Sequence[int] | None = None,
        reach: Reach = "source",
    ):
        plan = passed(
            build([Output(n, o) for n, o in outputs.items()], ansi=True, zone="UTC"), Written()
        )
        inputs = [LocalInput(s.schema, splits) for s in sorted(plan.sources, key=lambda s: s.input)]
        script = None if clock is None else Shown(clock)
        self.run = LocalRun(folder, plan, inputs, clock=script, reach=reach)
        self.batches: list[Batch] = []

    def play(self, *batches: Mapping[int, Sequence[int]]) -> Played:
        for rows in batches:
            tables = {
                i: pa.table({"ts": pa.array(ts, pa.int64()), "k": pa.array(ts, pa.int64())})
                for i, ts in rows.items()
            }
            self.run.give(tables)
        self.run.start()
        told = self.run.host.run_job

        def run_job(frame: Any, batch: Batch, *others: Any) -> Any:
            self.batches.append(batch)
            return told(frame, batch, *others)

        self.run.host.run_job = run_job  # type: ignore[method-assign]
        for _ in batches:
            self.run.step()
        self.run.stop()
        return self

    @property
    def records(self) -> list[dict[str, Any]]:
        return self.run.loop.records

    def times(self, output: str) -> list[list[int]]:
        found = self.run.published[output]
        return [
            sorted(found[b]["ts"].to_pylist()) if b in found else [] for b in range(self.run.done)
        ]


@pytest.mark.spec("FC-F41")
@pytest.mark.parametrize("clock", [False, True])
def test_files_of_old_rows_are_not_opened_and_nothing_else_changes(
    tmp_path: Path, clock: bool
) -> None:
    """With a clock in the very batch that brings everything, else once the mark is known."""
    node = pace(Union(FIELDS, (TS,), (A, B)), clock=clock)
    batches = ({0: [100]}, {0: [101], 1: list(range(50))}, {0: [102], 1: [51, 99]})
    shown = (100, 101, 102) if clock else None

    def run(name: str, reach: Reach) -> Played:
        return Played(tmp_path / name, {"live": node}, clock=shown, reach=reach).play(*batches)

    on, off = run("on", "source"), run("off", "off")
    assert on.times("live") == off.times("live") == [[100], [101], [99, 102]]
    assert [r["streams"] for r in on.records] == [r["streams"] for r in off.records]
    assert [r.get("feedback", {}).get("notRead", {}).get("rows", 0) for r in on.records] == [
        0,
        50,
        0,
    ]
    assert all("feedback" not in r for r in off.records)
    assert [r["pace"]["rowsDropped"] for r in map(_only_pace, off.records)] == [0, 50, 1]
    assert [r["pace"]["rowsDropped"] for r in map(_only_pace, on.records)] == [0, 0, 0]


def _only_pace(record: dict[str, Any]) -> dict[str, Any]:
    ((_, figures),) = record["pace"].items()
    return {"pace": figures}


def test_by_the_clock_the_first_batch_of_all_leaves_old_files_unread(tmp_path: Path) -> None:
    node = pace(Union(FIELDS, (TS,), (A, B)), clock=True)
    ran = Played(tmp_path, {"n": counts(node)}, clock=[100]).play(
        {0: [96, 100], 1: list(range(50))}
    )
    (record,) = ran.records
    not_read = record["feedback"]["notRead"]
    assert not_read["rows"] == 50
    assert not_read["streams"] == {"b": {"rows": 50, "bytes": not_read["bytes"]}}
    assert record["streams"]["b"]["numInputRows"] == 50
    assert _only_pace(record)["pace"] | {"on": "ts"} == {
        "on": "ts", "mark": 100, "limit": 95, "newMark": 100, "rowsDropped": 0,
    }  # fmt: skip


def test_who_reads_the_rows_that_are_dropped_has_them_read(tmp_path: Path) -> None:
    node = pace(Union(FIELDS, (TS,), (A, B)), clock=True)
    outputs = {"live": node, "late": late(node)}
    ran = Played(tmp_path, outputs, clock=[100]).play({0: [96, 100], 1: list(range(50))})
    assert ran.times("late") == [list(range(50))]
    assert "feedback" not in ran.records[0]


@pytest.mark.parametrize("mixed", [False, True])
def test_two_paces_over_one_stream_leave_unread_what_neither_needs(
    tmp_path: Path, mixed: bool
) -> None:
    outputs: dict[str, Node] = {"near": pace(A, 5, clock=True), "far": pace(A, 80, clock=True)}
    if mixed:
        outputs["all"] = A
    ran = Played(tmp_path, outputs, clock=[100, 100]).play({0: [0, 10]}, {0: [21, 30, 97]})
    assert ran.times("near") == [[], [97]] and ran.times("far") == [[], [21, 30, 97]]
    rows = ran.records[0].get("feedback", {}).get("notRead", {}).get("rows", 0)
    assert rows == (0 if mixed else 2)


@pytest.mark.parametrize("splits", [False, True])
def test_rows_are_counted_once_by_the_pace_that_drops_them(tmp_path: Path, splits: bool) -> None:
    """However many outputs read it, on however many ways rows come; two paces that were made alike are one."""
    both = Union(FIELDS, (TS,), (A, B))
    live, again, twice = pace(both), pace(both), pace(Union(FIELDS, (TS,), (A, A)))
    outputs = {
        "live": live, "map": counts(live), "self": Union(FIELDS, (TS,), (live, live)), "late": late(live),
        "again": again, "twice": twice,
    }  # fmt: skip
    ran = Played(tmp_path, outputs, splits=splits, reach="off")
    ran.play({0: [100]}, {0: [90, 96], 1: [91, 92, 97]}, {0: [101]})
    plan = ran.run.loop.query.plan
    found = {n: f["rowsDropped"] for n, f in ran.records[1]["pace"].items()}
    named = {
        path.consumer: plan.names[i]
        for path in plan.paths
        for step in path.steps
        if isinstance(step, PaceStep)
        for i, node in enumerate(plan.nodes)
        if node is step.node
    }
    assert {out: found[named[f"out:{out}"]] for out in ("live", "again", "twice")} == {
        "live": 3, "again": 3, "twice": 2,
    }  # fmt: skip
    assert named["out:again"] == named["out:live"] and len(found) == 2


def test_the_mark_of_a_batch_is_that_of_when_it_began(tmp_path: Path) -> None:
    ran = Played(tmp_path, {"live": pace(A)}).play({0: [3, 100]}, {0: [94, 95, 200]}, {0: [150]})
    assert ran.times("live") == [[3, 100], [95, 200], []]


def test_a_time_that_nobody_knows_raises_no_mark() -> None:
    """Windows that count rows have none while they wait, and after the end of one stream others go on."""
    marks = Marks({}, {3: 40})
    assert marks.of(pace(A), 3, {"ts": END}) == 40 and marks.of(pace(A), 0, {"ts": END}) == START
    assert marks.of(pace(A), 3, {"ts": 50}) == 50 and marks.of(pace(A), 3, {"ts": 7}) == 40


def test_the_limit_is_told_to_inputs_in_steps(tmp_path: Path) -> None:
    node = pace(Union(FIELDS, (TS,), (A, B)), 50)
    ran = Played(tmp_path, {"live": node}).play({0: [107]}, {0: [112]}, {1: [54, 61, 113]})
    told = [b.guards.scans.get(1, ()) for b in ran.batches]
    ends = [[high for r in records for _, t in r.tests for _, high in t.spans] for records in told]
    assert ends == [[], [55], [60]]
    # The pace itself goes by the limit of the batch, 62.
    assert ran.times("live")[2] == [113]
    # The stream that is ahead has passed these times by itself.
    assert not any(b.guards.scans.get(0) for b in ran.batches)


def test_the_text_of_a_scan_stays_while_the_limit_moves(tmp_path: Path) -> None:
    """Spark would compile another text anew: the limit is a number beside it."""
    child = Filter(FIELDS, (TS,), A, Expr("k >= 0", "boolean", "k >= 0"))
    outputs = {"n": counts(pace(child, clock=True))}
    ran = Played(tmp_path, outputs, clock=[100, 120, 140]).play({0: [100]}, {0: [120]}, {0: [150]})
    assert all(b.guards.paths for b in ran.batches)
    texts, limits = set(), []
    for batch in ran.batches:
        rows = passed(batch.plan, PlanShown([_Rows()]))
        reading = rows.readings[0]
        assert isinstance(reading, JvmPartials)
        fused = Fused.of(batch.plan, reading.path, batch.guards)
        groups, items, relation = query(batch, fused, "SELECT * FROM t", Dialect(False, 0))
        text = "; ".join([*groups, *items, relation])
        numbers = numbers_of(batch, fused)
        limits.append(numbers[-1])
        texts.add(text)
    assert len(texts) == 1 and limits == [95, 115, 135]


class _Rows:
    by_rows = "rows of a DataFrame"


def test_a_plan_without_a_pace_is_the_very_same(tmp_path: Path) -> None:
    plan = build([Output("n", counts(A))], ansi=True, zone="UTC")
    assert paced(plan, {}) is plan


@pytest.mark.spec("FC-F41")
def test_feedback_from_above_lets_nothing_out_that_was_too_old(tmp_path: Path) -> None:
    """Were the mark made of the rows that come, 90 would be let out: 100, which somebody ignores, has raised it."""
    node = pace(A)
    ran = Played(tmp_path, {"live": node})
    view = parsed("~{k = 100}", Columns.of(node))
    ran.run.start()
    ran.run.send(Request("send", "live", "view", view))
    ran.run.stop()
    ran.play({0: [100]}, {0: [90, 96]}, {0: [101]})
    assert ran.times("live") == [[], [96], [101]]
    assert ran.records[0]["feedback"]["places"]["a"]["rowsDropped"] == 1


@pytest.mark.parametrize(
    ("made", "jobs"), [(lambda: pace(A, clock=True), 1), (lambda: counts(pace(A, clock=True)), 2)]
)
def test_a_clock_that_ticks_makes_batches_only_where_it_completes_something(
    tmp_path: Path, made: Callable[[], Node], jobs: int
) -> None:
    ran = Played(tmp_path, {"out": made()}, clock=[100, 115])
    ran.play({0: [100]})
    ran.run.start()
    for _ in range(3):
        ran.run.step()
    ran.run.stop()
    assert ran.run.loop.last is not None and ran.run.loop.last.ordinal + 1 == jobs
    if jobs == 2:
        # At 115 the pace promises 110: the window from 100 to 110 is complete, although the stream has said 98.
        assert [t["n"].to_pylist() for t in ran.run.published["out"].values() if t.num_rows] == [
            [1]
        ]


def test_a_mark_does_not_go_back_with_the_clock(tmp_path: Path) -> None:
    ran = Played(tmp_path, {"live": pace(A, clock=True)}, clock=[100, 50, 50])
    ran.play({0: [99]}, {0: [94, 95]}, {0: [94, 96]})
    assert ran.times("live") == [[99], [95], [96]]
    assert [b["pace"]["mark"] for b in map(_only_pace, ran.records)] == [100, 100, 100]


def test_it_goes_by_the_marks_of_the_manifest_after_a_crash(tmp_path: Path) -> None:
    ran = Played(tmp_path, {"live": pace(A, clock=True)}, clock=[100, 50])
    ran.play({0: [99]})
    again = Played(tmp_path, {"live": pace(A, clock=True)}, clock=[100, 50])
    again.run.host, again.run.done = ran.run.host, ran.run.done
    again.play({0: [94, 95]})
    assert again.times("live")[1] == [95]


def test_in_front_of_windows_no_row_is_dropped(tmp_path: Path) -> None:
    """They would get dark, and a query that no longer keeps the pace would find them so."""
    node = pace(counts(A), clock=True)
    ran = Played(tmp_path, {"n": node}, clock=[100, 100]).play({0: [0, 10, 20]}, {0: [30, 97]})
    assert all(not b.guards.scans for b in ran.batches)
    assert ran.run.loop.last is not None and ran.run.loop.last.marks


def test_rows_that_a_sort_holds_back_raise_no_mark(tmp_path: Path) -> None:
    """100 waits, since the bound is 98: the newest time that can have come out is 97."""
    node = pace(Union(FIELDS, (TS,), (Sort(FIELDS, (TS,), A, "ts"), B)))
    ran = Played(tmp_path, {"live": node}).play({0: [90, 100]}, {1: [91, 92, 93]})
    assert ran.times("live") == [[90], [92, 93]]


def test_explain_says_what_paces_drop_and_where(tmp_path: Path) -> None:
    node = pace(Union(FIELDS, (TS,), (A, B)), clock=True)
    ran = Played(tmp_path, {"live": node}, clock=[100]).play({0: [97], 1: [98]})
    lines = pace_lines(ran.run.loop.query.plan, ran.run.loop.last, "source")
    assert lines[0].endswith("the newest ts is 100, drops rows below 95")
    # Another step of the limit is below what the streams say themselves.
    assert not lines[1:] or all("for a pace" in line for line in lines[1:])
    assert pace_lines(ran.run.loop.query.plan, None, "source") == []


def test_a_node_is_told_apart_from_one_over_other_rows() -> None:
    assert pace(A) != pace(replace(A, name="c"))
