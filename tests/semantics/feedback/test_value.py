"""The value of feedback: order of values, text, conditions in three-valued logic."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn, window_time
from slackwater.semantics.feedback import order
from slackwater.semantics.feedback.columns import Column, Columns
from slackwater.semantics.feedback.condition import (
    And,
    Comparison,
    Condition,
    Constant,
    Not,
    Or,
    ignore,
    only,
)
from slackwater.semantics.feedback.text import parsed
from slackwater.semantics.feedback.value import ANY, Feedback, largest
from slackwater.semantics.patterns import Pattern, Test
from tests.examples import examples

NAN, INF = math.nan, math.inf
WINDOW = "struct<start:timestamp,end:timestamp>"
TS = TimeColumn("ts", "timestamp")
COLUMNS = Columns(
    (
        Field("k", "string"),
        Field("wid", "bigint"),
        Field("window", WINDOW),
        Field("speed", "double"),
        Field("price", "decimal(6,2)"),
        Field("day", "date"),
        Field("ok", "boolean"),
        Field("a b", "float"),
        Field("tags", "array<string>"),
    ),
    (window_time("window", TS),),
)


def spark_order(x: float) -> tuple[int, float]:
    """Spark's order of floats: NaN above all, zeros equal."""
    return (1, 0.0) if math.isnan(x) else (0, x)


DOUBLES = st.floats() | st.sampled_from([0.0, -0.0, NAN, INF, -INF, 5e-324, -5e-324])
SINGLES = st.floats(width=32) | st.sampled_from([0.0, -0.0, NAN, INF, -INF, 2.0**-149])


@pytest.mark.parametrize(("type", "values"), [("double", DOUBLES), ("float", SINGLES)])
def test_codes_of_floats_are_in_sparks_order(type: str, values: st.SearchStrategy[float]) -> None:
    @given(values, values)
    def agree(x: float, y: float) -> None:
        a, b = order.code(x, type), order.code(y, type)
        assert isinstance(a, int) and isinstance(b, int)
        assert (a < b) == (spark_order(x) < spark_order(y))
        assert (a == b) == (spark_order(x) == spark_order(y))
        assert spark_order(order.value_of(a, type)) == spark_order(x)

    agree()


COMPARE: dict[str, tuple[Any, Any]] = {
    "<": (order.below, lambda x, v: x < v),
    "<=": (order.up_to, lambda x, v: x <= v),
    ">": (order.above, lambda x, v: x > v),
    ">=": (order.from_, lambda x, v: x >= v),
    "=": (order.equal, lambda x, v: x == v),
}
OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "tinyint": st.integers(-128, 127),
    "double": DOUBLES,
    "float": SINGLES,
    "decimal(3,1)": st.integers(-999, 999).map(lambda u: Decimal(u).scaleb(-1)),
}
NUMBERS = (
    st.integers(-130, 130)
    | DOUBLES
    | st.decimals(-200, 200, places=3)
    | st.sampled_from([1e308, -1e308, 1e-300])
)


@pytest.mark.parametrize("type", OF_TYPE)
def test_comparisons_with_any_number_are_exact(type: str) -> None:
    @examples(100)
    @given(OF_TYPE[type], NUMBERS, st.sampled_from(list(COMPARE)))
    def agree(x: Any, limit: Any, op: str) -> None:
        make, holds = COMPARE[op]
        wanted = holds(_exact(x), _exact(limit))
        assert make(limit, type).matches(order.code(x, type)) == wanted
        assert not make(limit, type).matches(None)

    agree()


def _exact(x: Any) -> tuple[int, Any]:
    if isinstance(x, float):
        if math.isnan(x):
            return 2, 0
        if math.isinf(x):
            return (1 if x > 0 else -1), 0
    return 0, Decimal(x)


def test_a_double_column_is_compared_as_spark_casts_it() -> None:
    for value, code in itertools.product([0.1, 0.29, 0.3, -0.1, NAN, INF, -INF], range(-99, 100)):
        as_double = float(Decimal(code).scaleb(-2))
        for above in (False, True):
            first = order.first_as_double(value, "decimal(2,2)", above)
            reached = (
                spark_order(as_double) > spark_order(value)
                if above
                else (spark_order(as_double) >= spark_order(value))
            )
            assert (code >= first) == reached


