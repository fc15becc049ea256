"""A view that moves while the query runs: durable, exact on replay, and whole when it comes back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from slackwater.engine.driver.feedback import guard_lines
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.lowlevel import fused_scan
from slackwater.engine.lowlevel.fused import Dialect, Fused, query
from slackwater.engine.paths import delivery as delivery_module
from slackwater.engine.paths.batch import Batch
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.failpoints import FEEDBACK_POINTS, POINTS
from slackwater.engine.store.feedback_log import requests, state_of
from slackwater.engine.store.files import checksum, seal
from slackwater.engine.store.manifest import document_of
from slackwater.errors import CheckpointError
from slackwater.kernels import column_engine
from slackwater.model.node import Dedup, Filter, Node, Union
from slackwater.model.schema import Field
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.feedback.text import parsed
from slackwater.testing.clock import ManualClock
from slackwater.testing.feedback import frozen, in_range
from slackwater.testing.local.run import failing, scratch_folder
from slackwater.testing.transcripts.join import build_join
from slackwater.testing.transcripts.query import aggregate, expression, project
from tests.engine.feedback.viewport import Viewed, plan_of, rows, said, source, view

EARLY = {"lock.taken", "epoch.written", "query.written", "compact.before"}
"""Points that a run comes to once, or long before the fourth time."""
ELSEWHERE = {"publish.rename"}
"""What only a sink of files comes to; tests/faults kills queries there."""


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as made:
        yield made


@pytest.fixture(scope="module")
def reference() -> list[dict[str, Any]]:
    with scratch_folder() as made:
        run = Viewed(made)
        run.give(rows())
        run.run.start()
        run.all()
        run.run.stop()
        return run.rows()


MOVES = {2: (2, 5), 5: (4, 7), 7: (0, 9)}
"""Before batch: the segments in view."""


def move(run: Viewed) -> None:
    low, high = MOVES[run.run.done]
    run.run.send(view(run.plan, low, high))


class Moving:
    """Sends a view before the batch in which it is wanted; one who fails while sending sends again."""

    def __init__(self) -> None:
        self.sent: set[int] = set()

    def through(self, run: Viewed) -> None:
        run.run.start()
        try:
            while run.run.done < len(run.run.host.batches):
                at = run.run.done
                if at in MOVES and at not in self.sent:
                    move(run)
                    self.sent.add(at)
                run.step()
            run.step(final=True)
        finally:
            run.run.stop()


def check(run: Viewed, reference: list[dict[str, Any]]) -> None:
    plan = run.plan
    all_said = [view(plan, *m).feedback for m in MOVES.values() if m != (0, 9)]
    assert in_range(run.rows(), reference, [f for f in all_said if f is not None])
    for batch, table in run.run.published["map"].items():
        low, high = next((MOVES[b] for b in sorted(MOVES, reverse=True) if b <= batch), (0, 9))
        assert all(low <= r["segment"] <= high for r in table.to_pylist()), batch
    # In view from beginning to end: none is missing, none is twice.
    steady = [r for r in reference if 4 <= r["segment"] <= 5]
    got = [r for r in run.rows() if 4 <= r["segment"] <= 5]
    assert sorted(map(repr, map(frozen, got))) == sorted(map(repr, map(frozen, steady)))
    # What was out of view comes back, whole.
    after = {r["wid"] for b, t in run.run.published["map"].items() if b >= 9 for r in t.to_pylist()}
    assert any(r["segment"] == 0 for r in run.rows() if r["wid"] in after)


@pytest.mark.parametrize("point", sorted({*POINTS, *FEEDBACK_POINTS} - ELSEWHERE))
def test_a_moving_view_survives_a_crash_at_every_step(
    point: str, folder: Path, reference: list[dict[str, Any]]
) -> None:
    run, moving = Viewed(folder, splits=len(point) % 2 == 0), Moving()
    run.give(rows())
    hit = 1 if point in EARLY else 2 if point in FEEDBACK_POINTS else 4
    with pytest.raises(failpoints.InjectedFailure), failing(f"{point}@{hit}"):
        moving.through(run)
    moving.through(run)
    check(run, reference)


def _break_off(run: Viewed) -> None:
    """Fail in the batch that takes in the first view."""
    run.give(rows(batches=4))
    run.run.start()
    run.step()
    run.run.send(view(run.plan, 2, 5))
    with pytest.raises(failpoints.InjectedFailure), failing("job.after"):
        run.step()
    run.run.stop()


def test_a_batch_that_is_tried_again_takes_no_later_request(folder: Path) -> None:
    """The intent says what stands; a request that comes between the two tries waits."""
    run = Viewed(folder)
    _break_off(run)
    run.run.send(view(run.plan, 6, 7))
    run.run.start()
    done = run.step()
    assert [s.id for s in state_of(done).standing] == [1]
    done = run.step()
    assert [s.id for s in state_of(done).standing] == [2]
    run.run.stop()


def test_a_repeated_batch_with_other_guards_is_refused(folder: Path) -> None:
    run = Viewed(folder)
    run.give(rows(batches=3))
    run.run.start()
    run.step()
    run.run.send(view(run.plan, 2, 5))
    with pytest.raises(failpoints.InjectedFailure), failing("job.after"):
        run.step()
    intent = manifests.read_intent(run.run.checkpoint, 1)
    assert intent is not None and intent.feedback["guards"][1]
    intent.feedback["guards"][1] = "another"
    manifests.write_intent(run.run.checkpoint, intent)
    run.run.stop()
    run.run.start()
    with pytest.raises(CheckpointError, match="other guards"):
        run.step()
    run.run.stop()


@pytest.mark.parametrize(("first", "then"), [("source", "output"), ("off", "source")])
def test_a_repeated_batch_acts_as_far_down_as_it_did(first: Any, then: Any, folder: Path) -> None:
    """A start may say otherwise: it counts from the next batch on."""
    run = Viewed(folder)
    run.run.reach = first
    _break_off(run)
    run.run.reach = then
    run.run.start()
    acted = [set(run.step().progress["feedback"]["places"]) for _ in range(2)]
    run.run.stop()
    assert [("cars" in a) for a in acted] == [(r == "source") for r in (first, then)]


def test_requests_are_taken_once_and_their_numbers_are_not_given_again(folder: Path) -> None:
    run = Viewed(folder)
    run.give(rows(batches=2))
    run.run.start()
    assert [run.run.send(view(run.plan, 1, 2)) for _ in range(3)] == [1, 2, 3]
    done = run.step()
    assert state_of(done).read == 3 and [s.id for s in state_of(done).standing] == [3]
    for name in os.listdir(run.run.checkpoint.control):
        os.unlink(run.run.checkpoint.control / name)
    assert run.run.send(view(run.plan, 1, 3)) == 4
    assert [s.id for s in state_of(run.step()).standing] == [4]
    run.run.stop()


def test_files_that_are_no_requests_are_set_aside_and_reported(folder: Path) -> None:
    run = Viewed(folder)
    run.give(rows(batches=3))
    run.run.start()
    run.step()
    control = Path(str(run.run.checkpoint.control))
    number = run.run.send(view(run.plan, 2, 5))
    path = control / f"feedback-{number:06d}.json"
    path.write_bytes(path.read_bytes().replace(b"segment", b"segmenT"))
    (control / "feedback-000002.json").write_bytes(b"")
    (control / "notes.txt").write_text("of somebody else")
    (control / "feedback-0000003.json").write_text("of somebody else, beside our third")
    run.run.send(view(run.plan, 4, 5))
    other = said("~{n < 3}", run.plan)
    run.run.send(Request("send", "nowhere", "x", other))
    done = run.step()
    shown = done.progress["feedback"]
    assert [r["file"] for r in shown["refused"]] == [
        "feedback-000001.json", "feedback-000002.json", "feedback-000004.json",
    ]  # fmt: skip
    assert (
        "checksum" in shown["refused"][0]["reason"] and "nowhere" in shown["refused"][2]["reason"]
    )
    assert [s["id"] for s in shown["standing"]] == [3]
    names = sorted(p.name for p in control.iterdir())
    assert "damaged-feedback-000001.json" in names and "notes.txt" in names
    assert "feedback-000001.json" not in names
    run.step()
    run.run.stop()


@pytest.mark.parametrize(
    ("type", "test"),
    [
        ("bigint", []),
        ("bigint", [[[1]], False]),
        (5, [[[1, 2]], False]),
        ("text", [[[1, 2]], False]),
    ],
)
def test_a_sealed_request_whose_tests_are_none_is_set_aside(
    type: Any, test: Any, folder: Path
) -> None:
    """It ended the query, and whoever asked what stands got Python's own error."""
    run = Viewed(folder)
    run.give(rows(batches=2))
    run.run.start()
    run.step()
    asked = {
        "intent": "assumed",
        "columns": [["segment", type, False, False]],
        "records": [{"segment": test}],
    }
    document = {
        "format": 1, "number": 1, "ask": "send", "output": "map", "name": "x", "lease": None, "feedback": asked,
    }  # fmt: skip
    control = Path(str(run.run.checkpoint.control))
    (control / "feedback-000001.json").write_bytes(seal(document, kind="feedback"))
    assert [n for n, _ in requests(run.run.checkpoint, 0).refused] == ["feedback-000001.json"]
    done = run.step()
    assert [r["file"] for r in done.progress["feedback"]["refused"]] == ["feedback-000001.json"]
    assert not state_of(done).standing
    run.run.stop()


