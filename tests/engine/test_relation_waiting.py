"""Rows that wait for segments of a relation, on the engine: when they are served, what one read serves, what is kept for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.driver.copies import CopyUse
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.operators import waiting as program
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.store import failpoints, kept
from slackwater.engine.store.control import request_flush
from slackwater.errors import ExecutionError, SlackwaterError
from slackwater.model.relation import Relation
from slackwater.semantics import waiting as waiting_rule
from slackwater.semantics.waiting import FREED, SHARE
from slackwater.testing.clock import ManualClock
from slackwater.testing.local.run import failing
from slackwater.testing.transcripts.query import QueryBuilder
from tests.engine.test_relation_segments import ROWS, Large, name
from tests.engine.test_relations import FIELDS, SOURCE

SECOND = 1_000_000
STEP: dict[str, Any] = {
    "lookup": "d",
    "keys": [["k", "id"]],
    "how": "left",
    "deadline": "10 seconds",
}
WAITS = [{"from": "s"}, STEP]
AT_ONCE: list[dict[str, Any]] = [
    {"from": "s"}, {k: v for k, v in STEP.items() if k != "deadline"}
]  # fmt: skip
FEW = {"memory": 1_000_000, "disk": 0, "form": "segments"}
"""All rows of a test may wait, and all segments may stay."""


class Waits(Large):
    """A query in which rows wait for ten seconds of a clock that the test moves."""

    def __init__(self, folder: Path, steps: Any = WAITS, **use: Any):
        self.clock = ManualClock(0)
        super().__init__(folder, steps, self.clock, **{**FEW, **use})

    def after(self, seconds: float) -> Waits:
        self.clock.advance(int(seconds * SECOND))
        return self

    @property
    def figures(self) -> dict[str, Any]:
        """What the record of the last batch says of the operator."""
        (found,) = [
            op["relation"] for id, op in self.run.loop.records[-1]["operators"].items()
            if id.startswith("waiting")
        ]  # fmt: skip
        return dict(found)

    @property
    def ledgers(self) -> list[dict[str, Any]]:
        last = self.run.loop.last
        assert last is not None
        (found,) = [led for id, led in last.ledgers.items() if id.startswith("waiting")]
        return found

    def planned(self, steps: Any, **more: Any) -> None:
        """The query of the next start, with ``more`` outputs."""
        relation = Relation("d", "table", FIELDS, ("id",), FIELDS)
        texts = {"out": steps, **more}
        builder = QueryBuilder({"s": SOURCE}, texts, {"d": relation})
        outputs = [Output(one, builder.named(one)) for one in texts]
        self.run.plan = passed(build(outputs, ansi=True, zone="UTC"), Written())
        for one in more:
            self.run.published.setdefault(one, {})


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waits]:
    # As workers of Spark have it.
    monkeypatch.setenv(kept.LOCAL_DIRS, str(tmp_path / "executor"))
    query = Waits(tmp_path)
    query.table_of()
    yield query
    query.run.stop()


def names(*keys: int) -> list[tuple[int, str]]:
    return sorted(map(name, keys), key=str)


# --- when a read begins ------------------------------------------------------------------------------


@pytest.mark.spec("XJ-F54", "XJ-F55")
def test_a_lone_cold_row_comes_out_at_its_deadline_and_all_that_wait_with_it(made: Waits) -> None:
    path = Path(__file__).parents[2] / "docs" / "progress.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    made.start(backlog=100)
    # No segment has the second key: there is nothing to wait for.
    assert made.batch(3, 10_000) == [(10_000, None)]
    assert made.after(4).batch(4, 5, 700) == []
    assert (made.record["waitingRows"], made.record["waitingAgeMs"]) == (4, 4000)
    assert (made.record["reads"], made.figures["reads"]) == (0, {})
    made.after(5.9)
    batches = len(made.run.loop.records)
    assert made.idle() == []
    assert len(made.run.loop.records) == batches  # it was not worth a batch
    assert made.after(0.1).idle() == names(3, 4, 5)
    assert (made.record["reads"], made.record["rowsPerRead"]) == (1, 3.0)
    assert made.figures["reads"] == {"deadline": 1}
    assert (made.record["waitingRows"], made.record["waitingAgeMs"]) == (1, 6000)
    one = {**schema["$defs"]["relation"], "$defs": schema["$defs"]}
    pytest.importorskip("jsonschema").validate(made.record, one)
    # That segment is at hand now; the last row is due later.
    assert made.batch(6, 8) == names(6, 8)
    assert made.record["reads"] == 0
    assert made.after(4).idle() == names(700)
    assert made.record["waitingRows"] == 0


@pytest.mark.spec("XJ-F54")
def test_a_backlog_is_served_when_there_is_nothing_else_to_do(made: Waits) -> None:
    made.start(backlog=3)
    assert made.batch(1, 2, 3, 4, 60, 61) == []
    assert made.idle() == names(1, 2, 3, 4)
    assert made.figures["reads"] == {"backlog": 1}
    assert made.idle() == []
    assert made.batch(62) == []
    assert made.idle() == names(60, 61, 62)


@pytest.mark.spec("XJ-F54")
def test_a_backlog_is_served_in_any_batch_if_one_asks_for_it(made: Waits) -> None:
    made.start(backlog=3, always=True)
    assert made.batch(1, 2, 60) == []
    assert made.batch(3) == names(1, 2, 3)
    assert made.figures["reads"] == {"backlog": 1}


@pytest.mark.spec("XJ-F52", "XJ-F53")
def test_groups_share_a_tenth_of_the_memory_and_a_full_one_serves_the_largest_backlogs(
    made: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, Any, dict[str, Any]]] = []
    to_read = program.to_read

    def watched(backlogs: Any, policy: Any, **more: Any) -> Any:
        begun = to_read(backlogs, policy, **more)
        seen.append((backlogs, policy, begun))
        return begun

    monkeypatch.setattr(program, "to_read", watched)
    memory = 40_000
    made.start(memory=memory, backlog=10_000)
    draw = np.random.default_rng(1)
    came: list[int] = []
    out = []
    for _ in range(40):
        keys = np.minimum(draw.geometric(0.004, 7), 999).tolist()
        came += keys
        out += made.batch(*keys)
        room = memory // SHARE // 2
        assert sum(led["bytes"] for led in made.ledgers) <= memory // SHARE
        assert all(led["bytes"] <= room for led in made.ledgers)
        assert made.record["waitingRows"] == len(came) - len(out)
    full = [(b, p, begun) for b, p, begun in seen if "full" in begun.values()]
    assert len(full) > 3
    for backlogs, policy, begun in full:
        assert policy.room == memory // SHARE // 2
        served = [n for n, why in begun.items() if why == "full"]
        left = [b.size for n, b in backlogs.items() if n not in begun]
        assert sum(left) < (1 - FREED) * policy.room
        assert min(backlogs[n].size for n in served) >= max(left, default=0)
        # The last one was needed.
        assert sum(left) + backlogs[served[-1]].size >= (1 - FREED) * policy.room
    made.run.step(final=True)
    table = made.run.published["out"][made.run.done - 1]
    out += [(r["k"], r["name"]) for r in table.to_pylist()]
    assert sorted(out) == sorted(map(name, came))


@pytest.mark.spec("XJ-F52")
def test_the_room_of_waiting_rows_may_be_given(made: Waits) -> None:
    made.start(backlog=10_000, room=0)
    assert made.batch(1, 2, 70) == names(1, 2, 70)
    assert set(made.figures["reads"]) == {"full"}
    made.run.stop()
    made.start(backlog=10_000, room=1_000, memory=40_000)
    waited = []
    for number in range(4):
        made.batch(*range(number, 1000, 100))
        assert all(led["bytes"] <= 500 for led in made.ledgers)
        waited.append(made.record["waitingRows"])
    assert waited[0] > 0


def test_rows_that_leave_as_they_come_are_not_kept(made: Waits) -> None:
    made.start(backlog=3, always=True)
    assert made.batch(1, 2, 3, 60) == names(1, 2, 3)
    assert made.batch(70, 71) == names(60, 70, 71)
    assert made.batch(900) == []
    assert made.after(10).idle() == names(900)


@pytest.mark.spec("XJ-F56")
def test_a_row_leaves_when_its_segment_was_read_for_others(made: Waits) -> None:
    """Another join of the query does not wait: what it has read is at hand in the next batch."""
    made.planned(WAITS, now=AT_ONCE)
    made.start(backlog=100)
    assert made.batch(1, 70) == []
    assert [t.num_rows for t in made.run.published["now"].values()] == [2]
    assert made.batch(900) == names(1, 70)
    assert made.record["waitingRows"] == 1


def without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers as they were before they said which segments rows lack."""
    of = program._ledger
    monkeypatch.setattr(
        program, "_ledger", lambda *a: {k: v for k, v in of(*a).items() if k != "awaited"}
    )


