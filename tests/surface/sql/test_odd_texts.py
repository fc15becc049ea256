"""Odd texts, by seed: a stream, or an error of ours at a place and in words of SQL; never one of Spark's or Python's."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

import slackwater as sw
from tests.examples import TIMES
from tests.surface.sql.damage import damaged

pytestmark = pytest.mark.spark

PIECES = (
    "len", "p.len", "srcIP", "ts", "*", "p.*", "nope", "window_start", "window.start", "wid", "kk", "count(*)", "max(p.len) + 1", "x -> x",
    "sum(sum(len))", "transform(array(len), x -> x + len)", "explode(array(1, 2))", "NULL", "'a' 'b'", "INTERVAL 1 MONTH", "INTERVAL '1' FOO",
    "TIMESTAMP 'x'", "DATE '2026-13-01'", "X'1'", "1e999", "9" * 41, "len::foo", "len[0]", "srcIP.x", "map(1)", "from_json(srcIP, 'a FOO')",
    "from_json(srcIP, srcIP)", "window(ts, '1 minute')", "session_window(ts, '1 minute')", "window_time(window)", "rand()", "uuid()", "now()",
    "java_method('java.lang.Math', 'abs', 1)", "raise_error('x')", "grouping(len)", "row_number()", "lag(len)", "approx_top_k(len)",
    "count(DISTINCT *)", "sum(DISTINCT len) FILTER (WHERE sum(len) > 1)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY len)",
    "listagg(srcIP, ',')", "heavy_hitters(len, 0.1)", "heavy_hitters(nope, 0.1)", "heavy_hitters(len, len)", "heavy_hitters()", "len IN ()",
    "len LIKE ANY ('a')", "len BETWEEN 1", "CASE WHEN len THEN 1 END", "IDENTIFIER('len')", ":named", "?", "$1", "`a``b`", "len AS `a.b`",
    "len AS ts", "len len2 len3", "DISTINCT len", "(SELECT 1)", "sum(len) OVER (ORDER BY ts)", "len COLLATE nope", "srcIP COLLATE UTF8_LCASE",
    "packets.len", "ts - '1 minute'", "ts + 1", "date_trunc('nope', ts)", "extract(NOPE FROM ts)", "element_at(array(1), 0)", "1/0",
    "pmod(1, 0)", "CAST('x' AS INT)", "variant_get(parse_json('1'), '$.a', 'FOO')", "regexp_extract(srcIP, '(', 1)", "f(len => 3)",
    "(len, ts).col1", "struct(*)", "coalesce()", "if(1)", "TIMESTAMP(3)", "CAST(len AS TIMESTAMP(3))", "len AS __sw_a", "_metadata.file_path",
)  # fmt: skip
TUMBLE = "TUMBLE(packets, ts, INTERVAL 1 MINUTE)"
SHAPES = (
    "SELECT {a}, ts FROM packets p WHERE {b} > 3", "SELECT {a} AS a, {b} AS b, ts FROM packets p",
    "SELECT {a}, len AS kk FROM packets p GROUP BY len, {b}, window(ts, '1 minute')",
    "SELECT len AS kk, sum(len) AS s FROM packets p GROUP BY len, window(ts, '1 minute') HAVING {a} > {b}",
    "SELECT max({a}) AS m FROM packets p [RANGE 1 MINUTE] GROUP BY {b}",
    f"SELECT count(*) AS n FROM {TUMBLE} p WHERE {{a}} > 1 OR {{b}} = 1 GROUP BY window_start",
    "SELECT count(*) AS n FROM HOP(packets, ts, INTERVAL 1 MINUTE, INTERVAL 2 MINUTES) p WHERE {a} > 1 AND {b} = 1 GROUP BY window_start",
    "SELECT p.len, o.len AS l FROM packets p LEFT JOIN other o ON p.ts = o.ts AND {a} = {b}",
    f"SELECT p.len FROM {TUMBLE} p JOIN {TUMBLE.replace('packets', 'other')} o ON p.window_start = o.window_start AND p.window_end = o.window_end AND {{a}} = {{b}}",
    "SELECT DISTINCT ON ({a}) WITHIN 1 MINUTE * FROM packets p", "SELECT {a}, ts FROM packets p UNION ALL SELECT {b}, ts FROM other p",
    "SELECT max(len) FROM SESSION(TABLE packets PARTITION BY {a}, DESCRIPTOR({b}), INTERVAL 1 MINUTE) p GROUP BY window_start",
    "SELECT count(*) FROM packets p GROUP BY window({a}, {b})", "SELECT * EXCEPT ({a}) FROM packets p ORDER BY {b}",
)  # fmt: skip
PYTHON = re.compile(r"\b(on|within|where|emit)=|\bsw\.(?!udaf|relation|script)|groupBy\(|\.alias\(|\.select\(|DataFrame|Column<|Py4J")  # fmt: skip


def odd(seed: int) -> str:
    dice = random.Random(seed)
    return dice.choice(SHAPES).format(a=dice.choice(PIECES), b=dice.choice(PIECES))


def refused(text: str, streams: dict[str, Any]) -> Exception | None:
    try:
        sw.sql(text, streams=streams)
    except Exception as error:
        return error
    return None


def check(text: str, streams: dict[str, Any]) -> bool:
    """Whether the text is right; else its error has a place and speaks SQL."""
    error = refused(text, streams)
    if error is None:
        return True
    assert isinstance(error, sw.AnalysisError), f"{text}\nends with {type(error).__name__}: {error}"
    assert error.line is not None and error.column is not None, f"{text}\n{error}"
    assert len(str(error).splitlines()) <= 8, f"{text}\n{error}"
    assert not PYTHON.search(f"{error.message} {error.hint}"), f"{text}\n{error}"
    return False


def test_odd_texts_are_refused_at_their_place(streams: dict[str, Any]):
    right = [check(odd(seed), streams) for seed in range(30 * TIMES)]
    assert not all(right)


def test_damaged_texts_are_refused_at_their_place(streams: dict[str, Any]):
    right = [check(damaged(seed).text, streams) for seed in range(20 * TIMES)]
    assert any(right) and not all(right)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT max(len) FROM packets p [RANGE 1 MINUTE] GROUP BY ts - '1 minute'",
        "SELECT p.len, o.len AS l FROM packets p JOIN other o ON p.ts = o.ts AND pmod(1, 0) = 1/0",
        "SELECT CAST(len AS TIMESTAMP(3)) AS t, ts FROM packets p",
        "SELECT heavy_hitters(CAST(len AS TIMESTAMP(3)), 0.1) FROM packets [RANGE 1 MINUTE]",
        "SELECT explode(array(1, 2)), uuid() FROM packets p",
    ],
)  # fmt: skip
def test_a_text_that_once_left_with_an_error_of_sparks(text: str, streams: dict[str, Any]):
    assert not check(text, streams)
