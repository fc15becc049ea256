"""Literals mean what Spark says: to us, who read options and durations, and in expressions, which Spark reads."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw
from slackwater.surface.sql.text import SqlText
from slackwater.surface.sql.tokens import tokens_of
from slackwater.surface.sql.variables import Variables

pytestmark = pytest.mark.spark

PLAIN = (
    r"'\200'", r"'\377'", r"'\177'", r"'\12'", r"'\0'", r"'\00'", r"'\000'", r"'\1234'", r"'\08'", r"'\u0041'", r"'\u004'",
    r"'\U0001F600'", r"'\uD83D\uDE00'", r"'\x41'", r"'\Z\%\_\q\\'", r"r'\n'", r"R'a\'", "r'it''s'", "'it''s'", "''''", "'a' 'b'",
    "'a' /* c /* d */ ' */ 'b'", "'a' \"b\"", '"a""b"', r'"a\"b"', "r'a' 'b'", r"'a' r'\n'", "'a;b -- c'",
)  # fmt: skip
"""Escapes, octal ones and halves of letters among them, raw texts, doubled quotes, literals side by side."""
HIDDEN = (r"'\u0024{env:HOME}'", "'$' '{env:HOME}'", "'a' '$${x}'", "'${v}' 'b'")
"""Texts that hold a variable of Spark's once they are read; none of them may be replaced."""


def test_a_literal_means_what_spark_says(spark: Any, streams: dict[str, Any]):
    expected = list(spark.sql("SELECT " + ", ".join(PLAIN)).first())
    for text, value in zip(PLAIN, expected, strict=True):
        whole = SqlText(text)
        assert "".join(Variables(whole).value(t) for t in tokens_of(whole)[:-1]) == value, text
    items = ", ".join(f"{t} AS c{i}" for i, t in enumerate((*PLAIN, *HIDDEN)))
    made = sw.sql(f"SELECT ts, {items} FROM packets", streams=streams, variables={"v": "${y}"})
    texts = [f"{c.expr.sql} AS {c.name}" for c in made._node.columns[1:]]  # type: ignore[attr-defined]
    read = list(spark.range(1).selectExpr(*texts).first())
    assert read == [*expected, "${env:HOME}", "${env:HOME}", "a${x}", "${y}b"]


def test_bytes_are_no_text(streams: dict[str, Any]):
    for text in (
        "SELECT X'${v}' AS x FROM packets",
        "SELECT count(*) FROM packets GROUP BY window(ts, X'1F')",
    ):
        with pytest.raises(sw.AnalysisError) as raised:
            sw.sql(text, streams=streams, variables={"v": "1F"})
        assert raised.value.condition == "BAD_VALUE" and raised.value.column == text.index("X'") + 1
