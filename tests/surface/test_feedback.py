"""Feedback from another process: what is sent, what is refused and how, and the command line. None of it needs Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import slackwater as sw
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.feedback_log import state_of
from slackwater.errors import AnalysisError, CheckpointError, ExecutionError, SlackwaterError
from slackwater.surface.cli.app import app
from slackwater.surface.feedback import shown
from slackwater.testing.clock import ManualClock
from slackwater.testing.feedback import in_range
from slackwater.testing.local.run import scratch_folder
from tests.engine.feedback.viewport import Viewed, plan_of, rows


@pytest.fixture
def run() -> Iterator[Viewed]:
    with scratch_folder() as folder:
        made = Viewed(folder, clock=ManualClock(1_000_000))
        made.give(rows(batches=4))
        made.run.start()
        made.step()
        yield made
        made.run.stop()


def place(run: Viewed) -> str:
    return str(run.run.checkpoint.location)


@pytest.mark.spec("FC-F12", "FC-F51")
def test_feedback_acts_on_the_next_batch_and_its_handle_ends_it(run: Viewed) -> None:
    query = sw.attach(place(run))
    sent = query.feedback(sw.only("segment BETWEEN 4 AND 6"), name="view", lease="10 minutes")
    assert (sent.id, sent.output, sent.name) == (1, "map", "view")
    assert [(f["id"], f["state"]) for f in query.feedbacks()] == [(1, "sent")]
    run.step()
    (standing,) = query.feedbacks()
    assert standing["state"] == "standing" and standing["sinceBatch"] == 1
    assert standing["records"] == "~{segment < 4 OR >= 7 OR IS NULL}"
    assert standing["until"] == "1970-01-01T00:10:01.000000Z"
    sent.renew()
    query.feedback("~{segment < 5, wid < 9}", name="other")
    done = run.step()
    assert [s.name for s in state_of(done).standing] == ["view", "other"]
    sent.retract()
    query.sent(3).retract()
    assert state_of(run.step()).standing == ()
    assert query.feedbacks() == []


@pytest.mark.spec("FC-F6")
@pytest.mark.parametrize(
    ("test", "ignored"),
    [
        ("< 5", [3, 4]),
        ("<= 5", [3, 4, 5]),
        ("> 5", [6, 7]),
        (">= 5", [5, 6, 7]),
        ("= 5", [5]),
        ("5", [5]),
        ("<> 5", [3, 4, 6, 7]),
        ("BETWEEN 4 AND 6", [4, 5, 6]),
        ("IN (3, 6)", [3, 6]),
        (">= 4 AND < 6 OR IS NULL", [4, 5, None]),
        ("IS NOT NULL", [3, 4, 5, 6, 7]),
    ],
)
def test_a_query_that_runs_leaves_out_exactly_the_rows_that_a_text_names(
    test: str, ignored: list[int | None]
) -> None:
    segments = [3, 4, 5, 6, 7, None]
    with scratch_folder() as folder:
        made = Viewed(folder, group=None)
        # The windows of all segments close at the end, long after the feedback came.
        for _ in range(2):
            made.give([pa.table({"segment": pa.array(segments, pa.int64()), "ts": [1] * 6, "v": [1] * 6})])  # fmt: skip
        made.run.start()
        sw.attach(place(made)).feedback(f"~{{segment {test}}}", lease="forever")
        made.all()
        left = {r["segment"]: r["n"] for r in made.rows()}
    assert left == {s: 2 for s in segments if s not in ignored}


def test_the_same_name_again_replaces_it(run: Viewed) -> None:
    query = sw.attach(place(run))
    for low in (1, 2, 3):
        query.feedback(sw.ignore(f"segment < {low}"), name="view", lease="forever")
    query.feedback("~[< 2, *, *, *, *]", lease="forever")
    assert [(s.id, s.name) for s in state_of(run.step()).standing] == [
        (3, "view"),
        (4, "feedback-4"),
    ]


def test_text_conditions_mean_what_the_records_say(run: Viewed) -> None:
    query = sw.attach(place(run))
    same = [
        query.feedback(what, lease="forever").feedback
        for what in (
            sw.ignore("segment >= 3 AND NOT (n <> 2)"), "~{segment >= 3, n = 2}", "~[>= 3, *, *, = 2, *]"
        )
    ]  # fmt: skip
    assert same[0] == same[1]
    with pytest.raises(AnalysisError, match="which has no single value"):
        query.feedback("~[*, *, = 2, *, *]", lease="forever")
    assert same[2].records == same[0].records


def test_what_stands_tells_how_many_rows_were_dropped_for_its_output() -> None:
    with scratch_folder() as folder:
        plan = plan_of(late=True)
        made = Viewed(folder, plan, splits=False)
        made.give(rows(batches=8))
        made.run.start()
        query = sw.attach(place(made))
        for output in ("map", "late"):
            query.feedback("~{segment < 4}", output=output, lease="forever")
        assert [f["rowsDropped"] for f in query.feedbacks()] == [{}, {}], (
            "sent, and not taken in yet"
        )
        made.all()
        of_map, of_late = (f["rowsDropped"] for f in query.feedbacks())
        (operator,) = plan.operators
        given = [r for t in rows(batches=8) for r in t.to_pylist() if r["segment"] < 4]
        late = state_of(made.manifests[-1]).dropped["out:late"]
        assert late and of_late["out:late"] == late and "out:late" not in of_map
        assert of_map["cars"] == of_late["cars"] <= len(given)
        assert operator.id not in of_late and set(of_map) <= {"cars", operator.id, "out:map"}
        (line,) = [t for t in shown(query.feedbacks()).splitlines() if "on the way to late" in t]
        assert f"cars {of_late['cars']:,}, out:late {late:,}" in line
        # An older version wrote no places.
        stored = made.run.checkpoint.open_query({})
        for output in stored["results"]["outputs"].values():
            del output["places"]
        made.run.checkpoint.update_query(stored)
        assert [f["rowsDropped"] for f in query.feedbacks()] == [{}, {}]
        made.run.stop()


BAD: list[Any] = [
    (sw.ignore("speed > 3"), {}, "COLUMN_NOT_FOUND", "segment, wid"),
    (sw.ignore("segment < 3"), {"output": "plan"}, "NO_OUTPUT", "its outputs are: map"),
    (sw.ignore("segment < 'a'"), {"lease": "forever"}, "BAD_FEEDBACK", "a value of type bigint"),
    (sw.ignore("n IN (1, 'a')"), {"lease": "forever"}, "BAD_FEEDBACK", "a value of type bigint"),
    (sw.ignore("segment < timestamp'2026-01-01'"), {"lease": "forever"}, "BAD_FEEDBACK", "a value of type bigint"),
    (sw.ignore("segment < n"), {"lease": "forever"}, "BAD_FEEDBACK", "compute it as a column"),
    (sw.ignore("segment < 2 OR abs(n) = 1"), {"lease": "forever"}, "BAD_FEEDBACK", "compute it"),
    (sw.ignore("1 = 1"), {"lease": "forever"}, "BAD_FEEDBACK", "test at least one column"),
    (sw.ignore("segment < 2 AND segment > 5"), {"lease": "forever"}, "BAD_FEEDBACK", "no value passes"),
    (sw.ignore(" OR ".join(f"(segment = {i} AND n = {i % 7} AND wid < {i})" for i in range(90))),
     {}, "TOO_MANY_RECORDS", "fewer ORs"),
    (sw.ignore("segment < 2"), {}, "NO_LEASE", 'lease="10 minutes"'),
    (sw.ignore("wid > 2"), {}, "NO_LEASE", "test wid or window.start or window.end with an upper end"),
    (sw.ignore("segment < 2 AND n > 3"), {}, "NO_LEASE", "Punctuation ends it: a pattern on segment"),
    (sw.ignore("segment < 2"), {"lease": "0 seconds"}, "BAD_DURATION", ""),
    (sw.ignore("segment < 2"), {"lease": "-1 minute"}, "BAD_DURATION", ""),
    (sw.ignore("segment < 2"), {"lease": 10}, "BAD_DURATION", ""),
    (sw.ignore("segment < 2"), {"lease": "forever", "name": " "}, "BAD_FEEDBACK", "give a text"),
    ("segment < 2", {"lease": "forever"}, "BAD_FEEDBACK", "sw.ignore(...) or sw.only(...)"),
    (3, {}, "BAD_FEEDBACK", "sw.ignore"),
    ("~{}", {"lease": "forever"}, "BAD_FEEDBACK", "columns are"),
    ("~[*, *, *, *, *]", {"lease": "forever"}, "BAD_FEEDBACK", "test at least one column"),
    ("~{segment ?? 3}", {"lease": "forever"}, "BAD_FEEDBACK", ""),
    (sw.ignore("segment = '\ud800'"), {"lease": "forever"}, "BAD_FEEDBACK", ""),
]  # fmt: skip


@pytest.mark.parametrize(("what", "others", "condition", "hint"), BAD)
def test_bad_feedback_is_refused_with_a_way_out(
    run: Viewed, what: Any, others: dict[str, Any], condition: str, hint: str
) -> None:
    with pytest.raises(SlackwaterError) as caught:
        sw.attach(place(run)).feedback(what, **others)
    assert caught.value.condition == condition
    assert caught.value.hint and hint in caught.value.hint
    assert sw.attach(place(run)).feedbacks() == [], "nothing was sent"


def test_a_text_is_shown_with_a_caret_at_the_fault(run: Viewed) -> None:
    with pytest.raises(AnalysisError) as caught:
        sw.attach(place(run)).feedback("~{segment >= 'x'}")
    assert caught.value.message.splitlines()[1:] == ["  ~{segment >= 'x'}", "               ^"]


UNREAD = [
    ("segment <", "something is missing after this", 8),
    ("segment < 3 AND", "something is missing after this", 12),
    ("(segment < 3", ") is missing after this", 11),
    ("segment < 3)", "this is not expected here", 11),
    ("segment < 3 OR\n n <", "something is missing after this", 18),
    ("segment = 'x", "this quote is not closed", 10),
    ("", "it is no SQL", None),
]


@pytest.mark.parametrize(("text", "fault", "at"), UNREAD)
def test_a_condition_is_shown_with_a_caret_at_the_fault(
    run: Viewed, text: str, fault: str, at: int | None
) -> None:
    """And with no word of whoever parses it."""
    with pytest.raises(AnalysisError) as caught:
        sw.attach(place(run)).feedback(sw.ignore(text), lease="forever")
    first, *lines = caught.value.message.splitlines()
    assert first == f"the condition is not understood: {fault}"
    shown_text = "  " + text.replace("\n", " ")
    assert lines == [shown_text, *([" " * (at + 2) + "^"] if at is not None else [])]


@pytest.mark.parametrize("what", [None, 3, ["segment < 2"], Ellipsis])
@pytest.mark.parametrize("said", [sw.ignore, sw.only])
def test_what_is_no_condition_is_refused_where_it_is_said(said: Any, what: Any) -> None:
    with pytest.raises(AnalysisError, match="is no condition") as caught:
        said(what)
    assert "SQL text or a Column" in str(caught.value.hint)


def test_what_a_hint_offers_is_taken(run: Viewed) -> None:
    """Each of the tests that a missing lease is told to add, and no punctuation that cannot come."""
    query = sw.attach(place(run))
    for time, end in [("wid", "9"), ("window.start", "9"), ("window.end", "9")]:
        assert query.feedback(sw.ignore(f"n > 3 AND {time} < {end}")).id
    with pytest.raises(AnalysisError) as caught:
        query.feedback(sw.ignore("n > 3 AND wid > 2"))
    assert "Punctuation" not in str(caught.value.hint), "a pattern is on columns of streams"


def test_leases_of_a_query_without_a_clock_are_in_the_unit_of_its_times() -> None:
    with scratch_folder() as folder:
        made = Viewed(folder)
        made.give(rows(batches=2))
        made.run.start()
        query = sw.attach(place(made))
        with pytest.raises(AnalysisError, match="no clock"):
            query.feedback("~{segment < 2}", lease="10 minutes")
        with pytest.raises(AnalysisError, match="not positive"):
            query.feedback("~{segment < 2}", lease=0)
        sent = query.feedback("~{segment < 2}", lease=7)
        assert sent.id == 1
        made.all()
        for late in (sent.renew, sent.retract):
            with pytest.raises(
                ExecutionError, match=r"feedback 1, 'feedback-1', has ended with it"
            ):
                late()
        assert len(list(Path(str(made.run.checkpoint.control)).glob("feedback-*"))) == 1
        with pytest.raises(ExecutionError, match="no more results"):
            query.feedback("~{segment < 2}", lease=7)
        made.run.stop()


def test_what_is_no_query_or_an_older_one_says_so(run: Viewed, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        sw.attach(str(tmp_path)).feedbacks()
    assert caught.value.condition == "NOT_A_CHECKPOINT"
    checkpoint: Checkpoint = run.run.checkpoint
    stored = checkpoint.open_query({})
    del stored["results"]
    checkpoint.update_query(stored)
    with pytest.raises(CheckpointError, match="older version") as caught:
        sw.attach(place(run)).feedback("~{wid < 3}")
    assert "restart the query once" in caught.value.hint


def test_all_who_send_at_once_get_numbers_of_their_own(run: Viewed) -> None:
    def one(n: int) -> int:
        return sw.attach(place(run)).feedback(f"~{{segment = {n}}}", lease="forever").id

    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(one, range(24)))
    assert sorted(numbers) == list(range(1, 25))
    assert len(state_of(run.step()).standing) == 24


def test_processes_that_send_at_once_all_count(run: Viewed) -> None:
    """They begin together, and hold the same numbers for free: nobody's request replaces another's."""
    code = (
        "import sys, slackwater as sw\n"
        f"query = sw.attach({place(run)!r})\n"
        "print('ready', flush=True), sys.stdin.readline()\n"
        "for n in range(8):\n"
        "    text = f'~{{segment = {8 * int(sys.argv[1]) + n}}}'\n"
        "    print(query.feedback(text, lease='forever').id, flush=True)"
    )
    senders = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for n in range(3)
    ]  # fmt: skip
    for sender in senders:
        assert sender.stdout is not None and sender.stdout.readline() == "ready\n"
    for sender in senders:
        assert sender.stdin is not None
        sender.stdin.write("go\n")
        sender.stdin.flush()
    numbers = [int(n) for sender in senders for n in sender.communicate()[0].split()]
    assert sorted(numbers) == list(range(1, 25))
    standing = state_of(run.step()).standing
    assert {str(s.feedback) for s in standing} == {f"~{{segment = {n}}}" for n in range(24)}


def test_another_process_needs_no_spark_and_takes_no_lock(run: Viewed) -> None:
    code = (
        "import sys, slackwater as sw\n"
        f"sw.attach({place(run)!r}).feedback(sw.only('segment < 3'), lease='1 minute')\n"
        "assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(state_of(run.step()).standing) == 1


def test_the_command_line_sends_lists_and_retracts(run: Viewed) -> None:
    def said(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["feedback", place(run), *arguments], catch_exceptions=False)
        assert done.exit_code == 0
        return done.stdout.strip()

    assert said("~{segment < 3}", "--lease", "10m", "--name", "low") == "1"
    assert json.loads(said("--only", "segment < 8", "--lease", "forever", "--json"))["id"] == 2
    run.step()
    assert "low  ~{segment < 3}  until 1970-01-01T00:10:01.000000Z" in said("--list")
    assert said("--renew", "1") == "1 renewed"
    assert said("--retract", "2") == "2 retracted"
    run.step()
    assert [f["id"] for f in json.loads(said("--list", "--json"))] == [1]
    for arguments in ([], ["--list", "--retract", "1"], ["--retract", "9"]):
        with pytest.raises(AnalysisError):
            CliRunner().invoke(app, ["feedback", place(run), *arguments], catch_exceptions=False)


def test_an_output_that_is_gone_takes_its_feedback_with_it() -> None:
    with scratch_folder() as folder:
        made = Viewed(folder, plan_of(late=True))
        made.give(rows(batches=4))
        made.run.start()
        sw.attach(place(made)).feedback("~{segment < 3}", output="late", lease="forever")
        assert len(state_of(made.step()).standing) == 1
        made.run.stop()
        fewer = plan_of()
        made.run.plan = fewer
        made.run.start()
        assert state_of(made.step()).standing == ()
        made.run.stop()


@pytest.mark.spec("FC-F14")
def test_a_library_function_tells_whether_a_reaction_was_correct(run: Viewed) -> None:
    sent = sw.attach(place(run)).feedback(sw.only("segment >= 4"), lease="forever")
    whole = [{"segment": s, "n": s} for s in (2, 3, 4, 5)]
    assert in_range(whole[2:], whole, sent.feedback) and in_range(whole, whole, sent.feedback)
    assert in_range(whole[:2], whole, sent.feedback).lost == tuple(whole[2:])
    other = [*whole, {"segment": 2, "n": 1}]
    assert in_range(other, whole, sent.feedback).created == (other[-1],)
