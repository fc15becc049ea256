"""What order, bounds and cuts may not change, on the oracle and on the kernels."""

from __future__ import annotations

import random
from collections import Counter
from math import gcd
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.semantics.bounds import END, START
from slackwater.testing import low_water_marks
from slackwater.testing.executors.kernels import KernelMachine, kernels
from slackwater.testing.oracle.nodes import Oracle
from slackwater.testing.strategies import cut, cuts, disordered
from slackwater.testing.transcripts.script import Executor, oracle, parse
from tests.examples import examples

EXECUTORS = {"oracle": oracle, "kernels": kernels("panes")}
BOTH = pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
FEW = examples(5)
DELAY = 10
AGG = {"n": "count(*)", "total": "sum(v)", "low": "min(v)", "high": "max(v)"}
Rows = list[dict[str, Any]]
ROWS = disordered(max_rows=12, low=-20, high=30)
SOME = disordered(min_rows=1, max_rows=12, low=0, high=40)
LATE = disordered(max_rows=12, low=-20, high=30, max_delay=25)
CUTS = cuts(12, 3).map(lambda places: places[:4])


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, int]:
    return {
        "range": draw(st.integers(1, 20)),
        "slide": draw(st.integers(1, 20)),
        "origin": draw(st.integers(-9, 9)),
    }


def script(
    batches: list[Rows],
    query: Any,
    progress: Any,
    *,
    late: str = "admit",
    ticks: list[int] | None = None,
) -> dict[str, Any]:
    columns = {"ts": "bigint", "k": "string", "v": "bigint", "i": "bigint", "done": "bigint"}
    steps: list[dict[str, Any]] = [{"rows": {"s": b}} for b in batches]
    for step, tick in zip(steps, ticks or [0] * len(steps), strict=True):
        if tick:
            step["tick"] = tick
    return {
        "name": "random",
        "streams": {
            "s": {"columns": columns, "time": "ts", "unit": "second", "progress": progress,
                  "late": late, "order": "i"}
        },
        "query": query,
        "clock": 0,
        "script": [*steps, {"end": True}],
    }  # fmt: skip


def counting(window: Any) -> list[dict[str, Any]]:
    return [{"from": "s"}, {"window": window, "by": ["k"], "agg": AGG}]


def results(executor: Executor, text: dict[str, Any]) -> Counter[Any]:
    """All rows of the one output over all batches, without their windows' start and end."""
    found: Counter[Any] = Counter()
    for seen in executor(parse(text)):
        for table in seen.outputs.values():
            found.update(tuple((k, v) for k, v in r.items() if k != "window") for r in table)
    return found


def counts(found: Counter[Any]) -> dict[Any, int]:
    return {(r["k"], r["wid"]): r["n"] for r in map(dict, found)}


# --- order, bounds, cuts -----------------------------------------------------------------------------


@pytest.mark.spec("WQ-F10", "WQ-F9", "OO-F10")
@BOTH
@FEW
@given(rows=ROWS, window=shapes(), places=CUTS, data=st.data())
def test_arrangement_does_not_matter_while_no_row_is_late(
    executor: Executor, rows: Rows, window: Any, places: list[int], data: st.DataObject
) -> None:
    """Other cuts, other orders inside a batch, other arrivals that the bound allows, later bounds."""
    query = counting(window)
    expected = results(executor, script([rows], query, {"bounded_delay": DELAY}))
    shuffled = [data.draw(st.permutations(b)) for b in cut(rows, places)]
    assert results(executor, script(shuffled, query, {"bounded_delay": DELAY})) == expected
    assert results(executor, script(shuffled, query, {"bounded_delay": 4 * DELAY})) == expected
    lags = data.draw(st.lists(st.integers(0, DELAY), min_size=len(rows), max_size=len(rows)))
    moved = [r for r, _ in sorted(zip(rows, lags, strict=True), key=lambda p: p[0]["ts"] + p[1])]
    again = [{**r, "i": i} for i, r in enumerate(moved)]
    assert (
        results(executor, script(cut(again, places), query, {"bounded_delay": DELAY})) == expected
    )


