"""Time zones by the names that Spark takes for ``spark.sql.session.timeZone``.

Spark takes what Java's ``ZoneId.of`` takes, letter case included, the three-letter names that Java maps, and an
hour or minute of one digit (``+5:30``). The rules of named zones come from Python's copy of the same database.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from slackwater.errors import AnalysisError

# Java's short names; three of them are no regions but offsets.
_SHORT = {
    "EST": "-05:00", "MST": "-07:00", "HST": "-10:00", "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo",
    "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago",
    "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
# Names in Python's database that are none of Java's; what is below posix/ and right/ is neither.
_FOREIGN = re.compile(r"Factory|ROC|localtime|posixrules|(?:posix|right)/.*")
_ONE_DIGIT_HOUR = re.compile(r"([+-])([0-9]):")
_ONE_DIGIT_MINUTE = re.compile(r"([+-][0-9]{2}):([0-9])$")
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:([0-9]{1,2})|([0-9]{2})(:?)([0-9]{2})(?:\4([0-9]{2}))?)"
)
_GREATEST = dt.timedelta(hours=18)


@lru_cache(maxsize=64)
def session_zone(name: str) -> dt.tzinfo:
    """The zone of that name, as Spark understands it.

    >>> session_zone("GMT+5:30"), session_zone("Z")
    (datetime.timezone(datetime.timedelta(seconds=19800)), datetime.timezone.utc)
    >>> session_zone("europe/berlin")
    Traceback (most recent call last):
        ...
    slackwater.errors.AnalysisError: [BAD_ZONE] time zone 'europe/berlin' is not known ...
    """
    known = _SHORT.get(name, name)
    known = _ONE_DIGIT_HOUR.sub(r"\g<1>0\2:", known, count=1)
    known = _ONE_DIGIT_MINUTE.sub(r"\1:0\2", known, count=1)
    if known in ("Z", "UTC", "GMT", "UT"):
        return dt.timezone.utc
    parts = _OFFSET.fullmatch(known)
    if parts is not None:
        return _offset(name, parts)
    try:
        if _FOREIGN.fullmatch(known):
            raise ZoneInfoNotFoundError
        return ZoneInfo(known)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _bad(name) from None


@lru_cache(maxsize=64)
def fixed_offset(name: str) -> int | None:
    """Microseconds that a zone is ahead of UTC at all times; None if that changes, or the zone is not known.

    >>> fixed_offset("+05:30"), fixed_offset("Etc/UTC"), fixed_offset("Europe/Berlin")
    (19800000000, 0, None)
    """
    try:
        zone = session_zone(name)
    except AnalysisError:
        return None
    # Without a date only a zone that never changes has an offset.
    offset = zone.utcoffset(None)
    return None if offset is None else offset // dt.timedelta(microseconds=1)


def _offset(name: str, parts: re.Match[str]) -> dt.timezone:
    sign, short, hours, _, minutes, seconds = parts.groups()
    minute, second = int(minutes or 0), int(seconds or 0)
    span = dt.timedelta(hours=int(short or hours), minutes=minute, seconds=second)
    if minute > 59 or second > 59 or span > _GREATEST:
        raise _bad(name)
    return dt.timezone(-span if sign == "-" else span) if span else dt.timezone.utc


def _bad(name: str) -> AnalysisError:
    return AnalysisError(
        "BAD_ZONE",
        f"time zone '{name}' is not known here",
        hint="set spark.sql.session.timeZone to a region such as Europe/Berlin or an offset such as +05:30; "
        "where no region is known, the time zone database is missing: pip install tzdata",
        zone=name,
    )