def test_tests_that_all_values_pass_are_one_test() -> None:
    assert order.from_(False, "boolean") == order.up_to(NAN, "double") == Test(((None, None),))
    assert order.above(127, "tinyint").empty and order.above(NAN, "float").empty
    assert order.equal(Decimal("1.5"), "int").empty


@pytest.mark.parametrize(
    ("value", "type"),
    [("a", "int"), (1, "string"), (True, "int"), (1, "boolean"), ("x", "date"), (0.1, "float")],
)
def test_a_value_of_another_type_has_no_code(value: Any, type: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        order.code(value, type)


# --- text ------------------------------------------------------------------------------------------------


def test_text_by_position_and_by_name_say_the_same() -> None:
    by_place = parsed("~['a', < 9, *, >= 50, *, *, *, *, *]", COLUMNS)
    assert by_place == parsed("~{speed >= 50, WID < 9, k = 'a'}", COLUMNS)
    assert str(by_place) == "~{k = 'a', speed >= 50.0, wid < 9}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("~{speed > 1.5}", "~{speed > 1.5}"),
        ("~{speed in (1, NaN, null)}", "~{speed IN (1.0, NaN) OR IS NULL}"),
        ("~{`a b` <= 0.5}", "~{`a b` <= 0.5}"),
        ("~{price between 1 and 2.505}", "~{price >= 1.00 AND < 2.51}"),
        ("~{k >= 'it''s' AND < 'z' OR IS NULL}", "~{k >= 'it''s' AND < 'z' OR IS NULL}"),
        ("~{k > 'a'} ~{ok}", None),
        ("~{ok false} ~{wid 3}", "~{ok = false} ~{wid = 3}"),
        ("~{day <= '2026-01-31', k is not null}", "~{day < '2026-02-01', k IS NOT NULL}"),
        ("~{window.end <= '2026-01-01 00:00:00'}", "~{window.end <= '2026-01-01 00:00:00+00:00'}"),
        ("~{window.start >= '2026-01-01 02:00:00+02:00'}", "~{window.start >= '2026-01-01 00:00:00+00:00'}"),
        ("~{wid <> 4}", "~{wid < 4 OR >= 5}"),
    ],
)  # fmt: skip
def test_text_is_read_and_shown(text: str, shown: str | None) -> None:
    if shown is None:
        with pytest.raises(AnalysisError):
            parsed(text, COLUMNS)
        return
    made = parsed(text, COLUMNS)
    assert str(made) == shown
    assert parsed(shown, COLUMNS) == made
    assert Feedback.from_json(made.to_json()) == made


@pytest.mark.parametrize(
    ("text", "caret", "says"),
    [
        ("~{sped >= 50}", 2, "no column 'sped'"),
        ("~{speed >= 'x'}", 11, "'x' is no value of column 'speed'"),
        ("~{wid < 9", 9, "} is expected here"),
        ("~[*, *]", 6, "2 of 9 columns"),
        ("~[*,*,*,*,*,*,*,*,*,*]", 20, "there are 9 columns"),
        ("~[*, 3, 4, *, *, *, *, *, *]", 8, "has no single value"),
        ("{wid < 9}", 0, "~ is expected here"),
        ("~{wid <}", 7, "a test is expected here"),
        ("~{wid < 9, k ; 3}", 13, "not understood"),
        ("~{wid < 9} ~{speed *}", 11, "without a test"),
        ("~{tags = 'a'}", 2, "cannot test"),
        ("~{window.middle < 3}", 2, "no field 'middle'"),
        ("~{wid in 3}", 9, "( is expected here"),
        ("~{k is 3}", 7, "NULL is expected"),
    ],
)
def test_a_caret_stands_at_the_fault(text: str, caret: int, says: str) -> None:
    with pytest.raises(AnalysisError) as raised:
        parsed(text, COLUMNS)
    message, line, mark = raised.value.message.splitlines()
    assert says in message
    assert line == f"  {text}"
    assert mark == " " * (caret + 2) + "^"
    assert raised.value.hint


