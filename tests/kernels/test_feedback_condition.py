"""Feedback's conditions from Spark's analysed texts, and the parts that are refused by name."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from slackwater.errors import AnalysisError
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.translate.feedback import condition_of, known_parts
from slackwater.kernels.translate.records import matching
from slackwater.model.node import Source
from slackwater.model.policy import Ordered
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn, window_time
from slackwater.semantics.feedback import order
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.condition import dropped, ignore, only
from slackwater.semantics.feedback.text import parsed
from slackwater.semantics.feedback.value import ANY
from slackwater.semantics.patterns import Pattern, Test

COLUMNS = Columns(
    (
        Field("a", "int"),
        Field("n", "bigint"),
        Field("d", "double"),
        Field("f", "float"),
        Field("p", "decimal(5,2)"),
        Field("s", "string"),
        Field("ok", "boolean"),
        Field("ts", "timestamp"),
        Field("window", "struct<start:timestamp,end:timestamp>"),
    ),
    (window_time("window", TimeColumn("ts", "timestamp")),),
)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("(`a` >= 40)", "~{a >= 40}"),
        ("(40 > `a`)", "~{a < 40}"),
        ("(`n` < CAST(9 AS BIGINT))", "~{n < 9}"),
        ("((`a` >= 40) AND (`a` <= 60))", "~{a between 40 and 60}"),
        ("`a` BETWEEN 40 AND 60", "~{a between 40 and 60}"),
        ("(NOT (`a` = 3))", "~{a <> 3}"),
        ("(`a` IN (1, 2))", "~{a in (1, 2)}"),
        ("(`a` IN (1, NULL))", "~{a 1}"),
        ("(`a` <=> NULL)", "~{a is null}"),
        ("(NOT (`a` <=> 3))", "~{a <> 3 or is null}"),
        ("((`a` < 3) OR (`s` = 'x'))", "~{a < 3} ~{s 'x'}"),
        ("(`d` >= CAST(50 AS DOUBLE))", "~{d >= 50}"),
        ("(CAST(`f` AS DOUBLE) = 0.5D)", "~{f 0.5}"),
        ("(CAST(`a` AS DOUBLE) < 1.5D)", "~{a < 2}"),
        ("(CAST(`p` AS DOUBLE) <= 0.1D)", "~{p <= 0.10}"),
        ("(CAST(`a` AS DECIMAL(11,1)) < CAST('1.5' AS DECIMAL(11,1)))", "~{a < 2}"),
        ("isnan(`d`)", "~{d NaN}"),
        ("isnotnull(`s`)", "~{s is not null}"),
        ("`ok`", "~{ok true}"),
        ("(NOT `ok`)", "~{ok false}"),
        ("(`ts` < TIMESTAMP '2026-01-01 00:00:00')", "~{ts < '2026-01-01 00:00:00'}"),
        (
            "(`ts` < TIMESTAMP '2026-01-01 00:00:00' - INTERVAL '1' DAY)",
            "~{ts < '2025-12-31 00:00:00'}",
        ),
        ("(`window`.`end` <= TIMESTAMP '2026-01-01 00:00:00')", "~{window.end <= '2026-01-01'}"),
        ("(`window`.`start` > TIMESTAMP '2026-01-01 00:00:00')", "~{window.start > '2026-01-01'}"),
        ("(`a` < (1 + 2))", "~{a < 3}"),
        ("((1 = 1) AND (`a` < 3))", "~{a < 3}"),
    ],
)  # fmt: skip
def test_an_analysed_condition_becomes_records(sql: str, text: str) -> None:
    assert str(ignore(condition_of(sql, COLUMNS))) == str(parsed(text, COLUMNS))


def test_only_gives_up_what_is_false_or_null() -> None:
    made = only(condition_of("((`a` >= 40) AND (`a` <= 60))", COLUMNS))
    assert str(made) == "~{a < 40 OR >= 61 OR IS NULL}"
    # An unknown value in the list: nothing is certainly not in it, and what is not listed is null.
    assert str(only(condition_of("(`a` IN (1, NULL))", COLUMNS))) == "~{a < 1 OR >= 2 OR IS NULL}"
    with pytest.raises(AnalysisError, match="says nothing"):
        ignore(condition_of("(NOT (`a` IN (1, NULL)))", COLUMNS))


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("((`a` = 1) AND (`a` < `n`))", "`a` < `n`"),
        ("((`a` = 1) OR (f(`a`) = 1))", "F(`a`) = 1"),
        ("((`a` + 1) = 2)", "(`a` + 1) = 2"),
        ("(CAST(`s` AS INT) = 2)", "CAST(`s` AS INT) = 2"),
        ("(CAST(`n` AS FLOAT) < CAST(2 AS FLOAT))", "CAST(`n` AS FLOAT) < CAST(2 AS FLOAT)"),
        ("(`s` LIKE 'a%')", "`s` LIKE 'a%'"),
        ("(`a` IN (1, `n`))", "`a` IN (1, `n`)"),
    ],
)
def test_what_is_no_test_of_one_column_is_refused_by_name(sql: str, part: str) -> None:
    with pytest.raises(AnalysisError) as raised:
        condition_of(sql, COLUMNS)
    assert raised.value.getMessageParameters()["part"] == part
    assert "compute it as a column" in raised.value.hint


def test_an_unknown_column_is_named_with_those_that_are_there() -> None:
    with pytest.raises(AnalysisError, match="there is no column 'b'") as raised:
        condition_of("(`b` = 1)", COLUMNS)
    assert "window.start, window.end" in raised.value.hint


def test_a_constant_leaves_the_column_engine_free_for_other_work() -> None:
    other = pa.table({"v": [1, 2]})
    before = sql_to_arrow(connect(), "SELECT sum(v) AS n FROM other", {"other": other})
    condition_of("(`a` >= (40 + 2))", COLUMNS)
    assert sql_to_arrow(connect(), "SELECT sum(v) AS n FROM other", {"other": other}) == before


TYPED = Columns(
    tuple(
        Field(n, t)
        for n, t in {
            "d": "double", "f": "float", "e": "decimal(10,2)", "k": "int", "t": "timestamp", "n": "timestamp_ntz",
            "day": "date",
        }.items()
    ),
    (),
    "Europe/Berlin",
)  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "records"),
    [
        ("d <= 1.5", "~{d <= 1.5}"),
        ("d > -1e3", "~{d > -1000.0}"),
        ("e >= 1.5", "~{e >= 1.50}"),
        ("k < 1.5", "~{k < 2}"),
        ("k IN (1, 2.5, NULL)", "~{k = 1}"),
        ("t < timestamp'2026-03-29 03:00:00'", "~{t < '2026-03-29 01:00:00+00:00'}"),
        ("t < timestamp'2026-03-29T03:00:00Z'", "~{t < '2026-03-29 03:00:00+00:00'}"),
        ("n < timestamp_ntz'2026-03-29 03:00:00'", "~{n < '2026-03-29 03:00:00'}"),
        ("day < date'2026-01-01'", "~{day < '2026-01-01'}"),
    ],
)
def test_constants_of_a_text_that_spark_never_saw_take_the_type_of_the_column(
    sql: str, records: str
) -> None:
    assert str(ignore(condition_of(sql, TYPED, analysed=False))) == records


@pytest.mark.parametrize(
    ("sql", "type", "hits", "others"),
    [
        ("c = 1e37", "decimal(38,0)", [Decimal(10**37), Decimal(10**37 + 1)], [Decimal(10**37 + 10**22)]),
        ("c = 9007199254740992D", "bigint", [2**53, 2**53 + 1], [2**53 - 1, 2**53 + 2, None]),
        ("c < CAST('NaN' AS DOUBLE)", "bigint", [0, 2**63 - 1], [None]),
    ],
)  # fmt: skip
def test_numbers_are_compared_with_a_float_as_floats(
    sql: str, type: str, hits: list[Any], others: list[Any]
) -> None:
    """As Spark does it, which has put a cast into a text that it analysed."""
    made = ignore(condition_of(sql, Columns((Field("c", type),)), analysed=False))
    assert [v for v in [*hits, *others] if made.matches({"c": v})] == hits


@pytest.mark.parametrize(
    "type", ["decimal(38,0)", "decimal(38,10)", "decimal(38,38)", "decimal(30,2)"]
)
def test_decimals_of_many_digits_are_not_rounded(type: str) -> None:
    """Python's own arithmetic rounds to 28 digits: rows near the limit would be taken for others."""
    precision, scale = map(int, type[8:-1].split(","))
    middle = int("5" * precision)
    codes = [middle - 1, middle, middle + 1, -middle, -middle - 1, 10**precision - 1, 0]
    values = [Decimal((int(c < 0), tuple(map(int, str(abs(c)))), -scale)) for c in codes]
    assert [order.code(order.value_of(c, type), type) for c in codes] == codes
    node = Source((Field("n", type),), (TimeColumn("ts", "long"),), "s", policies=(Ordered(),))
    table = pa.table({"n": pa.array(values, pa.decimal128(precision, scale))})
    for text, wanted in [
        (f"n < {values[1]:f}", {codes[0], *codes[3:5], 0}), (f"n = {values[1]:f}", {middle}),
        (f"n <= {values[3]:f}", set(codes[3:5])), (f"n IN ({values[0]:f}, {values[5]:f})", {codes[0], codes[5]}),
    ]:  # fmt: skip
        made = ignore(condition_of(text, Columns(node.schema), analysed=False))
        sql = f"SELECT n FROM t WHERE {matching(node, made.records).duck}"
        found = sql_to_arrow(connect(), sql, {"t": table})["n"].to_pylist()
        assert {order.code(v, type) for v in found} == wanted, text
        assert parsed(str(made), Columns(node.schema)) == made