def test_sealed_files_whose_content_no_request_has_are_set_aside(folder: Path) -> None:
    """Each ended the query, and every start after that."""
    run = Viewed(folder)
    run.give(rows(batches=3))
    run.run.start()
    run.step()
    control = Path(str(run.run.checkpoint.control))
    far = {"format": 1, "number": 1, "ask": "retract", "target": float("inf")}
    (control / "feedback-000001.json").write_bytes(seal(far, kind="feedback"))
    deep = b'{"number":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    (control / "feedback-000002.json").write_bytes(
        deep + f"\ncrc32 {checksum(deep):08x}\n".encode()
    )
    (control / "feedback-000003.json").symlink_to("feedback-000003.json")
    done = run.step()
    assert [r["file"] for r in done.progress["feedback"]["refused"]] == [
        "feedback-000001.json", "feedback-000002.json",
    ]  # fmt: skip
    assert run.run.send(view(run.plan, 2, 5)) == 4, "a name that is taken is not given"
    assert state_of(run.step()).standing
    run.run.stop()


def test_a_lease_ends_by_the_clock_and_is_renewed(folder: Path) -> None:
    clock = ManualClock(1_000_000)
    run = Viewed(folder, clock=clock)
    run.give(rows(batches=6))
    run.run.start()
    sent = run.run.send(view(run.plan, 2, 5, lease=10))
    assert [s.until for s in state_of(run.step()).standing] == [1_000_010]
    clock.advance(9)
    run.run.send(Request("renew", target=sent))
    assert [s.until for s in state_of(run.step()).standing] == [1_000_019]
    clock.advance(9)
    assert state_of(run.step()).standing
    clock.advance(1)
    done = run.step()
    assert not state_of(done).standing and state_of(done).shades
    run.run.stop()


