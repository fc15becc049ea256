"""Hundreds of records that stand from batch to batch: what is known of them is not worked out again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.plan import guards as guards_module
from slackwater.engine.store.feedback_log import FeedbackState, state_of
from slackwater.kernels.translate import records as records_module
from slackwater.semantics import feedback_rules
from slackwater.semantics.feedback import text
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.patterns import Pattern
from tests.engine.feedback.viewport import Viewed, rows, said


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
