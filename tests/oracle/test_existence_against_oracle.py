"""Random queries with semi and anti joins against the oracle: on the kernels, and on the engine through failures."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.paths.batch import Settings
from slackwater.engine.store import failpoints
from slackwater.testing.executors.kernels import kernels
from slackwater.testing.executors.local import local_executor
from slackwater.testing.strategies import cut, disordered
from slackwater.testing.transcripts.script import Observed, oracle, parse
from tests.examples import examples
from tests.oracle.test_joins_against_oracle import spans
from tests.oracle.test_kernels_against_oracle import canonical

DELAY = 8
NAMES = ["semi", "leftsemi", "left_semi", "anti", "leftanti", "left_anti"]
WHERES = [
    None,
    "a_v <= b_v OR b_v IS NULL",
    "a_ts <= b_ts",
    "1 = 1",
    {"function": "rising"},
]


@st.composite
def scripts(draw: st.DrawFn) -> dict[str, Any]:
    """Streams a and b, a join that asks for existence, and operators over it."""
    step: dict[str, Any] = {"join": ["a", "b"], "how": draw(st.sampled_from(NAMES)), **spans(draw)}
    if draw(st.integers(0, 3)):
        step["keys"] = draw(st.sampled_from([["k"], [["k", "k"]]]))
    where = draw(st.sampled_from(WHERES))
    if where is not None:
        step["where"] = where
    window = {"range": draw(st.integers(1, 9)), "time": draw(st.sampled_from([None, "ts"]))}
    query: dict[str, Any] = {
        "rows": [step],
        "sums": [{"from": "rows"}, {"window": window, "by": ["k"], "agg": {"n": "count(*)", "t": "sum(v)"}}],
    }  # fmt: skip
    above = draw(st.integers(0, 4))
    if above == 0:
        query["sorted"] = [{"from": "rows"}, {"sort": "ts"}]
    elif above == 1:  # a join over the rows, whose label is the left stream's
        more = {"how": draw(st.sampled_from(["inner", "left", "left_anti"]))}
        query["again"] = [
            {"join": ["rows", {"as": "c", "from": "b"}], **spans(draw), "where": "a_v < c_v", **more}
        ]  # fmt: skip
    elif above == 2:  # a stream that is asked about itself
        other = {"as": "o", "from": "a"}
        query["itself"] = [
            {"join": ["a", other], "keys": ["k"], "how": "semi", "where": "a_v < o_v", **spans(draw)}
        ]  # fmt: skip
    elif above == 3:
        query["once"] = [{"from": "rows"}, {"dedup": {"subset": ["k", "ts", "v"]}}]
    streams, batches = {}, {}
    for name in ("a", "b"):
        rows = draw(disordered(min_rows=3, max_rows=12, max_delay=DELAY, low=0, high=30))
        for row in rows:
            row["ts"] += 20 * (name == "b") * draw(st.sampled_from([0, 0, 1]))
        batches[name] = cut(rows, draw(st.lists(st.integers(0, 12), min_size=1, max_size=4)))
        streams[name] = {
            "columns": {"ts": "bigint", "k": "string", "v": "bigint"},
            "time": "ts",
            "progress": draw(
                st.sampled_from(
                    [{"bounded_delay": DELAY}, {"bounded_delay": 2}, "ordered", "max_delay"]
                )
            ),
            "late": draw(st.sampled_from(["admit", "drop"])),
        }
    steps: list[dict[str, Any]] = [
        {"rows": {n: b[i] for n, b in batches.items() if i < len(b)}}
        for i in range(max(map(len, batches.values())))
    ]
    if draw(st.booleans()):
        steps[-1]["end"] = [draw(st.sampled_from(["a", "b"]))]
    if draw(st.booleans()):
        query["late"] = [{"late": draw(st.sampled_from(["a", "b"]))}]
    return {"name": "random", "streams": streams, "query": query, "script": [*steps, {"end": True}]}


@examples(40)
@given(text=scripts())
def test_random_queries_on_the_kernels(text: dict[str, Any]) -> None:
    transcript = parse(text)
    assert canonical(kernels("panes")(transcript)) == canonical(oracle(transcript))


@examples(10)
@given(text=scripts(), splits=st.booleans(), first=st.sampled_from([0, None]))
def test_random_queries_on_the_engine_through_failures(
    text: dict[str, Any], splits: bool, first: int | None
) -> None:
    # A failure at every point that the run comes to, each time with another number of groups; state is merged often.
    transcript = parse(text)
    executor = local_executor(
        splits=splits,
        groups=(2, 3, 1, 5),
        crash=tuple(failpoints.POINTS),
        crash_from=first,
        reached=set(),
        settings=Settings(compact_runs=1),
    )
    assert rows_of(executor(transcript)) == rows_of(oracle(transcript))


def rows_of(seen: list[Observed]) -> list[Any]:
    """What came out in each step."""
    return [rows for rows, _, _ in canonical(seen)]
