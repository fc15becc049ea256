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
from tests.oracle.test_relations_against_oracle import FRONTS, KEYS, POINTS, WINDOW, shown, tables

DEADLINES = (1, 3, 10)
DELAY = 4


@st.composite
def scripts(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows, versions, the clock and crashes. No row comes late: a window behind the join may still be open for it, since rows that
    wait hold bounds back. The table ``e`` stays as it is: a row that comes out later meets a later version of what is joined behind.
    """
    steps: list[dict[str, Any]] = []
    newest = {"s": DELAY, "t": DELAY}
    for number in range(draw(st.integers(2, 7))):
        step: dict[str, Any] = {"rows": {}}
        for name, most in (("s", 5), ("t", 2)):
            after = newest[name]
            row = st.tuples(KEYS, st.integers(after - DELAY, after + 6), st.integers(0, 4))
            step["rows"][name] = [list(r) for r in draw(st.lists(row, max_size=most))]
            newest[name] = max([after, *(r[1] for r in step["rows"][name])])
        if ticks := draw(st.integers(0, 4)):
            step["tick"] = f"{ticks} microseconds"
        if number == 0 or draw(st.booleans()):
            step["relations"] = {"d": draw(tables())}
        if number == 0:
            step["relations"]["e"] = draw(tables())
        steps.append(step)
        if draw(st.integers(0, 4)) == 0:
            steps.append({"crash": True})
    return [*steps, {"end": True}]


def _join_behind(how: str) -> list[dict[str, Any]]:
    band = {"band": {"before": 3, "after": 2}}
    return [{"join": ["pairs", {"as": "o", "from": "t"}], "keys": ["k"], "how": how, **band}]


AGAIN = {"lookup": "e", "keys": [["v", "id"]], "how": "left"}
BEHIND: dict[str, list[dict[str, Any]]] = {
    "window": [{"from": "pairs"}, WINDOW],
    "session": [{"from": "pairs"}, {"window": {"session": 3}, "by": ["k"], "agg": {"n": "count(*)"}}],
    "sort": [{"from": "pairs"}, {"sort": True}],
    "second lookup": [{"from": "pairs"}, AGAIN],
    "second deadline": [{"from": "pairs"}, {**AGAIN, "deadline": "4 microseconds"}],
    "join": _join_behind("inner"),
    "left join": _join_behind("left"),
    "anti join": _join_behind("left_anti"),
}  # fmt: skip
"""What reads the rows that come out."""
OF_WINDOWS = {"window", "session"}
"""Fronts whose rows have a window for their time."""


def dedup_behind(front: str, how: str) -> list[dict[str, Any]]:
    """By all columns: of equal rows it makes no difference which comes first."""
    time = "window" if front in OF_WINDOWS else "ts"
    table = ["id", "name", "w"] if how in ("inner", "left") else []
    return [{"from": "pairs"}, {"dedup": {"subset": ["k", time, "v", *table]}}]


@st.composite
def queries(draw: st.DrawFn) -> dict[str, Any]:
    """A join whose rows wait, on what an operator gives in a later batch, too; and what reads it."""
    step: dict[str, Any] = {"lookup": "d", "keys": [["k", "id"]], "as": "j"}
    step["how"] = draw(st.sampled_from(["inner", "left", "semi", "anti"]))
    step["deadline"] = f"{draw(st.sampled_from(DEADLINES))} microseconds"
    if draw(st.booleans()):
        step["where"] = draw(st.sampled_from(["v > w", "w > 1", "v > 1"]))
    if draw(st.booleans()):
        step["only"] = "w > 0"
    front = draw(st.sampled_from(sorted(FRONTS)))
    rows = [{"from": "s"}, *FRONTS[front], step]
    if draw(st.integers(0, 4)) == 0:
        return {"counts": [*rows, WINDOW]}
    made: dict[str, Any] = {"pairs": rows}
    behind = {**BEHIND, "dedup": dedup_behind(front, step["how"])}
    # All but some, so that few examples have each of them often.
    for left_out in draw(st.sets(st.sampled_from(sorted(behind)), min_size=4, max_size=7)):
        del behind[left_out]
    made |= {name.replace(" ", "_"): more for name, more in behind.items()}
    if step["how"] in ("inner", "semi") and draw(st.booleans()):
        made["lost"] = [{"unmatched": "j"}]
    return made


def transcript(query: dict[str, Any], script: list[dict[str, Any]]) -> Transcript:
    return parse(
        {
            "name": "random",
            "clock": 0,
            "streams": {
                name: {
                    "columns": {"k": "bigint", "ts": "bigint", "v": "bigint"},
                    "time": "ts",
                    "progress": {"bounded_delay": DELAY},
                }
                for name in "st"
            },
            "relations": {
                name: {"columns": {"id": "bigint", "name": "string", "w": "bigint"}, "key": "id"}
                for name in "de"
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
    step = next(s for s in next(iter(query.values())) if "deadline" in s)
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
@examples(20)
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
@examples(15)
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