@BOTH
@FEW
@given(rows=LATE, window=shapes(), places=CUTS, data=st.data())
def test_a_coarser_cut_keeps_a_superset(
    executor: Executor, rows: Rows, window: Any, places: list[int], data: st.DataObject
) -> None:
    fewer = data.draw(st.lists(st.sampled_from(places), unique=True)) if places else []
    for late in ("admit", "drop"):
        fine, coarse = (
            counts(results(executor, script(cut(rows, at), counting(window), {"bounded_delay": 5}, late=late)))
            for at in (places, fewer)
        )  # fmt: skip
        assert all(coarse.get(key, 0) >= n for key, n in fine.items())


# --- where knowledge comes from ----------------------------------------------------------------------


@pytest.mark.spec("OO-F3", "OO-F34", "WQ-F75", "WQ-F78")
@BOTH
@FEW
@given(rows=SOME, window=shapes(), places=CUTS)
def test_all_kinds_of_knowledge_give_the_same_results(
    executor: Executor, rows: Rows, window: Any, places: list[int]
) -> None:
    """Order, a known delay, an estimate, silence and latency by the clock, and punctuation in the stream itself.

    All but the last are tracked beside the data, which comes with the rows: neither changes a result.
    """
    query = counting(window)
    batches = cut(rows, places)
    expected = results(executor, script(batches, query, {"bounded_delay": DELAY}))

    ordered = [{**r, "i": i} for i, r in enumerate(sorted(rows, key=lambda r: r["ts"]))]
    assert results(executor, script(cut(ordered, places), query, "ordered")) == expected

    # Its first row tells the largest delay there will be, before anything could close.
    told = [{"ts": -1000, "i": -2}, {"ts": -1000 - DELAY, "i": -1}]
    learned = results(executor, script([told, *batches], query, "max_delay"))
    own = window["origin"] - 500
    assert (
        Counter({r: n for r, n in learned.items() if (dict(r)["wid"] + 1) * window["slide"] > own})
        == expected
    )

    # Clock: each batch comes when its rows are at most DELAY old, then nothing until all is over.
    clock, ticks = 0, []
    for batch in batches:
        newest = max([clock, *(r["ts"] for r in batch)])
        ticks.append(newest - clock)
        clock = newest
    patient = {"bounded_delay": DELAY, "idle_after": "3 seconds"}
    silent = script([*batches, []], query, patient, ticks=[*ticks, 200])
    assert results(executor, silent) == expected
    assert sum(len(o.outputs["out"]) for o in executor(parse(silent))[:-1]) == sum(
        expected.values()
    )

    latency = script([*batches, []], query, {"bounded_latency": DELAY}, ticks=[*ticks, 200])
    assert results(executor, latency) == expected

    # Punctuation: after each batch the true low-water mark.
    marks = [*low_water_marks([r["ts"] for r in rows]).tolist(), 1000]
    at, punctuated = 0, []
    for batch in batches:
        at += len(batch)
        punctuated.append([*batch, {"done": marks[at], "i": 10_000 + len(punctuated)}])
    assert results(executor, script(punctuated, query, {"punctuated": "done"})) == expected


# --- what a bound promises ---------------------------------------------------------------------------


@pytest.mark.spec("OO-F11")
@pytest.mark.parametrize("plan", ["oracle", "panes"])
@FEW
@given(rows=LATE, window=shapes(), places=CUTS)
def test_a_windows_groups_come_before_the_bound_that_closes_it(
    plan: Any, rows: Rows, window: Any, places: list[int]
) -> None:
    """Each result comes in the batch whose bound closes its window: not before, and never after; the bound
    steps from window to window, also over empty ones."""
    transcript = parse(script(cut(rows, places), counting(window), {"bounded_delay": 5}))
    nodes = {"out": transcript.outputs["out"].node}
    machine: Any = Oracle(nodes) if plan == "oracle" else KernelMachine(nodes, plan)
    before = START
    for step in transcript.batches[:-1]:
        if plan == "oracle":
            seen = machine.step(step.rows, None)
            after = seen.output_bounds["out"]["window"]
        else:
            seen = machine.step(step.rows, None, frozenset())
            after = machine.before[-1]["window"]
        assert after >= before
        if after > START:
            assert (after + 1 - window["origin"]) % window["slide"] == 0
        for row in seen.outputs["out"]:
            end = row["window"].end if plan == "oracle" else row["window"]["end"]
            assert before <= end - 1 < after
        before = after


