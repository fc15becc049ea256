"""Which partial of a pane proves what becomes of its windows: against all that may still come, from the definitions alone."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.types import arrow_type
from slackwater.kernels.windows.partials_step import AggregateSpec, partials_schema
from slackwater.kernels.windows.sealing import passes, proven
from slackwater.model.node import Aggregate, Node
from slackwater.model.reacting import Reacting
from slackwater.model.window import TimeWindow
from slackwater.semantics.feedback import order
from slackwater.semantics.operators.registry import RULES
from slackwater.semantics.panes import Panes
from slackwater.semantics.patterns import Pattern, Test
from slackwater.semantics.sealing import (
    Proof,
    Seal,
    as_records,
    panes_of,
    proofs,
    reaching_back,
    seal,
    standing,
    together,
)
from slackwater.testing.transcripts import query
from tests.examples import examples
from tests.semantics.feedback.cases import best, joined, one_way, source, window

Row = Mapping[str, Any]


def aggregate(node: Node, step: Mapping[str, Any]) -> Node:
    return replace(query.aggregate(node, step), reacting=Reacting(seal=True))


SEEDS = st.integers(0, 2**32 - 1)


# --- from the definitions ---------------------------------------------------------------------------------


def held_by(t: int, w: TimeWindow) -> list[int]:
    """The windows that hold a time: window i ends at origin + (i + 1) * slide."""
    near = (t - w.origin) // w.slide
    ends = {i: w.origin + (i + 1) * w.slide for i in range(near - 20, near + 20)}
    return [i for i, end in ends.items() if end - w.range <= t < end]


def result(agg: str, rows: Sequence[Row]) -> int | None:
    name = agg.split("(")[1][:-1]
    values = [r[name] for r in rows if name != "*" and r[name] is not None]
    if agg.startswith("count"):
        return len(rows) if name == "*" else len(values)
    best = max if agg.startswith("max") else min
    return best(values) if values else None


def results(node: Aggregate, aggs: Mapping[str, str], rows: Sequence[Row]) -> list[Row]:
    """All results of a group that has these rows."""
    w = node.window
    assert isinstance(w, TimeWindow)
    by_window: dict[int, list[Row]] = {}
    for row in rows:
        for i in held_by(row["ts"], w):
            by_window.setdefault(i, []).append(row)
    return [
        {
            **{name: result(agg, held) for name, agg in aggs.items()},
            "k": held[0]["k"],
            "wid": i,
            node.times[0].name: w.origin + (i + 1) * w.slide - 1,
        }
        for i, held in by_window.items()
    ]


def in_pane(node: Aggregate, pane: int, rng: random.Random, count: int) -> list[Row]:
    assert isinstance(node.window, TimeWindow)
    panes, values = Panes.of(node.window), [None, 0, 1, 2]
    first = panes.origin + pane * panes.width
    return [
        {"ts": first + rng.randrange(panes.width), "k": 0, "v": rng.choice(values)}
        for _ in range(count)
    ]


def made(rng: random.Random) -> tuple[Aggregate, dict[str, str]]:
    aggs = {"n": rng.choice(["count(*)", "count(v)", "max(v)"]), "m": "min(v)", "p": "max(v)"}
    node = aggregate(source("a", rng), {"window": window(rng), "by": ["k"], "agg": aggs})
    assert isinstance(node, Aggregate)
    return node, aggs


def proofs_of(
    node: Aggregate, record: Pattern, pane: int, partial: Mapping[str, Any]
) -> list[Seal]:
    """What the rule makes of a partial."""
    assert isinstance(node.window, TimeWindow)
    panes = Panes.of(node.window)
    first, end = pane // panes.per_slide, (pane + panes.per_window) // panes.per_slide
    by_primitive = {
        p.name: partial[o.name]
        for p in node.primitives
        for o in node.outputs
        if o.expr.sql.strip("`") == p.column
    }
    return [
        seal(node, p, (0,), (first, end))
        for p in proofs(node, (record,))
        if p.proven(by_primitive, (0,), (first, end))
    ]


@given(SEEDS)
@examples(150)
def test_whatever_comes_later_no_window_that_is_sealed_comes_out(seed: int) -> None:
    rng = random.Random(seed)
    node, aggs = made(rng)
    record = one_way(rng, node)
    pane = rng.randint(-3, 6)
    partial = in_pane(node, pane, rng, rng.randint(1, 4))
    values = {name: result(agg, partial) for name, agg in aggs.items()}
    for one in proofs_of(node, record, pane, values):
        for _ in range(3):
            others = [
                r
                for _ in range(rng.randint(0, 6))
                for r in in_pane(node, pane + rng.randint(-6, 6), rng, 1)
            ]
            for made_result in results(node, aggs, [*partial, *others]):
                if one.record.matches(made_result):
                    assert record.matches(made_result), "it was not given up"
        # What goes on is about rows all of whose windows are sealed: at least those of the pane.
        (below,) = RULES[Aggregate].feedback(node, (one.record,)).inputs
        assert below is not None and RULES[Aggregate].feedback(node, (one.record,)).dark == (
            one.record,
        )
        for t in range(-40, 60):
            gone = any(r.matches({"ts": t, "k": 0}) for r in below)
            windows = held_by(t, node.window)  # type: ignore[arg-type]
            sealed = [
                one.record.matches(
                    {
                        "k": 0,
                        node.times[0].name: node.window.origin + (i + 1) * node.window.slide - 1,
                    }
                )
                for i in windows
            ]  # type: ignore[union-attr]
            assert not windows or gone == all(sealed)
        first = in_pane(node, pane, rng, 1)[0]
        assert not held_by(first["ts"], node.window) or any(r.matches(first) for r in below)  # type: ignore[arg-type]
        assert not any(r.matches({**first, "k": 1}) for r in below), "another group"


@pytest.mark.parametrize(
    ("agg", "test", "least"),
    [
        ("count(*)", order.from_(3, "bigint"), [{"v": None}] * 3),
        ("count(v)", order.above(1, "bigint"), [{"v": 0}, {"v": 0}]),
        ("max(v)", order.from_(5, "bigint") | Test((), True), [{"v": 5}]),
        ("max(v)", order.equal(1, "bigint") | order.above(4, "bigint"), [{"v": 5}]),
        ("min(v)", order.below(3, "bigint"), [{"v": 2}, {"v": None}]),
        ("max(v)", Test(((None, None),)), [{"v": 7}]),
    ],
)
def test_the_least_partial_that_proves(agg: str, test: Test, least: list[dict[str, Any]]) -> None:
    step = {"window": {"range": 10, "slide": 4}, "by": ["k"], "agg": {"n": agg, "s": "sum(v)"}}
    node = aggregate(source("a", random.Random(1)), step)
    assert isinstance(node, Aggregate)
    record = Pattern.of({"n": test})
    (one,) = proofs_of(node, record, 1, {"n": result(agg, least), "s": 0})
    # A window of 10 every 4 has panes of 2; pane 1 is in the windows 0, 1 and 2.
    assert one.record == Pattern.of({"k": Test.among([0]), "window": Test(((3, 15),))})
    fewer = [{"v": None} if "max" in agg or "min" in agg else r for r in least][:-1] or [
        {"v": None}
    ]
    assert not proofs_of(node, record, 1, {"n": result(agg, fewer), "s": 0})


@pytest.mark.parametrize(
    ("agg", "test"),
    [
        ("max(v)", order.below(5, "bigint")),
        ("max(v)", order.equal(5, "bigint")),
        ("min(v)", order.from_(5, "bigint")),
        ("count(*)", order.up_to(5, "bigint")),
        ("max(v)", Test((), True)),
        ("sum(v)", order.from_(5, "bigint")),
        ("avg(v)", order.from_(5, "double")),
    ],
)
@pytest.mark.spec("FC-F33")
def test_what_may_be_left_again_proves_nothing(agg: str, test: Test) -> None:
    step = {"window": {"range": 10, "slide": 4}, "by": ["k"], "agg": {"n": agg}}
    assert not proofs(aggregate(source("a", random.Random(1)), step), (Pattern.of({"n": test}),))


@pytest.mark.parametrize(
    "others",
    [
        {"window": {"session": 3}},
        {"window": {"landmark": 3, "origin": 0}},
        {"by": {"k": "k + 0"}},
        {"emit_empty": True},
    ],
)
def test_operators_that_seal_nothing(others: dict[str, Any]) -> None:
    step = {"window": {"range": 10, "slide": 4}, "by": ["k"], "agg": {"n": "count(*)"}, **others}
    record = Pattern.of({"n": order.from_(3, "bigint")})
    assert not proofs(aggregate(source("a", random.Random(1)), step), (record,))
    plain = aggregate(
        source("a", random.Random(1)),
        {**step, "window": {"range": 10, "slide": 4}, "by": ["k"], "emit_empty": False},
    )
    assert proofs(plain, (record,))
    for settings in (
        Reacting(), Reacting(seal=False), Reacting(propagate=False, seal=True),
        Reacting(exploit=False, propagate=False, seal=True),
    ):  # fmt: skip
        assert not proofs(replace(plain, reacting=settings), (record,))
    assert not proofs(plain.children[0], (record,))


def test_a_name_with_a_dot_is_a_name() -> None:
    """Nothing was sealed where a group column was called so, without a word."""
    step = {"window": {"range": 10, "slide": 4}, "by": {"k.x": "k"}, "agg": {"n": "count(*)"}}
    node = aggregate(source("a", random.Random(1)), step)
    record = Pattern.of({"n": order.from_(3, "bigint"), "k.x": Test.among([3])})
    (proof,) = proofs(node, (record,))
    assert proof.groups == ((0, Test.among([3])),)


def test_over_joins_no_word_is_needed() -> None:
    rng = random.Random(2)
    join = joined(source("a", rng), source("b", rng), rng)
    node = query.aggregate(
        join, {"window": {"range": 4}, "by": {"k": join.schema[0].name}, "agg": {"n": "count(*)"}}
    )
    record = Pattern.of({"n": order.from_(3, "bigint")})
    assert proofs(node, (record,))
    assert not proofs(replace(node, reacting=Reacting(seal=False)), (record,))


def test_a_record_with_a_test_of_something_else_is_not_proven() -> None:
    step = {
        "window": {"range": 4, "slide": 4},
        "by": ["k"],
        "agg": {"n": "count(*)", "s": "sum(v)"},
    }
    node = aggregate(source("a", random.Random(1)), step)
    assert not proofs(
        node, (Pattern.of({"n": order.from_(3, "bigint"), "s": order.from_(1, "bigint")}),)
    )
    assert not proofs(node, (Pattern.of({"k": Test.among([3])}),)), "rows tell that"


# --- what stands ------------------------------------------------------------------------------------------


def sealed(k: int | None, first: int, end: int, n: int = 3) -> Seal:
    record = Pattern.of({"k": Test.among([k]), "window": Test(((first, end),))})
    return Seal(Pattern.of({"n": order.from_(n, "bigint")}), record)


def of(*records: Pattern) -> tuple[Proof, ...]:
    return tuple(Proof(r, (), (), None, Pattern(())) for r in records)


def test_a_seal_stands_as_long_as_what_it_follows_from() -> None:
    seals = (sealed(0, 3, 7), sealed(1, 3, 7))
    three = Pattern.of({"n": order.from_(3, "bigint")})
    two = Pattern.of({"n": order.from_(2, "bigint") | Test((), True)})
    four = Pattern.of({"n": order.from_(4, "bigint")})
    assert standing(seals, of(three)) is seals and standing(seals, of(four, two)) is seals
    assert standing(seals, of(four)) == () == standing(seals, ())
    other_view = Pattern.of({"n": order.from_(3, "bigint"), "k": Test.among([1, 2])})
    assert standing(seals, of(other_view)) == seals[1:]
    later = Pattern.of({"n": order.from_(3, "bigint"), "window": order.from_(4, "bigint")})
    assert standing(seals, of(later)) == ()


def test_groups_that_are_alike_are_one_record() -> None:
    node = aggregate(
        source("a", random.Random(1)),
        {"window": {"range": 4, "slide": 4}, "by": ["k"], "agg": {"n": "count(*)"}},
    )
    many = together(node, [sealed(0, 3, 7), sealed(1, 7, 11), sealed(0, 7, 11), sealed(None, 3, 7)])
    assert [s.record.test("window") for s in many] == [
        Test(((3, 11),)),
        Test(((7, 11),)),
        Test(((3, 7),)),
    ]
    assert together(node, many, most=2) == many[:2]
    back = reaching_back(many, {"window": 8})
    assert [s.record.test("window") for s in back] == [
        Test(((None, 11),)),
        Test(((None, 11),)),
        Test(((3, 7),)),
    ]
    assert reaching_back(many, {"window": 2}) is many is reaching_back(many, {})
    assert len(as_records(back)) == 2
    assert Pattern.of({"k": Test.among([0, 1]), "window": Test(((None, 11),))}) in as_records(back)
    assert panes_of(node, many, 0) == 4 and panes_of(node, back, 4) == 2
    assert Seal.from_json(many[0].to_json()) == many[0]


# --- the kernel does the same, in columns -----------------------------------------------------------------

VALUES: dict[str, list[Any]] = {
    "bigint": [None, -(2**63), -1, 0, 1, 2**63 - 1],
    "int": [None, -5, 0, 7],
    "double": [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 0.5, 1e300],
    "float": [None, math.nan, math.inf, -0.0, 0.5],
    "decimal(5,2)": [None, Decimal("-1.50"), Decimal("0.00"), Decimal("999.99")],
    "decimal(38,0)": [None, Decimal(10**37 + 1), Decimal(10**37)],
    "string": [None, "", "a", "ab", "b", "é", "\U0001f600", "\uffff"],
    "boolean": [None, False, True],
    "date": [None, -3, 0, 19000],
    "timestamp": [None, -1, 0, 1_700_000_000_000_000],
}


def column(type: str, values: Sequence[Any]) -> pa.Array:
    if type == "date":
        return pa.array(values, pa.int32()).cast(arrow_type(type))
    if type == "timestamp":
        return pa.array(values, pa.int64()).cast(arrow_type(type))
    return pa.array(values, arrow_type(type))


@pytest.mark.parametrize("type", VALUES)
def test_values_pass_tests_as_their_codes_do(type: str) -> None:
    rng = random.Random(type)
    codes = [v if type in ("date", "timestamp") else order.code(v, type) for v in VALUES[type]]
    array = column(type, VALUES[type])
    for _ in range(40):
        test = Test((), rng.random() < 0.3)
        for v in rng.sample(VALUES[type], 2):
            if v is not None:
                test |= rng.choice([order.below, order.from_, order.above, order.equal])(v, type)
        if rng.random() < 0.3:
            test = test & rng.choice([order.below, order.from_])(VALUES[type][-1], type)
        assert passes(array, type, test).tolist() == [test.matches(c) for c in codes], test


@given(SEEDS)
@examples(60)
def test_tasks_find_what_the_rule_says(seed: int) -> None:
    rng = random.Random(seed)
    node: Node = best(rng)
    while not isinstance(node, Aggregate) or len(node.keys) != 1:
        node = best(rng)
    assert isinstance(node.window, TimeWindow)
    keys = tuple(f for f in node.schema if f.name == "k")
    plan: Any = rng.choice(["panes", "wids"])
    spec = AggregateSpec(keys, node.window, node.primitives, plan, True)
    rows = [
        {"_bucket": 0, "_k0": rng.choice([None, 0, 1]), "_pane": pane}
        | {
            f.name: rng.choice([0, 1, 2, 3] if f.name.endswith("_n") else [None, 0, 1, 2])
            for f in partials_schema(spec)
            if f.name[:2] == "_a"
        }
        for pane in range(-5, 8)
    ]
    table = pa.Table.from_pylist(rows, partials_schema(spec))
    mine = proofs(node, tuple(one_way(rng, node) for _ in range(3)))
    closed = rng.randint(-3, 2)
    found = {(p.proof, p.group[0], p.windows) for p in proven(spec, table, mine, closed)}
    wanted = set()
    for row in rows:
        pane = row["_pane"]
        windows = (pane, pane + 1)
        if plan == "panes":
            panes = Panes.of(node.window)
            windows = (pane // panes.per_slide, (pane + panes.per_window) // panes.per_slide)
        values = {
            p.name: row[f"{p.name}_n" if p.function == "count" else f"{p.name}_v"]
            for p in node.primitives
        }
        for i, p in enumerate(mine):
            if windows[1] > closed + 1 and p.proven(values, (row["_k0"],), windows):
                wanted.add((i, row["_k0"], windows))
    assert found == wanted


def test_of_many_the_largest_and_newest_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.kernels.windows.sealing.MOST_SEALED", 3)
    node = aggregate(
        source("a", random.Random(1)),
        {"window": {"range": 4, "slide": 4}, "by": ["k"], "agg": {"n": "count(*)"}},
    )
    assert isinstance(node, Aggregate) and isinstance(node.window, TimeWindow)
    spec = AggregateSpec(
        tuple(f for f in node.schema if f.name == "k"), node.window, node.primitives, "panes", True
    )
    name = spec.primitives[0].name
    rows = [
        {"_bucket": 0, "_k0": k, "_pane": k % 2, f"{name}_n": n}
        for k, n in enumerate([5, 9, 5, 7, 5, 2])
    ]
    table = pa.Table.from_pylist(rows, partials_schema(spec))
    found = proven(spec, table, proofs(node, (Pattern.of({"n": order.from_(3, "bigint")}),)), -10)
    assert [(p.group, p.weight) for p in found] == [((1,), 9), ((3,), 7), ((0,), 5)]
