"""Patterns through operators: what is passed on, what is described away, what a source keeps."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import ExecutionError
from slackwater.model.node import (
    PLANNED,
    Aggregate,
    Dedup,
    Filter,
    Late,
    Node,
    Project,
    Sort,
    Source,
    Union,
)
from slackwater.model.policy import BoundedDelay, BoundedLatency, Ordered, Policy, Punctuated
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import RowWindow, TimeWindow
from slackwater.semantics.bounds import END, START, propagate, topological
from slackwater.semantics.operators.registry import RULES
from slackwater.semantics.pattern_rules import described, passes_patterns, propagate_patterns, wants
from slackwater.semantics.patterns import Pattern, Patterns, Test
from slackwater.semantics.progress import (
    PartitionSummary,
    SourceState,
    SourceSummary,
    advance,
    initial_state,
    merge,
    resolve_source,
)
from slackwater.semantics.source_patterns import MAX_PATTERNS

MAP = "map<string,struct<op:string,value:string>>"
FIELDS = (Field("k", "string"), Field("n", "bigint"), Field("ts", "bigint"), Field("p", MAP))
TIME = TimeColumn("ts", "long", 1_000_000)


BY_PATTERNS = Punctuated(column="p")


def source(name: str = "s", policy: Policy = BY_PATTERNS, partition: str | None = None) -> Source:
    return Source(FIELDS, (TIME,), name, policies=(policy,), replay=True, partition=partition)


def pattern(k: str | None = None, below: int | None = None, n: int | None = None) -> Pattern:
    tests = {}
    if k is not None:
        tests["k"] = Test.among([k])
    if n is not None:
        tests["n"] = Test.among([n])
    if below is not None:
        tests["ts"] = Test.below(below)
    return Pattern.of(tests)


def grouped(child: Node, *by: str, window: TimeWindow | None = None) -> Aggregate:
    on = child.times[0].name
    keys = tuple(Named(c, column(c, "string")) for c in by)
    fields = tuple(Field(c, "string") for c in by)
    return Aggregate(
        (*fields, Field("wid", "bigint"), Field("window", "struct<start:bigint,end:bigint>")),
        (TimeColumn("window", "window", 1, True),),
        child,
        keys,
        window or TimeWindow(10, 5, 0, on),
    )


def through(
    output: Node, said: dict[str, Patterns], bounds: dict[str, int] | None = None
) -> dict[int, Patterns]:
    nodes = topological([output])
    linear = propagate(nodes, {n: {"ts": v} for n, v in (bounds or {}).items()})
    found = propagate_patterns(nodes, linear, said)
    return {id(n): p for n, p in zip(nodes, found, strict=True)}


@pytest.mark.spec("WQ-F69", "WQ-F70")
def test_row_operators_pass_patterns_on() -> None:
    s = source()
    kept = Filter(s.schema, s.times, s, column("k", "string"))
    columns = (
        Named("key", column("k", "string")),
        Named("when", Expr("`ts` + 5", "bigint")),
    )
    moved = Project(
        (Field("key", "string"), Field("when", "bigint")),
        (TimeColumn("when", "long", 1),), kept, columns, (("when", "ts", 5),),
    )  # fmt: skip
    once = Dedup(moved.schema, moved.times, moved, ("key", "when"), None, "when")
    top = grouped(once, "key")
    found = through(top, {"s": (pattern("a", 20), pattern("b", n=1))})
    assert found[id(once)] == (
        Pattern.of({"key": Test.among(["a"]), "when": Test.below(25)}),
    )  # the pattern on n is of no use: n is gone


def test_sort_and_late_rows_pass_none_on() -> None:
    s = source()
    for middle in (Sort(s.schema, s.times, s, "ts"), Late(s.schema, s.times, s)):
        found = through(grouped(middle, "k"), {"s": (pattern("a", 20),)})
        assert found[id(middle)] == ()


@pytest.mark.spec("WQ-F71", "OO-F23")
def test_a_union_says_what_all_inputs_say() -> None:
    s, r = source("s"), source("r")
    both = Union(s.schema, s.times, (s, r))
    top = grouped(both, "k")
    assert through(top, {"s": (pattern("a", 20),), "r": ()})[id(both)] == ()
    assert through(top, {"s": (pattern("a", 20),), "r": (pattern("b", 20),)})[id(both)] == ()
    found = through(top, {"s": (pattern("a", 20),), "r": (pattern("a", 15),)})
    assert found[id(both)] == (pattern("a", 15),)
    # A bound is a pattern too, and an ended input agrees with the other.
    found = through(top, {"s": (pattern("a", 20),), "r": ()}, {"s": 5, "r": 10})
    assert found[id(both)] == (pattern("a", 10),)
    found = through(top, {"s": (pattern("a", 20),), "r": ()}, {"s": START, "r": END})
    assert found[id(both)] == (pattern("a", 20),)


def test_an_aggregate_says_it_of_its_results() -> None:
    s = source()
    first = grouped(s, "k", "n")
    second = grouped(first, "k", window=TimeWindow(20, 20, 0, "window"))
    found = through(second, {"s": (pattern("a", 22),)})
    # Windows end every 5 ticks: at 20 for this pattern; the next result is of [15, 25), at 24.
    assert found[id(s)] == (pattern("a", 20),)
    assert found[id(first)] == (Pattern.of({"k": Test.among(["a"]), "window": Test.below(20)}),)
    # Group columns that are expressions, and windows over rows with a time in the pattern, have no use of it.
    odd = Aggregate(
        first.schema, first.times, s, (Named("k", Expr("upper(`k`)", "string")),), first.window
    )
    assert through(odd, {"s": (pattern("a", 22),)})[id(s)] == ()
    rows = Aggregate(first.schema, first.times, s, first.keys, RowWindow(2, 1, "ts", ("k",)))
    found = through(rows, {"s": (pattern("a", 22), pattern("b"), pattern("c", n=1))})
    assert found[id(s)] == (pattern("b"),)


@pytest.mark.spec("WQ-F74", "OO-F28")
def test_describe_keeps_what_is_useful_at_its_granularity() -> None:
    s = source()
    top = grouped(s, "k", window=TimeWindow(60, 60, 0, "ts"))
    need = wants([s, top])[0]
    every_second = tuple(pattern("a", t) for t in range(121, 180))
    every_second = (*every_second, pattern(n=3), pattern("b", 125))
    assert described(every_second, need) == (
        Pattern.of({"k": Test.among(["a", "b"]), "ts": Test.below(120)}),
    )
    # Two consumers: as fine as both need.
    other = grouped(s, "n", window=TimeWindow(45, 45, 15, "ts"))
    need = wants([s, top, other])[0]
    assert described((pattern("a", 100),), need) == (pattern("a", 60),)
    assert described((pattern(n=1, below=100),), need) == (pattern(n=1, below=60),)
    assert described((pattern("a", n=1, below=100),), need) == ()


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 50)), max_size=12), st.integers(0, 50)
)
def test_described_closes_the_same_windows(said: list[tuple[str, int]], shift: int) -> None:
    window = TimeWindow(10, 5, shift, "ts")
    s = source()
    top = grouped(s, "k", window=window)
    patterns = tuple(pattern(k, v) for k, v in said)
    fewer = described(patterns, wants([s, top])[0])
    assert len(fewer) <= len(set(said))
    for wid in range(-12, 12):
        end = shift + (wid + 1) * 5
        for key in "abc":
            row = {"k": key, "ts": end - 1}
            assert any(p.matches(row) for p in fewer) == any(p.matches(row) for p in patterns)


# ---- sources ----


def said(*patterns: Pattern, partition: str = "") -> SourceSummary:
    rows = {"ts": {partition: PartitionSummary(rows=1)}}
    return SourceSummary(rows, patterns={partition: patterns})


def after(s: Source, *summaries: SourceSummary, now: int | None = None) -> SourceState:
    state = initial_state(s)
    for summary in summaries:
        again = SourceSummary.from_json(json.loads(json.dumps(summary.to_json())))
        state = advance(s, resolve_source(s), state, merge([again]), now)
        state = SourceState.from_json(json.loads(json.dumps(state.to_json())))
    return state


@pytest.mark.spec("WQ-F6")
def test_a_source_forgets_what_a_bound_says_too() -> None:
    s = source()
    state = after(s, said(pattern("a", 20), pattern("b", 10)), said(pattern("a", 30)))
    assert set(state.patterns) == {pattern("a", 30), pattern("b", 10)}
    bound = SourceSummary({"ts": {"": PartitionSummary(rows=1, punct=15)}})
    state = advance(s, resolve_source(s), state, bound, None)
    assert state.patterns == (pattern("a", 30),)
    assert advance(s, resolve_source(s), state, SourceSummary(), None, ended=True).patterns == ()


def test_partitions_must_agree() -> None:
    s = source(partition="n")
    x = said(pattern("a", 20), pattern("c", n=1), partition="1")
    start = merge([x, said(partition="2")])
    # A pattern that names its own partition holds at once, the other waits for all that are known.
    assert set(after(s, start).patterns) == {pattern("c", n=1)}
    both = after(s, start, said(pattern("a", 12), partition="2"))
    assert set(both.patterns) == {pattern("c", n=1), pattern("a", 12)}


def test_null_and_the_empty_text_speak_of_themselves_alone() -> None:
    s = source(partition="k")
    null = Pattern.of({"k": Test(null=True)})
    names = {"<null>": null, "<<null>": pattern("<null>"), "<empty>": pattern("")}
    for name, own in names.items():
        for one in names.values():
            summary = merge([said(one, partition=name), said(partition="b")])
            assert set(after(s, summary).patterns) == ({own} if one == own else set())


def test_too_many_patterns_are_an_error() -> None:
    s = source()
    many = [pattern(f"k{i}", i) for i in range(1, MAX_PATTERNS + 2)]
    with pytest.raises(ExecutionError) as e:
        after(s, said(*many))
    assert e.value.condition == "TOO_MANY_PATTERNS" and e.value.hint
    one = [pattern(f"k{i}", 7) for i in range(MAX_PATTERNS + 2)]
    assert len(after(s, said(*one)).patterns) == 1  # equal limits are one pattern with a set


# ---- generators ----


def hi(*times: int) -> SourceSummary:
    part = PartitionSummary(len(times), max(times), min(times)) if times else PartitionSummary()
    return SourceSummary({"ts": {"": part}} if times else {}, len(times))


@pytest.mark.spec("OO-F5", "WQ-F80")
def test_a_bound_in_steps_moves_once_per_step() -> None:
    s = source(policy=Ordered().inSteps(5))
    state, bounds = initial_state(s), []
    for t in range(1, 18):
        state = advance(s, resolve_source(s), state, hi(t), None)
        bounds.append(state.bounds["ts"])
    assert sorted(set(bounds)) == [0, 5, 10, 15]
    assert all(b <= t < b + 5 for b, t in zip(bounds, range(1, 18), strict=True))
    late = source(policy=BoundedDelay(delay=3).inSteps(10))
    assert after(late, hi(22)).bounds["ts"] == 10


@pytest.mark.spec("WQ-F78", "OO-F4")
def test_bounded_latency_follows_the_clock_without_rows() -> None:
    s = source(policy=BoundedLatency(delay=4))
    second = 1_000_000
    assert after(s, hi(), now=10 * second).bounds["ts"] == 6
    assert after(s, hi(90), now=10 * second).bounds["ts"] == 6  # rows say nothing
    assert after(s, hi(3)).bounds["ts"] == START  # no clock, no bound
    state = after(s, hi(), now=10 * second)
    held = advance(s, resolve_source(s), state, hi(), 20 * second, backlog=True)
    assert held.bounds["ts"] == 6  # rows that wait to be read may be older


def test_operators_that_say_nothing_pass_no_patterns() -> None:
    types = {t for t in RULES if t.__module__.startswith("slackwater.") and t not in PLANNED}
    assert {t.__name__ for t in types if not passes_patterns(t((), ()))} == {
        "Late",
        "Sort",
        "Held",
        "Waiting",
    }
