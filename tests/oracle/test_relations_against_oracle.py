"""Joins with a relation on the whole engine, against the oracle: kinds, versions, holding, cuts, groups and crashes at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.store import failpoints, kept
from slackwater.testing.executors.local import local_executor
from slackwater.testing.local.run import scratch_folder
from slackwater.testing.transcripts.script import Observed, oracle, parse
from tests.examples import examples

KEYS = st.one_of(st.none(), st.integers(0, 3))
POINTS = (*failpoints.POINTS, *failpoints.RELATION_POINTS)


@st.composite
def tables(draw: st.DrawFn) -> list[list[Any]]:
    """A version: keys may recur, and may be null."""
    rows = st.tuples(KEYS, st.sampled_from("ab"), st.one_of(st.none(), st.integers(0, 4)))
    return [list(r) for r in draw(st.lists(rows, min_size=1, max_size=5))]


@st.composite
def scripts(draw: st.DrawFn) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    row = st.tuples(KEYS, st.integers(0, 30), st.integers(0, 4))
    for number in range(draw(st.integers(2, 5))):
        step: dict[str, Any] = {"rows": {"s": [list(r) for r in draw(st.lists(row, max_size=5))]}}
        if number == 0 or draw(st.booleans()):
            step["relations"] = {"d": draw(tables())}
        steps.append(step)
        if draw(st.integers(0, 4)) == 0:
            steps.append({"crash": True})
    return [*steps, {"end": True}]


@st.composite
def lookups(draw: st.DrawFn) -> dict[str, Any]:
    step: dict[str, Any] = {"lookup": "d", "keys": [["k", "id"]], "as": "j"}
    step["how"] = draw(st.sampled_from(["inner", "left", "semi", "anti"]))
    if draw(st.booleans()):
        step["where"] = draw(st.sampled_from(["v > w", "w > 1", "v > 1"]))
    if draw(st.booleans()):
        step["only"] = "w > 0"
    if draw(st.booleans()):
        step["hold"] = draw(st.integers(0, 12))
    return step


WINDOW = {"window": {"range": 6, "slide": 3}, "by": ["v"], "agg": {"n": "count(*)", "t": "sum(v)"}}


FRONTS: dict[str, list[dict[str, Any]]] = {
    "rows": [],
    "filter": [{"where": "v < 4"}],
    "window": [{"window": {"range": 8, "slide": 4}, "by": ["k"], "agg": {"v": "max(v)"}}],
    "session": [{"window": {"session": 3}, "by": ["k"], "agg": {"v": "max(v)"}}],
    "sort": [{"sort": "ts"}],
    "dedup": [{"dedup": {"subset": ["k", "v"], "within": 6}}],
    "union": [{"where": "v > 1"}, {"union": [[{"from": "s"}, {"where": "v < 3"}]]}],
    "sorted union": [{"sort": "ts"}, {"union": [[{"from": "s"}, {"where": "v < 3"}]]}],
}
"""What rows come out of that are joined: an operator gives them in a later batch, and they meet the version of that."""


@st.composite
def queries(draw: st.DrawFn, fronts: Sequence[str] = tuple(FRONTS)) -> dict[str, Any]:
    """One join and what reads it: its rows, those without a partner, windows; one reader alone reduces rows as they are scanned."""
    step = draw(lookups())
    rows = [{"from": "s"}, *FRONTS[draw(st.sampled_from(fronts))], step]
    if draw(st.integers(0, 2)) == 0:
        return {"counts": [*rows, WINDOW]}
    made: dict[str, Any] = {"pairs": rows}
    if draw(st.booleans()):
        made["counts"] = [{"from": "pairs"}, WINDOW]
    if step["how"] in ("inner", "semi") and draw(st.booleans()):
        made["lost"] = [{"unmatched": "j"}]
    if draw(st.booleans()):
        made["again"] = [{"from": "pairs"}, {"lookup": "d", "keys": [["v", "id"]], "how": "left"}]
    return made


def transcript(query: dict[str, Any], script: list[dict[str, Any]]) -> Any:
    return parse(
        {
            "name": "random",
            "streams": {
                "s": {
                    "columns": {"k": "bigint", "ts": "bigint", "v": "bigint"},
                    "time": "ts",
                    "progress": {"bounded_delay": 4},
                }
            },
            "relations": {
                "d": {"columns": {"id": "bigint", "name": "string", "w": "bigint"}, "key": "id"}
            },
            "query": query,
            "script": script,
        }
    )


def shown(seen: Observed) -> Any:
    def plain(row: Any) -> str:
        # Of windows the number tells; sessions have none, and are told by their rows.
        return str([v if k != "window" else row.get("wid") for k, v in row.items()])

    return {name: sorted(map(plain, rows)) for name, rows in seen.outputs.items()}


@pytest.mark.spec("XJ-F57", "XJ-F58")
@given(
    queries(),
    scripts(),
    st.booleans(),
    st.sampled_from([(2, 3, 1), (1, 2)]),
    st.one_of(st.none(), st.sampled_from(POINTS)),
)
@examples(30)
def test_the_engine_gives_what_the_definition_says(
    query: dict[str, Any],
    script: list[dict[str, Any]],
    splits: bool,
    groups: tuple[int, ...],
    crash: str | None,
) -> None:
    made = transcript(query, script)
    wanted = oracle(made)
    executor = local_executor(
        splits=splits, groups=groups, crash=crash, crash_from=0, reached=set()
    )
    seen = executor(made)
    assert [s.message for s in seen if s.error] == []
    assert list(map(shown, seen)) == list(map(shown, wanted))


@pytest.mark.spec("XJ-F46")
@given(
    queries(),
    scripts(),
    st.booleans(),
    st.sampled_from([(2, 3, 1), (1, 2)]),
    st.one_of(st.none(), st.sampled_from(POINTS)),
    st.sampled_from([100, 3_000, 6_000, 1_000_000]),
)
@examples(25)
def test_a_table_in_segments_gives_what_the_definition_says(
    query: dict[str, Any],
    script: list[dict[str, Any]],
    splits: bool,
    groups: tuple[int, ...],
    crash: str | None,
    memory: int,
) -> None:
    """Whatever of it may stay in memory: nothing, a segment or two, all."""
    made = transcript(query, script)
    wanted = oracle(made)
    executor = local_executor(
        splits=splits, groups=groups, crash=crash, crash_from=0, reached=set(),
        relation_memory=memory,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patched, scratch_folder() as folder:
        patched.setenv(kept.LOCAL_DIRS, str(folder / "executor"))  # as workers of Spark have it
        seen = executor(made)
    assert [s.message for s in seen if s.error] == []
    assert list(map(shown, seen)) == list(map(shown, wanted))


@pytest.mark.spec("XJ-F46", "XJ-F57")
@given(
    queries(),
    scripts(),
    st.booleans(),
    st.sampled_from([(2, 3, 1), (1, 2)]),
    st.one_of(st.none(), st.sampled_from((*POINTS, *failpoints.COPY_POINTS))),
    st.sampled_from([None, 3_000, 1_000_000]),
    st.sampled_from([1, 30, 100, 10_000]),
)
@examples(25)
def test_a_table_that_is_copied_gives_what_the_definition_says(
    query: dict[str, Any],
    script: list[dict[str, Any]],
    splits: bool,
    groups: tuple[int, ...],
    crash: str | None,
    memory: int | None,
    theta: int,
) -> None:
    """Whole or in segments, wherever it is cut, and wherever a driver dies."""
    made = transcript(query, script)
    wanted = oracle(made)
    executor = local_executor(
        splits=splits, groups=groups, crash=crash, crash_from=0, reached=set(),
        relation_memory=memory, relation_theta=theta,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patched, scratch_folder() as folder:
        patched.setenv(kept.LOCAL_DIRS, str(folder / "executor"))  # as workers of Spark have it
        seen = executor(made)
    assert [s.message for s in seen if s.error] == []
    assert list(map(shown, seen)) == list(map(shown, wanted))


LATER: list[dict[str, Any]] = [
    {"relations": {"d": [[1, "a", 1]]}, "rows": {"s": [[1, 1, 2], [2, 2, 3]]}},
    {"relations": {"d": [[1, "b", 1], [2, "c", 1]]}, "rows": {"s": [[3, 30, 0]]}},
    {"end": True},
]


@pytest.mark.parametrize("form", ["whole", "segments", "copies"])
@pytest.mark.parametrize("front", ["window", "session", "sort", "sorted union"])
@pytest.mark.spec("XJ-F57")
def test_a_result_meets_the_version_of_the_batch_in_which_it_comes_out(
    front: str, form: str
) -> None:
    """Rows of the first batch come out of the operator in the second, after the table has changed."""
    step = {"lookup": "d", "keys": [["k", "id"]], "how": "left"}
    made = transcript({"pairs": [{"from": "s"}, *FRONTS[front], step]}, LATER)
    given = {"segments": {"relation_memory": 3_000}, "copies": {"relation_theta": 30}}
    seen = local_executor(splits=True, groups=(2,), **given.get(form, {}))(made)
    for observed in (seen, oracle(made)):
        names = [[(r["k"], r["name"]) for r in o.outputs.get("pairs", [])] for o in observed]
        at_once = [(1, "a"), (2, None)] if front == "sorted union" else []
        old = [n for n in names[0] if n in at_once]
        assert names[0] == old and {(1, "b"), (2, "c")} <= set(names[1])