def spans_on(column: Column, values: list[Any]) -> st.SearchStrategy[Test]:
    codes = sorted({c for v in values if (c := order.code(v, column.type)) is not None}, key=str)
    end = st.none() | st.sampled_from(codes)
    return st.builds(
        lambda spans, null: order.within(spans, column.type, null),
        st.lists(st.tuples(end, end), max_size=3),
        st.booleans(),
    )


VALUES: dict[str, list[Any]] = {
    "k": ["", "a", "a\0", "it's", "z"],
    "wid": [-(2**63), -1, 0, 3, 2**63 - 1],
    "speed": [-INF, -1.5, -0.0, 0.0, 5e-324, 50.0, INF, NAN],
    "price": [Decimal("-9999.99"), Decimal("0.00"), Decimal("1.50")],
    "day": [dt.date(1969, 12, 31), dt.date(2026, 1, 31)],
    "ok": [False, True],
    "a b": [struct.unpack("f", struct.pack("f", x))[0] for x in (0.1, 1e30)],
    "window.end": [dt.datetime(2026, 1, 1, 0, 0, 0, s, dt.timezone.utc) for s in (0, 1, 999)],
}


@given(st.data())
@pytest.mark.spec("FC-F6")
def test_what_is_shown_is_read_back(data: st.DataObject) -> None:
    tests = {}
    for name, values in VALUES.items():
        column = COLUMNS.column(name.split("."))
        if data.draw(st.booleans()):
            test = data.draw(spans_on(column, values))
            if test != ANY and not test.empty:
                tests[column.name] = (column, test)
    if tests:
        made = Feedback.of(
            [Pattern.of({n: t for n, (_, t) in tests.items()})], [c for c, _ in tests.values()]
        )
        assert parsed(str(made), COLUMNS) == made


def test_the_end_of_a_window_is_the_time_of_its_result() -> None:
    made = parsed("~{window.end < '1970-01-01 00:00:10'}", COLUMNS)
    assert made.records == (Pattern.of({"window": Test.below(10_000_000 - 1)}),)
    row = {"window": {"start": 0, "end": 10_000_000}}
    assert not made.matches(row)
    assert made.matches({"window": {"start": 0, "end": 9_999_999}})
    assert not made.matches({"window": None})


def test_null_passes_only_is_null_and_the_wildcard() -> None:
    rows: list[dict[str, Any]] = [{"k": None, "wid": 1}, {"k": "a", "wid": 1}]
    for text, wanted in [
        ("~{k IS NULL}", [True, False]),
        ("~{k <> 'b'}", [False, True]),
        ("~{k IS NOT NULL}", [False, True]),
        ("~{wid 1}", [True, True]),
        ("~{k IN ('a', NULL)}", [True, True]),
    ]:
        assert [parsed(text, COLUMNS).matches(r) for r in rows] == wanted, text


# --- conditions ------------------------------------------------------------------------------------------

SMALL = [None, 0, 1, 2, 3]
X, Y = Column("x", "int"), Column("y", "int")


def evaluate(condition: Condition, row: dict[str, int | None]) -> bool | None:
    """SQL's logic, row by row."""
    if isinstance(condition, Constant):
        return condition.value
    if isinstance(condition, Not):
        inner = evaluate(condition.part, row)
        return None if inner is None else not inner
    if isinstance(condition, Comparison):
        value = row[condition.column.name]
        if condition.true.matches(value):
            return True
        return False if condition.false.matches(value) else None
    values = [evaluate(p, row) for p in condition.parts]
    decides = isinstance(condition, Or)
    if decides in values:
        return decides
    return None if None in values else not decides


def random_condition(rng: random.Random, depth: int) -> Condition:
    kind = rng.randrange(8 if depth else 4)
    if kind < 4:
        column, value = rng.choice([X, Y]), rng.randrange(4)
        made = rng.choice([order.below, order.equal, order.above])(value, "int")
        if kind == 0:
            return Comparison.certain(column, made | Test((), rng.random() < 0.5))
        if kind == 1:
            return Comparison(column, made, Test())  # IN with a null in the list
        return Comparison.comparing(column, made)
    if kind == 4:
        return Not(random_condition(rng, depth - 1))
    if kind == 5 and rng.random() < 0.2:
        return Constant(rng.choice([True, False, None]))
    parts = tuple(random_condition(rng, depth - 1) for _ in range(rng.randint(1, 3)))
    return And(parts) if kind == 6 else Or(parts)


