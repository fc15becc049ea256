"""Random queries over random streams: kernels and semantics together against the oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.testing.executors.kernels import Plan, kernels
from slackwater.testing.strategies import cut, cuts, disordered
from slackwater.testing.transcripts.script import Observed, oracle, parse
from tests.examples import examples

POLICIES = [
    "ordered",
    "max_delay",
    {"bounded_delay": 5},
    {"bounded_rows": 3},
    {"ordered": True, "lag_limit": 15},
    {"bounded_delay": 2, "in_steps": 4, "idle_after": "4 seconds"},
    {"bounded_latency": 6},
    {"bounded_latency": 0, "in_steps": 5},
    {"bounded_delay": 3, "idle_after": "4 seconds", "future_guard": 30},
    {"max_delay": True, "future_guard": 30, "future": "side"},
]
AGGREGATES = {
    "n": "count(*)",
    "nv": "count(v)",
    "total": "sum(v)",
    "low": "min(v)",
    "high": "max(v)",
    "mean": "avg(v)",
    "spread": "var_samp(v)",
    "mix": "sum(v) - count(*)",
}


def window(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "range": draw(st.integers(1, 12)),
        "slide": draw(st.integers(1, 12)),
        "origin": draw(st.integers(-5, 5)),
    }


@st.composite
def pipelines(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A query over streams s and r, of operators that may follow each other."""
    steps: list[dict[str, Any]] = [{"from": "s"}]
    if draw(st.booleans()):
        steps.append({"where": "v > -5 OR v IS NULL"})
    if draw(st.booleans()):
        moved = draw(st.sampled_from(["ts", "ts + 3", "ts - 4"]))
        steps.append({"select": {"ts": moved, "k": "k", "v": "v * 2", "i": "i", "p": "p"}})
    if draw(st.booleans()):
        steps.append({"union": ["r"]})
    if draw(st.integers(0, 3)) == 0:
        steps.append(
            draw(
                st.sampled_from(
                    [
                        {"dedup": {"subset": ["k", "ts"]}},
                        {"dedup": {"subset": ["k"], "within": 4}},
                        {"sort": "ts"},
                    ]
                )
            )
        )
    by = draw(st.sampled_from([[], ["k"]]))
    if draw(st.integers(0, 4)):
        steps.append({"window": window(draw), "by": by, "agg": AGGREGATES})
        if draw(st.booleans()):
            steps.append(
                {"window": window(draw), "by": by, "agg": {"m": "count(*)", "sum": "sum(total)"}}
            )
    return steps


@st.composite
def scripts(draw: st.DrawFn) -> dict[str, Any]:
    streams = {}
    batches: dict[str, list[Any]] = {}
    for name in ("s", "r"):
        spec: dict[str, Any] = {
            "columns": {"ts": "bigint", "k": "string", "v": "bigint", "i": "bigint", "p": "string"},
            "time": "ts",
            "unit": "second",
            "progress": draw(st.sampled_from(POLICIES)),
            "late": draw(st.sampled_from(["admit", "drop"])),
            "order": "i",
        }
        if draw(st.booleans()):
            spec["partition"] = "p"
        streams[name] = spec
        rows = draw(disordered(min_rows=4, max_rows=25, max_delay=12, low=0, high=50))
        for row in rows:
            row["p"] = draw(st.sampled_from("xy"))
        if rows and draw(st.booleans()):
            rows[0]["ts"] = None
        batches[name] = cut(rows, draw(cuts(25, 4)))
    steps = []
    for i in range(max(len(b) for b in batches.values())):
        step: dict[str, Any] = {"rows": {n: b[i] for n, b in batches.items() if i < len(b)}}
        if tick := draw(st.integers(0, 9)):
            step["tick"] = tick
        if draw(st.integers(0, 6)) == 0:
            step["end"] = ["r"]
        steps.append(step)
    steps.append({"end": True})
    return {
        "name": "random",
        "streams": streams,
        "query": {"out": draw(pipelines()), "late": [{"late": "s"}]},
        "clock": 10,
        "script": steps,
    }


def canonical(seen: list[Observed]) -> list[Any]:
    def cell(v: Any) -> Any:
        if isinstance(v, float):
            return float(f"{v:.9g}")
        return (v["start"], v["end"]) if isinstance(v, dict) else v

    def rows(table: Any) -> list[Any]:
        return sorted(
            (
                tuple((k, tuple(v) if isinstance(v, tuple) else cell(v)) for k, v in r.items())
                for r in table
            ),
            key=repr,
        )

    return [
        (
            {n: rows(t) for n, t in o.outputs.items()},
            {n: rows(t) for n, t in o.late.items() if t},
            o.bounds,
        )
        for o in seen
    ]


@pytest.mark.spec("WQ-F42", "OO-F10", "WQ-F72")
@pytest.mark.parametrize("plan", ["panes", "wids", "buffered", "adaptive"])
@examples(25)
@given(text=scripts())
def test_random_queries(text: dict[str, Any], plan: Plan) -> None:
    transcript = parse(text)
    assert canonical(kernels(plan)(transcript)) == canonical(oracle(transcript))


@examples(25)
@given(
    rows=disordered(
        min_rows=6, max_rows=25, max_delay=25, low=0, high=80, keys=("a", "b", "c", None)
    ),
    places=cuts(25, 6),
    step=st.sampled_from(
        [
            {"dedup": {"subset": ["k", "ts"]}},
            {"dedup": {"subset": ["k", "ts"], "within": 4}},
            {"dedup": {"subset": ["k"], "within": 0}},
            {"dedup": {"subset": ["k"], "within": 4}},
            {"sort": "ts"},
        ]
    ),
    delay=st.integers(0, 8),
)
def test_dedup_and_sort_of_late_rows(rows: Any, places: Any, step: Any, delay: int) -> None:
    columns = {"ts": "bigint", "k": "string", "v": "bigint", "i": "bigint"}
    progress = {"bounded_delay": delay}
    text = {
        "name": "random",
        "streams": {"s": {"columns": columns, "time": "ts", "progress": progress}},
        "query": [{"from": "s"}, step],
        "script": [*({"rows": {"s": b}} for b in cut(rows, places)), {"end": True}],
    }
    transcript = parse(text)
    assert canonical(kernels("panes")(transcript)) == canonical(oracle(transcript))
