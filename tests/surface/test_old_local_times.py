"""Checkpoints of commit e35c92f on local times: refused where the query meant something else, else opened.

``old_local_times.json`` has the texts of these queries as that commit stored them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from slackwater.engine.driver.old_meaning import MEANING
from slackwater.engine.driver.opening import open_query
from slackwater.engine.plan.known import renumber
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.model.render import describe
from tests.surface.helpers import refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
OLD = json.loads((Path(__file__).parent / "old_local_times.json").read_text())
ORIGIN = "2026-01-01 01:00:00"
OPENS = {("Asia/Tokyo", "plain"), ("Asia/Tokyo", "default"), ("Europe/London", "windows")}


@pytest.fixture
def within(spark: SparkSession) -> Iterator[Any]:
    before = str(spark.conf.get(ZONE))
    yield lambda zone: spark.conf.set(ZONE, zone)
    spark.conf.set(ZONE, before)


def queries(df: Any) -> dict[str, Any]:
    s = sw.stream(df, time="n", name="s", progress=sw.Ordered())
    t = sw.stream(df, time="n", name="t", progress=sw.Ordered())
    hours = s.groupBy("k", sw.window("1 hour")).agg("sum(v) AS v")
    counts = t.groupBy("k", sw.window("1 hour").alias("w2")).agg("count(*) AS c")
    pairs = s.join(t.select("k", "n"), "k", within=sw.band(before="1 minute"))
    quarters = sw.window("6 hours", origin=ORIGIN)
    both = (
        sw.window("1 hour", origin=ORIGIN, on="max").alias("a"),
        sw.window("2 hours", origin=ORIGIN, on="min").alias("b"),
    )
    aware = sw.window("6 hours", origin="2026-01-01T01:00:00Z")
    epoch = sw.window("6 hours", origin="1970-01-01")
    return {
        "windows": lambda: hours.groupBy("k", quarters).agg("sum(v) AS v"),
        "epoch": lambda: hours.groupBy("k", epoch).agg("sum(v) AS v"),
        "landmark": lambda: hours.groupBy(sw.landmark("1 day", "2026-01-01")).agg("sum(v) AS v"),
        "joint": lambda: pairs.groupBy(*both).agg("count(*) AS n"),
        "tumbling": lambda: hours.select("k", "window", "v").join(
            counts.select("k", "w2", "c"), "k", within=quarters
        ),
        "aware": lambda: s.groupBy(aware).agg("sum(v) AS v"),
        "plain": lambda: s.groupBy(quarters).agg("sum(v) AS v"),
        "default": lambda: hours.groupBy("k", sw.window("6 hours")).agg("sum(v) AS v"),
    }


def plan_of(df: Any, name: str, stream: sw.Stream, zone: str) -> Plan:
    return build(renumber([Output(name, stream._node)], {id(df): 0}), ansi=True, zone=zone)


def old_checkpoint(folder: Path, name: str, tree: list[str], plan: Plan) -> Checkpoint:
    """A checkpoint with a query as commit e35c92f described it."""
    checkpoint = Checkpoint(str(folder / name))
    checkpoint.acquire()
    checkpoint.open_query(
        {
            "outputs": {name: tree},
            "sources": [[s.name, s.input] for s in plan.sources],
            "settings": {"ansi": plan.ansi, "zone": plan.zone},
            "plans": {},
            "stores": {},
        }
    )
    return checkpoint


def test_an_origin_that_was_read_in_another_way(
    spark: SparkSession, within: Any, tmp_path: Path
) -> None:
    for zone, trees in OLD.items():
        within(zone)
        df = (
            sw.readStream(spark)
            .schema("k string, n timestamp_ntz, v bigint")
            .parquet(str(tmp_path))
        )
        made = queries(df)
        for name, tree in trees.items():
            plan = plan_of(df, name, made[name](), zone)
            checkpoint = old_checkpoint(tmp_path / zone.replace("/", "-"), name, tree, plan)
            before = checkpoint.open_query({})
            assert "meaning" not in before
            if (zone, name) in OPENS:
                assert describe([(o.name, o.node) for o in plan.outputs])[name] == tree
                assert open_query(checkpoint, plan, None) == before["id"]
                # From now on it has today's meaning.
                assert checkpoint.open_query({})["meaning"] == MEANING
                assert open_query(checkpoint, plan, None) == before["id"]
                continue
            error = refused(
                lambda checkpoint=checkpoint, plan=plan: open_query(checkpoint, plan, None),  # type: ignore[misc]
                "MEANING_CHANGED", "origin", "timestamp_ntz", "time zone", " now", kind=sw.CheckpointError,
            )  # fmt: skip
            assert error.parameters["reason"] == "LOCAL_ORIGINS"
            assert checkpoint.open_query({}) == before  # refused, not touched


def test_another_change_is_a_change_of_the_query(
    spark: SparkSession, within: Any, tmp_path: Path
) -> None:
    zone = "Asia/Tokyo"
    within(zone)
    df = sw.readStream(spark).schema("k string, n timestamp_ntz, v bigint").parquet(str(tmp_path))
    plan = plan_of(df, "windows", queries(df)["windows"](), zone)
    other = [
        line.replace("range 21600000000", "range 43200000000") for line in OLD[zone]["windows"]
    ]
    later = [line.replace("origin 17671", "origin 17661") for line in OLD[zone]["windows"]]
    for name, tree in (("other", other), ("later", later)):
        checkpoint = old_checkpoint(tmp_path / name, "windows", tree, plan)
        refused(
            lambda c=checkpoint: open_query(c, plan, None), "QUERY_CHANGED", kind=sw.CheckpointError
        )  # type: ignore[misc]


@pytest.mark.parametrize(
    ("zone", "policy", "opens"),
    [
        ("America/New_York", sw.BoundedLatency("1 minute"), False),
        ("Asia/Tokyo", sw.Ordered().idleAfter("1 minute"), False),
        ("Asia/Tokyo", sw.Ordered().futureGuard("1 minute", future="side"), False),
        ("Asia/Tokyo", sw.Ordered(), True),
        ("Asia/Tokyo", sw.Ordered().futureGuard("1 minute"), True),
        ("UTC", sw.BoundedLatency("1 minute"), True),
        ("Z", sw.BoundedLatency("1 minute"), True),
    ],
)
@pytest.mark.parametrize("time", ["n", "ts"])
def test_a_clock_that_was_read_in_utc(
    time: str, zone: str, policy: Any, opens: bool, spark: SparkSession, within: Any, tmp_path: Path
) -> None:
    within(zone)
    df = sw.readStream(spark).schema("ts timestamp, n timestamp_ntz").parquet(str(tmp_path))
    s = sw.stream(df, time=time, name="s", progress=policy)
    plan = plan_of(df, "q", s.groupBy(sw.window("1 hour")).agg("count(*) AS c"), zone)
    tree = describe([(o.name, o.node) for o in plan.outputs])["q"]
    checkpoint = old_checkpoint(tmp_path / "ck", "q", tree, plan)
    if opens or time == "ts":
        assert open_query(checkpoint, plan, None)
        return
    error = refused(
        lambda: open_query(checkpoint, plan, None),
        "MEANING_CHANGED", "'n'", "'s'", "clock", "UTC", kind=sw.CheckpointError,
    )  # fmt: skip
    assert error.parameters["reason"] == "LOCAL_CLOCK"
