"""Queries in session zones other than UTC, on instants and on local times: Spark's batch result must come out."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.engine.plan.known import renumber
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.kernels.types import arrow_schema
from tests.engine.in_process import Engine
from tests.surface.helpers import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
SCHEMA = "k string, ts timestamp, n timestamp_ntz, v bigint"
FIRST = dt.datetime(2026, 10, 23)  # noqa: DTZ001 (local)
ORIGIN = "2026-01-01 01:00:00"
LANDMARK = "2026-10-25 01:00:00"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


@pytest.fixture(params=["Asia/Tokyo", "America/New_York", "+05:30", "Europe/Berlin"])
def zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    before = str(spark.conf.get(ZONE))
    spark.conf.set(ZONE, request.param)
    yield request.param
    spark.conf.set(ZONE, before)


def batches(seed: int) -> list[list[tuple[Any, ...]]]:
    """Ten days, in which Berlin and New York set their clocks back, out of order by up to an hour."""
    rng = random.Random(seed)
    made = []
    for part in range(2):
        rows = []
        for i in range(90):
            minutes = (part * 90 + i) * 80 + rng.randrange(60)
            time = FIRST + dt.timedelta(minutes=minutes, microseconds=rng.randrange(10**6))
            rows.append(
                (rng.choice("ab"), time.replace(tzinfo=dt.timezone.utc), time, rng.randrange(100))
            )
        made.append(rows)
    return made


def micros(value: Any) -> Any:
    """Times as microseconds, local ones as if they were UTC."""
    if isinstance(value, dt.datetime):
        value = value if value.tzinfo is not None else value.replace(tzinfo=dt.timezone.utc)
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    return value


def shown(name: str, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (name, r.get("k"), micros(r["window"]["start"]), micros(r["window"]["end"]), r["x"])
        for r in rows
    ]


def queries(df: Any) -> dict[str, sw.Stream]:
    """Windows whose origin is a local time, over all that has a time."""
    quarters = sw.window("6 hours", origin=ORIGIN)
    made: dict[str, sw.Stream] = {}
    for time in ("ts", "n"):
        progress = sw.BoundedDelay("2 hours")
        s = sw.stream(df, time=time, name=f"by_{time}", progress=progress)
        other = sw.stream(df, time=time, name=f"other_{time}", progress=progress)
        hours = s.groupBy("k", sw.window("1 hour")).agg("sum(v) AS v")
        pairs = s.select("k", time, "v").join(
            other.select("k", time, "v"),
            "k",
            within=sw.band(before="30 minutes", after="30 minutes"),
        )
        made[f"twice_{time}"] = hours.groupBy("k", quarters).agg("sum(v) AS x")
        made[f"joined_{time}"] = pairs.groupBy("k", quarters).agg("count(*) AS x")
        made[f"direct_{time}"] = s.groupBy("k", quarters).agg("sum(v) AS x")
    ends = hours.select("k", "window.end AS e", "v")
    made["ends_n"] = ends.groupBy("k", quarters).agg("sum(v) AS x")
    made["least_n"] = pairs.groupBy("k", sw.window("6 hours", origin=ORIGIN, on="min")).agg(
        "count(*) AS x"
    )
    made["since_n"] = hours.groupBy(sw.landmark("1 day", LANDMARK)).agg("sum(v) AS x")
    return made


def expected(spark: SparkSession, data: Any, names: Any) -> list[tuple[Any, ...]]:
    """What Spark's batch engine says."""
    spark.createDataFrame([r for b in data for r in b], SCHEMA).createOrReplaceTempView("zoned")
    parts = [f"SELECT '{name}', * FROM ({in_spark(*name.split('_'))})" for name in names]
    return sorted((tuple(r) for r in spark.sql(" UNION ALL ".join(parts)).collect()), key=repr)


