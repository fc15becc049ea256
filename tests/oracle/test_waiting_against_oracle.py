"""Rows that wait for segments of a relation, on the whole engine, against the oracle: the same results, and none too late.

When a row comes out depends on what is at hand, which is no part of what the join means. So what has come out up to a batch is compared:
no more than the definition says, all of it that came a deadline ago, and all of it at the end.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.store import failpoints, kept
from slackwater.testing.executors.local import local_executor
from slackwater.testing.local.run import scratch_folder
from slackwater.testing.transcripts.script import Observed, Transcript, oracle, parse
from tests.examples import examples
from tests.oracle.test_relations_against_oracle import KEYS, POINTS, WINDOW, shown, tables

DEADLINES = (1, 3, 10)
DELAY = 4


@st.composite
def scripts(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows, versions, the clock and crashes. No row comes late: a window behind the join may still be open for it, since rows that
    wait hold bounds back.
    """
    steps: list[dict[str, Any]] = []
    newest = DELAY
    for number in range(draw(st.integers(2, 7))):
        row = st.tuples(KEYS, st.integers(newest - DELAY, newest + 6), st.integers(0, 4))
        rows = [list(r) for r in draw(st.lists(row, max_size=5))]
        newest = max([newest, *(r[1] for r in rows)])
        step: dict[str, Any] = {"rows": {"s": rows}}
        if ticks := draw(st.integers(0, 4)):
            step["tick"] = f"{ticks} microseconds"
        if number == 0 or draw(st.booleans()):
            step["relations"] = {"d": draw(tables())}
        steps.append(step)
        if draw(st.integers(0, 4)) == 0:
            steps.append({"crash": True})
    return [*steps, {"end": True}]


@st.composite
def queries(draw: st.DrawFn) -> dict[str, Any]:
    step: dict[str, Any] = {"lookup": "d", "keys": [["k", "id"]], "as": "j"}
    step["how"] = draw(st.sampled_from(["inner", "left", "semi", "anti"]))
    step["deadline"] = f"{draw(st.sampled_from(DEADLINES))} microseconds"
    if draw(st.booleans()):
        step["where"] = draw(st.sampled_from(["v > w", "w > 1", "v > 1"]))
    if draw(st.booleans()):
        step["only"] = "w > 0"
    rows = [{"from": "s"}, step]
    if draw(st.booleans()):
        rows.insert(1, {"where": "v < 4"})
    if draw(st.integers(0, 2)) == 0:
        return {"counts": [*rows, WINDOW]}
    made: dict[str, Any] = {"pairs": rows}
    if draw(st.booleans()):
        made["counts"] = [{"from": "pairs"}, WINDOW]
    if step["how"] in ("inner", "semi") and draw(st.booleans()):
        made["lost"] = [{"unmatched": "j"}]
    return made


def transcript(query: dict[str, Any], script: list[dict[str, Any]]) -> Transcript:
    return parse(
        {
            "name": "random",
            "clock": 0,
            "streams": {
                "s": {
                    "columns": {"k": "bigint", "ts": "bigint", "v": "bigint"},
                    "time": "ts",
                    "progress": {"bounded_delay": DELAY},
                }
            },
            "relations": {
                "d": {"columns": {"id": "bigint", "name": "string", "w": "bigint"}, "key": "id"}
            },
            "query": query,
            "script": script,
        }
    )


def so_far(seen: list[Observed]) -> list[dict[str, Counter[str]]]:
    """The rows of each output that are out after each batch."""
    known: dict[str, Counter[str]] = {}
    made = []
    for one in seen:
        known = {n: known.get(n, Counter()) + Counter(rows) for n, rows in shown(one).items()}
        made.append(known)
    return made


def check(made: Transcript, seen: list[Observed], deadline: int) -> None:
    assert [s.message for s in seen if s.error] == []
    wanted, found = so_far(oracle(made)), so_far(seen)
    times = [s.now or 0 for s in made.batches]
    for at, (now, all_of, out) in enumerate(zip(times, wanted, found, strict=True)):
        for name in out:
            assert out[name] <= all_of[name], (at, name)
        for name in set(out) & {"pairs", "lost"}:
            due = [w[name] for t, w in zip(times, wanted, strict=True) if t + deadline <= now]
            assert not due or due[-1] <= out[name], (at, name)
    assert found[-1] == wanted[-1]


def deadline_of(query: dict[str, Any]) -> int:
    (step,) = [s for s in next(iter(query.values())) if "deadline" in s]
    return int(step["deadline"].split()[0])


WAITING = st.fixed_dictionaries({"backlog": st.sampled_from([1, 2, 100]), "always": st.booleans()})


@given(
    queries(),
    scripts(),
    st.booleans(),
    st.sampled_from([(2, 3, 1), (1, 2)]),
    st.one_of(st.none(), st.sampled_from(POINTS)),
    st.sampled_from([100, 3_000, 6_000, 1_000_000]),
    WAITING,
)
@examples(40)
def test_rows_that_wait_give_what_the_definition_says(
    query: dict[str, Any],
    script: list[dict[str, Any]],
    splits: bool,
    groups: tuple[int, ...],
    crash: str | None,
    memory: int,
    waiting: dict[str, Any],
) -> None:
    """Whatever of the table may stay in memory, and whatever room there is to wait: none, that of some rows, any."""
    made = transcript(query, script)
    executor = local_executor(
        splits=splits, groups=groups, crash=crash, crash_from=0, reached=set(),
        relation_memory=memory, relation_waiting=waiting,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patched, scratch_folder() as folder:
        patched.setenv(kept.LOCAL_DIRS, str(folder / "executor"))  # as workers of Spark have it
        check(made, executor(made), deadline_of(query))


@given(
    queries(),
    scripts(),
    st.booleans(),
    st.sampled_from([(2, 3, 1), (1, 2)]),
    st.one_of(st.none(), st.sampled_from((*POINTS, *failpoints.COPY_POINTS))),
    st.sampled_from([None, 3_000, 1_000_000]),
    st.sampled_from([1, 30, 100]),
    WAITING,
)
@examples(25)
def test_rows_that_wait_for_a_copy_give_what_the_definition_says(
    query: dict[str, Any],
    script: list[dict[str, Any]],
    splits: bool,
    groups: tuple[int, ...],
    crash: str | None,
    memory: int | None,
    theta: int,
    waiting: dict[str, Any],
) -> None:
    """Whole, where the deadline changes nothing, or in segments, wherever it is cut."""
    made = transcript(query, script)
    executor = local_executor(
        splits=splits, groups=groups, crash=crash, crash_from=0, reached=set(),
        relation_memory=memory, relation_theta=theta, relation_waiting=waiting,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patched, scratch_folder() as folder:
        patched.setenv(kept.LOCAL_DIRS, str(folder / "executor"))  # as workers of Spark have it
        check(made, executor(made), deadline_of(query))