def test_without_a_clock_a_lease_goes_by_the_newest_time(folder: Path) -> None:
    run = Viewed(folder)
    run.give(rows(batches=8))
    run.run.start()
    run.run.send(view(run.plan, 2, 5, lease=9))
    standing = [bool(state_of(run.step()).standing) for _ in range(8)]
    # The first batch knows no time: the lease begins with the second. Batches are four ticks apart.
    assert standing == [True, True, True, True, False, False, False, False]
    run.run.stop()


@pytest.mark.spec("FC-F20")
def test_a_record_ends_when_the_bound_of_its_output_passes_it(folder: Path) -> None:
    run = Viewed(folder)
    run.give(rows(batches=8))
    run.run.start()
    old = said("~{wid < 3}", run.plan)
    run.run.send(Request("send", "map", "old", old))
    standing = [bool(state_of(run.step()).standing) for _ in range(8)]
    assert standing[0] and not standing[-1] and standing == sorted(standing, reverse=True)
    assert {r["wid"] for r in run.rows()} and min(r["wid"] for r in run.rows()) == 3
    run.run.stop()


def test_what_a_start_declares_stands_until_one_no_longer_does(folder: Path) -> None:
    run = Viewed(folder)
    run.give(rows(batches=6))
    only = view(run.plan, 2, 5).feedback
    assert only is not None
    run.run.feedback = {"map": [only]}
    for _ in range(2):
        run.run.start()
        done = run.step()
        assert [(s.id, s.batch) for s in state_of(done).standing] == [(0, 0)]
        run.run.stop()
    run.run.feedback = {}
    run.run.start()
    done = run.step()
    assert not state_of(done).standing and state_of(done).shades
    run.run.stop()


