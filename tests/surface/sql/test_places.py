"""Errors point at the letters that are wrong, as a terminal displays them; no Spark is needed to find them."""

from __future__ import annotations

import pickle
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.dialect import check
from slackwater.surface.sql.reading import read
from slackwater.surface.sql.text import Span, SqlText
from slackwater.surface.sql.tokens import tokens_of
from slackwater.surface.sql.variables import Variables


def refused(text: str, **variables: object) -> AnalysisError:
    whole = SqlText(text, "talkers.sql")
    with pytest.raises(AnalysisError) as raised:
        read(whole, Variables(whole, variables), check)
    error = raised.value
    assert error.place is not None and len(str(error).splitlines()) <= 8
    return error


def pointed(error: AnalysisError) -> str:
    """The letters above the carets, by the columns of a terminal."""
    assert error.place is not None
    cells = []
    for letter in error.place.shown:
        wide = unicodedata.east_asian_width(letter) in "WF"
        cells += [letter, ""] if wide else [letter]
    first = error.place.caret.index("^")
    return "".join(cells[first : first + error.place.caret.count("^")])


@pytest.mark.parametrize(
    ("text", "line", "column", "word", "hint"),
    [
        ("SELECT a FORM packets", 1, 10, "FORM", "did you mean FROM?"),
        ("SELECT a,\n\tb FORM packets", 2, 4, "FORM", "did you mean FROM?"),
        ("SELECT a,\r\n  b FORM packets\r\n", 2, 5, "FORM", "did you mean FROM?"),
        ("\ufeffSELECT a FORM packets", 1, 10, "FORM", "did you mean FROM?"),
        ("SELECT '表表' AS a FORM packets", 1, 18, "FORM", "did you mean FROM?"),
        ("SELECT '😀' AS a FORM packets", 1, 17, "FORM", "did you mean FROM?"),
        ("SELECT a FROM t WHERE b = 'x", 1, 27, "'", "add ' where it ends"),
        ("SELECT a FROM t WHERE (b = 1", 1, 23, "(", "close it before the statement ends"),
        ("SELECT a FROM t WHERE b = 1)", 1, 28, ")", "take it out, or add '(' in front"),
        ("SELECT a FROM t WHERE k = “x”", 1, 27, "“", 'write " instead'),
        ("SELECT a FROM t /* never closed", 1, 17, "/*", "end it with */"),
        ("SELECT a FROM t WERE x = 1", 1, 17, "WERE", "did you mean WHERE?"),
        ("SELECT a FROM t GRUOP BY x", 1, 17, "GRUOP", "did you mean GROUP?"),
        ("SELCT a FROM t", 1, 1, "SELCT", "did you mean SELECT?"),
        ("CREAT STREAM s USING parquet", 1, 1, "CREAT", "did you mean CREATE?"),
        ("CREATE STREM s USING parquet", 1, 8, "STREM", "did you mean STREAM?"),
        ("SELECT a FROM t WITH EROR 1 %", 1, 22, "EROR", "did you mean ERROR?"),
        ("SELECT a FROM t [RANGE 10 MINUTS]", 1, 27, "MINUTS", "did you mean MINUTES?"),
        ("CREATE STREAM s USING parquet TIME ts PROGRES ORDERED", 1, 39, "PROGRES", "did you mean"),
        ("CREATE STREAM s USING parquet TIME ts PROGRESS ORDRED", 1, 48, "ORDRED", "did you mean ORDERED?"),
        ("SELECT a,, b FROM t", 1, 10, ",", ""),
        ("SELECT a, FROM t", 1, 9, ",", "take the comma out"),
    ],
)  # fmt: skip
def test_the_caret_is_under_the_word(text: str, line: int, column: int, word: str, hint: str):
    error = refused(text)
    assert (error.line, error.column, error.length) == (line, column, len(word))
    assert pointed(error) == word
    assert hint in error.hint
    assert str(error).startswith(f"talkers.sql:{line}:{column}: ")


