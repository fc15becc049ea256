"""What a condition says of the distance of two times, against the condition itself, evaluated pair by pair."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.analysis.conjuncts import day_time_literal
from slackwater.kernels.translate.distances import Read, TimeOf, distances
from slackwater.semantics.distance import Distance
from slackwater.testing.executors.kernels import kernels
from slackwater.testing.strategies import cut, disordered
from slackwater.testing.transcripts.script import parse
from tests.examples import examples

OPERATORS = {
    "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y, "=": lambda x, y: x == y, "<=>": lambda x, y: x == y,
}  # fmt: skip


class Term(NamedTuple):
    """A text of Spark's and what it means: a function of the left time, the right time, and something else."""

    text: str
    value: Any


def both(one: Term, sign: str, other: Term, function: Any) -> Term:
    return Term(f"({one.text} {sign} {other.text})",
                lambda *row: function(one.value(*row), other.value(*row)))  # fmt: skip


def plus(one: Term, other: Term) -> Term:
    return both(one, "+", other, lambda x, y: x + y)


def minus(one: Term, other: Term) -> Term:
    return both(one, "-", other, lambda x, y: x - y)


A = Term("`a_ts`", lambda a, b, flag: a)
B = Term("`b_ts`", lambda a, b, flag: b)
FLAG = Term("(`v` < `w`)", lambda a, b, flag: flag)


@st.composite
def constants(draw: st.DrawFn, integer: bool) -> Term:
    n = draw(st.integers(-6, 6))
    value = lambda *row: n  # noqa: E731
    if integer:
        return Term(draw(st.sampled_from([str(n), f"CAST({n} AS BIGINT)", f"{n}L"])), value)
    literal = day_time_literal(n)
    texts = [literal, f"CAST({literal} AS INTERVAL DAY TO SECOND)"]
    if n >= 0:
        texts.append(f"INTERVAL '0.{n:06}' SECOND")
    return Term(draw(st.sampled_from(texts)), value)


@st.composite
def spans(draw: st.DrawFn, integer: bool, depth: int) -> Term:
    """Of integers any sum; of instants a span of time."""
    if depth == 0:
        return draw(constants(integer))
    kind = draw(st.sampled_from(["constant", "negative", "sum", "difference", "times"]))
    if kind == "constant":
        return draw(constants(integer))
    if kind == "times":
        return minus(draw(points(integer, depth - 1)), draw(points(integer, depth - 1)))
    one = draw(spans(integer, depth - 1))
    if kind == "negative":
        return Term(f"(- {one.text})", lambda *row: -one.value(*row))
    return (plus if kind == "sum" else minus)(one, draw(spans(integer, depth - 1)))


@st.composite
def points(draw: st.DrawFn, integer: bool, depth: int) -> Term:
    """Times, moved."""
    column = draw(st.sampled_from([A, B]))
    if integer and draw(st.booleans()):
        column = Term(f"CAST({column.text} AS BIGINT)", column.value)
    kind = draw(st.sampled_from(["column", "later", "earlier"])) if depth else "column"
    if kind == "column":
        return column
    one, span = draw(points(integer, depth - 1)), draw(spans(integer, depth - 1))
    if kind == "later":
        return plus(one, span) if draw(st.booleans()) else plus(span, one)
    return minus(one, span)


@st.composite
def comparisons(draw: st.DrawFn, integer: bool) -> Term:
    name = draw(st.sampled_from(["<", "<=", ">", ">=", "<=", ">=", "=", "<=>"]))
    test = OPERATORS[name]
    form = draw(st.sampled_from(["points", "points", "spans", "abs", "between"]))
    if form == "points":
        return both(draw(points(integer, 2)), name, draw(points(integer, 2)), test)
    if form == "spans":
        return both(draw(spans(integer, 2)), name, draw(spans(integer, 2)), test)
    if form == "abs":
        x, limit = minus(*draw(st.permutations([A, B]))), draw(constants(integer))
        size = Term(f"abs({x.text})", lambda *row: abs(x.value(*row)))
        return both(*((size, name, limit) if draw(st.booleans()) else (limit, name, size)), test)
    x, low, high = (draw(points(integer, 1)) for _ in range(3))
    return both(both(x, ">=", low, OPERATORS[">="]), "AND", both(x, "<=", high, OPERATORS["<="]),
                lambda p, q: p and q)  # fmt: skip


@st.composite
def conditions(draw: st.DrawFn, integer: bool, depth: int = 2) -> Term:
    kinds = ["comparison", "comparison", "flag", "and", "and", "or", "not", "true"]
    kind = draw(st.sampled_from(kinds)) if depth else "comparison"
    if kind == "comparison":
        return draw(comparisons(integer))
    if kind == "flag":
        return FLAG
    one = draw(conditions(integer, depth - 1))
    if kind == "not":
        return Term(f"(NOT {one.text})", lambda *row: not one.value(*row))
    if kind == "true":
        return Term(f"({one.text} <=> true)", one.value)
    other = draw(conditions(integer, depth - 1))
    if kind == "and":
        return both(one, "AND", other, lambda x, y: x and y)
    return both(one, "OR", other, lambda x, y: x or y)