@pytest.mark.spec("FC-F47")
def test_a_batch_that_brings_only_feedback_runs(folder: Path) -> None:
    run = Viewed(folder)
    run.give(rows(batches=2))
    run.run.start()
    run.step()
    run.step()
    assert run.step().batch == 1  # nothing new: no batch
    run.run.send(view(run.plan, 2, 5))
    assert run.step().batch == 3
    assert run.step().batch == 3
    run.run.stop()


@pytest.mark.spec("FC-F32", "FC-F39")
@pytest.mark.parametrize("end", [3, 5])
def test_a_window_that_appears_is_whole(
    end: int, folder: Path, reference: list[dict[str, Any]]
) -> None:
    """After a view was given up, windows that lack rows stay dark; the first that comes is as it would have been.

    An operator keeps back what rows of one batch only are missing of: it acts in the batch in which it passes feedback on.
    """
    run = Viewed(folder)
    run.give(rows())
    run.run.start()
    run.all({2: lambda r: r.run.send(view(r.plan, 4, 5)), end: lambda r: r.run.send(
        Request("retract", target=1))})  # fmt: skip
    run.run.stop()
    whole = {frozen(r) for r in reference}
    got = [r for r in run.rows() if not 4 <= r["segment"] <= 5]
    assert all(frozen(r) in whole for r in got)
    dark = state_of(run.manifests[end]).shades
    assert dark and not state_of(run.manifests[-1]).shades
    back = [r for b, t in run.run.published["map"].items() if b > end for r in t.to_pylist()]
    assert any(not 4 <= r["segment"] <= 5 for r in back)


def test_manifests_and_intents_without_feedback_have_no_word_of_it(folder: Path) -> None:
    run = Viewed(folder)
    run.give(rows(batches=1))
    run.run.start()
    done = run.step()
    assert "feedback" not in document_of(done) and "feedback" not in done.progress
    intent = manifests.read_intent(run.run.checkpoint, 0)
    assert intent is not None and "feedback" not in intent.decisions()
    run.run.stop()


def test_row_groups_inside_a_record_are_not_opened(folder: Path) -> None:
    """Rows are sorted by segment within a file, so that most groups of four rows lie outside of the view."""
    run = Viewed(folder, plan_of(), splits=True)
    # None is late, or its group would have to be read.
    given = [t.filter(pc.greater_equal(t["ts"], 4 * n - 2)) for n, t in enumerate(rows())]
    run.give(given)
    run.run.start()
    run.run.send(view(run.plan, 4, 4))
    run.all(end=False)
    run.run.stop()
    unread = [m.progress["feedback"]["notRead"]["rows"] for m in run.manifests]
    assert sum(unread) > sum(t.num_rows for t in given) / 3
    assert sum(m.progress["streams"]["cars"]["numInputRows"] for m in run.manifests) == sum(
        t.num_rows for t in given
    )