@pytest.mark.parametrize(
    ("text", "word", "says"),
    [
        ("SELECT a FROM t UNION SELECT b FROM u", "UNION", "write UNION ALL"),
        ("SELECT a FROM t LIMIT 5", "LIMIT", "rows of a stream have no end"),
        ("SELECT sum(x) OVER (PARTITION BY y) FROM t", "OVER", "GROUP BY window"),
        ("SELECT sum(x) FROM CUMULATE(t, ts, INTERVAL 1 MINUTE, INTERVAL 1 HOUR)", "CUMULATE", "TUMBLE"),
        ("SELECT a, sum(b) FROM t GROUP BY ROLLUP (a, b)", "ROLLUP", "UNION ALL"),
        ("SELECT a, sum(b) FROM t GROUP BY CUBE (a, b)", "CUBE", "UNION ALL"),
        ("SELECT a, sum(b) FROM t GROUP BY a WITH ROLLUP", "ROLLUP", "UNION ALL"),
        ("SELECT a FROM t WHERE k IN (SELECT k FROM u)", "IN (SELECT", "LEFT SEMI JOIN"),
        ("SELECT a FROM t WHERE k NOT IN (SELECT k FROM u)", "IN (SELECT", "NOT IN drops it, and gives nothing at all if the sub-query has a null"),
        ("SELECT a FROM t WHERE NOT k IN (SELECT k FROM u)", "IN (SELECT", "the join keeps a row whose key is null"),
        ("SELECT a FROM t MINUS SELECT a FROM u", "MINUS", "compare the columns with <=>"),
        ("SELECT a FROM t WHERE EXISTS (SELECT k FROM u)", "EXISTS (SELECT", "LEFT SEMI JOIN"),
        ("SELECT (SELECT max(k) FROM u) FROM t", "(SELECT", "join the two streams"),
        ("SELECT a FROM t EMIT CHANGES", "EMIT CHANGES", "leave it out"),
        ("SELECT a FROM t INTERSECT SELECT a FROM u", "INTERSECT", "LEFT SEMI JOIN"),
        ("SELECT a FROM t EXCEPT SELECT a FROM u", "EXCEPT", "LEFT ANTI JOIN"),
        ("SELECT a FROM t CROSS JOIN u", "CROSS", "comparison of the two times"),
        ("SELECT a FROM t TABLESAMPLE (10 ROWS)", "TABLESAMPLE", "WHERE"),
        ("SELECT a FROM t LATERAL VIEW explode(xs) e", "LATERAL", "raw input"),
        ("SELECT count(*) FROM TUMBLE(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL 5 MINUTES)", "k", "write GROUP BY"),
        ("SELECT a FROM s.t", "s", "CREATE STREAM"),
        ("SELECT a FROM (VALUES (1)) v", "VALUES", "no stream"),
        ("INSERT INTO t SELECT a FROM u", "INSERT", "CREATE STREAMING TABLE"),
        ("CREATE TABLE t (a INT)", "TABLE", "CREATE STREAM"),
        ("SELECT a FROM t WITH ERROR 150 %", "ERROR 150 %", "ERROR 1 %"),
        ("SELECT a FROM t WITH ERROR 0.01", "0.01", "ERROR 1 %"),
        ("SELECT a FROM t WITH COVERAGE 0 %", "COVERAGE 0 %", "COVERAGE 95 %"),
        ("SELECT count(*) FROM t [RANGE 1 MONTH]", "1 MONTH", "days"),
        ("SELECT count(*) FROM TUMBLE(t, ts, INTERVAL '1' YEAR)", "INTERVAL '1' YEAR", "days"),
        ("SELECT count(*) FROM TUMBLE(t, ts)", "TUMBLE(t, ts)", "TUMBLE(TABLE t"),
        ("SELECT count(*) FROM HOP(t, SIZ => 5, 3)", "SIZ", "SIZE"),
        ("SELECT a FROM t WITH DELAY 5 SECONDS WITH DELAY 6 SECONDS", "WITH", ""),
        ("SELECT a FROM FLIP(t)", "FLIP", "TUMBLE"),
    ],
)  # fmt: skip
def test_what_a_stream_cannot_do_is_refused_by_name(text: str, word: str, says: str):
    error = refused(text)
    assert pointed(error) == word
    assert says in error.hint


def test_an_unset_variable_names_the_option_that_sets_it():
    error = refused("SELECT '${wrok}' AS a FROM t", work="/data")
    assert (error.column, error.length) == (9, 7) and "did you mean work?" in error.hint
    whole = SqlText("SELECT ${work} FROM t")
    with pytest.raises(AnalysisError) as raised:
        Variables(whole).value(tokens_of(whole)[1])
    assert "--set work=..." in raised.value.hint and raised.value.column == 8


