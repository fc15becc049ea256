"""The algebra of patterns, against the rows that each one matches."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import ExecutionError
from slackwater.semantics.pattern_text import pattern_of
from slackwater.semantics.patterns import (
    Pattern,
    Patterns,
    Span,
    Test,
    above,
    crossed,
    joined,
    merged,
)
from tests.examples import examples

NUMBERS = range(-1, 8)
WORDS = ["", "a", "a\0", "ab", "b", "c"]
ROWS = [
    {"k": k, "n": n, "t": t}
    for k, n, t in itertools.product([*WORDS, None], [None, 0, 1, 2], NUMBERS)
]


def spans(values: st.SearchStrategy[int] | st.SearchStrategy[str]) -> st.SearchStrategy[Span]:
    end = st.none() | values
    return st.tuples(end, end)


def made_over(values: st.SearchStrategy[int] | st.SearchStrategy[str]) -> st.SearchStrategy[Test]:
    made: Callable[..., Test] = Test.of
    return st.builds(made, st.lists(spans(values), max_size=3), st.booleans())


WORD_TESTS = made_over(st.sampled_from(WORDS))
NUMBER_TESTS = made_over(st.integers(0, 6))
PATTERNS = st.builds(
    lambda k, n, t: Pattern.of({c: v for c, v in (("k", k), ("n", n), ("t", t)) if v is not None}),
    st.none() | WORD_TESTS,
    st.none() | NUMBER_TESTS,
    st.none() | NUMBER_TESTS,
)


def rows_of(patterns: Patterns) -> list[bool]:
    return [any(p.matches(r) for p in patterns) for r in ROWS]


@given(NUMBER_TESTS, NUMBER_TESTS)
def test_tests_are_sets(a: Test, b: Test) -> None:
    for v in [*NUMBERS, None]:
        assert (a | b).matches(v) == (a.matches(v) or b.matches(v))
        assert (a & b).matches(v) == (a.matches(v) and b.matches(v))
        assert (a - b).matches(v) == (a.matches(v) and not b.matches(v))
    inside = all(b.matches(v) for v in [*range(-2, 10), None] if a.matches(v))
    assert a.within(b) == inside
    for t in (a | b, a & b, a - b):
        assert t == Test.of(t.spans, t.null)  # one way to write a set


@given(WORD_TESTS, WORD_TESTS)
def test_tests_of_text_are_sets(a: Test, b: Test) -> None:
    for v in [*WORDS, "zz", None]:
        assert (a | b).matches(v) == (a.matches(v) or b.matches(v))
        assert (a & b).matches(v) == (a.matches(v) and b.matches(v))
        assert (a - b).matches(v) == (a.matches(v) and not b.matches(v))


@pytest.mark.spec("WQ-F3")
@given(PATTERNS, PATTERNS)
@examples(30)
def test_patterns_are_sets_of_rows(p: Pattern, q: Pattern) -> None:
    one, two = rows_of((p,)), rows_of((q,))
    assert rows_of((p & q,)) == [a and b for a, b in zip(one, two, strict=True)]
    if p.within(q):
        assert all(b for a, b in zip(one, two, strict=True) if a)
    rest = p.without(q, frozenset())
    if rest is None:
        assert all(b for a, b in zip(one, two, strict=True) if a)
    else:
        left = rows_of((rest,))
        assert [a or b for a, b in zip(left, two, strict=True)] == [
            a or b for a, b in zip(one, two, strict=True)
        ]
    assert Pattern.from_json(json.loads(json.dumps(p.to_json()))) == p


@given(st.lists(st.lists(PATTERNS, max_size=3), max_size=4))
@examples(40)
def test_joined_says_what_all_said(batches: list[list[Pattern]]) -> None:
    state: Patterns = ()
    everything: list[Pattern] = []
    for batch in batches:
        before = rows_of(state)
        state = joined(state, batch, ["t"])
        everything += batch
        assert rows_of(state) == rows_of(tuple(everything))
        assert all(b for a, b in zip(before, rows_of(state), strict=True) if a)


@given(st.lists(PATTERNS, max_size=4), st.lists(PATTERNS, max_size=4))
@examples(30)
def test_crossed_says_what_each_says(a: list[Pattern], b: list[Pattern]) -> None:
    both = crossed([merged(a), merged(b)], ["t"])
    assert rows_of(both) == [
        x and y for x, y in zip(rows_of(tuple(a)), rows_of(tuple(b)), strict=True)
    ]


@given(st.lists(PATTERNS, max_size=4), st.integers(0, 7))
def test_above_says_what_bounds_do_not(patterns: list[Pattern], bound: int) -> None:
    linear = Pattern.of({"t": Test.below(bound)})
    rest = above(tuple(patterns), {"t": bound})
    assert rows_of((*rest, linear)) == rows_of((*patterns, linear))
    assert not any(p.within(linear) and not p.empty for p in rest)


@pytest.mark.spec("WQ-F6")
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=60))
def test_group_wise_punctuation_needs_one_limit_per_group(said: list[tuple[str, int]]) -> None:
    state: Patterns = ()
    limits: dict[str, int] = {}
    for key, limit in said:
        state = joined(state, [before(key, limit)], ["t"])
        limits[key] = max(limits.get(key, 0), limit)
        assert len(state) <= len(limits)  # what later punctuation says again is forgotten
    for key, limit in limits.items():
        assert any(p.matches({"k": key, "t": limit - 1}) for p in state)
        assert not any(p.matches({"k": key, "t": limit}) for p in state)


def before(key: str, limit: int) -> Pattern:
    return Pattern.of({"k": Test.among([key]), "t": Test.below(limit)})


TYPES = {"k": "string", "n": "int", "ts": "timestamp", "d": "date", "b": "boolean", "x": "double"}


@pytest.mark.spec("WQ-F3")
@pytest.mark.parametrize(
    ("op", "value", "passing"),
    [
        ("=", "3", {3}),
        ("in", "[1, 5, null]", {1, 5, None}),
        ("<", "2", {0, 1}),
        ("<=", "2", {0, 1, 2}),
        (">", "4", {5, 6}),
        (">=", "4", {4, 5, 6}),
        ("range", "[2, 4]", {2, 3}),
        ("range", "[null, 2]", {0, 1}),
        ("IS  null", None, {None}),
    ],
)
def test_operations(op: str, value: str, passing: set[int | None]) -> None:
    p = pattern_of({"n": (op, value), "k": ("*", None)}, TYPES)
    assert {v for v in [*range(7), None] if p.matches({"n": v, "k": "whatever"})} == passing


def test_values_by_type() -> None:
    p = pattern_of(
        {"ts": ("<", "1970-01-01 01:00:01"), "d": ("=", "1970-01-03")}, TYPES, "Europe/Paris"
    )
    assert p.test("ts") == Test.below(1_000_000)
    assert p.test("d") == Test.among([2])
    assert pattern_of({"B": ("=", "TRUE")}, TYPES).test("b") == Test.among([1])
    assert pattern_of({"k": ("<=", "a")}, TYPES).matches({"k": "a"})


@pytest.mark.parametrize(
    "tests",
    [
        {"nope": ("=", "1")}, {"x": ("=", "1.0")}, {"n": ("=", "a")}, {"n": ("=", None)},
        {"n": ("~", "1")}, {"n": ("in", "1")}, {"n": ("range", "[1]")}, {"n": ("*", None)}, {},
        {"ts": ("<", "noon")}, {"b": ("=", "maybe")},
    ],
)  # fmt: skip
def test_bad_punctuation_is_named(tests: dict[str, tuple[str, str | None]]) -> None:
    with pytest.raises(ExecutionError) as e:
        pattern_of(tests, TYPES)
    assert e.value.condition == "BAD_PUNCTUATION" and e.value.hint
