"""HAVING by aliases, WHERE behind a window function, and joins of windows: the rows that ``spark.sql`` gives over the same rows."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import slackwater as sw
from slackwater.model.time import TimeColumn
from slackwater.surface.sql.windows import row_texts
from tests.surface.helpers import run
from tests.surface.local import run_locally
from tests.surface.sql.test_against_spark import SCHEMA, _data, _rows, _tables

pytestmark = pytest.mark.spark

WINDOW = "window(ts, '20 seconds')"
# Which name wins: a key, then an alias, then a column of the window that is Slackwater's alone.
HAVINGS = (
    f"SELECT k AS kk, sum(v) AS s FROM one GROUP BY k, {WINDOW} HAVING kk = 'a'",
    f"SELECT k AS kk, sum(v) AS s FROM one GROUP BY 1, {WINDOW} HAVING kk = 'a' AND s > 3 AND max(v) < 7",
    f"SELECT v % 2 AS v, sum(v) AS s FROM one GROUP BY v, {WINDOW} HAVING v = 1",
    f"SELECT v % 2 AS v, sum(v) AS s FROM one GROUP BY v % 2, {WINDOW} HAVING v = 1",
    f"SELECT k AS kk, concat(k, 'x') AS k, count(*) AS n FROM one GROUP BY k, {WINDOW} HAVING k = 'ax' OR kk = 'b'",
    f"SELECT concat(k, 'x') AS k, sum(v) AS v FROM one o GROUP BY concat(k, 'x'), {WINDOW} HAVING k = 'ax' AND max(o.v) > 2",
    f"SELECT k AS o, count(*) AS n FROM one o GROUP BY k, {WINDOW} HAVING o.k = 'a' AND o = 'a'",
    f"SELECT k AS kk, window.start AS s, window AS w FROM one GROUP BY k, {WINDOW} HAVING s > TIMESTAMP '1970-01-01 00:00:20Z' AND w.end IS NOT NULL",
    f"SELECT unix_seconds(window.end) AS window_end, count(*) AS wid FROM one GROUP BY k, {WINDOW} HAVING wid = 2 OR window_end > 90",
    f"SELECT k AS count, window AS k2 FROM one GROUP BY k, {WINDOW} HAVING count(*) > 1 AND count = 'b' AND k2.end > TIMESTAMP '1970-01-01 00:00:20Z'",
    "SELECT k AS kk, ts AS t, sum(v) AS s FROM one GROUP BY k, ts HAVING t > TIMESTAMP '1970-01-01 00:00:20Z' AND kk <> 'a'",
)  # fmt: skip
TUMBLE = "TUMBLE(one, ts, INTERVAL 20 SECONDS, INTERVAL 3 SECONDS)"
HOP = "HOP(one, ts, INTERVAL 5 SECONDS, INTERVAL 20 SECONDS)"
SESSION = "SESSION(TABLE one PARTITION BY k, DESCRIPTOR(ts), INTERVAL 8 SECONDS)"
SECOND = "TIMESTAMP '1970-01-01 00:00:{0:02}Z'".format
FILTERS = (
    f"SELECT k, window_start AS s, count(*) AS n FROM {TUMBLE} t WHERE t.window_start > {SECOND(10)} GROUP BY k, window_start, window_end",
    f"SELECT k, window_start AS s, count(*) AS n FROM {TUMBLE} WHERE window_end <= {SECOND(43)} OR v > 3 GROUP BY k, window_start, window_end",
    f"SELECT window_start AS s, sum(v) AS n FROM {TUMBLE} WHERE NOT (window_time < {SECOND(40)} AND v > 2) AND k = 'a' GROUP BY window_start, window_end",
    f"SELECT window_start AS s, sum(v) AS n FROM {TUMBLE} WHERE unix_micros(ts) - unix_micros(window_start) < 7000000 GROUP BY window_start, window_end",
    f"SELECT k, window_start AS s, count(*) AS n FROM {HOP} WHERE window_start > {SECOND(10)} AND v > 1 GROUP BY k, window_start, window_end HAVING n > 1",
    f"SELECT window_end AS e, sum(v) AS n FROM (SELECT * FROM {HOP} WHERE window_start > {SECOND(10)} OR window_end < {SECOND(5)}) x WHERE x.window_time < {SECOND(50)} GROUP BY window_start, window_end",
    f"SELECT k, window_start AS s, count(*) AS n FROM {SESSION} WHERE window_end > {SECOND(40)} GROUP BY k, window_start, window_end",
)  # fmt: skip
HOWS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
ONS = (
    "a.k IS NOT DISTINCT FROM b.k",
    "a.v < b.v",
    f"a.k <=> b.k AND a.window_start > {SECOND(15)} AND unix_micros(b.ts) - unix_micros(a.window_start) < 9000000",
)


def frames_of_windows(text: str) -> str:
    """The text with sub-queries in the place of window functions, which Spark does not have."""
    for function, table, time, window in (
        (TUMBLE, "one", "ts", "window(ts, '20 seconds', '20 seconds', '3 seconds')"), (HOP, "one", "ts", "window(ts, '20 seconds', '5 seconds')"),
        (TUMBLE.replace("one", "three"), "three", "ts", "window(ts, '20 seconds', '20 seconds', '3 seconds')"),
    ):  # fmt: skip
        made = (
            f"(SELECT *, w.start AS window_start, w.end AS window_end, w.end - INTERVAL 1 MICROSECOND AS window_time FROM "
            f"(SELECT *, {window} AS w FROM {table} WHERE {time} IS NOT NULL))"
        )
        text = text.replace(function, made)
    sessions = (
        "(SELECT one.*, g.window_start, g.window_end FROM one JOIN (SELECT k, session_window.start AS window_start, "
        "session_window.end AS window_end FROM one GROUP BY k, session_window(ts, '8 seconds')) g "
        "ON one.k <=> g.k AND one.ts >= g.window_start AND one.ts < g.window_end)"
    )
    return text.replace(SESSION, sessions)


def joins(how: str, turn: int) -> dict[str, str]:
    columns = "a.k AS ka, a.v AS va, a.ts AS ta"
    if "SEMI" not in how and "ANTI" not in how:
        columns += ", b.k AS kb, b.v AS vb, b.ts AS tb"
    right = TUMBLE.replace("one", "three")
    same = "a.window_start = b.window_start AND a.window_end = b.window_end"
    return {
        f"{how} {i}": f"SELECT {columns} FROM {TUMBLE} a {how} {right} b ON {same} AND {on}"
        for i, on in enumerate(ONS)
        # All conditions of an inner and a left join, and two of the others.
        if how in ("JOIN", "LEFT JOIN") or i != turn % len(ONS)
    }


@pytest.fixture(scope="module")
def given(spark: Any) -> dict[str, Any]:
    dice = random.Random(25)
    one, three = _data(dice), _data(dice)
    streams = {}
    for name, batches in (("one", one), ("three", three)):
        rows = sw.replay(spark, batches, SCHEMA)
        streams[name] = sw.stream(rows, time="ts", name=name, progress=sw.BoundedDelay("1 hour"))
        spark.createDataFrame([r for b in batches for r in b], SCHEMA).createOrReplaceTempView(name)
    return streams


def compare(spark: Any, folder: Path, texts: dict[str, str], given: dict[str, Any]) -> None:
    made = {name: sw.sql(text, streams=given) for name, text in texts.items()}
    done = run_locally(made, folder)
    frames = {name: spark.sql(frames_of_windows(text)) for name, text in texts.items()}
    tables = _tables(spark, frames)
    for name, text in texts.items():
        columns = frames[name].columns
        assert tables[name], f"no rows are compared: {text}"
        assert _rows(done.rows(name), columns) == _rows(tables[name], columns), text


def test_having_means_what_it_means_in_spark(spark: Any, tmp_path: Path, given: dict[str, Any]):
    compare(spark, tmp_path, {f"t{i}": text for i, text in enumerate(HAVINGS)}, given)


def test_where_behind_a_window_function_chooses_rows_by_their_windows(
    spark: Any, tmp_path: Path, given: dict[str, Any]
):
    compare(spark, tmp_path, {f"t{i}": text for i, text in enumerate(FILTERS)}, given)


def test_joins_of_windows_need_no_equality(spark: Any, tmp_path: Path, given: dict[str, Any]):
    texts = {n: t for turn, how in enumerate(HOWS) for n, t in joins(how, turn).items()}
    compare(spark, tmp_path, texts, given)


@pytest.mark.parametrize("offset", [0, 7])
def test_the_window_of_a_row_is_sparks(spark: Any, offset: int):
    """Also of a local time that the session's zone leaves out, and of times before 1970."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = spark.sql(
            "SELECT * FROM VALUES (TIMESTAMP_NTZ '2026-03-08 02:30:00.000001', TIMESTAMP '2026-03-08 04:30:00', 7300L), "
            "(TIMESTAMP_NTZ '1969-03-08 02:00:00', TIMESTAMP '1969-03-08 02:30:00.999999', -3L) AS t(lt, ts, n)"
        )
        spec = sw.window("1 hour", origin=f"1970-01-01 00:00:{offset:02}")
        for time in (TimeColumn("lt", "timestamp_ntz", 1), TimeColumn("ts", "timestamp", 1)):
            texts = row_texts(spec, time, time.name)
            window = f"window({time.name}, '1 hour', '1 hour', '{offset} seconds')"
            made = rows.selectExpr(f"{window} AS w", *(f"{t} AS {n}" for n, t in texts.items()))
            for r in made.collect():
                assert (
                    (r.window.start, r.window.end) == (r.window_start, r.window_end) == tuple(r.w)
                )
                assert (r.window_end - r.window_time).total_seconds() == 1e-6
                ends = spark.sql(f"SELECT unix_micros(CAST('{r.window_end}Z' AS TIMESTAMP))") if time.is_local else None  # fmt: skip
                if ends is not None:
                    assert r.wid == (ends.first()[0] - offset * 10**6) // (3600 * 10**6) - 1
        texts = row_texts(sw.window(60, origin=offset), TimeColumn("n", "long", None), "n")
        made = rows.selectExpr("n", *(f"{t} AS {n}" for n, t in texts.items())).collect()
        for r in made:
            assert r.window_start == r.n - (r.n - offset) % 60 == r.window_time - 59
            assert r.wid == (r.n - offset) // 60 and r.window_end == r.window_start + 60
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_a_join_shows_the_windows_of_local_times_in_any_zone(spark: Any, tmp_path: Path):
    """Also where the session's zone has moved its clocks, or leaves the time out."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        given = ["1969-12-31T23:30", "2026-03-08T02:30", "2026-07-01T02:30"]
        rows = [(1, datetime.fromisoformat(text)) for text in given]
        streams = {
            n: sw.stream(sw.replay(spark, [rows], "k long, lt timestamp_ntz"), time="lt", name=n)
            for n in ("one", "three")
        }
        sides = (
            f"TUMBLE({n}, lt, INTERVAL 2 HOURS) {a}" for n, a in (("one", "a"), ("three", "b"))
        )
        joined = sw.sql(
            f"SELECT a.window_start AS s, b.window_end AS e, a.window_time AS t FROM {' JOIN '.join(sides)} "
            "ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end",
            streams=streams,
        )
        found = run(joined, tmp_path).rows()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    starts = [datetime.fromisoformat(t) for t in ("1969-12-31T22:00", "2026-03-08T02:00", "2026-07-01T02:00")]  # fmt: skip
    long, tick = timedelta(hours=2), timedelta(microseconds=1)
    assert sorted(found, key=lambda r: r["s"]) == [{"s": s, "e": s + long, "t": s + long - tick} for s in starts]  # fmt: skip
