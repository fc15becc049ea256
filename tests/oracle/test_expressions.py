from __future__ import annotations

from typing import Any

import pytest

from slackwater.errors import AnalysisError
from slackwater.testing.oracle.expressions import compile_expression, to_duck

ROW = {"v": 7, "w": None, "g": "it's", "t": True, "window": {"start": 1, "end": 5}, "a b": 3}


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("v * 2 + 1", 15),
        ("v / 2", 3.5),
        ("-v % 4", -3),
        ("7 % -4", 3),
        ("v = 7", True),
        ("v <> 7", False),
        ("v > 3 AND t", True),
        ("w > 3", None),
        ("w > 3 AND FALSE", False),
        ("w > 3 OR TRUE", True),
        ("w > 3 OR FALSE", None),
        ("NOT w = 1", None),
        ("w IS NULL", True),
        ("v IS NOT NULL AND NOT w IS NOT NULL", True),
        ("w + 1 IS NULL", True),
        ("g = 'it''s'", True),
        ("`a b` + 1", 4),
        ("window.end - window.start", 4),
        ("coalesce(w, v)", 7),
        ("greatest(w, 2, v)", 7),
        ("least(w)", None),
        ("abs(-3)", 3),
        ("if(w = 1, 'x', 'y')", "y"),
    ],
)
def test_values(sql: str, value: Any) -> None:
    assert compile_expression(sql)(ROW) == value


@pytest.mark.parametrize("sql", ["v +", "v ** 2", "exec(v)", "v < w < 3", "v IS 3", "a; b", "[v]"])
def test_what_is_not_known_is_refused(sql: str) -> None:
    with pytest.raises(AnalysisError) as e:
        compile_expression(sql)
    assert e.value.condition == "UNKNOWN_EXPRESSION"


def test_division_by_zero_fails_as_in_ansi_mode() -> None:
    with pytest.raises(ZeroDivisionError):
        compile_expression("v / 0")(ROW)


def test_names_are_quoted_for_the_column_engine() -> None:
    duckdb = pytest.importorskip("duckdb")
    assert to_duck("window.end >= `a b`") == '"window"."end" >= "a b"'
    query = (
        f"SELECT {to_duck('window.end + v * 2')} FROM (SELECT {{'end': 5}} AS \"window\", 7 AS v)"
    )
    assert duckdb.connect().execute(query).fetchall() == [(19,)]
