"""Local times in the engine: what follows the clock, what the late rows say, and what progress records show."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.errors import LateRowError
from slackwater.model.aggregate import Primitive
from slackwater.model.node import LATE_FIELDS, Aggregate, Late, Source
from slackwater.model.policy import BoundedLatency, Ordered, Policy
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn, window_time
from slackwater.model.window import TimeWindow
from slackwater.testing.clock import ManualClock
from tests.progress_schema import check_progress
from tests.semantics.test_local_time import at, wall

HOUR = 3_600_000_000
FIELDS = (Field("ts", "timestamp_ntz"),)
NTZ = TimeColumn("ts", "timestamp_ntz", 1)
ZONES = ["Asia/Tokyo", "America/New_York", "+05:30", "Europe/Berlin"]


def counted(child: Any) -> Aggregate:
    """Rows by hour."""
    struct = "struct<start:timestamp_ntz,end:timestamp_ntz>"
    fields = (Field("wid", "bigint"), Field("window", struct), Field("n", "bigint"))
    return Aggregate(
        fields, (window_time("window", child.times[0]),), child, (), TimeWindow(HOUR, HOUR, 0, "ts"),
        (Primitive("_a0", "count", (), "bigint"),), (Named("n", column("__sw_a0", "bigint")),),
    )  # fmt: skip


def plan_of(policy: Policy, zone: str, late: str = "admit") -> Plan:
    source = Source(FIELDS, (NTZ,), "s", 0, (policy,), late, zone=zone)  # type: ignore[arg-type]
    outputs = [Output("n", counted(source))]
    if late == "admit":
        outputs.append(Output("late", Late((*FIELDS, *LATE_FIELDS), (NTZ,), source)))
    return build(outputs, ansi=True, zone=zone)


def table(*times: str) -> pa.Table:
    return pa.table({"ts": pa.array([wall(t) for t in times], pa.int64()).cast(pa.timestamp("us"))})


def run(engine: Any, plan: Plan, *steps: tuple[str, str, tuple[str, ...]]) -> Any:
    """Batches of a zone, a clock reading there and rows."""
    q = engine()
    q.start(plan)
    clock = q.loop.query.clock = ManualClock(0)
    for zone, now, rows in steps:
        clock.script({0: at(now, zone)})
        q.batch(*([table(*rows)] if rows else []))
    q.stop()
    for record in q.records:
        check_progress({**record, "id": "q", "runId": "r", "name": None, "inputRowsPerSecond": 0,
                        "processedRowsPerSecond": 0, "sources": []})  # fmt: skip
    return q


def ends(q: Any) -> list[str]:
    return [str(r["window"]["end"]) for r in q.rows("n")]


@pytest.mark.parametrize("zone", ZONES)
def test_windows_close_by_the_clock_of_the_zone(engine: Any, zone: str) -> None:
    q = run(
        engine, plan_of(BoundedLatency("10 minutes"), zone),
        (zone, "2026-06-01 12:05:00", ("2026-06-01 11:50:00", "2026-06-01 12:01:00")),
        (zone, "2026-06-01 12:10:00", ("2026-06-01 12:02:00",)),
        (zone, "2026-06-01 13:09:59", ()),
        (zone, "2026-06-01 13:10:00", ("2026-06-01 12:59:58", "2026-06-01 12:59:59")),
    )  # fmt: skip
    assert [[str(r["window"]["end"]) for r in q.results["n"].get(b, [])] for b in range(4)] == [
        [], ["2026-06-01 12:00:00"], [], ["2026-06-01 13:00:00"],
    ]  # fmt: skip
    # A row is on time if it is not older than the bound that its batch found.
    assert [str(r["ts"]) for r in q.rows("late")] == ["2026-06-01 12:59:58"]


@pytest.mark.parametrize("zone", ZONES)
def test_a_lull_and_a_clock_that_is_wrong(engine: Any, zone: str) -> None:
    policy = Ordered().idleAfter("10 minutes").futureGuard("5 minutes", future="side")
    q = run(
        engine, plan_of(policy, zone),
        (zone, "2026-06-01 11:55:00", ("2026-06-01 11:50:00", "2026-06-01 12:00:00", "2026-06-01 12:00:01")),
        (zone, "2026-06-01 12:04:00", ()),
        (zone, "2026-06-01 13:10:00", ()),
    )  # fmt: skip
    assert ends(q) == ["2026-06-01 12:00:00", "2026-06-01 13:00:00"]
    (aside,) = q.rows("late")
    assert (aside["_late_reason"], aside["_late_by"]) == ("future", 1_000_000)
    assert aside["_late_bound"] == moment("2026-06-01 12:00:00", zone)


@pytest.mark.parametrize("zone", ZONES)
def test_bounds_are_shown_as_instants(engine: Any, zone: str) -> None:
    q = run(
        engine, plan_of(BoundedLatency("10 minutes"), zone),
        (zone, "2026-06-01 12:10:00", ("2026-06-01 12:05:00",)),
        (zone, "2026-06-01 12:10:00", ("2026-06-01 11:59:00",)),
    )  # fmt: skip
    record = q.records[-1]
    shown = record["streams"]["s"]["bounds"]["ts"]
    utc = moment("2026-06-01 12:00:00", zone).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert shown["bound"] == utc
    assert shown["ticks"] == wall("2026-06-01 12:00:00")
    newest = moment("2026-06-01 12:05:00", zone)
    assert shown["newest"] == newest.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert record["clock"] == moment("2026-06-01 12:10:00", zone).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    (operator,) = record["operators"].values()
    last = moment("2026-06-01 12:59:59.999999", zone)
    assert operator["bounds"]["window"] == last.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    (late,) = q.rows("late")
    assert late["_late_by"] == 60_000_000 and late["_late_bound"] == moment(
        "2026-06-01 12:00", zone
    )


def test_a_late_row_is_shown_beside_its_bound(engine: Any) -> None:
    plan = plan_of(BoundedLatency("10 minutes"), "Asia/Tokyo", late="raise")
    first = ("Asia/Tokyo", "2026-06-01 12:10:00", ("2026-06-01 12:05:00",))
    with pytest.raises(LateRowError) as caught:
        run(engine, plan, first, ("Asia/Tokyo", "2026-06-01 12:10:00", ("2026-06-01 11:59:00",)))
    assert "bound is 2026-06-01T12:00:00.000000:" in str(caught.value)
    assert "2026-06-01 11:59:00" in str(caught.value)


def moment(text: str, zone: str) -> dt.datetime:
    """The instant of a local time, in UTC."""
    return dt.datetime.fromtimestamp(0, dt.timezone.utc) + dt.timedelta(microseconds=at(text, zone))
