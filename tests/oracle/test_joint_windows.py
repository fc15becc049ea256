"""Groups on the windows of several times of a join's results, against the oracle."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.semantics import frontier as rule
from slackwater.testing.kernel_executor import kernels
from slackwater.testing.strategies import cut, disordered
from slackwater.testing.transcripts import Observed, Transcript, oracle, parse
from tests.oracle.test_joins_against_oracle import _on_time, spans
from tests.oracle.test_kernels_against_oracle import canonical

DELAY = 6
AGG = {"n": "count(*)", "t": "sum(a_v)", "m": "max(b_v)"}


@pytest.fixture(autouse=True, scope="module")
def _quick_files():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slackwater.kernels.join_blocks.os.fsync", lambda fd: None)
        yield


def window(draw: st.DrawFn, time: str) -> dict[str, Any]:
    size = draw(st.integers(1, 6))
    slide = draw(st.sampled_from([size, size, 2, 3]))
    return {"range": size, "slide": slide, "origin": draw(st.integers(-3, 3)), "time": time}


def over(draw: st.DrawFn, times: list[str]) -> list[dict[str, Any]]:
    """A group-by on several times, and its windows' ends as columns."""
    wanted = draw(st.permutations(times))[: draw(st.integers(2, 3))]
    step: dict[str, Any] = {"windows": [window(draw, t) for t in wanted], "agg": AGG}
    shown = {f"e{i}": f"{t}_window.end" for i, t in enumerate(wanted)} | {n: n for n in AGG}
    if draw(st.booleans()):
        step["by"] = ["k"]
        shown["k"] = "k"
    return [step, {"select": shown}]


@st.composite
def scripts(draw: st.DrawFn, memory: int | None = None) -> dict[str, Any]:
    """A join of a and b, group-bys on several of its times, straight and through row operators and unions."""
    how = "inner" if memory is not None else draw(st.sampled_from(["inner", "inner", "left"]))
    join: dict[str, Any] = {"join": ["a", "b"], "how": how, "keys": ["k"], **spans(draw)}
    if memory is not None:
        join["memory"] = memory
    times = ["max", "min", *(["a_ts", "b_ts"] if how == "inner" else ["a_ts"])]
    query: dict[str, Any] = {
        "pairs": [join],
        "sums": [{"from": "pairs"}, *over(draw, times)],
    }
    if how == "inner":
        move = draw(st.integers(-4, 4))
        moved = {"k": "k", "x": f"a_ts + {move}" if move >= 0 else f"a_ts - {-move}",
                 "y": "b_ts", "a_v": "a_v", "b_v": "b_v"}  # fmt: skip
        query["moved"] = [
            {"from": "pairs"}, {"where": "a_v <> 3 OR b_v IS NULL"}, {"select": moved},
            *over(draw, ["x", "y"]),
        ]  # fmt: skip
        if memory is None:
            other = {"join": ["b", "a"], "keys": ["k"], **spans(draw)}
            same = {"k": "k", "x": "a_ts", "y": "b_ts", "a_v": "a_v", "b_v": "b_v"}
            query["both"] = [
                {"from": "pairs"}, {"select": same},
                {"union": [[other, {"select": same}]]}, *over(draw, ["x", "y"]),
            ]  # fmt: skip
    batches: dict[str, list[Any]] = {}
    streams = {}
    for name in ("a", "b"):
        rows = draw(disordered(min_rows=3, max_rows=12, max_delay=DELAY, low=0, high=24))
        if memory is not None:
            rows = _on_time(rows)
        batches[name] = cut(rows, draw(st.lists(st.integers(0, 12), min_size=1, max_size=4)))
        policies = [{"bounded_delay": 12}] if memory else [{"bounded_delay": DELAY}, "ordered"]
        streams[name] = {
            "columns": {"ts": "bigint", "k": "string", "v": "bigint"},
            "time": "ts",
            "progress": draw(st.sampled_from(policies)),
        }
    rounds = max(len(b) for b in batches.values())
    steps: list[dict[str, Any]] = [
        {"rows": {n: b[i] for n, b in batches.items() if i < len(b)}} for i in range(rounds)
    ]
    if draw(st.booleans()):
        steps[-1]["end"] = ["b"]
    return {"name": "random", "streams": streams, "query": query, "script": [*steps, {"end": True}]}


@pytest.mark.spec("WQ-F61", "OO-F20")
@settings(max_examples=40, deadline=None)
@given(text=scripts())
def test_random_group_bys_on_several_times(text: dict[str, Any]) -> None:
    transcript = parse(text)
    assert canonical(kernels("panes")(transcript)) == canonical(oracle(transcript))
