"""What a join's ``late`` counts: rows that may have missed partners, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slackwater.engine.operators.bounded_join import BoundedJoinProgram
from slackwater.engine.operators.join import JoinProgram
from slackwater.engine.operators.program import StateStep
from slackwater.engine.progress.recall import LateResults
from slackwater.testing.executors.kernels import kernels
from slackwater.testing.executors.local import local_executor
from slackwater.testing.transcripts.script import parse


def counted(
    monkeypatch: pytest.MonkeyPatch,
    join: dict[str, Any],
    batches: list[dict[str, list[list[Any]]]],
    columns: tuple[str, ...] = ("ts",),
) -> list[int]:
    """The ``late`` of each batch of a join of streams a and b, which are in order."""
    found: list[int] = []
    for program in (JoinProgram, BoundedJoinProgram):

        def watched(
            self: JoinProgram, *arguments: Any, step: Callable[..., StateStep] = program.step
        ) -> StateStep:
            done = step(self, *arguments)
            found.append(done.late)
            return done

        monkeypatch.setattr(program, "step", watched)
    stream = {"columns": dict.fromkeys(columns, "bigint"), "time": "ts", "progress": "ordered"}
    text = {
        "name": "late",
        "streams": {"a": stream, "b": stream},
        "query": [{"join": ["a", "b"], **join}],
        "script": [{"rows": rows} for rows in batches],
    }
    kernels("panes")(parse(text))
    return found


MEMORY = pytest.mark.parametrize(
    "memory", [{}, {"memory": 200}], ids=["in memory", "in little memory"]
)


@MEMORY
def test_rows_below_their_own_bound_count(
    monkeypatch: pytest.MonkeyPatch, memory: dict[str, int]
) -> None:
    batches = [{"b": [[10], [1000]]}, {"a": [[12], [40]]}, {"a": [[39], [40], [41]], "b": [[9]]}]
    # a is far behind and on time; then 39 and 9 come below the bounds, 40 and 1000.
    band = {"band": {"before": 5, "after": 5}}
    assert counted(monkeypatch, {**band, **memory}, batches) == [0, 0, 2]


def test_in_a_tumbling_join_rows_of_closed_windows_count(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [{"a": [[17]], "b": [[25]]}, {"a": [[16], [10], [9]], "b": [[21], [19]]}]
    assert counted(monkeypatch, {"tumbling": 10}, batches) == [0, 2]


@MEMORY
def test_a_row_with_a_null_key_misses_nothing(
    monkeypatch: pytest.MonkeyPatch, memory: dict[str, int]
) -> None:
    batches: list[dict[str, list[list[Any]]]] = [
        {"a": [[20, 1]], "b": [[20, 1]]},
        {"a": [[9, 1], [9, None]]},
    ]
    join = {"keys": ["k"], "band": {"before": 5, "after": 5}, **memory}
    assert counted(monkeypatch, join, batches, ("ts", "k")) == [0, 1]


@pytest.mark.spec("OO-F31")
@pytest.mark.parametrize("late", ["admit", "drop", "raise"])
@pytest.mark.parametrize("how", ["left", "full", "left_anti"])
def test_under_no_setting_a_late_row_is_said_to_be_alone(late: str, how: str) -> None:
    stream = {"columns": {"k": "bigint", "ts": "bigint"}, "time": "ts", "progress": "ordered"}
    text = {
        "name": "late",
        "streams": {"a": {**stream, "late": late}, "b": {**stream, "late": late}},
        "query": [{"join": ["a", "b"], "keys": ["k"], "tumbling": 10, "how": how}],
        "script": [
            {"rows": {"a": [[1, 3], [1, 20]], "b": [[1, 5], [2, 20]]}},
            {"rows": {"a": [[1, 6], [3, 21]], "b": [[1, 8]]}},
            {"end": True},
        ],
    }
    seen = kernels("panes")(parse(text))
    if late == "raise":
        assert [s.error for s in seen] == [None, "LATE_ROW"]
        assert not seen[1].outputs.get("out")
        return
    assert [[(r["k"], r["ts"]) for r in s.late["a"]] for s in seen] == [[], [(1, 6)], []]
    alone = {r["a_ts"] if how != "left_anti" else r["ts"] for s in seen for r in s.outputs["out"]}
    assert alone - {None} == ({20, 21} if how == "left_anti" else {3, 20, 21})


def test_rows_that_find_what_is_kept_for_a_recall_target_miss_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Rows are kept for five ticks longer than bounds ask for.
    monkeypatch.setattr(LateResults, "kept", lambda self, bounds: [b - 5 for b in bounds])
    batches = [{"a": [[40]], "b": [[40]]}, {"a": [[36], [34]]}]
    band = {"band": {"before": 5, "after": 5}}
    assert counted(monkeypatch, band, batches) == [0, 1]
    stream = {"columns": {"ts": "bigint"}, "time": "ts", "progress": "ordered"}
    query = {"out": [{"join": ["a", "b"], **band}], "lates": [{"late": "a"}]}
    script = [{"rows": rows} for rows in batches]
    text = {"name": "late", "streams": {"a": stream, "b": stream}, "query": query, "script": script}
    seen = local_executor(groups=(1,))(parse(text))[1].outputs["lates"]
    assert {r["ts"]: r["_late_windows"] for r in seen} == {36: 0, 34: 1}