def in_spark(kind: str, time: str) -> str:
    """A query in Spark SQL: times are counted from the origin, which is a literal in the session's zone."""
    local = time == "n"
    type = "timestamp_ntz" if local else "timestamp"

    def number(text: str, zero: str = ORIGIN) -> str:
        """Microseconds since a moment. (``timestampdiff`` counts in local time, for instants too.)"""
        if local:
            return f"timestampdiff(MICROSECOND, {type} '{zero}', {text})"
        return f"(unix_micros({text}) - unix_micros({type} '{zero}'))"

    epoch = "1970-01-01 00:00:00" + ("" if local else "Z")
    origin = number(f"{type} '{ORIGIN}'", epoch)
    # Hours of instants begin at full hours of UTC, local hours at full local hours.
    hour = f"{time} - make_dt_interval(0, 0, 0, CAST(pmod({number(time, epoch)}, 3600000000) / 1e6 AS DECIMAL(18, 6)))"
    hours = (
        f"SELECT k, v, {hour} + INTERVAL '59:59.999999' MINUTE TO SECOND AS at, {hour} + INTERVAL '1' HOUR AS e "
        "FROM zoned"
    )
    pairs = (
        f"SELECT a.k, a.v, greatest(a.{time}, b.{time}) AS hi, least(a.{time}, b.{time}) AS lo FROM zoned a JOIN zoned b "
        f"ON a.k = b.k AND b.{time} BETWEEN a.{time} - INTERVAL '30' MINUTE AND a.{time} + INTERVAL '30' MINUTE"
    )
    if kind == "since":
        first = number(f"{type} '{LANDMARK}'", epoch)
        days = f"SELECT v, {number('at', LANDMARK)} DIV 86400000000 AS d FROM ({hours}) WHERE {number('at', LANDMARK)} >= 0"
        return (
            f"SELECT NULL, {first}, {first} + (w + 1) * 86400000000, sum(v) FROM ({days}) JOIN "
            f"(SELECT explode(sequence(0, max(d))) AS w FROM ({days})) ON d <= w GROUP BY w"
        )
    source, at, what = {
        "direct": ("SELECT * FROM zoned", time, "sum(v)"),
        "twice": (hours, "at", "sum(v)"),
        "ends": (hours, "e", "sum(v)"),
        "joined": (pairs, "hi", "count(*)"),
        "least": (pairs, "lo", "count(*)"),
    }[kind]
    start = f"{origin} + floor({number(at)} / 21600000000D) * 21600000000"
    return f"SELECT k, w, w + 21600000000, {what} FROM (SELECT k, v, {start} AS w FROM ({source})) GROUP BY k, w"


def test_origins_against_spark(
    zone: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = batches(7)
    (tmp_path / "in").mkdir()
    df = sw.readStream(spark).schema(SCHEMA).parquet(str(tmp_path / "in"))
    streams = queries(df)
    for name, stream in streams.items():
        inner = "timestamp_ntz" if name.endswith("_n") else "timestamp"
        assert (
            stream.schema["window"].dataType.simpleString() == f"struct<start:{inner},end:{inner}>"
        )
    outputs = renumber([Output(n, s._node) for n, s in streams.items()], {id(df): 0})
    engine = Engine(tmp_path, monkeypatch)
    engine.start(build(outputs, ansi=True, zone=zone))
    schema = arrow_schema(outputs[0].node.children[0].children[0].schema)
    for rows in data:
        engine.batch(pa.table(list(zip(*rows, strict=True)), schema=schema))
    engine.batch(final=True)
    engine.stop()
    found = [row for name in streams for row in shown(name, engine.rows(name))]
    assert sorted(found, key=repr) == expected(spark, data, streams)
    assert {name for name, *_ in found} == set(streams)


@pytest.mark.parametrize("zone", ["GMT+5"], indirect=True)
def test_rows_on_spark_itself(zone: str, spark: SparkSession, tmp_path: Path) -> None:
    """A zone whose name neither Python, Arrow nor DuckDB knows."""
    data = batches(8)
    df = sw.replay(spark, data, SCHEMA)
    streams = {n: s for n, s in queries(df).items() if n in ("twice_n", "joined_n")}
    s = sw.stream(df, time="ts", name="parts", progress=sw.BoundedDelay("2 hours"))
    text = "min(concat(hour(ts), ' ', date_format(ts, 'HH'), ' ', hour(n), ' ', cast(ts AS date)))"
    parts = s.groupBy("k", sw.window("1 day")).agg(f"{text} AS x")
    done = run({**streams, "parts": parts}, tmp_path / "ck")
    found = [row for name in streams for row in shown(name, done.rows(name))]
    assert sorted(found, key=repr) == expected(spark, data, streams)
    start = "unix_micros(ts) - pmod(unix_micros(ts), 86400000000)"
    wanted = spark.sql(
        f"SELECT 'parts', k, {start} AS w, w + 86400000000, {text} FROM zoned GROUP BY k, w"
    )
    assert sorted(shown("parts", done.rows("parts"))) == sorted(tuple(r) for r in wanted.collect())