@pytest.mark.spec("OO-F11")
def test_bounds_pass_over_empty_windows() -> None:
    text = script([[{"ts": 1, "i": 0}], [{"ts": 95, "i": 1}], [{"ts": 101, "i": 2}]],
                  counting({"range": 10}), "ordered")  # fmt: skip
    machine = KernelMachine({"out": parse(text).outputs["out"].node}, "panes")
    seen = []
    for step in parse(text).batches[:-1]:
        rows = machine.step(step.rows, None, frozenset()).outputs["out"]
        seen.append((machine.before[-1]["window"], [r["wid"] for r in rows]))
    assert seen == [(9, []), (99, [0]), (109, [9])]


@pytest.mark.spec("WQ-F106")
@pytest.mark.parametrize("plan", ["panes", "wids"])
@FEW
@given(
    rows=LATE,
    first=shapes(),
    second=shapes(),
    places=CUTS,
    seed=st.integers(),
)
def test_consumers_of_results_rely_on_bounds_not_on_order(
    plan: Any, rows: Rows, first: Any, second: Any, places: list[int], seed: int
) -> None:
    """Results of a first aggregate, shuffled within what its bounds allow, as the input of a second."""
    text = script(cut(rows, places), counting(first), {"bounded_delay": 5})
    transcript = parse(text)
    machine = KernelMachine({"out": transcript.outputs["out"].node}, plan)
    rng = random.Random(seed)
    waiting: Rows = []
    batches: list[Rows] = []
    for step in transcript.batches:
        seen = machine.step(step.rows, None, step.end)
        bound = machine.before[-1]["window"]
        waiting += [
            {"ts": r["window"]["end"] - 1, "k": r["k"], "v": r["total"]}
            for r in seen.outputs["out"]
        ]
        rng.shuffle(waiting)
        # A bound may be told later than it holds, and results that it does not cover may wait for it.
        if rng.random() < 0.5 and bound < END:
            batches.append([*waiting, {"done": bound} if bound > START else {"k": "x"}])
            waiting = []
    batches.append(waiting)
    follow = {"window": second, "by": ["k"], "agg": {"n": "count(*)", "total": "sum(v)"}}
    shuffled = [[{**r, "i": i} for r in b] for i, b in enumerate(batches)]
    found = results(
        kernels(plan), script(shuffled, [{"from": "s"}, follow], {"punctuated": "done"})
    )
    chained = [*counting(first), {"select": {"k": "k", "window": "window", "v": "total"}}, follow]
    expected = results(kernels(plan), script(cut(rows, places), chained, {"bounded_delay": 5}))
    assert found == expected


# --- panes -------------------------------------------------------------------------------------------


@pytest.mark.spec("WQ-F43", "WQ-F36")
@BOTH
@FEW
@given(rows=ROWS, window=shapes(), places=CUTS)
def test_panes_are_windows_over_windows(
    executor: Executor, rows: Rows, window: Any, places: list[int]
) -> None:
    """The pane query and the window query are the ordinary operator, once tumbling and once sliding."""
    panes = {"range": gcd(window["range"], window["slide"]), "origin": window["origin"]}
    combined = {"n": "sum(n)", "total": "sum(total)", "low": "min(low)", "high": "max(high)"}
    two = [*counting(panes), {"window": window, "by": ["k"], "agg": combined}]
    policy = {"bounded_delay": DELAY}
    direct = results(executor, script(cut(rows, places), counting(window), policy))
    assert results(executor, script(cut(rows, places), two, policy)) == direct
