"""Random plain Spark SQL: over a stream, at its end, the rows that ``spark.sql`` gives over the same rows as tables."""

from __future__ import annotations

import datetime as dt
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import slackwater as sw
from tests.examples import TIMES
from tests.surface.helpers import canonical, run, small_tables
from tests.surface.local import is_local, run_locally

pytestmark = pytest.mark.spark

SCHEMA = "k string, v int, d decimal(10,2), b boolean, xs array<int>, ts timestamp"
LOCAL = "k string, v int, lt timestamp_ntz"
UTC = dt.timezone.utc
COUNT = 33
"""Texts of a query; there is one for each of two zones. Three of each kind, among them all expressions and all aggregates."""
SCALARS = (
    "v + 1", "v % 3", "v DIV 2", "upper(k)", "concat(k, '-', v)", "CASE WHEN v > 3 THEN 'big' ELSE k END", "coalesce(k, 'none')",
    "d * 2", "d + v", "substring(k, 1, 1)", "k LIKE 'a%'", "v BETWEEN 2 AND 5", "k IS DISTINCT FROM 'a'", "size(xs)", "xs[0]",
    "transform(xs, x -> x + v)", "if(b, 1, 0)", "nvl(v, 0)", "'it''s'", "\"a\"\"b\"", "r'a\\n'", "1.5BD + v", "3L * v", "2e0",
    "X'1F'", "DATE '2026-01-31'", "date_trunc('HOUR', ts)", "year(ts)", "unix_micros(ts)", "CAST(v AS STRING)",
    "v::bigint", "nullif(v, 3)", "greatest(v, 2)", "abs(-v)", "k IN ('a', 'b')", "NOT b", "b AND v > 2", "try_cast(k AS INT)",
    "locate('a', k)", "lpad(k, 3, '*')", "array_contains(xs, v)", "struct(k, v)", "map('k', v)", "hash(v)", "-v", "v & 3",
    "EXTRACT(MINUTE FROM ts)", "ts + INTERVAL 1 HOUR", "date_add(CAST(ts AS DATE), 1)", "typeof(d)", "regexp_replace(k, 'a', 'z')",
)  # fmt: skip
AGGREGATES = (
    "count(*)", "sum(v)", "max(v)", "min(d)", "avg(v)", "count(DISTINCT v)", "sum(d)", "max_by(k, v)", "bool_or(b)", "count_if(v > 2)",
    "sum(v) FILTER (WHERE b)", "stddev_pop(v)", "median(v)", "any_value(1)", "sum(v) / count(*)", "max(v) - min(v)",
)  # fmt: skip
CONDITIONS = (
    "v > 2",
    "b",
    "k = 'a' OR v < 3",
    "xs IS NOT NULL AND size(xs) > 1",
    "d BETWEEN 1 AND 50",
    "NOT (k <=> 'b')",
)


