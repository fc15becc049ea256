"""Local times and the instants at which a zone's clock shows them.

A ``timestamp_ntz`` is a local time: what the clock on the wall showed in the session's zone. Both are counted in
microseconds, a local time as if it were UTC. An instant has one local time. A local time may have two instants, in
the hour that a zone repeats, or none, in the hour that it skips. So a comparison with the clock takes the side on
which no row is wronged:

- a *bound* at an instant is the least local time that the clock shows then or later (`least_from`): during the
  first run of a repeated hour it waits at the hour's beginning, since rows of the second run are yet to come;
- a *limit* at an instant is the greatest local time that the clock has shown until then (`greatest_until`):
  during the second run it stays at the hour's end, since rows of the first run may still come;
- a single local time stands for its first instant, and one that was skipped for as much later as was skipped
  (`instant_of`), as in Spark's casts.

Bounds and limits made like this never go back when the clock goes on.
"""

from __future__ import annotations

import datetime as dt

from slackwater.model.zone import session_zone

_MICRO = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 (local, or UTC, as the name of a variable says)
# The calendar repeats after 400 years, and so do the rules of zones beyond the years that Python has.
_PERIOD = 146_097 * 86_400_000_000
# A day is left for the offset.
_FIRST = (dt.datetime(1, 1, 2) - _EPOCH) // _MICRO  # noqa: DTZ001
_LAST = (dt.datetime(9999, 12, 31) - _EPOCH) // _MICRO  # noqa: DTZ001


def local_of(instant: int, zone: str) -> int:
    """The local time at an instant.

    >>> local_of(0, "Asia/Tokyo") // 3_600_000_000
    9
    """
    return instant + _offset(instant, session_zone(zone))


def instant_of(local: int, zone: str) -> int:
    """The first instant of a local time; one that is skipped is moved on by what is skipped.

    >>> instant_of(0, "Asia/Tokyo") // 3_600_000_000
    -9
    """
    return local - _ahead(local, session_zone(zone), fold=0)


def least_from(instant: int, zone: str) -> int:
    """The least local time from an instant on."""
    tz = session_zone(zone)
    local = instant + _offset(instant, tz)
    again = local - _ahead(local, tz, fold=1)
    # The clock shows this time once more: it goes back in between, to the beginning of what it repeats.
    return _turn(instant, again, tz)[1] if again > instant else local


def greatest_until(instant: int, zone: str) -> int:
    """The greatest local time up to an instant, which is included."""
    tz = session_zone(zone)
    local = instant + _offset(instant, tz)
    before = local - _ahead(local, tz, fold=0)
    # The clock has shown this time before: it has gone back since, from the end of what it repeats.
    return _turn(before, instant, tz)[0] if before < instant else local


def _turn(low: int, high: int, tz: dt.tzinfo) -> tuple[int, int]:
    """Between two instants with the same local time the clock goes back: from which local time, and to which.

    The former is the last that it shows, the latter the first.
    """
    offset = _offset(low, tz)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(middle, tz) == offset:
            low = middle
        else:
            high = middle
    return low + offset, high + _offset(high, tz)


def _offset(instant: int, tz: dt.tzinfo) -> int:
    """How far local time is ahead at an instant."""
    utc = _datetime(instant).replace(tzinfo=dt.timezone.utc)
    return (utc.astimezone(tz).replace(tzinfo=None) - utc.replace(tzinfo=None)) // _MICRO


def _ahead(local: int, tz: dt.tzinfo, fold: int) -> int:
    """How far a local time is ahead of UTC, the first or second time that it is shown."""
    offset = _datetime(local).replace(tzinfo=tz, fold=fold).utcoffset()
    assert offset is not None
    return offset // _MICRO


def _datetime(micros: int) -> dt.datetime:
    if micros > _LAST:
        micros += (_LAST - micros) // _PERIOD * _PERIOD
    elif micros < _FIRST:
        micros -= (micros - _FIRST) // _PERIOD * _PERIOD
    return _EPOCH + micros * _MICRO