@pytest.mark.spec("XJ-F56")
@pytest.mark.parametrize("said", ["by name", "too many", "by an older version"])
def test_rows_leave_without_input_once_their_segments_are_at_hand(
    made: Waits, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """Which segments may stay is said after the batch in which the other join has read them."""
    if said == "too many":
        monkeypatch.setattr(waiting_rule, "AWAITED", 0)
    if said == "by an older version":
        without_names(monkeypatch)
    made.planned(WAITS, now=AT_ONCE)
    made.start(backlog=100)
    assert made.batch(1, 2, 70) == []
    assert (made.record["waitingRows"], made.record["resident"]) == (3, 2)
    assert made.idle() == names(1, 2, 70)
    assert (made.record["waitingRows"], made.record["reads"]) == (0, 0)
    assert made.figures["reads"] == {}
    batches = len(made.run.loop.records)
    assert made.idle() == []
    assert len(made.run.loop.records) == batches


@pytest.mark.spec("XJ-F56")
def test_a_segment_that_comes_to_hand_makes_no_batch_run_if_no_row_lacks_it(made: Waits) -> None:
    only = [{"from": "s"}, {"where": "k >= 100"}, {**AT_ONCE[1]}]
    made.planned([{"from": "s"}, {"where": "k < 200"}, STEP], now=only)
    made.start(backlog=100)
    assert made.batch(1, 150, 300) == []
    assert made.idle() == names(150)
    batches = len(made.run.loop.records)
    made.batch(500)
    assert (made.record["waitingRows"], made.record["resident"]) == (1, 3)
    assert made.idle() == []
    assert len(made.run.loop.records) == batches + 1
    (names_of,) = [led["awaited"] for led in made.ledgers if led["rows"]]
    assert [n.rpartition("-")[2] for n in names_of] == ["0"]


@pytest.mark.spec("XJ-F56")
def test_a_row_that_lacks_a_second_segment_waits_on_and_is_known_by_it(tmp_path: Path) -> None:
    steps = [{"from": "s"}, {"where": "k >= 50"}, AT_ONCE[1]]
    query = Waits(tmp_path)
    for file, keys in (("a", range(40, 60)), ("b", range(50)), ("c", range(45, 70))):
        rows = pa.table({"id": pa.array(keys, pa.int64()), "name": [f"{file}{k}" for k in keys]})
        pq.write_table(rows, query.table / f"{file}.parquet")  # one segment each
    query.planned(WAITS, now=steps)
    query.start(backlog=100)
    assert query.batch(46) == []  # all three may have it
    assert query.batch(55) == []
    assert (query.record["resident"], query.record["waitingRows"]) == (2, 2)
    assert query.idle() == [(55, "a55"), (55, "c55")]
    assert query.record["waitingRows"] == 1
    (awaited,) = [led["awaited"] for led in query.ledgers if led["rows"]]
    assert len(awaited) == 1
    batches = len(query.run.loop.records)
    assert query.idle() == []
    assert len(query.run.loop.records) == batches
    assert query.after(10).idle() == [(46, "a46"), (46, "b46"), (46, "c46")]
    query.run.stop()


@pytest.mark.spec("XJ-F56")
@pytest.mark.parametrize("point", [*failpoints.POINTS, *failpoints.RELATION_POINTS])
def test_a_crash_of_the_batch_in_which_they_leave_loses_no_row(made: Waits, point: str) -> None:
    made.planned(WAITS, now=AT_ONCE)
    made.start(backlog=100)
    made.batch(1, 2, 70)
    try:
        with failing(point):
            made.idle()
    except failpoints.InjectedFailure:
        made.run.stop()
        made.start(backlog=100)  # where nothing is at hand
        made.again()
    made.after(10).idle()
    out = [(r["k"], r["name"]) for t in made.run.published["out"].values() for r in t.to_pylist()]
    assert sorted(out) == names(1, 2, 70)


@pytest.mark.spec("XJ-F56")
def test_a_row_leaves_when_what_it_needs_is_read_with_what_another_waits_for(
    tmp_path: Path,
) -> None:
    query = Waits(tmp_path, backlog=100)
    for file, count in (("a", 50), ("b", 100)):
        keys = pa.array(range(count), pa.int64())
        rows = pa.table({"id": keys, "name": [f"{file}{k}" for k in range(count)]})
        pq.write_table(rows, query.table / f"{file}.parquet")  # one segment each
    query.run.start(1)
    assert query.batch(1) == []
    assert query.after(5).batch(60) == []  # it waits for the second file alone
    assert query.after(5).idle() == [(1, "a1"), (1, "b1"), (60, "b60")]
    assert query.record["reads"] == 2
    query.run.stop()


@pytest.mark.spec("XJ-F53", "XJ-F56")
@pytest.mark.parametrize("others", [60, 20])
def test_a_row_with_two_segments_of_which_one_is_at_hand_waits(made: Waits, others: int) -> None:
    """Whichever it is: a row is met whole, and would have the other one read for it alone."""
    for file, keys in (("a", range(50)), ("b", range(40, 90))):
        rows = pa.table({"id": pa.array(keys, pa.int64()), "name": [f"{file}{k}" for k in keys]})
        pq.write_table(rows, made.table / f"{file}.parquet")  # one segment each
    made.planned(WAITS, now=[{"from": "s"}, {"where": f"k = {others}"}, AT_ONCE[1]])
    made.start(backlog=100)
    made.batch(others)
    assert len(made.idle()) == 1  # from here on its segment is at hand
    assert made.record["resident"] == 1
    assert made.after(1).batch(45, others) == [(others, f"{'b' if others == 60 else 'a'}{others}")]
    assert (made.record["waitingRows"], made.record["reads"]) == (1, 0)
    assert made.after(9).batch(10_000) == [(10_000, None)]
    assert (made.record["waitingRows"], made.record["reads"]) == (1, 0)
    assert made.after(1).idle() == [(45, "a45"), (45, "b45")]
    assert made.record["reads"] == 1


@pytest.mark.spec("XJ-F55")
def test_all_rows_leave_at_the_end(made: Waits) -> None:
    made.start()
    assert made.batch(1, 70, 900) == []
    made.run.step(final=True)
    rows = made.run.published["out"][made.run.done - 1].to_pylist()
    assert sorted((r["k"], r["name"]) for r in rows) == [name(1), name(70), name(900)]
    assert made.figures["reads"] == {"end": 3}


@pytest.mark.spec("XJ-F56")
def test_no_row_waits_for_what_is_at_hand(made: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for what stays in executors, nor for what its group has read in the batch."""
    leaving = program.WaitingProgram._leaving
    left: list[int] = []

    def watched(self: Any, rows: Any, ended: bool) -> Any:
        found = leaving(self, rows, ended)
        keys = rows["k"].to_numpy()[~found[0]]
        starts = {int(n.rpartition("-")[2]) for n in {*self.at.stay, *found[1]}}
        assert not starts & set((keys // ROWS * ROWS).tolist())
        left.append(len(keys))
        return found

    monkeypatch.setattr(program.WaitingProgram, "_leaving", watched)
    made.start(memory=6_000, backlog=10_000)  # five segments may stay, and a few rows wait
    draw = np.random.default_rng(2)
    for _ in range(30):
        keys = draw.integers(0, 1000, 3)
        made.after(draw.integers(0, 5)).batch(*keys.tolist())
    assert any(left) and made.record["resident"] > 2


def test_a_group_reads_a_segment_for_all_its_rows(made: Waits) -> None:
    """Rows go to the group of their segment, whatever their keys and times."""
    made.start(backlog=100)
    for number in range(8):
        made.after(1).batch(*range(number, 1000, ROWS))
    assert made.after(10).idle() == names(*(k + n for n in range(8) for k in range(0, 1000, ROWS)))
    assert (made.record["reads"], made.record["rowsPerRead"]) == (20, 8.0)


# --- versions ----------------------------------------------------------------------------------------


@pytest.mark.spec("XJ-F55", "XJ-F57")
@pytest.mark.parametrize("keeps", [True, False])
def test_a_row_joins_the_version_of_its_batch_and_versions_share_a_read(
    keeps: bool, made: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not keeps:
        monkeypatch.setenv(kept.LOCAL_DIRS, "")
    made.start(backlog=100)
    assert made.batch(1, 999) == []
    made.table_of(2, "new", "b.parquet")  # two segments more, with keys up to 99 a second time
    assert made.batch(2, 999) == []
    made.clock.advance(10 * SECOND)
    assert made.idle() == sorted([*names(1, 2, 999, 999), (2, "new2")], key=str)
    # Rows of both versions asked for the segments of the first file.
    assert (made.record["reads"], made.record["rowsPerRead"]) == (3, round(4 / 3, 1))


@pytest.mark.spec("XJ-F57")
def test_lists_of_versions_stay_while_rows_wait_for_them(made: Waits) -> None:
    made.start(backlog=100)
    made.batch(1)
    first = made.record["version"]
    for number in range(12):
        made.table_of(1, f"v{number}", "b.parquet")
        assert made.batch(10_000) == [(10_000, None)]
        assert any(first in n for n in made.lists)
    assert made.after(10).idle() == names(1)
    for _ in range(20):
        made.batch(10_000)
    assert not any(first in n for n in made.lists)


def test_a_version_that_is_gone_is_named_with_the_rows_that_wait_for_it(made: Waits) -> None:
    made.start(backlog=100)
    made.batch(1, 2, 70)
    version = made.record["version"]
    made.table_of(20, "new")  # in the place of the old file
    with pytest.raises(ExecutionError, match="RELATION_CHANGED") as told:
        made.batch(3)
    for part in ("a.parquet", version, "3 rows wait", "relationVersions"):
        assert part in str(told.value)
    made.run.stop()
    made.run.newest_versions = True
    made.start(backlog=100)
    assert made.again() == []
    assert (made.figures["replaced"], made.record["waitingRows"]) == (3, 4)
    made.run.stop()
    made.run.newest_versions = False  # once is enough
    made.start(backlog=100)
    assert made.after(10).idle() == [(k, f"new{k}") for k in (1, 2, 3, 70)]


# --- starts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", [*failpoints.POINTS, *failpoints.RELATION_POINTS])
def test_a_crash_changes_nothing_for_rows_that_wait(made: Waits, point: str) -> None:
    made.start(backlog=100)
    made.batch(1, 2, 70)
    made.after(9)
    try:
        with failing(point):
            found = made.after(1).batch(3, 800)
    except failpoints.InjectedFailure:
        made.run.stop()
        made.start(backlog=100)  # where nothing is at hand
        found = made.again()
    # What came with the last batch may have been published by the one that failed.
    assert found in (names(1, 2, 3, 70), [])
    out = [(r["k"], r["name"]) for t in made.run.published["out"].values() for r in t.to_pylist()]
    assert sorted(out) == names(1, 2, 3, 70)
    assert made.after(10).idle() == names(800)


@pytest.mark.parametrize("groups", [1, 3, 5])
def test_rows_wait_on_in_other_groups(groups: int, made: Waits) -> None:
    made.start(backlog=100)
    made.batch(*range(0, 1000, 40))
    made.run.stop()
    made.run.start(groups)
    assert made.batch(1) == []
    assert sum(led["rows"] for led in made.ledgers) == 26
    assert made.after(10).idle() == names(1, *range(0, 1000, 40))
    assert made.record["waitingRows"] == 0


def test_a_start_may_give_another_deadline(made: Waits) -> None:
    made.start(backlog=100)
    made.batch(1)
    made.run.stop()
    made.planned([{"from": "s"}, {**STEP, "deadline": "2 seconds"}])
    made.start(backlog=100)
    assert made.after(2).idle() == names(1)
    made.batch(70)
    made.run.stop()
    made.planned([{"from": "s"}, {**STEP, "deadline": "1 hour"}])
    made.start(backlog=100)
    made.clock.advance(3599 * SECOND)
    assert made.idle() == []
    assert made.after(1).idle() == names(70)


def test_with_a_microsecond_for_a_deadline_rows_leave_in_the_next_batch(made: Waits) -> None:
    """The way out for a checkpoint that has rows which wait, when none should wait any more."""
    made.start(backlog=100)
    made.batch(1)
    made.run.stop()
    made.planned([{"from": "s"}, {**STEP, "deadline": "1 microsecond"}])
    made.start(backlog=100)
    assert made.after(0.001).batch(70) == names(1)
    assert made.after(0.001).idle() == names(70)
    assert made.record["waitingRows"] == 0


def test_a_start_without_a_deadline_is_another_query(made: Waits) -> None:
    made.start()
    made.batch(1)
    made.run.stop()
    made.planned([{"from": "s"}, {k: v for k, v in STEP.items() if k != "deadline"}])
    with pytest.raises(SlackwaterError, match="rows wait by ts"):
        made.start()


def test_a_start_that_takes_the_table_into_memory_serves_all_rows(made: Waits) -> None:
    made.start()
    made.batch(1, 70)
    made.run.stop()
    made.start(memory=None, form="whole")
    assert made.idle() == names(1, 70)


def test_rows_that_wait_hold_bounds_back(tmp_path: Path) -> None:
    window = {"window": {"range": 5}, "by": ["name"], "agg": {"n": "count(*)"}}
    query = Waits(tmp_path, [*WAITS, window])
    query.table_of()
    query.start(backlog=100)
    for at in range(10):
        query.run.give({0: pa.table({"k": pa.array([1]), "ts": pa.array([at])})})
        query.run.step()
    assert not any(t.num_rows for t in query.run.published["out"].values())
    query.after(10).run.host.batches.append({})
    query.run.step()
    rows = [r for t in query.run.published["out"].values() for r in t.to_pylist()]
    assert [(r["name"], r["n"]) for r in rows] == [("n1", 5)]
    query.run.stop()


def test_a_flush_serves_all_rows(made: Waits) -> None:
    made.start()
    assert made.batch(1, 70) == []
    request_flush(made.run.checkpoint)
    assert made.idle() == names(1, 70)
    assert made.figures["reads"] == {"end": 2}


def test_copies_stay_while_rows_wait_for_them(tmp_path: Path) -> None:
    """The table is rewritten in place again and again: rows join the copy of their batch all the same, and then it goes."""
    query = Waits(tmp_path, backlog=100)
    query.table_of(3)
    copy = CopyUse(query.use.table, str(tmp_path / "copies"), 400, waits=True)  # type: ignore[arg-type]
    query.use = replace(query.use, copy=copy)
    query.start()
    assert query.batch(1) == []
    for number in range(8):
        query.table_of(3, f"v{number}-")
        assert query.batch(10_000) == [(10_000, None)]
    many = len(list((tmp_path / "copies").glob("copy-*")))
    assert query.after(10).idle() == names(1)
    for _ in range(8):
        query.batch(10_000)
    assert len(list((tmp_path / "copies").glob("copy-*"))) < many
    query.run.stop()


def test_a_table_of_several_files_has_rows_met_whole(tmp_path: Path) -> None:
    """A key may be in any segment of a table that is not sorted: all are read, and the row has all partners, once."""
    query = Waits(tmp_path, backlog=100)
    for number in range(3):
        query.table_of(2, f"t{number}-", f"{number}.parquet")
    query.start()
    assert query.batch(1, 60, 500) == [(500, None)]
    wanted = [(k, f"t{n}-{k}") for k in (1, 60) for n in range(3)]
    assert query.after(10).idle() == sorted(wanted, key=str)
    assert query.record["reads"] == 6
    query.run.stop()


def test_rows_that_waited_count_as_unmatched_when_they_leave(tmp_path: Path) -> None:
    steps = [{"from": "s"}, {**STEP, "where": "name <> 'n5'"}]
    query = Waits(tmp_path, steps, backlog=100)
    query.table_of()
    query.start()
    assert query.batch(5, 6, 10_000) == [(10_000, None)]
    assert query.record["unmatched"] == 1
    assert query.after(10).idle() == [(5, None), (6, "n6")]
    assert query.record["unmatched"] == 1
    query.run.stop()
