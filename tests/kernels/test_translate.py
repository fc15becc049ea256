"""The translation by itself: names, types, guards and reasons, without Spark."""

from __future__ import annotations

from functools import reduce
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from slackwater.kernels.column_engine import connect, single_value, sql_to_arrow
from slackwater.kernels.translate import NotTranslatable, translate
from slackwater.kernels.translate.types import fields_of_struct
from slackwater.model.depth import nesting

COLUMNS = {
    "i": "int", "j": "int", "l": "bigint", "d": "double", "s": "string", "t": "timestamp",
    "c": "decimal(10,2)", "b": "boolean", 'q"x': "int", "end": "int",
    "w": "struct<start:timestamp,end:timestamp>", "deep": "struct<a:struct<`b c`:int>>",
}  # fmt: skip


def duck(sql: str, *, ansi: bool = True, zone: str = "UTC") -> str:
    return translate(sql, COLUMNS, ansi=ansi, zone=zone).duck


def kind(sql: str) -> str:
    return translate(sql, COLUMNS, ansi=True, zone="UTC").type


def value(sql: str, *, ansi: bool = True) -> object:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return single_value(connection, f"SELECT {duck(sql, ansi=ansi)}")


def test_names_are_quoted() -> None:
    assert duck('`q"x`') == '"q""x"'
    assert duck("`END`") == '"end"'
    assert duck("`w`.`end`") == "struct_extract(\"w\", 'end')"
    assert duck("`deep`.`a`.`b c`") == "struct_extract(struct_extract(\"deep\", 'a'), 'b c')"


def test_struct_fields() -> None:
    assert fields_of_struct(
        "struct<a:int,`b c`:struct<x:decimal(3,1),y:map<int,string>>,d:date>"
    ) == [
        ("a", "int"),
        ("b c", "struct<x:decimal(3,1),y:map<int,string>>"),
        ("d", "date"),
    ]


@pytest.mark.parametrize(
    ("sql", "type"),
    [
        ("(`c` + `c`)", "decimal(11,2)"),
        ("(`c` * `c`)", "decimal(21,4)"),
        ("(`c` % CAST(3 AS DECIMAL(1,0)))", "decimal(3,2)"),
        ("CEIL(`c`)", "decimal(9,0)"),
        ("round(`c`, 1)", "decimal(10,1)"),
        ("0.05BD", "decimal(2,2)"),
        ("-12.50BD", "decimal(4,2)"),
        ("10L", "bigint"),
        ("1Y", "tinyint"),
        ("coalesce(NULL, `i`)", "int"),
    ],
)
def test_types(sql: str, type: str) -> None:
    assert kind(sql) == type


def test_right_side_is_not_evaluated_where_the_left_decides() -> None:
    assert value("((1 = 2) AND ((1 div 0L) = 1L))".replace("(1 div", "(1L div")) is False
    assert value("((1 = 1) OR ((1L div 0L) = 1L))") is True
    assert value("(CAST(NULL AS BIGINT) + (1L div 0L))") is None
    with pytest.raises(duckdb.Error, match="DIVIDE_BY_ZERO"):
        value("((1 = 1) AND ((1L div 0L) = 1L))")


def test_overflow_follows_the_mode() -> None:
    with pytest.raises(duckdb.Error):
        value("(2147483647 + 1)")
    assert value("(2147483647 + 1)", ansi=False) == -2147483648
    assert value("(9223372036854775807L * 2L)", ansi=False) == -2
    assert value("(1.0D / 0.0D)", ansi=False) is None


def test_a_constant_in_utc_needs_no_zone() -> None:
    assert "1704067200000000" in duck("TIMESTAMP '2024-01-01 00:00:00Z'", zone="Europe/Berlin")
    assert "1704047400000000" in duck("TIMESTAMP '2024-01-01 00:00:00'", zone="+05:30")


def test_text_literals_are_escaped() -> None:
    assert value("'it\\'s \\\\ \"x\"'") == 'it\'s \\ "x"'


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("upper(`s`)", "upper"),
        ("`nothere`", "nothere"),
        ("(`i` + `l`)", "int"),
        ("CAST(`d` AS STRING)", "double to string"),
        ("TRY_CAST(`s` AS INT)", "string to int"),
        ("date_trunc('HOUR', `t`)", "Europe/Berlin"),
        ("(`c` / `c`)", "'/'"),
        ("RLIKE(`s`, 'a.*$')", "rlike"),
        ("(`t` - `t`)", "timestamp"),
        ("foo(", "not understood"),
        ("(`w` = `w`)", "struct"),
        ("CAST(5 AS DATE)", "int to date"),
        ("NULL", "NULL"),
        ("TIMESTAMP '2024-01-01 00:00:00'", "Europe/Berlin"),
    ],
)
def test_reasons(sql: str, reason: str) -> None:
    with pytest.raises(NotTranslatable, match=reason.replace("(", "\\(")):
        duck(sql, zone="Europe/Berlin")


def test_columns_that_differ_in_case_only() -> None:
    with pytest.raises(NotTranslatable):
        translate("`a`", {"a": "int", "A": "int"}, ansi=True, zone="UTC")


def test_long_guards_are_refused_not_exploded() -> None:
    sql = "`l`"
    for _ in range(12):
        sql = f"(`l` div ({sql} div `l`))"
    with pytest.raises(NotTranslatable, match="nested too often"):
        duck(sql)


def test_a_chain_of_what_may_fail_grows_by_its_terms() -> None:
    terms = [f"((`l` + `l`) = CAST({i} AS BIGINT))" for i in range(400)]
    left = reduce(lambda a, b: f"({a} OR {b})", terms)
    right = reduce(lambda a, b: f"({b} AND {a})", terms)
    assert max(len(duck(left)), len(duck(right))) < 3 * len(" AND ".join(terms))
    assert nesting(duck(left)) < 10, "nor does it nest"


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_a_chain_stops_at_the_first_term_that_decides(word: str) -> None:
    """Left to right over all rows of three: a term that fails, is null, true or false."""
    values = (None, 0, 1, 2)  # 6 div 0 fails; 6 div 1 is not 3, 6 div 2 is
    columns = {f"c{i}": "bigint" for i in range(3)}
    text = f" {word} ".join(
        f"((CAST(6 AS BIGINT) div `c{i}`) = CAST(3 AS BIGINT))" for i in range(3)
    )
    for brackets in (text, text.replace(f" {word} ", f" {word} (", 1) + ")"):
        sql = translate(f"({brackets})", columns, ansi=True, zone="UTC").duck
        for row in product(values, repeat=3):
            assert _answer(sql, row) == _by_hand(word, row), (row, sql)


def _by_hand(word: str, row: tuple[int | None, ...]) -> Any:
    decides, known = word == "OR", True
    for value in row:
        if value == 0:
            return "fails"
        if value is None:
            known = False
        elif (value == 2) is decides:
            return decides
    return not decides if known else None


def _answer(sql: str, row: tuple[int | None, ...]) -> Any:
    table = pa.table({f"c{i}": pa.array([v], pa.int64()) for i, v in enumerate(row)})
    try:
        return sql_to_arrow(connect(), f"SELECT {sql} AS x FROM t", {"t": table})["x"][0].as_py()
    except duckdb.Error:
        return "fails"