@pytest.mark.parametrize(
    "sql",
    [
        "t < timestamp_ntz'2026-03-29 03:00:00'", "n < timestamp'2026-03-29T03:00:00Z'", "t < date'2026-01-01'",
        "k < date'2026-01-01'", "t < 5", "day = 5",
    ],
)  # fmt: skip
def test_such_constants_are_not_taken_by_their_numbers_alone(sql: str) -> None:
    """A day and a tick are whole numbers, of different things."""
    with pytest.raises(AnalysisError, match="with a value of another type"):
        condition_of(sql, TYPED, analysed=False)


def test_many_records_of_one_shape_are_one_list_that_tells_them_apart() -> None:
    """1 and 11 is not 11 and 1, null is no value, and as many records as may be sent by many are a short text."""
    fields = (Field("a", "bigint"), Field("b", "bigint"))
    node = Source(fields, (TimeColumn("a", "long", None),), "s", policies=(Ordered(),))
    pairs = [(1, 11), (-1, 1), (12, 3), (0, 0), *((1000 + i, i) for i in range(996))]
    made = matching(node, tuple(Pattern.of({"a": Test.among([a]), "b": Test.among([b])}) for a, b in pairs))  # fmt: skip
    assert made.sql.count(" AND ") < 5 and str(made.duck).count(" AND ") < 5
    given = [
        *pairs[:4],
        (11, 1),
        (1, 1),
        (1, 23),
        (1, None),
        (None, 11),
        (1, -1),
        (1001, 2),
        (None, 2),
    ]
    rows = pa.table({"a": [a for a, _ in given], "b": [b for _, b in given]})
    found = sql_to_arrow(connect(), f"SELECT {made.duck} AS m FROM rows", {"rows": rows})
    assert found["m"].to_pylist() == [True] * 4 + [False] * (len(given) - 4)
    one = tuple(Pattern.of({"a": Test.among([a]), "b": Test.below(5)}) for a in (1, 2, 3, 7))
    text = matching(node, one).duck
    found = sql_to_arrow(connect(), f"SELECT {text} AS m FROM rows", {"rows": rows})
    assert found["m"].to_pylist() == [a in (1, 2, 3, 7) and b is not None and b < 5 for a, b in given]  # fmt: skip


