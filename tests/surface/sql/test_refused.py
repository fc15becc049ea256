"""What only an analysis finds: names, types, states and places, with the caret under what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw

pytestmark = pytest.mark.spark


def refused(text: str, streams: dict[str, Any]) -> sw.AnalysisError:
    with pytest.raises(sw.AnalysisError) as raised:
        sw.sql(text, streams=streams)
    error = raised.value
    assert error.place is not None, error
    assert len(str(error).splitlines()) <= 8
    return error


def marked(text: str, error: sw.AnalysisError) -> str:
    assert error.line is not None and error.column is not None and error.length is not None
    line = text.split("\n")[error.line - 1]
    return line[error.column - 1 : error.column - 1 + error.length]


@pytest.mark.parametrize(
    ("text", "word", "says"),
    [
        ("SELECT lenn FROM packets", "lenn", "did you mean len?"),
        ("SELECT p.lenn FROM packets p", "p.lenn", "did you mean len?"),
        ("SELECT srcIP FROM packest", "packest", "did you mean packets?"),
        ("SELECT srcIP FROM packets WHERE uper(srcIP) = 'A'", "uper(srcIP)", "did you mean"),
        ("SELECT srcIP, count(*) FROM packets GROUP BY srcIP", "GROUP BY srcIP", "window(ts, '1 minute')"),
        ("SELECT count(*) FROM packets", "SELECT count(*) FROM packets", "window(ts, '1 minute')"),
        ("SELECT srcIP FROM TUMBLE(packets, ts, INTERVAL 1 MINUTE)", "TUMBLE(packets, ts, INTERVAL 1 MINUTE)", "GROUP BY"),
        ("SELECT srcIP, count(*) FROM TUMBLE(packets, ts, INTERVAL 1 MINUTE) GROUP BY srcIP", "GROUP BY srcIP", "window_start"),
        ("SELECT a.len FROM packets a JOIN other b ON a.srcIP = b.srcIP AND a.ts <= b.ts", "a.srcIP = b.srcIP AND a.ts <= b.ts", "b.ts <= a.ts + INTERVAL 1 MINUTE"),
        ("SELECT a.len FROM packets a JOIN other b ON a.srcIP = b.srcIP", "a.srcIP = b.srcIP", "b.ts BETWEEN a.ts - INTERVAL 1 MINUTE"),
        ("SELECT srcIP FROM packets a JOIN other b ON b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND", "srcIP", "a.srcIP or b.srcIP"),
        ("SELECT len, srcIP AS len, ts FROM packets", "srcIP", "another name"),
        ("SELECT sum(len) AS n, count(*) AS n FROM packets [RANGE 1 MINUTE]", "n", "another name"),
        ("SELECT * FROM packets JOIN packets ON true", "packets", "aliases"),
        ("SELECT count(*) FROM HOP(packets, ts, INTERVAL 10 MINUTES, INTERVAL 1 MINUTE) GROUP BY window_start", "INTERVAL 10 MINUTES", "HOP takes the slide first"),
        ("SELECT count(*) FROM packets GROUP BY window(ts, '1 month')", "'1 month'", "days"),
        ("SELECT count(*) FROM packets [RANGE 1 MINUTE WATTR len]", "len", "use one of: ts"),
        ("SELECT count(*) FROM ticks [RANGE 1 MINUTE]", "[RANGE 1 MINUTE]", "int in the unit"),
        ("SELECT max(len) FROM packets [RANGE 5 MINUTES SLIDE 1 ROW]", "[RANGE 5 MINUTES SLIDE 1 ROW]", "order"),
        ("SELECT DISTINCT srcIP FROM packets", "DISTINCT", "add ts to the select list"),
        ("SELECT srcIP FROM packets ORDER BY len", "len", "the times here are: ts"),
        ("SELECT srcIP, ts FROM packets ORDER BY ts DESC", "DESC", "leave DESC out"),
        ("SELECT window_start, sum(n) FROM TUMBLE((SELECT srcIP, count(*) AS n FROM packets [RANGE 1 MINUTE] GROUP BY srcIP), ts, INTERVAL 1 HOUR) GROUP BY window_start", "srcIP, count(*) AS n", "window_end"),
        ("SELECT sum(l) FROM (SELECT len AS l FROM packets) GROUP BY window(ts, '1 minute')", "len AS l", "add ts to that select list"),
        ("SELECT srcIP, ts FROM packets EMIT ORDERED", "packets", "leave EMIT out"),
        ("SELECT count(*) FROM packets a [RANGE 1 MINUTE], other b WHERE a.srcIP = b.srcIP", "[RANGE 1 MINUTE]", "behind both"),
        ("SELECT heavy_hitters(srcIP) FROM packets [RANGE 1 MINUTE]", "heavy_hitters(srcIP)", "heavy_hitters(srcIP, 0.05)"),
        ("SELECT srcIP, ts FROM packets UNION ALL SELECT srcIP, ts, len FROM other", "SELECT srcIP, ts, len FROM other", "same columns"),
        ("SELECT t.* FROM packets p", "t", "p"),
        ("SELECT srcIP, count(*) FROM SESSION(packets, ts, INTERVAL 5 MINUTES) GROUP BY srcIP, window_start", "SESSION(packets, ts, INTERVAL 5 MINUTES)", "PARTITION BY srcIP"),
        ("SELECT count(*) FROM SESSION(TABLE packets PARTITION BY srcIP, DESCRIPTOR(ts), INTERVAL 5 MINUTES) GROUP BY window_start", "SESSION(TABLE packets PARTITION BY srcIP, DESCRIPTOR(ts), INTERVAL 5 MINUTES)", "SESSION(TABLE t, DESCRIPTOR(ts), gap)"),
        ("SELECT count(*) FROM packets GROUP BY session_window(ts, '1 minute', '1 minute')", "session_window(ts, '1 minute', '1 minute')", "session_window(ts, '5 minutes')"),
        ("SELECT wid FROM packets GROUP BY session_window(ts, '1 minute')", "wid", "the columns are"),
        ("SELECT b.len FROM packets a LEFT SEMI JOIN other b ON a.srcIP = b.srcIP AND a.ts = b.ts", "b.len", ""),
        ("SELECT len FROM packets p WHERE packets.len > 1", "packets.len", "FROM has: p"),
        ("SELECT packets.len FROM (SELECT * FROM packets) q", "packets.len", "FROM has: q"),
        ("SELECT srcIP FROM packets WHERE len > 1 AND sum(len) > 2 GROUP BY srcIP, window(ts, '1 minute')", "sum(len)", "HAVING"),
        ("SELECT srcIP FROM packets HAVING srcIP = 'a'", "srcIP = 'a'", "write WHERE"),
        ("SELECT srcIP FROM packets UNION ALL SELECT srcIP FROM other", "srcIP", "add ts to that select list"),
        ("SELECT a.len FROM packets a LEFT JOIN other b USING (srcIP)", "packets a LEFT JOIN other b USING (srcIP)", "in the place of USING"),
        ("SELECT count(*), max(struct(len, srcIP)) FROM packets GROUP BY srcIP, window(ts, '1 minute')", "max(struct(len, srcIP))", "supported aggregate"),
        ("SELECT srcIP, window(ts, '2 minutes') AS w FROM packets GROUP BY srcIP, window(ts, '1 minute')", "window(ts, '2 minutes')", "same window"),
        ("SELECT srcIP, count(*) FROM packets GROUP BY 7, window(ts, '1 minute')", "7", "from 1 to 2"),
        ("SELECT count(*) FROM HOP(packets, ts, INTERVAL 1 MINUTE, INTERVAL 5 MINUTES) WHERE len > 1 AND (window_start > TIMESTAMP '2026-01-01 00:00:00' OR len > 3) GROUP BY window_start", "(window_start > TIMESTAMP '2026-01-01 00:00:00' OR len > 3)", "into HAVING"),
        ("SELECT srcIP FROM SESSION(TABLE packets PARTITION BY srcIP, DESCRIPTOR(ts), INTERVAL 5 MINUTES) WHERE len > 1 AND window_start > TIMESTAMP '2026-01-01 00:00:00' GROUP BY srcIP, window_start", "len > 1 AND window_start > TIMESTAMP '2026-01-01 00:00:00'", "into HAVING"),
        ("SELECT srcIP FROM (SELECT * FROM SESSION(TABLE packets PARTITION BY srcIP, DESCRIPTOR(ts), INTERVAL 5 MINUTES) WHERE len > 1) WHERE window_start > TIMESTAMP '2026-01-01 00:00:00' GROUP BY srcIP, window_start", "window_start > TIMESTAMP '2026-01-01 00:00:00'", "into HAVING"),
        ("SELECT srcIP FROM (SELECT * FROM SESSION(TABLE packets PARTITION BY srcIP, DESCRIPTOR(ts), INTERVAL 5 MINUTES) WHERE window_start > TIMESTAMP '2026-01-01 00:00:00') WHERE len > 1 GROUP BY srcIP, window_start", "len > 1", "into HAVING"),
        ("SELECT count(*) FROM packets WHERE window_start > TIMESTAMP '2026-01-01 00:00:00' GROUP BY window(ts, '1 minute')", "window_start", "into HAVING"),
        ("SELECT count(*) FROM packets WHERE window(ts, '1 minute').end > TIMESTAMP '2026-01-01 00:00:00' GROUP BY window(ts, '1 minute')", "window(ts, '1 minute').end > TIMESTAMP '2026-01-01 00:00:00'", "into HAVING"),
        ("SELECT srcIP AS a, len AS A FROM packets GROUP BY srcIP, len, window(ts, '1 minute') HAVING a = 'x'", "a", "another name"),
        ("SELECT srcIP AS a FROM packets GROUP BY srcIP, window(ts, '1 minute') HAVING max(a) = 'x'", "a", "the columns are"),
        ('SELECT heavy_hitters(lenn, 0.1) FROM packets [RANGE 1 MINUTE]', 'lenn', 'did you mean len?'),
        ('SELECT heavy_hitters(len, 0.1) FILTER (WHERE len > 3) FROM packets [RANGE 1 MINUTE]', 'FILTER (WHERE len > 3)', 'choose its rows with WHERE'),
        ("SELECT ts - '1 minute' AS t, ts FROM packets", "ts - '1 minute'", "the columns are"),
        ('SELECT rand() AS r, ts FROM packets', 'rand()', 'CREATE STREAM s TIME ts AS SELECT'),
        ('SELECT a.len FROM packets a JOIN other b ON a.ts = b.ts AND max(a.len) > 3', 'a.ts = b.ts AND max(a.len) > 3', ''),
        ("SELECT max(len) FROM packets p GROUP BY len % 2, window(ts, '1 minute') HAVING p.lenn = 1", "p.lenn", ""),
        ('SELECT len AS __sw_a, ts FROM packets', 'len', 'another name with AS'),
        ("SELECT p.len FROM packets p JOIN other o ON p.ts = o.ts AND pmod(1, 0) = 1", "p.ts = o.ts AND pmod(1, 0) = 1", "put it into WHERE"),
    ],
)  # fmt: skip
def test_the_caret_is_under_what_is_wrong(text: str, word: str, says: str, streams: dict[str, Any]):
    error = refused(text, streams)
    assert marked(text, error) == word, str(error)
    assert says in error.hint, str(error)


@pytest.mark.parametrize(
    ("expression", "word"),
    [
        ("upper(len, 3)", "upper(len, 3)"),
        ("len + array(1)", "len + array(1)"),
        ("array(1)[flag]", "array(1)[flag]"),
        ("date_add(flag, 1)", "date_add(flag, 1)"),
        ("nosuch(len)", "nosuch(len)"),
        ("substring(srcIP, nocol, 2)", "nocol"),
        ("CASE WHEN len THEN 1 END", "CASE WHEN len THEN 1 END"),
        ("map(1, 2, 3)", "map(1, 2, 3)"),
        ("array(1, map(1, 2))", "array(1, map(1, 2))"),
        ("len.x", "len.x"),
        ("srcIP['x']['y']", "srcIP['x']"),
        ("transform(len, x -> x)", "transform(len, x -> x)"),
        ("element_at(len, 1)", "element_at(len, 1)"),
        ("NOT len", "NOT len"),
        ("flag > array(1)", "flag > array(1)"),
        ("from_json(srcIP)", "from_json(srcIP)"),
        ("round(srcIP, srcIP)", "round(srcIP, srcIP)"),
        ("to_timestamp(array(1))", "to_timestamp(array(1))"),
        ("-flag", "-flag"),
        ("CAST(flag AS nothing)", "nothing"),
        ("len IN (array(1))", "len IN (array(1))"),
    ],
)  # fmt: skip
def test_errors_that_only_spark_finds_point_into_their_expression(
    expression: str, word: str, streams: dict[str, Any]
):
    text = f"SELECT p.ts,\n  1 AS one, /* 表 */ {expression} AS e, p.destIP FROM packets p WHERE p.len > 0"
    error = refused(text, streams)
    assert error.line == 2
    assert word in marked(text, error) or marked(text, error) in expression, str(error)
    start = text.split("\n")[1].index(expression)
    assert error.column is not None and start < error.column <= start + len(expression)


def test_two_queries_are_refused_with_both_places(streams: dict[str, Any]):
    error = refused("SELECT * FROM packets;\nSELECT * FROM other", streams)
    assert error.condition == "TWO_QUERIES" and error.line == 2 and error.also is not None


def test_a_batch_table_is_no_stream(spark: Any):
    with pytest.raises(sw.AnalysisError) as raised:
        sw.sql("SELECT * FROM t", streams={"t": spark.range(3)})
    assert "sw.stream" in raised.value.hint


@pytest.mark.parametrize(
    "value", ["a\x0012", "\\0", "\x7f\x80ÿ", "\r\n\t", "it's", "a;b -- c", "/* x */", "back\\slash", "${env:HOME}", '"', "`", "表😀", "'); DROP", "\\'", "$${x}", "%_"]
)  # fmt: skip
def test_a_value_comes_out_as_it_went_in(value: str, streams: dict[str, Any]):
    from slackwater.model.render import render

    text = "SELECT ts, '${v}' AS a, ${v} AS b FROM packets WHERE srcIP = \"${v}\""
    made = sw.sql(text, streams=streams, variables={"v": value})
    (shape, plain) = (render(made._node), made.columns)
    assert plain == ["ts", "a", "b"] and len(shape) == 3
    frame = made._spark.range(1).selectExpr(
        *(f"{c.expr.sql} AS {c.name}" for c in made._node.columns[1:])
    )  # type: ignore[attr-defined]
    assert [tuple(r) for r in frame.collect()] == [(value, value)]


def test_nothing_in_a_comment_reaches_spark(spark: Any, streams: dict[str, Any]):
    """Its parser would put the value there, and that could end the comment."""
    spark.conf.set("spark.slackwater.odd", "*/ + 5 /*")
    try:
        made = sw.sql(
            "SELECT ts, len /* ${spark.slackwater.odd} */ + 1 AS a FROM packets", streams=streams
        )
    finally:
        spark.conf.unset("spark.slackwater.odd")
    assert made._node.columns[1].expr.sql == "(`len` + 1)"  # type: ignore[attr-defined]


def test_a_number_stays_a_number(streams: dict[str, Any]):
    made = sw.sql("SELECT ts, len - ${v} AS a FROM packets", streams=streams, variables={"v": -3})
    assert made._node.columns[1].expr.sql == "(`len` - -3)"  # type: ignore[attr-defined]


def test_functions_of_the_user_are_aggregates(streams: dict[str, Any]):
    import pyarrow.compute as pc

    total = sw.udaf(
        lambda: {"s": 0}, lambda s, v: {"s": s["s"] + (pc.sum(v).as_py() or 0)},
        lambda a, b: {"s": a["s"] + b["s"]}, lambda s: s["s"], stateType="s bigint", returnType="bigint", name="total", version="1",
    )  # fmt: skip
    made = sw.sql("SELECT total(len) AS t, window_end FROM packets [RANGE 1 MINUTE]", streams=streams, functions={"total": total})  # fmt: skip
    assert made.columns == ["t", "window_end"]