def read(text: str, integer: bool) -> tuple[Read, Distance]:
    kind = "bigint" if integer else "timestamp"
    times = {"a_ts": TimeOf(0, "ts", kind), "b_ts": TimeOf(1, "ts", kind)}
    said = distances(text, times, ansi=True, zone="UTC")
    assert all(pair == ("ts", "ts") for pair, _ in said.distances)
    return said, reduce(Distance.narrowed, (d for _, d in said.distances), Distance())


def allows(distance: Distance, a: int, b: int) -> bool:
    least = distance.least is None or b - a >= distance.least
    return least and (distance.most is None or b - a <= distance.most)


PAIRS = [(a, b) for a in (0, 7) for b in range(-15, 23)]


@pytest.mark.parametrize("integer", [True, False], ids=["integers", "instants"])
@examples(150)
@given(data=st.data())
def test_what_is_read_is_what_the_condition_means(data: st.DataObject, integer: bool) -> None:
    """All of it if it is about the distance alone; else no pair that matches is left out."""
    condition = data.draw(conditions(integer))
    said, distance = read(condition.text, integer)
    for a, b in PAIRS:
        for flag in (True, False):
            means = bool(condition.value(a, b, flag))
            allowed = allows(distance, a, b)
            assert allowed if means else not said.whole or not allowed, (condition.text, a, b)


@examples(200)
@given(data=st.data())
def test_every_plain_comparison_is_read(data: st.DataObject) -> None:
    """Of a left and a right time, each once and moved by constants on any side."""
    integer = data.draw(st.booleans())
    sides = data.draw(st.permutations([A, B]))
    moved = []
    for side in sides:
        for _ in range(data.draw(st.integers(0, 2))):
            side = data.draw(st.sampled_from([plus, minus]))(side, data.draw(constants(integer)))
        moved.append(side)
    name = data.draw(st.sampled_from(sorted(OPERATORS)))
    one, other = moved
    if data.draw(st.booleans()):
        one, other = minus(one, other), data.draw(constants(integer))
    condition = both(one, name, other, OPERATORS[name])
    negated = data.draw(st.booleans()) and name not in ("=", "<=>")
    text = f"(NOT {condition.text})" if negated else condition.text
    said, distance = read(text, integer)
    assert said.whole and len(said.distances) == 1, text
    assert all(allows(distance, a, b) == (condition.value(a, b, True) != negated) for a, b in PAIRS)


@examples(60)
@given(data=st.data())
def test_the_join_gives_the_pairs_that_the_condition_names(data: st.DataObject) -> None:
    """Through the band that was read, whatever the disorder, as long as rows are on time."""
    parts = [
        p for p in data.draw(st.lists(comparisons(True), max_size=3)) if read(p.text, True)[0].whole
    ]
    before, after = (data.draw(st.integers(-2, 9)) for _ in range(2))
    parts.append(both(minus(A, B), "<=", Term(str(before), lambda *row: before), OPERATORS["<="]))
    parts.append(
        both(Term(str(after + 1), lambda *row: after + 1), ">", minus(B, A), OPERATORS[">"])
    )
    parts = data.draw(st.permutations(parts))
    condition = reduce(lambda x, y: both(x, "AND", y, lambda p, q: p and q), parts)
    said, distance = read(condition.text, True)
    assert said.whole and distance.is_closed
    if distance.is_empty:
        assert not any(condition.value(*pair, True) for pair in PAIRS)
        return
    streams, batches = {}, {}
    rows = {n: data.draw(disordered(min_rows=3, max_rows=9, max_delay=8, low=0, high=20)) for n in "ab"}  # fmt: skip
    for name in "ab":
        batches[name] = cut(rows[name], data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)))  # fmt: skip
        columns = {"ts": "bigint", "k": "string", "v": "bigint"}
        streams[name] = {"columns": columns, "time": "ts", "progress": {"bounded_delay": 40}}
    band = distance.band
    step = {"join": ["a", "b"], "band": {"before": band.before, "after": band.after}, "keys": ["k"]}
    steps = [
        {"rows": {n: b[i] for n, b in batches.items() if i < len(b)}}
        for i in range(max(map(len, batches.values())))
    ]
    transcript = parse({"name": "random", "streams": streams, "query": {"out": [step]}, "script": [*steps, {"end": True}]})  # fmt: skip
    got = Counter(
        (r["k"], r["a_ts"], r["a_v"], r["b_ts"], r["b_v"])
        for seen in kernels("panes")(transcript)
        for r in seen.outputs["out"]
    )
    assert got == Counter(
        (x["k"], x["ts"], x["v"], y["ts"], y["v"])
        for x in rows["a"]
        for y in rows["b"]
        if x["k"] is not None
        and x["k"] == y["k"]
        and x["ts"] is not None
        and y["ts"] is not None
        and condition.value(x["ts"], y["ts"], True)
    )
