"""Templates and schemes: text, conformance, coverage, merging; and what finite streams do with them."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.semantics.contracts.finite import (
    broken,
    is_grammatical,
    is_linear,
    obeys,
    uncovered,
    unfit,
    well_typed,
)
from slackwater.semantics.contracts.template_text import parse_scheme, parse_template
from slackwater.semantics.contracts.templates import (
    Class,
    Template,
    admits,
    conforms,
    covers,
    least,
    merged,
)
from slackwater.semantics.pattern_text import pattern_of
from slackwater.semantics.patterns import Pattern, Test

TYPES = {"a": "bigint", "b": "bigint", "c": "bigint", "name": "string", "on": "boolean", "x": "double"}  # fmt: skip


def pattern(**tests: tuple[str, Any]) -> Pattern:
    return pattern_of({c: (op, str(v)) for c, (op, v) in tests.items()}, TYPES)


def time(text: str) -> int:
    hours, minutes = text.split(":")[:2]
    return int(hours) * 60 + int(minutes)


# --- text ---------------------------------------------------------------------------------------------

templates = st.dictionaries(
    st.sampled_from(["a", "b", "c", "odd name", "tick`ed"]),
    st.sampled_from(["+", "#", "^"]),
    min_size=1,
).map(Template.of)


@pytest.mark.spec("FC-F58")
@given(templates, st.booleans())
def test_what_is_printed_is_read_back(template: Template, all_columns: bool) -> None:
    columns = ["z", *sorted(template.columns)]
    text = template.shown(columns) if all_columns else str(template)
    assert parse_template(text, feedback=True) == template


def test_columns_that_are_left_out_are_free_and_names_are_those_of_the_stream() -> None:
    wanted = Template.of({"a": "+", "name": "#"})
    for text in ("[[a:+, name:#]]", "[[ A : + ,b:-,NAME:#]]", "[[`name`:#, a:+, x:-]]"):
        assert parse_template(text, TYPES) == wanted
    assert parse_scheme(["[[a:+]]", "[[a:+, b:-]]", "[[b:#]]"], TYPES) == (
        Template.of({"a": "+"}), Template.of({"b": "#"}),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "caret", "named"),
    [
        ("a:+", 0, "begins with [["),
        ("[[a:+", 5, "ends with ]]"),
        ("[[a:+]] x", 8, "nothing comes after"),
        ("[[a]]", 3, "column:class"),
        ("[[z:+]]", 2, "'z' does not exist"),
        ("[[a:%]]", 4, "no class"),
        ("[[a:^]]", 4, "for feedback"),
        ("[[a:+, A:#]]", 7, "'a' is there twice"),
        ("[[on:+]]", 5, "has no order"),
        ("[[x:#]]", 4, "cannot test"),
        ("[[a:-, b:-]]", 0, "restricts no column"),
        ("[[:+]]", 2, "a column's name"),
    ],
)
def test_a_fault_is_shown_by_a_caret(text: str, caret: int, named: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        parse_template(text, TYPES)
    error = caught.value
    assert error.condition == "BAD_SCHEME" and named in error.message and error.hint
    shown, mark = error.message.splitlines()[-2:]
    assert shown == f"    {text}" and mark == " " * (4 + caret) + "^"


def test_a_scheme_has_templates() -> None:
    with pytest.raises(AnalysisError, match="promises nothing"):
        parse_scheme([], TYPES)
    with pytest.raises(AnalysisError, match="is a text"):
        parse_template(7)  # type: ignore[arg-type]


# --- conformance -----------------------------------------------------------------------------------------


@pytest.mark.spec("FC-F58")
def test_a_pattern_conforms_if_every_test_is_of_its_class_and_no_other_column_is_tested() -> None:
    t = parse_template("[[a:+, b:#, c:-]]")
    assert conforms(pattern(a=("<=", 690), b=("=", 26)), t)
    assert not conforms(pattern(b=("=", 26)), t)
    assert not conforms(pattern(a=("=", 690), b=("<", 26)), t)
    assert not conforms(pattern(a=("<=", 690), b=("=", 26), c=("=", 3)), t)


@pytest.mark.parametrize(
    ("test", "classes"),
    [
        (Test.below(4), "+"), (Test.among([4]), "#"), (Test.among([4, 9]), "#"), (Test.among([None]), "#"),
        (Test(((4, None),)), "^"), (Test(((2, 8),)), "#"), (Test.among(["a"]), "#"), (Test((("a", "c"),)), ""),
        (Test.below("c"), "+"), (Test(((None, 4),), True), ""), (Test(), ""), (Test(((None, None),)), ""),
        (Test(((None, 2), (5, 6))), ""),
    ],
)  # fmt: skip
def test_a_class_admits_its_tests(test: Test, classes: str) -> None:
    kinds: list[Class] = ["+", "#", "^"]
    assert "".join(k for k in kinds if admits(k, test)) == classes


# --- coverage and merging -------------------------------------------------------------------------------

DOMAIN = range(4)


def instances(template: Template) -> list[frozenset[tuple[int, int]]]:
    """The regions of all patterns of a form, over two columns; ``+`` never reaches the top of the domain."""
    regions = []
    for u, v in product((0, 1), repeat=2):
        holds = {"+": lambda x, w: x <= w, "#": lambda x, w: x == w, "-": lambda x, w: True, "^": lambda x, w: x >= w}  # fmt: skip
        a, b = template.kind("a"), template.kind("b")
        regions.append(frozenset((x, y) for x in DOMAIN for y in DOMAIN if holds[a](x, u) and holds[b](y, v)))  # fmt: skip
    return regions


FORMS = [
    Template.of({c: k for c, k in zip("ab", kinds, strict=True) if k != "-"})  # type: ignore[misc]
    for kinds in product("+#-^", repeat=2)
    if kinds != ("-", "-")
]


def test_one_form_covers_another_if_each_of_its_patterns_lies_in_one() -> None:
    """By regions, with patterns of ``wide`` anywhere; one form covers itself only by that. ``^`` is covered by no class."""
    for narrow, wide in product(FORMS, repeat=2):
        if "^" in (wide.kind("a"), wide.kind("b")):
            assert not covers(wide, narrow)
            continue
        # ``#`` within ``+`` at the least value of the domain is no coverage but an edge: these are told apart by both values.
        inside = all(any(r <= w for w in instances(wide)) for r in instances(narrow))
        assert covers(wide, narrow) == inside, (str(wide), str(narrow))


def test_merging_keeps_all_tags_and_the_narrower_class() -> None:
    assert merged(Template.of({"a": "+"}), Template.of({"a": "+"})) == Template.of({"a": "+"})
    assert merged(Template.of({"a": "+"}), Template.of({"a": "#"})) == Template.of({"a": "#"})
    both = merged(Template.of({"a": "+"}), Template.of({"b": "#"}))
    assert both == Template.of({"a": "+", "b": "#"})


@given(st.lists(st.sampled_from(FORMS[:8])))
def test_the_least_templates_cover_all_others_and_none_of_each_other(given: list[Template]) -> None:
    kept = least(given)
    assert set(kept) <= set(given)
    assert all(any(k == t or covers(k, t) for k in kept) for t in given)
    assert not any(covers(a, b) for a in kept for b in kept if a != b)


# --- finite streams --------------------------------------------------------------------------------------


def row(*values: Any) -> dict[str, Any]:
    return dict(zip("abc", values, strict=False))


def test_rows_are_of_their_schema() -> None:
    schema = {"time": "timestamp", "id": "int", "temperature": "double"}
    assert well_typed({"time": 600, "id": 4, "temperature": 76.5}, schema)
    assert not well_typed({"time": 600, "temperature": 76.5}, schema)
    assert not well_typed({"time": 600, "id": 4, "temperature": "warm"}, schema)
    assert not well_typed({"id": 4, "time": 600, "temperature": 76.5}, schema)
    assert well_typed({"time": None, "id": None, "temperature": None}, schema)


def test_v1_a_stream_is_grammatical_if_no_row_matches_what_came_before_it() -> None:
    rows = [row(time("10:00"), 4), row(time("10:00"), 3), row(time("9:59"), 7)]
    last = row(time("10:01"), 7)
    for op in ("<", "<="):
        assert is_grammatical([*rows, pattern(a=(op, time("10:00"))), last])
    seven = pattern(b=("=", 7))
    assert not is_grammatical([*rows, seven, last])
    assert broken([*rows, seven, last]) == (last, seven)


def test_v5_every_pattern_must_fit_a_template() -> None:
    scheme = [parse_template("[[a:+, b:#, c:-]]")]
    first = row(time("9:45"), 1, 7)
    before = time("10:00")
    good = [first, pattern(a=("<", before), b=("=", 1)), pattern(a=("<", before), b=("=", 2))]
    assert obeys(good, scheme)
    bad = [
        first,
        pattern(a=("<", before)),
        pattern(b=("=", 2)),
        pattern(a=("<", before + 5), b=("<", 1)),
    ]
    assert not obeys(bad, scheme) and len(unfit(bad, scheme)) == 3


def test_v6_every_row_must_be_covered_once_per_template() -> None:
    scheme = [parse_template("[[a:+, b:-, c:-]]"), parse_template("[[a:-, b:#, c:-]]")]
    stream: list[Any] = [
        row(16, 2, 23), row(17, 1, 13), row(17, 3, 31), pattern(a=("<", 20)), row(21, 1, 11), pattern(b=("=", 1)),
        row(21, 2, 21), row(21, 3, 31), pattern(a=("<", 25)), pattern(b=("=", 2)), row(27, 3, 30), pattern(a=("<", 30)),
    ]  # fmt: skip
    assert is_grammatical(stream) and not unfit(stream, scheme)
    assert not obeys(stream, scheme)
    assert {r["b"] for r, _ in uncovered(stream, scheme)} == {3}
    assert obeys([*stream, pattern(b=("=", 3))], scheme)
    with pytest.raises(AnalysisError, match="at least one template"):
        obeys(stream, [])


def test_linear_punctuation_is_up_to_values_of_one_column_that_never_go_back() -> None:
    assert is_linear([row(1, 1, 1), pattern(a=("<", 2)), pattern(a=("<=", 5)), pattern(a=("<", 6))], "a")  # fmt: skip
    assert not is_linear([pattern(a=("<", 6)), pattern(a=("<", 5))], "a")
    assert not is_linear([pattern(a=("<", 6)), pattern(a=("<", 7), b=("=", 1))], "a")
    assert not is_linear([pattern(b=("<", 6))], "a")
    assert not is_linear([pattern(a=("=", 6))], "a")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6), st.data())
def test_a_stream_that_ends_with_a_cover_of_each_form_obeys(rows: list[Any], data: Any) -> None:
    scheme = data.draw(st.lists(st.sampled_from(FORMS), min_size=1, unique=True))
    scheme = [t for t in scheme if "^" not in dict(t.tags).values()]
    if not scheme:
        return
    stream: list[Any] = [row(*r) for r in rows]
    for t in scheme:
        tests = {c: Test.below(9) if k == "+" else Test.among(range(9)) for c, k in t.tags}
        stream.append(Pattern.of(tests))
    assert obeys(stream, scheme) and is_grammatical(stream)
    if rows:
        assert not obeys(stream[: len(rows)], scheme)
        assert not is_grammatical([stream[-1], *stream])
