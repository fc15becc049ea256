"""Random queries with joins: kernels, semantics and the engine's programs together against the oracle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.testing.executors import kernel_join
from slackwater.testing.executors.kernels import kernels
from slackwater.testing.strategies import cut, disordered
from slackwater.testing.transcripts.script import Observed, Transcript, load, oracle, parse, run
from tests.examples import examples
from tests.oracle.test_kernels_against_oracle import canonical

MEMORY = Path(__file__).parents[1] / "transcripts" / "join_memory.yaml"
DELAY = 12


def spans(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["band", "tumbling"]))
    if kind == "tumbling":
        return {"tumbling": {"range": draw(st.integers(1, 15)), "origin": draw(st.integers(-9, 9))}}
    before, after = draw(st.integers(-3, 12)), draw(st.integers(0, 12))
    return {"band": {"before": before, "after": after,
                     "closed": draw(st.sampled_from(["both", "left", "neither"]))}}  # fmt: skip


@st.composite
def scripts(draw: st.DrawFn, memory: int | None = None) -> dict[str, Any]:
    """Streams a and b, a join of them, and operators over it; with ``memory`` all rows are on time."""
    progress = [{"bounded_delay": DELAY}]
    if memory is None:
        progress += ["ordered", "max_delay", {"bounded_delay": 4}]
    how = draw(st.sampled_from(["inner", "left", "right", "full"]))
    step: dict[str, Any] = {"join": ["a", "b"], "how": how, **spans(draw)}
    if draw(st.integers(0, 3)):
        step["keys"] = draw(st.sampled_from([["k"], [["k", "k"]]]))
    if draw(st.booleans()):
        step["where"] = "a_v <= b_v OR b_v IS NULL"
    if memory is not None:
        step["memory"] = memory
    times = [
        None,
        "max",
        "min",
        *{"inner": ["a_ts", "b_ts"], "left": ["a_ts"], "right": ["b_ts"]}.get(how, []),
    ]
    window = {"range": draw(st.integers(1, 9)), "time": draw(st.sampled_from(times))}
    query = {
        "pairs": [step],
        "sums": [{"from": "pairs"}, {"window": window, "agg": {"n": "count(*)", "t": "sum(a_v)"}}],
        "ahead": [{"from": "pairs"}, {"select": {"x": "a_ts", "y": "b_ts", "v": "b_v"}},
                  {"window": {"range": 5, "slide": 3}, "agg": {"n": "count(v)"}}],
    }  # fmt: skip
    if draw(st.booleans()):
        twice: dict[str, Any] = {"join": ["a", {"as": "o", "from": "a"}], **spans(draw)}
        twice |= {"keys": ["k"], "how": draw(st.sampled_from(["inner", "full"]))}
        twice |= {} if memory is None else {"memory": memory}
        query["itself"] = [twice, {"select": {"x": "a_ts", "y": "o_ts", "v": "o_v"}}]
    if memory is None:
        query["again"] = [
            {"join": [{"as": "p", "from": "pairs"}, {"as": "c", "from": "b"}], "band": {"before": 2, "after": 3}}
        ]  # fmt: skip
    batches: dict[str, list[Any]] = {}
    streams = {}
    for name in ("a", "b"):
        rows = draw(disordered(min_rows=3, max_rows=16, max_delay=DELAY, low=0, high=40))
        for row in rows:
            row["ts"] += 25 * (name == "b") * draw(st.sampled_from([0, 0, 1]))
        if memory is not None:
            rows = _on_time(rows)
        batches[name] = cut(rows, draw(st.lists(st.integers(0, 16), min_size=1, max_size=3)))
        streams[name] = {
            "columns": {"ts": "bigint", "k": "string", "v": "bigint"},
            "time": "ts",
            "progress": draw(st.sampled_from(progress)),
            "late": draw(st.sampled_from(["admit", "drop"])),
        }
    rounds = max(len(b) for b in batches.values())
    steps: list[dict[str, Any]] = [
        {"rows": {n: b[i] for n, b in batches.items() if i < len(b)}} for i in range(rounds)
    ]
    if draw(st.booleans()):
        steps[-1]["end"] = ["b"]
    return {"name": "random", "streams": streams, "query": query, "script": [*steps, {"end": True}]}


def _on_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    newest, kept = -(10**9), []
    for row in rows:
        if row["ts"] >= newest - DELAY:
            kept.append(row)
        newest = max(newest, row["ts"])
    return kept


@pytest.mark.spec("OO-F17", "OO-F36", "WQ-F62")
@examples(25)
@given(text=scripts())
def test_random_joins(text: dict[str, Any]) -> None:
    transcript = parse(text)
    assert canonical(kernels("panes")(transcript)) == canonical(oracle(transcript))


def totals(transcript: Transcript, seen: list[Observed]) -> dict[str, Counter[Any]]:
    return {
        name: Counter(tuple(r[c] for c in o.columns) for s in seen for r in s.outputs[name])
        for name, o in transcript.outputs.items()
    }


@pytest.mark.spec("XJ-F02", "XJ-F87")
@pytest.mark.parametrize("memory", [1, 300, 2000])
@examples(8)
@given(data=st.data())
def test_random_joins_in_little_memory_and_windows_over_them(
    data: st.DataObject, memory: int
) -> None:
    transcript = parse(data.draw(scripts(memory)))
    found = totals(transcript, kernels("panes")(transcript))
    assert found == totals(transcript, oracle(transcript))


def test_without_the_hold_windows_close_before_their_pairs_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transcript = load(MEMORY)
    run(transcript, kernels("panes"))
    forgetful = property(lambda self: None, lambda self, hold: None)
    monkeypatch.setattr(kernel_join.KernelJoin, "hold", forgetful, raising=False)
    with pytest.raises(AssertionError, match="all batches: output 'sums'"):
        run(transcript, kernels("panes"))
