"""What the clock of a zone shows, minute by minute.

Nothing here calls `slackwater.semantics.local_time`: the two are compared in tests. Clocks are set at full minutes, as
all zones have done since 1973, by less than 26 hours.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache

from slackwater.model.zone import session_zone

MINUTE = 60_000_000
_REACH = 26 * 60 * MINUTE
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def shown(instant: int, zone: str) -> int:
    """The local time at an instant, as if it were UTC."""
    there = (_EPOCH + dt.timedelta(microseconds=instant)).astimezone(session_zone(zone))
    return (there.replace(tzinfo=dt.timezone.utc) - _EPOCH) // dt.timedelta(microseconds=1)


@lru_cache(maxsize=256)
def least_shown(instant: int, zone: str) -> int:
    """The least local time that the clock shows at an instant or later."""
    first = instant - instant % MINUTE + MINUTE
    later = range(first, first + _REACH, MINUTE)
    return min(shown(i, zone) for i in (instant, *later))


@lru_cache(maxsize=256)
def greatest_shown(instant: int, zone: str) -> int:
    """The greatest local time that the clock has shown up to an instant."""
    last = instant - instant % MINUTE
    # The greatest of a minute is its end.
    ends = range(last - 1, last - _REACH, -MINUTE)
    return max(shown(i, zone) for i in (instant, *ends))


def shown_at(local: int, zone: str) -> int:
    """The first instant at which the clock shows a local time; if it never does, as much later as it skips."""
    rest = local % MINUTE
    near = range(local - rest - _REACH, local - rest + _REACH, MINUTE)
    found = [i for i in near if shown(i, zone) == local - rest]
    if found:
        return found[0] + rest
    before = [i for i in near if shown(i, zone) < local - rest]
    # The clock still runs as before the jump.
    last = before[-1]
    return last + (local - shown(last, zone))