@examples(150)
@given(st.randoms(use_true_random=False))
def test_records_are_the_rows_that_a_condition_gives_up(rng: random.Random) -> None:
    condition = random_condition(rng, 3)
    rows = [{"x": x, "y": y} for x, y in itertools.product(SMALL, SMALL)]
    for make, true in ((ignore, True), (only, False)):
        wanted = [(evaluate(condition, r) is True) == true for r in rows]
        try:
            made = make(condition)
        except AnalysisError as e:
            everything = "without a test" in e.message
            assert all(wanted) if everything else not any(wanted)
            continue
        assert [made.matches(r) for r in rows] == wanted


def test_more_than_64_records_are_refused() -> None:
    # One record per pair: the columns differ, and no two can be made one.
    def pair(i: int) -> Condition:
        test = order.equal(i, "int")
        return And((Comparison.comparing(X, test), Comparison.comparing(Y, test)))

    assert len(ignore(Or(tuple(pair(i) for i in range(64)))).records) == 64
    with pytest.raises(AnalysisError, match="TOO_MANY_RECORDS"):
        ignore(Or(tuple(pair(i) for i in range(65))))


def test_a_condition_that_explodes_is_refused_soon() -> None:
    def either(i: int) -> Condition:
        columns = [Column(f"c{i}_{n}", "int") for n in range(9)]
        return Or(tuple(Comparison.comparing(c, order.equal(1, "int")) for c in columns))

    with pytest.raises(AnalysisError, match="TOO_MANY_RECORDS"):
        ignore(And(tuple(either(i) for i in range(20))))


@pytest.mark.spec("FC-F15")
def test_feedback_about_all_rows_or_none_is_refused() -> None:
    always = Comparison.certain(X, ANY)
    with pytest.raises(AnalysisError, match="no row is wanted at all"):
        ignore(always)
    with pytest.raises(AnalysisError, match="says nothing"):
        only(always)


def test_an_unknown_intent_is_refused() -> None:
    json = parsed("~{wid 3}", COLUMNS).to_json()
    with pytest.raises(AnalysisError, match="desired"):
        Feedback.from_json({**json, "intent": "desired"})


# --- records within others ------------------------------------------------------------------------------


def _one_by_one(records: list[Pattern]) -> list[Pattern]:
    """The definition: each is held against each."""
    distinct = list(dict.fromkeys(records))
    return [
        r
        for i, r in enumerate(distinct)
        if not any(
            i != j and r.within(other) and (j < i or not other.within(r))
            for j, other in enumerate(distinct)
        )
    ]


def _some_record(rng: random.Random) -> Pattern:
    def end() -> int | None:
        return None if rng.random() < 0.2 else rng.randint(0, 9)

    tests = {}
    for column in rng.sample("abc", rng.randint(0, 3)):
        spans = [(end(), end()) for _ in range(rng.randint(1, 2))]
        test = Test.of([s for s in spans if None in s or s[0] < s[1]], rng.random() < 0.2)  # type: ignore[operator, misc]
        if not test.empty:
            tests[column] = test
    return Pattern.of(tests)


@examples(200)
@given(st.integers(0, 2**32 - 1))
def test_records_that_others_cover_are_left_out(seed: int) -> None:
    rng = random.Random(seed)
    records = [_some_record(rng) for _ in range(rng.randint(0, 14))]
    assert largest(records) == _one_by_one(records)


def test_a_thousand_records_are_not_held_against_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0
    real = Pattern.apart

    def counted(self: Pattern, other: Pattern) -> bool:
        nonlocal compared
        compared += 1
        return real(self, other)

    monkeypatch.setattr(Pattern, "apart", counted)
    ranges = [
        Pattern.of({"a": Test.below(-k), "k": Test(((10 * k, 10 * k + 5),))}) for k in range(1000)
    ]
    assert largest(ranges) == ranges
    assert compared < 5000