@pytest.mark.spec("FC-F33")
@pytest.mark.parametrize("null", ["", " OR IS NULL"])
def test_a_record_on_a_value_guards_final_results(
    null: str, folder: Path, reference: list[dict[str, Any]]
) -> None:
    """A maximum below 60 may still rise, and all rows are counted: nothing is dropped but what comes out."""
    run = Viewed(folder)
    run.give(rows())
    run.run.start()
    run.run.send(Request("send", "map", "low", said(f"~{{peak < 60{null}}}", run.plan)))
    run.all()
    run.run.stop()
    wanted = [r for r in reference if r["peak"] >= 60]
    assert len(wanted) < len(reference)
    assert sorted(map(repr, map(frozen, run.rows()))) == sorted(map(repr, map(frozen, wanted)))
    places = run.manifests[-1].progress["feedback"]["places"]
    assert "cars" not in places and places["out:map"]["totalRowsDropped"] + sum(
        p["totalRowsDropped"] for n, p in places.items() if n.startswith("aggregate")
    ) == len(reference) - len(wanted)


def pairs() -> Node:
    """A join whose inputs are cut down on the way, by statements."""
    stream = source()
    some = Filter(stream.schema, stream.times, stream, expression("v > 20", stream.schema))
    moved = project(stream, {"ts": "ts + 1", "segment": "segment", "w": "v + 1"})
    inputs = [{"as": "l", "from": some}, {"as": "r", "from": moved}]
    step = {"join": inputs, "keys": ["segment"], "band": {"before": 1, "after": 1}}
    return build_join(step, lambda node: node, expression)


def once() -> Node:
    stream = source()
    return Dedup(stream.schema, stream.times, stream, ("segment", "ts"), None, "ts")


def united() -> Node:
    stream = source()
    moved = project(stream, {"ts": "ts + 1", "segment": "segment", "v": "v + 1"})
    some = Filter(stream.schema, stream.times, stream, expression("v > 50", stream.schema))
    step = {"window": {"range": 6, "slide": 3}, "by": ["segment"], "agg": {"n": "count(*)"}}
    return aggregate(Union(stream.schema, stream.times, (moved, some)), step)


PLANS: dict[str, Callable[[], Plan]] = {
    "windows": plan_of,
    **{
        made.__name__: lambda made=made: passed(
            build([Output("map", made())], ansi=True, zone="UTC"), Written()
        )
        for made in (pairs, once, united)
    },
}


def texts_of(
    folder: Path, patch: pytest.MonkeyPatch, plan: Plan, *, splits: bool, feedback: bool
) -> list[list[str]]:
    """The statements of the column engine, batch by batch, without the folder's name; and what the JVM would get of rows."""
    seen: list[str] = []

    def noting(run: Callable[..., Any]) -> Callable[..., Any]:
        def noted(con: Any, sql: str, *others: Any, **more: Any) -> Any:
            seen.append(sql.replace(str(folder), "here"))
            return run(con, sql, *others, **more)

        return noted

    patch.setattr(fused_scan, "scan_to_arrow", noting(column_engine.scan_to_arrow))
    patch.setattr(delivery_module, "sql_to_arrow", noting(column_engine.sql_to_arrow))
    run = Viewed(folder, plan, splits=splits)
    run.give(rows())
    run.run.start()
    job = run.run.host.run_job

    def with_text_of_the_jvm(frame: Any, batch: Batch, *others: Any) -> Any:
        for path in batch.plan.paths:
            operator = batch.plan.operator(path.consumer)
            if operator is not None and operator.spec is not None:
                fused = Fused.of(batch.plan, path.id, batch.guards)
                groups, items, relation = query(batch, fused, "the rows", Dialect(False))
                seen.append("\n".join([*groups, *items, relation]))
        return job(frame, batch, *others)

    if not splits:
        patch.setattr(run.run.host, "run_job", with_text_of_the_jvm)
    by_batch = []
    while run.run.done < len(run.run.host.batches):
        if feedback and run.run.done == 1:
            run.run.send(view(run.plan, 4, 5))
        if feedback and run.run.done == 2:
            run.run.send(Request("retract", target=1))
        del seen[:]
        run.step()
        by_batch.append(list(seen))
    run.run.stop()
    return by_batch


