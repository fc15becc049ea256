"""Hundreds of records that stand from batch to batch: what is known of them is not worked out again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan import guards as guards_module
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.store.feedback_log import FeedbackState, state_of
from slackwater.engine.store.manifest import Manifest
from slackwater.kernels.translate import records as records_module
from slackwater.model.node import LATE_FIELDS, Late
from slackwater.semantics import feedback_rules
from slackwater.semantics.feedback import text
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.patterns import Pattern
from slackwater.testing.local.run import LocalInput, LocalRun
from slackwater.testing.transcripts.query import aggregate
from tests.engine.feedback.viewport import Viewed, rows, said, source
from tests.progress_schema import check_part


def test_a_batch_reads_and_writes_no_record_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Viewed(tmp_path, group=None)
    run.give(rows(batches=6, each=5))
    run.run.start()
    for first in range(0, 250, 50):
        tests = [f"segment = {-k - 1}, n = {k}" for k in range(first, first + 50)]
        feedback = said(" ".join(f"~{{{t}}}" for t in tests), run.plan)
        assert len(feedback.records) == 50
        run.run.send(Request("send", "map", f"view {first}", feedback))
    for _ in range(3):
        run.step()
    calls: Counter[str] = Counter()

    def counted(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return real(*given, **named)

        monkeypatch.setattr(owner, name, call)

    counted(Pattern, "from_json")
    counted(Pattern, "to_json")
    counted(records_module, "listing")
    counted(guards_module.sql, "can_test")
    counted(feedback_rules, "in_result_time")
    counted(text, "written")
    done = [run.step() for _ in range(2)]
    assert not calls, calls
    assert sum(len(s.feedback.records) for s in state_of(done[-1]).standing) == 250
    monkeypatch.undo()
    # What comes from disk is what was written, whoever reads it first.
    document = done[-1].feedback
    assert FeedbackState.from_json(document).to_json() == document
    run.run.stop()
    # Another start knows nothing of it, and goes on.
    run.run.start()
    assert state_of(run.step()).standing == state_of(done[-1]).standing
    run.run.stop()


@pytest.mark.spec("FC-F20")
def test_new_records_push_out_none_that_an_operator_has(tmp_path: Path) -> None:
    """An operator takes on a thousand. Were another one given up for a new one, its windows would stay dark for a while."""
    run = Viewed(tmp_path, group=None)
    run.give(rows(batches=6, each=40))
    run.run.start()

    def send(name: str, segments: Sequence[int]) -> int:
        """One record for each segment; no two of them can be made one."""
        tests = [f"segment = {s}, wid < {2000 + s}" for s in segments]
        feedback = said(" ".join(f"~{{{t}}}" for t in tests), run.plan)
        assert len(feedback.records) == len(segments)
        return run.run.send(Request("send", "map", name, feedback))

    far = list(range(-999, 0))
    for first in range(0, len(far), 60):
        send(f"far {first}", far[first : first + 60])
    send("near", [9])
    (stream,) = run.plan.sources
    (operator,) = run.plan.operators
    names = (stream.name, operator.id)

    def asserted(done: Manifest) -> list[set[Pattern]]:
        return [set(state_of(done).asserted[n]) for n in names]

    def beyond(done: Manifest) -> list[int | None]:
        return [done.progress["feedback"]["places"][n].get("recordsBeyond") for n in names]

    first = run.step()
    before = asserted(first)
    assert [len(a) for a in before] == [1000, 1000] and beyond(first) == [None, None]
    number = send("more", range(-1005, -1000))
    for _ in range(2):
        done = run.step()
        check_part("feedback", done.progress["feedback"])
        assert asserted(done) == before and not state_of(done).shades
        assert beyond(done) == [None, 5], "its input is not asked for more"
    run.run.send(Request("retract", target=number))
    done = run.step()
    assert asserted(done) == before and beyond(done) == [None, None]
    run.all()
    run.run.stop()
    assert {r["segment"] for r in run.rows()} == set(range(9))


def test_two_streams_of_which_the_same_ranges_are_given_up(tmp_path: Path) -> None:
    """One task reads both, the first row by row and the second in one statement, by lists that are equal."""
    streams = [replace(source(), name=name, input=i) for i, name in enumerate("ab")]
    step = {"window": {"range": 6, "slide": 3}, "by": ["segment"], "agg": {"n": "count(*)"}}
    outputs = [Output(s.name, aggregate(s, step)) for s in streams]
    late = Late((*streams[0].schema, *LATE_FIELDS), streams[0].times, streams[0])
    plan = passed(build([*outputs, Output("late", late)], ansi=True, zone="UTC"), Written())
    run = LocalRun(tmp_path, plan, [LocalInput(s.schema, True) for s in streams], tasks=1)
    for table in rows(batches=4):
        run.give({0: table, 1: table})
    run.start()
    kinds = [type(reading).__name__ for reading in run.loop.query.plan.readings]
    assert kinds == ["Scan", "FusedScan"]
    many = " ".join(f"~{{segment = {3 * k}, wid < {1000 + k}}}" for k in range(20))
    for name in "ab":
        run.send(Request("send", name, "view", said(many, plan, name)))
    for _ in range(4):
        run.step()
    run.stop()
    for name in "ab":
        found = {r["segment"] for t in run.published[name].values() for r in t.to_pylist()}
        assert found == {1, 2, 4, 5, 7, 8}
