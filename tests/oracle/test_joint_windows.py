"""Groups on the windows of several times of a join's results, against the oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.semantics import frontier as rules
from slackwater.testing.executors import kernel_join
from slackwater.testing.executors.kernels import kernels
from slackwater.testing.strategies import cut, disordered
from slackwater.testing.transcripts.script import Transcript, load, oracle, parse
from tests.examples import examples
from tests.oracle.on_engine import check_on_engine, shortened
from tests.oracle.test_joins_against_oracle import MEMORY, _on_time, spans, totals
from tests.oracle.test_kernels_against_oracle import canonical

QUICK = (Phase.explicit, Phase.generate)  # a script of many parts shrinks for minutes
DELAY = 6
AGG = {"n": "count(*)", "t": "sum(a_v)", "m": "max(b_v)"}


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


@st.composite
def single(draw: st.DrawFn) -> dict[str, Any]:
    """A script with one of its group-bys alone, which makes many examples cheap."""
    text = draw(scripts())
    query = dict(text["query"])
    pairs = query.pop("pairs")
    name = draw(st.sampled_from(sorted(query)))
    return {**text, "query": {name: [*pairs, *query[name][1:]]}}


@pytest.mark.spec("WQ-F61", "WQ-F63", "OO-F20", "OO-F22")
@examples(60, phases=QUICK)
@given(text=single(), groups=st.sampled_from([1, 1, 2]))
def test_random_group_bys_on_several_times(text: dict[str, Any], groups: int) -> None:
    check_on_engine(parse(shortened(text)), groups)


@examples(5)
@given(text=scripts())
def test_random_group_bys_on_several_times_by_kernels_alone(text: dict[str, Any]) -> None:
    transcript = parse(text)
    assert canonical(kernels("panes")(transcript)) == canonical(oracle(transcript))


@pytest.mark.parametrize("memory", [1, 400])
@examples(4)
@given(data=st.data())
def test_random_group_bys_on_several_times_of_a_join_in_little_memory(
    data: st.DataObject, memory: int
) -> None:
    transcript = parse(data.draw(scripts(memory)))
    found = totals(transcript, kernels("panes")(transcript))
    assert found == totals(transcript, oracle(transcript))


STREAM = {"columns": {"k": "string", "ts": "bigint", "v": "bigint"}, "time": "ts"}
Groups = list[list[tuple[Any, ...]]]


def script(join: dict[str, Any], times: list[str], batches: list[dict[str, Any]]) -> Transcript:
    """A join with windows of 2 on some of its times; batches give times by stream, all of one key."""
    windows = [{"range": 2, "time": t} for t in times]
    shown = {t: f"{t}_window.end" for t in times} | {"n": "n"}
    steps = [{"windows": windows, "agg": {"n": "count(*)"}}, {"select": shown}]
    rows = [{"rows": {s: [["k", t, 0] for t in ts] for s, ts in b.items()}} for b in batches]
    streams = {s: {**STREAM, "progress": "ordered"} for s in join["join"]}
    return parse(
        {"name": "t", "streams": streams, "query": {"out": [{"keys": ["k"], **join}, *steps]},
         "script": [*rows, {"end": True}]}
    )  # fmt: skip


def came(transcript: Transcript, *, checked: bool = True) -> Groups:
    """The groups that come out, by batch; the oracle says the same."""
    seen = kernels("panes")(transcript)
    if checked:
        assert canonical(seen) == canonical(oracle(transcript))
    return [sorted(tuple(r.values()) for r in o.outputs["out"]) for o in seen]


WIDE = {"join": ["a", "b"], "band": {"before": 6, "after": 6}}
BATCHES = [{"a": [0, 2], "b": [1, 3]}, {"a": [8], "b": [8]}, {"a": [16], "b": [16]}]
ALL = [(2, 2, 1), (2, 4, 1), (4, 2, 1), (4, 4, 1)]


@pytest.mark.spec("WQ-F63", "OO-F22")
def test_a_group_on_the_pair_closes_before_either_time_would_let_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Both bounds are at 8: no later result has both times below, though rows from 2 on may find partners.
    transcript = script(WIDE, ["a_ts", "b_ts"], BATCHES)
    assert came(transcript)[:2] == [ALL[:1], ALL[1:]]

    def single(node: Any, columns: Any, bound: Any, hold: Any) -> rules.Points:
        return (tuple(bound(node, c) for c in columns),)

    monkeypatch.setattr(kernel_join, "frontier", single)
    late = came(transcript, checked=False)
    assert late[:2] == [[], ALL[:3]] and ALL[3] in late[2]


@pytest.mark.spec("WQ-F63")
def test_after_an_outer_join_times_progress_one_by_one() -> None:
    # An unmatched row from 2 on may still come out, and its greatest time is its own.
    times = ["a_ts", "max"]
    assert came(script(WIDE, times, BATCHES))[:2] == [[(2, 2, 1)], [(2, 4, 1), (4, 4, 2)]]
    left = {**WIDE, "how": "left"}
    outer = came(script(left, times, BATCHES))
    assert outer[:2] == [[], [(2, 2, 1), (2, 4, 1)]] and (4, 4, 2) in outer[2]
    ahead = [{"a": [0, 2, 20], "b": [1]}, {"b": [8]}, {"b": [16]}]
    assert came(script(left, times, ahead))[:2] == [[], [(2, 2, 1)]]


def test_three_streams_progress_together() -> None:
    three = {"join": ["a", "b", "c"], "reach": [6, 6, 6]}
    batches = [{"a": [0], "b": [1], "c": [3]}, {"a": [8], "b": [8], "c": [5]}]
    # The bound of c is at 5: every later result has its row of c at 5 or later, or one of a or b at 8.
    assert came(script(three, ["a_ts", "b_ts", "c_ts"], batches))[:2] == [[], [(2, 2, 4, 1)]]


def test_a_union_progresses_with_both_of_its_inputs_and_a_projection_moves_them() -> None:
    three = {"join": ["a", "b", "c"], "reach": [6, 6, 6]}
    batches = [{"a": [0], "b": [1], "c": [2]}, {"a": [8], "b": [8]}]
    text = dict(script(three, ["a_ts", "b_ts"], batches).text)
    sides = [
        [{"keys": ["k"], **WIDE, "join": [s, "b"]}, {"select": {"x": f"{s}_ts + 4", "y": "b_ts"}}]
        for s in ("a", "c")
    ]
    windows = [{"range": 2, "time": "x"}, {"range": 2, "time": "y"}]
    shown = {"x": "x_window.end", "y": "y_window.end", "n": "n"}
    steps = [{"windows": windows, "agg": {"n": "count(*)"}}, {"select": shown}]
    text["query"] = {"out": [{"union": sides}, *steps]}
    # c stays at 2, so that later results may have 6 on x and what ends later must wait for them.
    assert came(parse(text))[:2] == [[], [(6, 2, 1)]]


def test_windows_over_groups_on_several_windows() -> None:
    """The windows of a result progress as the times did."""
    outer = {"a_ts_window": 4, "b_ts_window": 2}
    windows = [{"range": size, "time": name} for name, size in outer.items()]
    shown = {n: f"{n}_window.end" for n in outer} | {"m": "m"}
    transcript = script(WIDE, ["a_ts", "b_ts"], BATCHES)
    text = dict(transcript.text)
    steps = [{"windows": windows, "agg": {"m": "sum(n)"}}, {"select": shown}]
    text["query"] = {"out": [*text["query"]["out"][:2], *steps]}
    assert came(parse(text))[:2] == [[], [(4, 2, 2), (4, 4, 2)]]


def test_rows_in_order_progress_on_the_time_that_orders_them_alone() -> None:
    # A pair waits until its greater time has passed; its lesser one may be below the join's bound by then.
    text = dict(script(WIDE, ["a_ts", "b_ts"], BATCHES).text)
    text["query"] = {"out": [{"keys": ["k"], **WIDE}, {"sort": True},
                             {"window": {"range": 2, "time": "a_ts"}, "agg": {"n": "count(*)"}}]}  # fmt: skip
    with pytest.raises(AnalysisError, match="no progressing column 'a_ts'"):
        parse(text)


def test_without_the_hold_groups_close_before_their_pairs_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text: dict[str, Any] = dict(load(MEMORY).text)
    shown = {"x": "a_ts_window.end", "y": "b_ts_window.end", "n": "n"}
    windows = [{"range": 5, "time": "a_ts"}, {"range": 5, "time": "b_ts"}]
    joined = {**text["query"]["pairs"][0], "how": "inner"}
    steps = [joined, {"windows": windows, "agg": {"n": "count(*)"}}, {"select": shown}]
    script = [{k: v for k, v in s.items() if k != "expect"} for s in text["script"]]
    transcript = parse({**text, "query": {"out": steps}, "check": {}, "script": script})
    wanted = totals(transcript, oracle(transcript))
    assert totals(transcript, kernels("panes")(transcript)) == wanted

    def eager(node: Any, columns: Any, bound: Any, hold: Any) -> rules.Points:
        return rules.frontier(node, columns, bound, lambda join: None)

    monkeypatch.setattr(kernel_join, "frontier", eager)
    assert totals(transcript, kernels("panes")(transcript)) != wanted