def test_both_places_are_shown():
    error = refused("SELECT a FROM t [RANGE 1 MINUTE, RANGE 2 MINUTES]")
    assert error.also is not None and str(error).count("^^^^^") == 2


def test_an_error_travels():
    error = pickle.loads(pickle.dumps(refused("SELECT a FORM packets")))
    assert (error.line, error.column, error.length) == (1, 10, 4)


@given(
    before=st.text(alphabet=st.sampled_from("ab \t\n\r表é😀́'"), max_size=40).map(lambda s: s.replace("'", "")),
    word=st.text(alphabet="xyz", min_size=1, max_size=5),
)  # fmt: skip
def test_a_place_is_found_again(before: str, word: str):
    """The line and column of a place lead to its letters, however lines end and however wide letters are."""
    raw = before + word
    place = SqlText(raw).place(Span(len(before), len(raw)))
    lines = raw.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert lines[place.line - 1][place.column - 1 :].startswith(word)
    assert place.length == len(word)


@example("\x0000")  # a zero byte and two digits, which together could be an octal escape
@given(st.text(alphabet=st.sampled_from("ab'\"\\`$ {}();-*/\n表😀\0%_u0041"), max_size=25))
def test_a_value_is_one_literal_whatever_is_in_it(value: str):
    """A value never ends its quotes, opens a comment or becomes a second token."""
    for written in ("${v}", "'${v}'", '"${v}"', "r'${v}'"):
        whole = SqlText(f"SELECT {written} FROM t")
        tokens = tokens_of(whole)
        assert len(tokens) == 5
        variables = Variables(whole, {"v": value})
        assert variables.value(tokens[1]) == value
        text = variables.spark(tokens[1])
        assert "${" not in text
        again = tokens_of(SqlText(text))
        if again[0].kind == "text":
            assert len(again) == 2
            assert Variables(SqlText("")).value(again[0]) == value


def test_an_escaped_variable_is_plain():
    whole = SqlText("SELECT '$${v}' FROM t")
    assert Variables(whole).value(tokens_of(whole)[1]) == "${v}"


def test_the_environment_stays_in_options(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET", "hush")
    assert "OPTIONS and SET" in refused("SELECT a FROM t WHERE k = '${env:SECRET}'; SELECT ${env:SECRET} FROM t [RANGE ${env:SECRET}]").message  # fmt: skip
    whole = SqlText("SET a = '${env:SECRET}'")
    variables = Variables(whole)
    read(whole, variables, check)
    assert variables.hidden("it is hush") == "it is ${env:SECRET}"


def test_the_parser_has_known_trees():
    """Guards the next release of sqlglot: what it must take, and what its tree is."""
    from slackwater.surface.sql.dialect import Misread, tree_of

    known = {
        "upper(k) AS u": "Alias", "a + b * 2": "Add", "CASE WHEN a THEN b END": "Case", "a IS DISTINCT FROM b": "NullSafeNEQ",
        "ts - INTERVAL '1' SECOND": "Sub", "transform(xs, x -> x + 1)": "Transform", "a BETWEEN 1 AND 2": "Between",
        "count(*) FILTER (WHERE a > 1)": "Filter", "a.b.c": "Column", "CAST(a AS STRUCT<x: INT>)": "TryCast",
        "a LIKE 'x%' ESCAPE '!'": "Escape", "m['k']": "Bracket", "DATE '2026-01-01'": "Cast", "a IN (1, 2)": "In",
    }  # fmt: skip
    assert {text: type(tree_of(text)).__name__ for text in known} == known
    for broken in ("a +", "(a", "a b c", "CASE WHEN a", "a, b"):
        with pytest.raises(Misread):
            tree_of(broken)


def test_the_cursor_reads_every_token_once():
    whole = SqlText("SELECT a -- c\n, b /* d */ FROM t")
    cursor = Cursor(whole, tokens_of(whole), Variables(whole))
    assert [t.text for t in cursor.tokens] == ["SELECT", "a", ",", "b", "FROM", "t", ""]