@pytest.mark.spec("FC-F57")
@pytest.mark.parametrize("splits", [True, False], ids=["splits", "rows"])
@pytest.mark.parametrize("name", PLANS)
def test_where_no_feedback_acts_every_statement_is_the_same(
    name: str, splits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    for feedback in (False, True):
        with scratch_folder() as made:
            plan = PLANS[name]()
            runs.append(texts_of(made, monkeypatch, plan, splits=splits, feedback=feedback))
    without, with_feedback = runs
    assert all(without)
    assert without[0] == with_feedback[0] and without[-3:] == with_feedback[-3:]
    assert without[1] != with_feedback[1], "the guard is in the text"
    assert not any("_gone" in text or "NOT (" in text for texts in without for text in texts)


@pytest.mark.spec("FC-F76")
@pytest.mark.parametrize(
    ("reach", "places", "less", "unread"),
    [
        ("off", set(), False, False),
        ("output", {"out:map"}, False, False),
        ("operators", {"out:map", "aggregate", "cars"}, True, False),
        ("source", {"out:map", "aggregate", "cars"}, True, True),
    ],
)
def test_how_far_feedback_travels_is_a_setting(
    reach: Any,
    places: set[str],
    less: bool,
    unread: bool,
    folder: Path,
    reference: list[dict[str, Any]],
) -> None:
    """From the first batch on: what comes out is the same from "output" on, what is dropped where is not."""
    run = Viewed(folder)
    run.run.reach = reach
    run.give(rows())
    run.run.start()
    run.run.send(view(run.plan, 4, 5))
    run.all()
    run.run.stop()
    wanted = [r for r in reference if reach == "off" or 4 <= r["segment"] <= 5]
    assert sorted(map(repr, map(frozen, run.rows()))) == sorted(map(repr, map(frozen, wanted)))
    acted = run.manifests[-1].progress["feedback"]["places"]
    assert {n.split("-")[0] for n in acted} == places
    # What reaches the aggregate, and what is not opened.
    batches = [m.progress for m in run.manifests]
    came = sum(o["rowsIn"] for p in batches for o in p["operators"].values())
    whole = sum(p["streams"]["cars"]["numInputRows"] for p in batches)
    assert (came < whole / 2) == less
    assert any(p["feedback"].get("notRead", {}).get("rows") for p in batches) == unread


@pytest.mark.spec("FC-F18")
@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (Field("segment", "int"), "is bigint, and it was sent as int"),
        (Field("lane", "bigint"), "has not what it tests: lane"),
    ],
)
def test_a_request_must_fit_the_output_that_it_is_about(
    field: Field, reason: str, folder: Path
) -> None:
    """A query that was started anew may have other columns than the one that a request was written for."""
    run = Viewed(folder)
    run.give(rows(batches=1))
    run.run.start()
    other = parsed(f"~{{{field.name} < 3}}", Columns((field,)))
    run.run.send(Request("send", "map", "x", other))
    done = run.step()
    (refused,) = done.progress["feedback"]["refused"]
    assert reason in refused["reason"] and not state_of(done).standing
    run.run.stop()


