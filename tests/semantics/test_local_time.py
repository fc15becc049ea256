"""Zones as Spark names them; local times against the clock, compared with a clock that is read minute by minute."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.model.join_times import join_times
from slackwater.model.time import TimeColumn, parse_instant, window_time
from slackwater.model.zone import fixed_offset, session_zone
from slackwater.semantics.local_time import greatest_until, instant_of, least_from, local_of
from slackwater.testing.oracle import local as oracle_local
from tests.examples import examples
from tests.semantics.zones import OFFSETS, REFUSED, REGIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
FIRST, LAST = 3 * 365 * DAY, 67 * 365 * DAY  # 1973 to 2036


def at(text: str, zone: str = "UTC") -> int:
    """Microseconds of an instant."""
    return parse_instant(text, TimeColumn("", "timestamp"), zone, what="time")


def wall(text: str) -> int:
    """Microseconds of a local time."""
    return parse_instant(text, TimeColumn("", "timestamp_ntz"), what="time")


# --- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "hours"), OFFSETS.items())
def test_zones_of_a_fixed_offset(name: str, hours: float) -> None:
    assert fixed_offset(name) == round(hours * HOUR)
    assert local_of(0, name) == round(hours * HOUR)


@pytest.mark.parametrize("name", REGIONS)
def test_regions_have_no_fixed_offset(name: str) -> None:
    assert fixed_offset(name) is None
    assert session_zone(name) is session_zone(name)


@pytest.mark.parametrize("name", REFUSED)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(AnalysisError, match="BAD_ZONE") as refused:
        session_zone(name)
    assert repr(name) in str(refused.value) and refused.value.hint
    assert fixed_offset(name) is None


LOCALS = [
    wall(t) for t in (
        "1973-06-01 00:00:00", "2026-01-15 12:00:00", "2026-07-15 12:00:00.000001",
        "2026-03-29 02:30:00", "2026-10-25 02:30:00", "2026-03-08 02:30:00", "2026-11-01 01:30:00",
        "2026-10-04 02:15:00", "2026-04-05 01:45:00", "2011-12-30 12:00:00", "1993-08-21 12:00:00",
    )
]  # fmt: skip


@pytest.mark.spark
def test_names_mean_what_they_mean_to_spark(spark: SparkSession) -> None:
    """The same names, and the same instants, in repeated and skipped hours too."""
    before = spark.conf.get("spark.sql.session.timeZone")
    names = (*OFFSETS, *REGIONS)
    rows = ", ".join(f"({i}, '{n}', {t})" for i, n in enumerate(names) for t in LOCALS)
    found = spark.sql(
        f"SELECT i, t, unix_micros(to_utc_timestamp(timestamp_micros(t), z)) FROM VALUES {rows} x(i, z, t)"
    ).collect()
    wrong = [(names[i], t, u) for i, t, u in found if u != instant_of(t, names[i])]
    assert len(found) == len(names) * len(LOCALS) and not wrong
    try:
        for name in (*names, *REFUSED):
            refused = name in REFUSED
            expected = pytest.raises(Exception, match="TIME_ZONE") if refused else nullcontext()
            with expected:
                spark.conf.set("spark.sql.session.timeZone", name)
        for name in ("+5:30", "CST", "Europe/Berlin"):
            spark.conf.set("spark.sql.session.timeZone", name)
            (there,) = spark.sql(
                "SELECT unix_micros(CAST(TIMESTAMP_NTZ '2026-10-25 02:30:00' AS TIMESTAMP))"
            ).collect()
            assert there[0] == instant_of(wall("2026-10-25 02:30:00"), name)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


# --- what the clock shows --------------------------------------------------------------------------


@lru_cache
def changes(name: str) -> tuple[int, ...]:
    """Instants (by the minute) from which a zone's clock is ahead by more or less than before."""
    if fixed_offset(name) is not None:
        return ()
    found = []
    ahead = [(t, oracle_local.shown(t, name) - t) for t in range(FIRST, LAST, 7 * DAY)]
    for (low, a), (high, b) in itertools.pairwise(ahead):
        while a != b and high - low > MINUTE:
            middle = (low + high) // 2 // MINUTE * MINUTE
            if oracle_local.shown(middle, name) - middle == a:
                low = middle
            else:
                high = middle
        found += [high] if a != b else []
    return tuple(found)


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, int]:
    """A zone and an instant, mostly near a change of its clock."""
    name = draw(st.sampled_from(("+05:30", "GMT+5", "Z", "Etc/GMT+5", *REGIONS[:21])))
    near = [*changes(name)[-40:], FIRST + DAY]
    around = draw(st.sampled_from(near))
    minutes = draw(st.integers(-180, 180) | st.integers(-30 * 60, 30 * 60))
    return name, around + minutes * MINUTE + draw(
        st.sampled_from((0, 0, 1, MINUTE - 1, 12_345_678))
    )


