"""Bounds of local times: the clock is read in the session's zone. Compared with the oracle, which reads another clock."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.policy import BoundedDelay, BoundedLatency, MaxDelay, Ordered, Policy
from slackwater.model.time import TimeColumn
from slackwater.semantics.bounds import START
from slackwater.semantics.progress import guard_limit
from slackwater.testing.oracle import progress as oracle_progress
from tests.examples import examples
from tests.semantics.helpers import Feed
from tests.semantics.test_local_time import at, moments, wall

NTZ = TimeColumn("ts", "timestamp_ntz", 1)
MINUTE = 60_000_000
POLICIES: dict[str, Policy] = {
    "latency": BoundedLatency(delay="10 minutes"),
    "latency in steps": BoundedLatency(delay="10 minutes").inSteps("7 minutes"),
    "idle": Ordered().idleAfter("5 minutes"),
    "idle behind": BoundedDelay(delay="3 minutes").idleAfter("5 minutes"),
    "idle by the largest delay": MaxDelay().idleAfter("5 minutes"),
    "guard": Ordered().futureGuard("2 minutes"),
    "default guard": BoundedDelay(delay="1 minute"),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
@examples(15)
@given(
    moment=moments(),
    steps=st.lists(
        st.tuples(st.integers(0, 90), st.lists(st.integers(-90, 90), max_size=3)), min_size=1, max_size=4
    ),
)  # fmt: skip
def test_policies_against_the_oracle(
    policy: Policy, moment: tuple[str, int], steps: list[tuple[int, list[int]]]
) -> None:
    zone, now = moment
    feed = Feed(policy, NTZ, zone=zone)
    history = oracle_progress.History(feed.source)
    wanted = START
    for tick, minutes in steps:
        now += tick * MINUTE
        rows = [{"ts": at_zone(now + m * MINUTE, zone)} for m in minutes]
        history.add(rows, now, False)
        wanted = oracle_progress.bound(history, NTZ, policy, wanted)
        assert guard_limit(feed.settings[0], now) == history.limit(
            NTZ, policy, len(history.clock) - 1
        )
        assert feed.batch(*rows, now=now) == wanted


def at_zone(instant: int, zone: str) -> int:
    from slackwater.testing.oracle.local import shown

    return shown(instant, zone)


ZONES = ["Asia/Tokyo", "America/New_York", "+05:30", "Europe/Berlin", "GMT+5", "Z"]


@pytest.mark.parametrize("zone", ZONES)
def test_rows_of_now_are_neither_late_nor_in_the_future(zone: str) -> None:
    now = at("2026-06-01 12:00:00", zone)
    for policy in (BoundedLatency(delay="1 minute"), Ordered(), Ordered().idleAfter("1 minute")):
        feed = Feed(policy, NTZ, zone=zone)
        assert feed.batch(wall("2026-06-01 12:00:00"), now=now) >= wall("2026-06-01 11:59:00")
        assert feed.bound <= wall("2026-06-01 12:00:00")
        assert feed.state.columns["ts"].future == 0


@pytest.mark.parametrize("zone", ZONES)
def test_what_the_guard_lets_pass(zone: str) -> None:
    feed = Feed(Ordered().futureGuard("5 minutes"), NTZ, zone=zone)
    now = at("2026-06-01 12:00:00", zone)
    assert feed.batch(wall("2026-06-01 12:05:00"), now=now) == wall("2026-06-01 12:05:00")
    feed.batch(wall("2026-06-01 12:05:00.000001"), now=now)
    assert feed.bound == wall("2026-06-01 12:05:00")
    assert feed.state.columns["ts"].future == 1


def test_a_bound_waits_while_berlin_repeats_an_hour() -> None:
    feed = Feed(BoundedLatency(delay="10 minutes"), NTZ, zone="Europe/Berlin")
    seen: dict[str, Any] = {}
    for clock in (
        "02:05+02:00",
        "02:15+02:00",
        "02:55+02:00",
        "02:05+01:00",
        "02:15+01:00",
        "03:15+01:00",
    ):
        now = at(f"2026-10-25T{clock[:5]}:00{clock[5:]}")
        seen[clock] = feed.batch(now=now)
    assert seen == {
        "02:05+02:00": wall("2026-10-25 01:55:00"),
        "02:15+02:00": wall("2026-10-25 02:00:00"),
        "02:55+02:00": wall("2026-10-25 02:00:00"),
        "02:05+01:00": wall("2026-10-25 02:00:00"),
        "02:15+01:00": wall("2026-10-25 02:05:00"),
        "03:15+01:00": wall("2026-10-25 03:05:00"),
    }


def test_delays_are_real_time_where_berlin_skips_an_hour() -> None:
    feed = Feed(BoundedLatency(delay="10 minutes"), NTZ, zone="Europe/Berlin")
    assert feed.batch(now=at("2026-03-29T03:05:00+02:00")) == wall("2026-03-29 01:55:00")
    assert feed.batch(now=at("2026-03-29T03:10:00+02:00")) == wall("2026-03-29 03:00:00")
