from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.model.node import (
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
from slackwater.model.policy import Ordered
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import END, START, aligned, minimum, propagate, shift, topological

TS = TimeColumn("ts", "long", None)
ENDS = TimeColumn("end", "long", None)
FIELDS = (Field("ts", "bigint"), Field("end", "bigint"))
anything = st.one_of(st.just(START), st.just(END), st.integers(START, END))


def src(name: str, *times: TimeColumn) -> Source:
    times = times or (TS,)
    return Source(FIELDS, times, name, policies=(Ordered(),) * len(times))


def bounds_of(node: Node, **sources: object) -> dict[str, int]:
    nodes = topological([node])
    given = {k: v if isinstance(v, dict) else {"ts": v} for k, v in sources.items()}
    return propagate(nodes, given)[-1]


@given(b=anything, t=st.integers(-(1 << 63), 1 << 63))
def test_shift_stays_inside_and_keeps_the_ends(b: int, t: int) -> None:
    moved = shift(b, t)
    assert START <= moved <= END
    assert (moved == END) == (b == END)
    if b == START:
        assert moved == START
    if START < b + t < END and START < b < END:
        assert moved == b + t


@given(b=anything, g=st.integers(1, 1000), o=st.integers(-1000, 1000))
def test_aligned_is_the_last_multiple(b: int, g: int, o: int) -> None:
    v = aligned(b, g, o)
    assert v <= b
    if START + 10_000 < b < END:
        assert (v - o) % g == 0
        assert b - v < g


@pytest.mark.spec("WQ-F71")
def test_a_union_waits_for_the_input_that_is_behind() -> None:
    both = Union(FIELDS, (TS,), (src("r"), src("s")))
    assert [bounds_of(both, r=20, s=v) for v in (20, 21, 22)] == [{"ts": 20}] * 3


@pytest.mark.spec("WQ-F71")
@given(st.lists(anything, min_size=1, max_size=5))
def test_union_is_the_least(bs: list[int]) -> None:
    inputs = tuple(src(f"s{i}") for i in range(len(bs)))
    union = Union(FIELDS, (TS,), inputs)
    assert bounds_of(union, **{f"s{i}": b for i, b in enumerate(bs)}) == {"ts": min(bs)}
    assert minimum(bs) == min(bs)


@pytest.mark.spec("WQ-F69", "OO-F8", "OO-F24")
def test_filter_dedup_and_sort_pass_bounds() -> None:
    s = src("s")
    f = Filter(FIELDS, (TS,), s, Expr("false", "boolean"))
    d = Dedup(FIELDS, (TS,), f, ("ts",), None, "ts")
    assert bounds_of(Sort(FIELDS, (TS,), d, "ts"), s=7) == {"ts": 7}


@pytest.mark.spec("WQ-F69")
def test_project_moves_and_renames() -> None:
    s = src("s", TS, ENDS)
    out = TimeColumn("later", "long", None)
    p = Project(
        (Field("later", "bigint"),),
        (out,),
        s,
        (Named("later", column("ts", "bigint")),),
        (("later", "ts", 5),),
    )
    assert bounds_of(p, s={"ts": 10, "end": 3}) == {"later": 15}
    assert bounds_of(p, s={"ts": END, "end": 3}) == {"later": END}


@pytest.mark.spec("OO-F2")
def test_columns_progress_apart() -> None:
    s = src("s", TS, ENDS)
    assert bounds_of(s, s={"ts": 10, "end": 3}) == {"ts": 10, "end": 3}


def test_union_matches_times_by_position() -> None:
    other = TimeColumn("t", "long", None)
    a, b = src("a"), Source(FIELDS, (other,), "b", policies=(Ordered(),))
    assert bounds_of(Union(FIELDS, (TS,), (a, b)), a=9, b={"t": 4}) == {"ts": 4}


def test_late_rows_progress_only_at_the_end() -> None:
    s = src("s", TS, ENDS)
    late = Late(FIELDS, (TS, ENDS), s)
    assert bounds_of(late, s={"ts": 10, "end": END}) == {"ts": START, "end": START}
    assert bounds_of(late, s={"ts": END, "end": END}) == {"ts": END, "end": END}


@pytest.mark.spec("WQ-F72", "WQ-F36")
def test_a_whole_plan_progresses() -> None:
    s = src("s")
    window = TimeColumn("window", "window", None)
    one = Aggregate(FIELDS, (window,), s, (), TimeWindow(60, 60, 0, "ts"))
    five = Aggregate(FIELDS, (window,), one, (), TimeWindow(300, 300, 0, "window"))
    nodes = topological([five, one])
    assert [type(n).__name__ for n in nodes] == ["Source", "Aggregate", "Aggregate"]
    assert propagate(nodes, {"s": {"ts": 300}}) == [{"ts": 300}, {"window": 359}, {"window": 599}]


def test_shared_operators_come_once() -> None:
    s = src("s")
    a, b = Filter(FIELDS, (TS,), s), Filter(FIELDS, (TS,), s)
    nodes = topological([Union(FIELDS, (TS,), (a, b))])
    assert sum(n is s for n in nodes) == 1
    # Equal operators that are not the same object stay apart.
    assert len(nodes) == 4


def test_unknown_operator_is_named() -> None:
    @dataclass(frozen=True)
    class Odd(Node):
        pass

    with pytest.raises(AnalysisError, match="Odd"):
        propagate([Odd(FIELDS, (TS,))], {})


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-50, 50)), max_size=30))
@pytest.mark.spec("WQ-F71")
def test_bounds_through_a_plan_are_monotone(steps: list[tuple[str, int]]) -> None:
    a, b = src("a"), src("b")
    window = TimeColumn("window", "window", None)
    moved = Project(FIELDS, (TS,), b, (), (("ts", "ts", -7),))
    union = Union(FIELDS, (TS,), (a, moved))
    agg = Aggregate(FIELDS, (window,), union, (), TimeWindow(7, 3, 1, "ts"))
    nodes = topological([agg])
    at = {"a": START, "b": START}
    last = propagate(nodes, {k: {"ts": v} for k, v in at.items()})
    for name, v in steps:
        at[name] = max(at[name], v)
        now = propagate(nodes, {k: {"ts": x} for k, x in at.items()})
        for before, after in zip(last, now, strict=True):
            assert all(after[c] >= before[c] for c in before)
        last = now