@examples(25)
@given(moment=moments())
@example(("Europe/Berlin", at("2026-10-25 00:30:00")))
@example(("Europe/Berlin", at("2026-10-25 01:30:00")))
@example(("Pacific/Apia", at("2011-12-30 09:59:59")))
@example(("Pacific/Kwajalein", at("1993-08-21 12:00:00")))
def test_against_a_clock_read_minute_by_minute(moment: tuple[str, int]) -> None:
    name, instant = moment
    local = local_of(instant, name)
    assert local == oracle_local.shown(instant, name)
    assert least_from(instant, name) == oracle_local.least_shown(instant, name)
    assert greatest_until(instant, name) == oracle_local.greatest_shown(instant, name)
    assert instant_of(local, name) == oracle_local.shown_at(local, name)
    # The same number as a local time, which the clock may never show.
    assert instant_of(instant, name) == oracle_local.shown_at(instant, name)


@given(moment=moments(), later=st.integers(0, 3 * DAY))
def test_bounds_and_limits_never_go_back(moment: tuple[str, int], later: int) -> None:
    name, instant = moment
    for rule in (least_from, greatest_until):
        assert rule(instant, name) <= rule(instant + later, name)
    assert least_from(instant, name) <= local_of(instant + later, name)
    assert greatest_until(instant + later, name) >= local_of(instant, name)


def test_the_hour_that_berlin_repeats() -> None:
    first, second = at("2026-10-25T02:30:00+02:00"), at("2026-10-25T02:30:00+01:00")
    assert local_of(first, "Europe/Berlin") == local_of(second, "Europe/Berlin")
    assert least_from(first, "Europe/Berlin") == wall("2026-10-25 02:00:00")
    assert least_from(second, "Europe/Berlin") == wall("2026-10-25 02:30:00")
    assert greatest_until(first, "Europe/Berlin") == wall("2026-10-25 02:30:00")
    assert greatest_until(second, "Europe/Berlin") == wall("2026-10-25 03:00:00") - 1
    assert instant_of(wall("2026-10-25 02:30:00"), "Europe/Berlin") == first


def test_the_hour_that_berlin_skips() -> None:
    before = at("2026-03-29T01:59:59+01:00")
    assert least_from(before, "Europe/Berlin") == wall("2026-03-29 01:59:59")
    assert least_from(before + 1_000_000, "Europe/Berlin") == wall("2026-03-29 03:00:00")
    assert greatest_until(before, "Europe/Berlin") == wall("2026-03-29 01:59:59")
    assert instant_of(wall("2026-03-29 02:30:00"), "Europe/Berlin") == at(
        "2026-03-29T03:30:00+02:00"
    )


@pytest.mark.parametrize("name", ["UTC", "Asia/Tokyo", "America/New_York", "+05:30"])
@pytest.mark.parametrize("instant", [-(1 << 61), 1 << 61])
def test_times_beyond_the_calendar(name: str, instant: int) -> None:
    for rule in (local_of, instant_of, least_from, greatest_until):
        assert abs(rule(instant, name) - instant) < DAY


# --- points in time as users write them ------------------------------------------------------------

NTZ = TimeColumn("ts", "timestamp_ntz")
WINDOW = window_time("window", NTZ)
GREATEST, LEAST = (join_times([NTZ, NTZ], "inner")[i] for i in (0, -1))
LTZ = TimeColumn("ts", "timestamp")


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "+05:30", "GMT+5", "Z", "UTC"])
@pytest.mark.parametrize("time", [NTZ, WINDOW, window_time("w", WINDOW), GREATEST, LEAST])
def test_a_local_origin_is_taken_as_it_is_written(time: TimeColumn, zone: str) -> None:
    origin = parse_instant("2026-01-01 01:00:00", time, zone, what="origin")
    assert origin == wall("2026-01-01 01:00:00")
    aware = parse_instant("2026-01-01T01:00:00Z", time, zone, what="origin")
    assert aware == local_of(at("2026-01-01 01:00:00"), zone)


def test_an_origin_of_instants_is_in_the_zone() -> None:
    for zone, hours in OFFSETS.items():
        origin = parse_instant("2026-01-01 01:00:00", LTZ, zone, what="origin")
        assert origin == at("2026-01-01 01:00:00") - round(hours * HOUR)
    assert at("2026-10-25 02:30:00", "Europe/Berlin") == at("2026-10-25T02:30:00+02:00")
    assert at("2026-03-29 02:30:00", "Europe/Berlin") == at("2026-03-29T03:30:00+02:00")