def with_another(plan: Plan) -> Plan:
    """The same query with one more output, windows over the results of the first."""
    (first,) = plan.outputs
    step = {"window": {"range": 6, "slide": 6}, "by": ["segment"], "agg": {"m": "sum(n)"}}
    outputs = [first, Output("copy", first.node), Output("more", aggregate(first.node, step))]
    return passed(build(outputs, ansi=True, zone="UTC"), Written())


def test_one_more_reader_of_an_operator_ends_its_records(
    folder: Path, reference: list[dict[str, Any]]
) -> None:
    """It wants all rows of the operator, which has not got them: windows that lack some stay dark, for the new output, too."""
    run = Viewed(folder)
    run.give(rows())
    run.run.start()
    run.run.send(view(run.plan, 4, 5))
    for _ in range(4):
        run.step()
    run.run.stop()
    run.run.plan = with_another(run.plan)
    run.run.published.update(copy={}, more={})
    run.run.start()
    done = run.step()
    assert state_of(done).standing and state_of(done).shades
    while run.run.done < len(run.run.host.batches):
        done = run.step()
    assert not state_of(done).shades
    run.step(final=True)
    run.run.stop()
    whole = {frozen(r) for r in reference}
    assert all(4 <= r["segment"] <= 5 for r in run.rows())
    copied = run.rows("copy")
    assert all(frozen(r) in whole for r in copied)
    assert {r["segment"] for r in copied} == set(range(10))
    first = min(r["wid"] for r in copied if r["segment"] == 0)
    assert first > min(r["wid"] for r in copied), "its first windows lack rows, and stay dark"
    assert {frozen(r) for r in copied if r["wid"] >= first} == {
        frozen(r) for r in reference if r["wid"] >= first
    }


@pytest.mark.parametrize(
    "tests",
    [
        {},
        {"segment": [[["1) OR (1 = 1", None]], False]},
        {"segment": [[[1.5, None]], False]},
        {"segment": [[[True, None]], False]},
        {"segment": [["x"], False]},
        {"segment": [[[5, 7], [1, 3]], False]},
        {"segment": [[[5, 2]], False]},
        {"segment": [[[5, 7]], "x"]},
        {"n": [[[5, 7]], False]},
        {"segment`; DROP": [[[1, None]], False]},
        {"window.start') OR ('": [[[1, None]], False]},
    ],
)
def test_a_request_of_names_and_values_alone_is_taken(tests: Any, folder: Path) -> None:
    """Whatever a sealed file says, nothing of it is run."""
    run = Viewed(folder)
    run.give(rows(batches=1))
    run.run.start()
    good = view(run.plan, 2, 5)
    assert good.feedback is not None
    document = good.to_json()
    document["feedback"]["records"] = [tests]
    data = seal({"format": 1, "number": 1, **document}, kind="feedback")
    (Path(str(run.run.checkpoint.control)) / "feedback-000001.json").write_bytes(data)
    done = run.step()
    assert len(done.progress["feedback"]["refused"]) == 1 and not state_of(done).standing
    run.run.stop()


def test_guards_that_are_in_place_are_shown(folder: Path) -> None:
    run = Viewed(folder)
    run.give(rows(batches=2))
    run.run.start()
    plan = run.run.loop.query.plan
    assert guard_lines(plan, run.step(), "source") == []
    run.run.send(view(run.plan, 4, 5))
    done = run.step()
    run.run.stop()
    first, *lines = guard_lines(plan, done, "source")
    assert first == "view on output map: ~{segment < 4 OR >= 6 OR IS NULL}"
    (operator,) = plan.operators
    assert [line.split(": ")[0] for line in lines] == [
        f"cars -> {operator.id}, behind 0 step(s)",
        f"{operator.id} -> out:map, behind 1 step(s)",
        "out:map -> out:map, behind 1 step(s)",
    ]
    assert [": may drop" in line for line in lines] == [True, False, False]
    assert len(guard_lines(plan, done, "output")) == 1 + 2  # what was dark stays so up to T