@pytest.mark.parametrize(("column", "values"), [("n", range(0, 600, 3)), ("s", "acegi")])
def test_what_a_filter_by_a_list_drops_is_one_list(column: str, values: Any) -> None:
    """Two hundred gaps between values would be as many conditions."""
    fields = (Field("n", "bigint"), Field("s", "string"))
    node = Source(fields, (), "a", policies=())
    listed = ", ".join(repr(v) for v in values)
    (record,) = dropped(known_parts(f"(`{column}` IN ({listed}))", Columns(fields), ansi=True))
    match = matching(node, (record,))
    assert match.sql.count(" NOT IN ") == str(match.duck).count(" NOT IN ") == 1
    assert " OR " not in match.sql.replace(f"`{column}` IS NULL OR", "")
    every = [None, *range(-1, 601)] if column == "n" else [None, *"abcdefghij"]
    table = pa.table({column: every})
    kept = sql_to_arrow(connect(), f"SELECT * FROM rows WHERE {match.duck}", {"rows": table})
    assert kept[column].to_pylist() == [v for v in every if v not in list(values)]


@pytest.mark.parametrize("chain", [" OR `a` = ", " AND `a` <> "])
def test_a_chain_of_a_thousand_is_one_record(chain: str) -> None:
    """Each AND and OR of a chain is a level of the tree, and Python descends a thousand at most."""
    values = range(0, 2200, 2)
    text = chain.join(["", *map(str, values)]).removeprefix(" OR ").removeprefix(" AND ")
    equal = Test.among(values)
    (record,) = ignore(condition_of(text, COLUMNS)).records
    other = Test(ANY.spans) - equal
    assert record == Pattern.of({"a": equal if "OR" in chain else other})


def test_brackets_that_are_too_deep_are_named() -> None:
    with pytest.raises(AnalysisError, match="brackets and NOTs stand in each other too often"):
        condition_of("NOT (" * 1000 + "`a` = 1" + ")" * 1000, COLUMNS)