class Dice(random.Random):
    """Deals out all of a choice before any of it once more; seeds of two zones deal from the two ends."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.seed_of_both, self.step = (seed // 1000, -1 if seed % 2 else 1)
        self.decks: dict[str, list[int]] = {}

    def deal(self, cards: tuple[str, ...], count: int, name: str = "") -> list[str]:
        """``count`` different ones; ``name`` tells cards apart that are made anew each time."""
        numbers = self.decks.setdefault(name or str(cards), [])
        if len(numbers) < count:
            whole = list(range(len(cards)))
            random.Random(self.seed_of_both).shuffle(whole)
            numbers += [n for n in whole[:: self.step] if n not in numbers]
        dealt, numbers[:] = numbers[:count], numbers[count:]
        return [cards[n] for n in dealt]


def _scalars(dice: Dice) -> str:
    """Many expressions in one text: most of them only Spark can compute, and each such output costs Spark a while."""
    items = ", ".join(f"{e} AS c{i}" for i, e in enumerate(dice.deal(SCALARS, 17)))
    where = f" WHERE {dice.choice(CONDITIONS)}" if dice.random() < 0.6 else ""
    if dice.random() < 0.3:
        return f"SELECT c0, c1, t FROM (SELECT {items}, ts AS t FROM one{where}) q WHERE c0 IS NOT NULL OR true"
    alias = dice.choice(["", " o", " AS o"])
    first = "o.k" if alias else "one.k"
    return f"SELECT {first}, {items}, ts FROM one{alias}{where}"


def _plain_rows(dice: Dice) -> str:
    """Names that hide others, in sub-queries and views."""
    (text,) = dice.deal((
        "SELECT k AS v, v AS k, ts FROM one WHERE v > 2",
        "WITH one AS (SELECT k, v + 10 AS v, ts FROM one) SELECT one.k, v FROM one WHERE one.v > 12",
        "WITH a AS (SELECT * FROM one), b AS (SELECT k, v * 2 AS v, ts FROM a) SELECT b.k, V FROM b",
        "SELECT * FROM (SELECT * FROM (SELECT k, ts FROM one) one) one",
        "SELECT One.K, oNE.v + 1 AS `a.b``c`, TS AS `select` FROM ONE AS One",
        "SELECT q.`x y` AS z, q.ts FROM (SELECT v AS `x y`, ts FROM three) q WHERE q.`x y` IS NOT NULL",
        "SELECT * EXCEPT (d, xs), v AS w FROM three",
        "SELECT all.k, all.v, distinct.w FROM one AS all JOIN (SELECT ts AS w FROM three) distinct ON all.ts = distinct.w",
        "SELECT st.*, ts FROM (SELECT named_struct('x', v, 'y', k) AS st, ts FROM one) /* ; */ -- ;",
    ), 1, "plain_rows")  # fmt: skip
    return text


def _span(dice: Dice) -> tuple[str, str, str]:
    size = dice.randrange(1, 50)
    slide = dice.randrange(1, size + 1)
    return f"'{size} seconds'", f"'{slide} seconds'", f"'{dice.randrange(0, slide)} seconds'"


def _windows(dice: Dice) -> str:
    table, time = ("one", "ts") if dice.random() < 0.7 else ("two", "lt")
    functions = tuple(
        a for a in AGGREGATES if table == "one" or not any(c in a for c in ("(d", "b)", "bool"))
    )
    items = ", ".join(f"{e} AS c{i}" for i, e in enumerate(dice.deal(functions, 3)))
    size, slide, offset = _span(dice)
    window = dice.choice(
        [
            f"window({time}, {size})",
            f"window({time}, {size}, {slide})",
            f"window({time}, {size}, {slide}, {offset})",
        ]
    )
    having = dice.choice(["", "", " HAVING count(*) > 1", " HAVING max(v) > 2 AND count(*) < 9"])
    where = dice.choice(["", " WHERE v > 1"])
    key = dice.choice(["k", "k", "coalesce(k, 'none')", "v % 2"])
    alias = dice.choice(["g", "grp"])
    group = dice.choice([key, alias, "1"])
    return f"SELECT {key} AS {alias}, window.start AS s, window.end AS e, {items} FROM {table}{where} GROUP BY {group}, {window}{having}"


def _sessions(dice: Dice) -> str:
    gap, key = dice.randrange(1, 12), dice.choice(["k", "v % 2"])
    items = ", ".join(
        f"{e} AS c{i}"
        for i, e in enumerate(dice.sample(["count(*)", "sum(v)", "max(v)", "min(d)"], 2))
    )
    return (
        f"SELECT {key} AS g, session_window.start AS s, session_window.end AS e, {items} FROM one "
        f"GROUP BY {dice.choice([key, 'g', '1'])}, session_window(ts, '{gap} seconds')"
    )


def _hidden(dice: Dice) -> str:
    """Aliases of the select list that are columns too, and numbers in GROUP BY."""
    (text,) = dice.deal((
        "SELECT v % 2 AS v, sum(v) AS s FROM one GROUP BY v, window(ts, '10 seconds')",
        "SELECT v % 2 AS v, sum(v) AS s FROM one GROUP BY 1, window(ts, '10 seconds')",
        "SELECT k, sum(v) AS v FROM one GROUP BY k, window(ts, '10 seconds') HAVING v > 3",
        "SELECT count(*) AS window, sum(v) AS k FROM one GROUP BY k, window(ts, '10 seconds')",
        "SELECT window(ts, '9 seconds', '3 seconds') AS w, count(*) AS n FROM one GROUP BY w",
        "SELECT count(*) AS n, sum(n) AS m FROM (SELECT k, count(*) AS n, window FROM one GROUP BY k, window(ts, '5 seconds')) "
        "GROUP BY window(window, '20 seconds')",
    ), 1, "hidden")  # fmt: skip
    return text


def _using(dice: Dice) -> str:
    seconds = dice.randrange(0, 9)
    band = f"b.ts BETWEEN a.ts - INTERVAL {seconds} SECONDS AND a.ts + INTERVAL {seconds} SECONDS"
    (text,) = dice.deal((
        f"SELECT k, a.v AS x, b.v AS y, a.ts FROM one a JOIN three b USING (k) WHERE {band}",
        f"SELECT a.k, count(*) AS n FROM one a JOIN one b ON a.k = b.k AND {band} GROUP BY a.k, window(a.ts, '10 seconds')",
        f"SELECT a.k, b.v AS bv, c.v AS cv FROM one a JOIN three b ON a.k = b.k AND {band} JOIN one c ON c.k = b.k AND c.ts = b.ts",
        f"SELECT a.k, x.w FROM one a, (SELECT k, ts AS w, v FROM three WHERE v > 1) x WHERE a.k <=> x.k AND x.w = a.ts + INTERVAL {seconds} SECONDS",
    ), 1, "using")  # fmt: skip
    return text


def _joins(dice: Dice) -> str:
    (how,) = dice.deal(
        (
            "JOIN",
            "INNER JOIN",
            "LEFT JOIN",
            "RIGHT OUTER JOIN",
            "FULL JOIN",
            "LEFT SEMI JOIN",
            "LEFT ANTI JOIN",
        ),
        1,
    )
    before, after = dice.randrange(0, 20), dice.randrange(0, 20)
    band = f"b.ts BETWEEN a.ts - INTERVAL {before} SECONDS AND a.ts + INTERVAL '{after}' SECOND"
    if dice.random() < 0.4:
        band = f"b.ts > a.ts - INTERVAL {before + 1} SECONDS AND b.ts < a.ts + INTERVAL {after + 1} SECONDS"
    columns = (
        "a.k, a.v AS x, a.ts"
        if how.startswith(("LEFT S", "LEFT A"))
        else "a.k AS ka, b.k AS kb, a.v + b.v AS s, a.ts AS ta, b.ts AS tb"
    )
    where = dice.choice(["", " WHERE a.v > 2"]) if how != "RIGHT OUTER JOIN" else ""
    return f"SELECT {columns} FROM one a {how} three b ON a.k = b.k AND {band}{where}"


def _unions(dice: Dice) -> str:
    return f"SELECT k, {dice.choice(['v', 'v + 1'])} AS v, ts FROM one UNION ALL SELECT k, v * 2, ts FROM three WHERE {dice.choice(CONDITIONS)}"


def texts(seed: int, count: int) -> dict[str, str]:
    dice = Dice(seed)
    kinds = [
        _scalars,
        _windows,
        _joins,
        _sessions,
        _windows,
        _plain_rows,
        _joins,
        _unions,
        _hidden,
        _windows,
        _using,
    ]
    return {f"t{i}": kinds[i % len(kinds)](dice) for i in range(count)}


def _data(dice: random.Random) -> list[list[tuple[Any, ...]]]:
    def row() -> tuple[Any, ...]:
        second = dice.choice([0, -100]) + dice.randrange(0, 100_000) / 1000
        from decimal import Decimal

        return (
            dice.choice(["a", "b", "c", None]), dice.randrange(8), Decimal(dice.randrange(10_000)) / 100, dice.random() < 0.5,
            [dice.randrange(5) for _ in range(1 + dice.randrange(3))],
            dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(seconds=second),
        )  # fmt: skip

    return [[row() for _ in range(12)] for _ in range(2)]


def _local(batches: list[list[tuple[Any, ...]]]) -> list[list[tuple[Any, ...]]]:
    return [[(r[0], r[1], r[5].replace(tzinfo=None)) for r in b] for b in batches]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_text_means_on_a_stream_what_it_means_on_tables(spark: Any, tmp_path: Path, zone: str):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for turn in range(TIMES):
            _compare(spark, tmp_path / str(turn), 1000 * turn + len(zone))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def _compare(spark: Any, folder: Path, seed: int) -> None:
    dice = random.Random(seed)
    one, three = _data(dice), _data(dice)
    given = {
        "one": (one, SCHEMA, "ts"),
        "two": (_local(one), LOCAL, "lt"),
        "three": (three, SCHEMA, "ts"),
    }
    streams = {}
    for name, (batches, schema, time) in given.items():
        streams[name] = sw.stream(
            sw.replay(spark, batches, schema),
            time=time,
            name=name,
            progress=sw.BoundedDelay("1 hour"),
        )
        rows = [r for b in batches for r in b]
        spark.createDataFrame(rows, schema).createOrReplaceTempView(name)
    every = texts(seed, COUNT)
    made = {name: sw.sql(text, streams=streams) for name, text in every.items()}
    rows = _streamed(made, folder)
    frames = {name: spark.sql(text) for name, text in every.items()}
    tables = _tables(spark, frames)
    compared = 0
    for name, text in every.items():
        fields, own = frames[name].schema.fields, made[name].schema.fields
        assert [(f.name, f.dataType) for f in fields] == [(f.name, f.dataType) for f in own], text
        compared += len(tables[name])
        columns = frames[name].columns
        assert _rows(rows[name], columns) == _rows(tables[name], columns), text
    assert compared > 6 * COUNT


def _streamed(made: dict[str, Any], folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of streams at their end: from the engine in this process, and from Spark where it alone can compute them."""
    local = {name: stream for name, stream in made.items() if is_local(stream)}
    other = {name: stream for name, stream in made.items() if name not in local}
    assert len(local) > len(other) > 0
    runs = [(run_locally(local, folder / "local"), local), (run(other, folder / "spark"), other)]
    return {name: done.rows(name) for done, names in runs for name in names}


def _tables(spark: Any, frames: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The rows of frames over small tables."""
    with small_tables(spark), ThreadPoolExecutor(4) as pool:
        return dict(zip(frames, pool.map(lambda f: f.toArrow().to_pylist(), frames.values()), strict=True))  # fmt: skip


def _rows(rows: list[dict[str, Any]], columns: list[str]) -> list[Any]:
    plain = [{c: _plain(r[c]) for c in columns} for r in rows]
    return canonical(plain, columns)


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, list):
        return tuple(_plain(v) for v in value)
    if isinstance(value, dict):
        return tuple(_plain(v) for v in value.values())
    return value
