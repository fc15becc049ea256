"""Whole queries that run in order, as the baselines do: where that agrees with the definitions, and what it loses."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.baselines.in_order import InOrderMachine
from slackwater.errors import AnalysisError
from slackwater.model.node import Join, Source
from slackwater.testing.executors.kernels import KernelMachine
from slackwater.testing.oracle.nodes import Oracle
from slackwater.testing.strategies import cut, cuts, disordered
from slackwater.testing.transcripts.script import parse
from tests.examples import examples

Row = dict[str, Any]
AGG = {"n": "count(*)", "total": "sum(v)", "high": "max(v)", "mean": "avg(v)"}
COLUMNS = {"ts": "bigint", "k": "string", "v": "bigint", "i": "bigint"}


@st.composite
def shape(draw: st.DrawFn) -> Row:
    return {
        "range": draw(st.integers(1, 15)),
        "slide": draw(st.integers(4, 15)),
        "origin": draw(st.integers(-5, 5)),
    }


@st.composite
def queries(draw: st.DrawFn) -> list[Row]:
    steps: list[Row] = [{"from": "s"}]
    kind = draw(st.sampled_from(["plain", "union", "join", "joined union"]))
    if draw(st.booleans()):
        steps.append({"where": "v > -5 OR v IS NULL"})
    if draw(st.booleans()):
        steps.append({"select": {"ts": "ts + 3", "k": "k", "v": "v * 2", "i": "i"}})
    if kind == "union":
        steps.append({"union": ["r"]})
    elif kind != "plain":
        left = [*steps, {"union": ["r"]}] if kind == "joined union" else steps
        band = {"before": draw(st.integers(0, 6)), "after": draw(st.integers(0, 6))}
        steps = [{"join": [{"as": "a", "from": left}, {"as": "b", "from": "q"}], "band": band, "keys": ["k"]}]  # fmt: skip
        on = draw(st.sampled_from(["a_ts", "max"]))
        steps.append({"window": {**draw(shape()), "time": on}, "by": ["k"], "agg": {"n": "count(*)"}})  # fmt: skip
        return steps
    if draw(st.integers(0, 3)) == 0:
        # Between the inputs of a union no row is the first: those of one subset must be alike in what is summed.
        more = ["v"] if kind == "union" else []
        steps.append({"dedup": {"subset": ["k", "ts", *more]}})
    steps.append({"window": draw(shape()), "by": draw(st.sampled_from([[], ["k"]])), "agg": AGG})
    if draw(st.booleans()):
        steps.append({"window": draw(shape()), "by": [], "agg": {"m": "sum(n)", "w": "count(*)"}})
    return steps


def transcript(query: Any, streams: dict[str, list[list[Row]]], progress: Any) -> Any:
    count = max(len(b) for b in streams.values())
    script = [{"rows": {n: b[i] for n, b in streams.items() if i < len(b)}} for i in range(count)]
    one = {"columns": COLUMNS, "time": "ts", "progress": progress, "order": "i"}
    return parse(
        {
            "name": "random",
            "streams": dict.fromkeys(("s", "r", "q"), one),
            "query": query,
            "script": [*script, {"end": True}],
        }
    )


def totals(machine: Any, script: Any) -> Counter[Any]:
    """All rows over all batches."""
    found: Counter[Any] = Counter()
    read = {n.name for n in machine.nodes if isinstance(n, Source)}
    for step in script.batches:
        rows = {n: r for n, r in step.rows.items() if n in read}
        seen = machine.step(rows, step.now, step.end & read)
        for r in seen.outputs["out"]:
            shown = {k: v for k, v in r.items() if k != "window"}
            mean = shown.pop("mean", None)
            row = (*shown.items(), None if mean is None else round(mean, 9))
            found[row] += 1
    return found


STREAM = disordered(max_rows=10, max_delay=6, low=-10, high=15)
FEW_CUTS = cuts(10, 3).map(lambda places: places[:3])


@pytest.mark.spec("WQ-F93", "OO-F37")
@pytest.mark.parametrize("heartbeats", [False, True])
@given(
    query=queries(), rows=st.tuples(STREAM, STREAM, STREAM), places=FEW_CUTS,
    lag=st.sampled_from([0, 6]),
)  # fmt: skip
@examples(12)
def test_a_query_in_order_agrees_where_its_input_is_legal(heartbeats, query, rows, places, lag):
    """Sources in order, or not more out of order than their policy says, which is what a sort can mend."""
    made = {
        n: cut(r if lag else sorted(r, key=lambda r: r["ts"]), places)
        for n, r in zip("srq", rows, strict=True)
    }
    script = transcript(query, made, {"bounded_delay": 6} if lag else "ordered")
    nodes = {"out": script.outputs["out"].node}
    machine = InOrderMachine(nodes, heartbeats=heartbeats)
    got = totals(machine, script)
    assert got == totals(Oracle(nodes), script)
    assert machine.dropped == 0
    assert sum(b.held_rows for b in machine.buffers.values()) == 0
    assert sum(m.held_rows for m in machine.merges.values()) == 0


@pytest.mark.spec("WQ-F93")
def test_a_query_in_order_loses_what_its_sort_cannot_mend_and_waits_for_a_silent_input():
    query = [{"from": "s"}, {"union": ["r"]}, {"window": {"range": 10}, "by": [], "agg": {"n": "count(*)"}}]  # fmt: skip
    rows = [{"ts": t, "k": "a", "v": 1, "i": i} for i, t in enumerate([1, 5, 12, 3, 25, 31])]
    script = transcript(query, {"s": [[r] for r in rows], "r": []}, "ordered")
    nodes = {"out": script.outputs["out"].node}
    ours, theirs = KernelMachine(nodes, "panes"), InOrderMachine(nodes)
    state, held = [], []
    for step in script.batches[:-1]:
        ours.step(step.rows, None, step.end)
        theirs.step(step.rows, None, step.end)
        state.append(sum(t.num_rows for t in ours.kept.values()))
        held.append(theirs.held_rows)
    # The other input has not said a word: ours holds one number per window, theirs every row.
    assert state[-1] == 4 and held[-1] == 5 and theirs.dropped == 1
    last = [m.step({}, None, frozenset("srq")).outputs["out"] for m in (ours, theirs)]
    assert [(r["wid"], r["n"]) for r in last[0]] == [(0, 3), (1, 1), (2, 1), (3, 1)]
    assert [(r["wid"], r["n"]) for r in last[1]] == [(0, 2), (1, 1), (2, 1), (3, 1)]


def test_what_cannot_be_done_in_order_is_refused():
    window = {"range": 10, "time": "a_ts"}
    both = {
        "a": [{"join": [{"as": "a", "from": "s"}, {"as": "b", "from": "r"}], "band": {"before": 1, "after": 1}}],
        "out": [{"from": "a"}, {"window": window, "by": [], "agg": {"n": "count(*)"}}],
        "two": [{"from": "a"}, {"window": {"range": 10, "time": "b_ts"}, "by": [], "agg": {"n": "count(*)"}}],
    }  # fmt: skip
    outputs = transcript(both, {"s": [], "r": [[]]}, "ordered").outputs
    with pytest.raises(AnalysisError, match="a_ts"):
        InOrderMachine({n: outputs[n].node for n in ("out", "two")})
    InOrderMachine({"out": outputs["out"].node})
    rows = [{"from": "s"}, {"window": {"rows": 3}, "by": [], "agg": {"n": "count(*)"}}]
    with pytest.raises(AnalysisError, match="time windows"):
        InOrderMachine({"out": transcript(rows, {"s": [[]]}, "ordered").outputs["out"].node})


@pytest.mark.spec("WQ-F93")
def test_results_of_a_join_leave_in_order():
    """(14, 12) is made before (10, 13), and has to wait for it."""
    pair = [{"as": "a", "from": "s"}, {"as": "b", "from": "q"}]
    query = [
        {"join": pair, "band": {"before": 5, "after": 5}, "keys": ["k"]},
        {"window": {"range": 5, "time": "a_ts"}, "by": [], "agg": {"n": "count(*)"}},
    ]

    def row(ts: int) -> Row:
        return {"ts": ts, "k": "a", "v": 1, "i": ts}

    # In order the newest row of a source waits, for it may have its like; so each needs a later one behind it.
    times = {"s": [10, 14, 15, None, 40, 41], "q": [None, 12, 13, 30, 40, 41]}
    streams = {n: [[] if t is None else [row(t)] for t in ts] for n, ts in times.items()}
    script = transcript(query, streams, "ordered")
    machine = InOrderMachine({"out": script.outputs["out"].node})
    (join,) = [n for n in machine.nodes if isinstance(n, Join)]
    held, found = [], []
    for step in script.batches[:-1]:
        rows = {n: r for n, r in step.rows.items() if n != "r"}
        found += machine.step(rows, None, step.end).outputs["out"]
        waiting = machine.waiting[id(join)]
        held.append(sorted(zip(waiting["a_ts"].to_pylist(), waiting["b_ts"].to_pylist())))
    made = [(10, 12), (14, 12)]
    assert held[2] == made and held[3] == sorted([*made, (10, 13), (14, 13)])
    assert (10, 13) not in held[4]
    assert [(r["wid"], r["n"]) for r in found][:1] == [(2, 4)]
