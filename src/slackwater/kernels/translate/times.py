"""Points in time. A timestamp is counted in microseconds; local time is that plus the zone's offset.

Only zones of a fixed offset are translated where local time matters. Spark's times reach as far as a long
does. What DuckDB holds ends four hours earlier in the past, and its last values mean infinity: a result there is an
error that shows the row. The same goes for dates, which Spark lets wrap around.
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.kernels.translate.arithmetic import wrapped
from slackwater.kernels.translate.typed import Context, Handler, Typed, call, held
from slackwater.kernels.translate.types import INTEGERS, NotTranslatable

SECOND = 1_000_000
# what DuckDB can hold, in microseconds and in days
_FIRST, _LAST = -9_223_372_022_400_000_000, (1 << 63) - 2
_LAST_DAY = (1 << 31) - 2
_MAKE = {
    "timestamp": "make_timestamptz({})", "timestamp_ntz": "make_timestamp({})",
    "date": "(DATE '1970-01-01' + CAST({} AS INTEGER))",
}  # fmt: skip
_TICKS = {
    "microsecond": 1, "millisecond": 1_000, "second": SECOND, "minute": 60 * SECOND,
    "hour": 3_600 * SECOND, "day": 86_400 * SECOND,
}  # fmt: skip
# what Spark's date_trunc and trunc call a unit
_TRUNC = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter",
    "month": "month", "mon": "month", "mm": "month", "week": "week",
    "day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second",
    "millisecond": "millisecond", "microsecond": "microsecond",
}  # fmt: skip


def micros(a: Typed) -> str:
    """Microseconds since the epoch of a timestamp (UTC) or timestamp_ntz (local)."""
    return f"epoch_us({a.sql})"


def local_micros(ctx: Context, a: Typed, what: str) -> str:
    """Microseconds of local time."""
    if a.type == "timestamp_ntz":
        return micros(a)
    if a.type == "timestamp":
        return _plus(micros(a), ctx.fixed_offset(what))
    raise NotTranslatable(f"{what} of {a.type}")


def local_time(ctx: Context, a: Typed, what: str) -> str:
    """Local time as DuckDB's TIMESTAMP."""
    if a.type == "timestamp_ntz":
        return a.sql
    return f"make_timestamp({local_micros(ctx, a, what)})"


def from_local(ctx: Context, sql: str, what: str) -> str:
    """A timestamp from DuckDB's TIMESTAMP of local time."""
    return f"make_timestamptz({_plus(f'epoch_us({sql})', -ctx.fixed_offset(what))})"


def _plus(sql: str, ticks: int) -> str:
    if ticks == 0:
        return sql
    return f"({sql} {'+' if ticks > 0 else '-'} {abs(ticks)}::BIGINT)"


def floor_div(sql: str, by: int) -> str:
    """Integer division that rounds down; ``//`` rounds toward zero."""
    if by == 1:
        return sql
    return f"((({sql}) // {by}::BIGINT) - CASE WHEN (({sql}) % {by}::BIGINT) < 0 THEN 1 ELSE 0 END)"


def floor_mod(sql: str, by: int) -> str:
    """The remainder that goes with ``floor_div``."""
    return f"(((({sql}) % {by}::BIGINT) + {by}::BIGINT) % {by}::BIGINT)"


def shifted(ctx: Context, a: Typed, ticks: int) -> Typed:
    """A point in time plus a day-time interval; whole days are local days in Spark."""
    if a.type not in ("timestamp", "timestamp_ntz"):
        raise NotTranslatable(f"{a.type} plus an interval")
    if a.type == "timestamp" and abs(ticks) >= _TICKS["day"]:
        ctx.fixed_offset("adding days")
    return call((a,), _moved(ctx, a, ticks), a.type, raises=True)


def _moved(ctx: Context, a: Typed, ticks: int) -> str:
    least, most = max(_FIRST, _FIRST - ticks), min(_LAST, _LAST - ticks)
    made = _MAKE[a.type].format(_plus(micros(a), ticks))
    what = f"a time moved by {ticks} microseconds"
    return held(ctx, micros(a), least, most, made, _MAKE[a.type], what)


def shifted_months(ctx: Context, a: Typed, months: int) -> Typed:
    """A point in time plus months: the day is cut to the month's last."""
    what = "adding months"
    if a.type == "date":
        return call((a,), f"CAST({a.sql} + to_months({months}) AS DATE)", "date", raises=True)
    sql = f"({local_time(ctx, a, what)} + to_months({months}))"
    if a.type == "timestamp":
        sql = from_local(ctx, sql, what)
    room = (abs(months) + 1) * 31 * DAY
    text = f"a time moved by {months} months"
    sql = held(ctx, micros(a), _FIRST + room, _LAST - room, sql, _MAKE[a.type], text)
    return call((a,), sql, a.type, raises=True)


def to_date(ctx: Context, a: Typed) -> Typed:
    """The local date."""
    return call((a,), f"CAST({local_time(ctx, a, 'a date')} AS DATE)", "date")


def date_to_timestamp(ctx: Context, a: Typed, type: str) -> Typed:
    """Local midnight."""
    sql = f"CAST({a.sql} AS TIMESTAMP)"
    if type == "timestamp":
        sql = from_local(ctx, sql, "midnight")
    return call((a,), sql, type, raises=True)


def _date_part(sql: str) -> Handler:
    def handler(ctx: Context, args: Sequence[Typed]) -> Typed:
        (a,) = _count(args, 1)
        if a.type != "date":
            raise NotTranslatable(f"part of a {a.type}")
        return call(args, f"CAST({sql.format(a.sql)} AS INTEGER)", "int")

    return handler


def _time_part(unit: int, of: int) -> Handler:
    def handler(ctx: Context, args: Sequence[Typed]) -> Typed:
        (a,) = _count(args, 1)
        rest = floor_mod(local_micros(ctx, a, "time of day"), of)
        return call(args, f"CAST({rest} // {unit}::BIGINT AS INTEGER)", "int")

    return handler


def date_trunc(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``date_trunc(unit, timestamp)``."""
    unit, a = _count(args, 2)
    name = _TRUNC.get(unit.value.lower()) if isinstance(unit.value, str) else None
    if name is None or a.type not in ("timestamp", "timestamp_ntz"):
        raise NotTranslatable(f"date_trunc({unit.sql}, {a.type})")
    if name in _TICKS:
        ticks = _TICKS[name]
        here = ctx.fixed_offset("date_trunc") if a.type == "timestamp" else 0
        local = _plus(micros(a), here)
        down = _plus(f"({local} - {floor_mod(local, ticks)})", -here)
        make = "make_timestamptz" if a.type == "timestamp" else "make_timestamp"
        return call((a,), f"{make}({down})", a.type)
    sql = f"date_trunc('{name}', {local_time(ctx, a, 'date_trunc')})"
    if a.type == "timestamp":
        sql = from_local(ctx, sql, "date_trunc")
    return call((a,), sql, a.type)


def trunc(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``trunc(date, unit)``."""
    a, unit = _count(args, 2)
    name = _TRUNC.get(unit.value.lower()) if isinstance(unit.value, str) else None
    if name not in ("year", "quarter", "month", "week") or a.type != "date":
        raise NotTranslatable(f"trunc({a.type}, {unit.sql})")
    return call((a,), f"CAST(date_trunc('{name}', {a.sql}) AS DATE)", "date")


def _unix(ticks: int) -> Handler:
    def handler(ctx: Context, args: Sequence[Typed]) -> Typed:
        (a,) = _count(args, 1)
        if a.type != "timestamp":
            raise NotTranslatable(f"unix time of {a.type}")
        return call(args, floor_div(micros(a), ticks), "bigint")

    return handler


def unix_timestamp(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``unix_timestamp(timestamp, format)``: the format is not used for a timestamp.

    Unlike ``unix_seconds`` it rounds toward zero.
    """
    a = args[0]
    if a.type == "date":
        a = date_to_timestamp(ctx, a, "timestamp")
    if a.type != "timestamp":
        raise NotTranslatable(f"unix_timestamp of {a.type}")
    return call((a,), f"({micros(a)} // {SECOND}::BIGINT)", "bigint")


def _from_unix(ticks: int) -> Handler:
    def handler(ctx: Context, args: Sequence[Typed]) -> Typed:
        (a,) = _count(args, 1)
        if a.type not in INTEGERS:
            raise NotTranslatable(f"timestamp from {a.type}")
        sql = f"make_timestamptz(CAST({a.sql} AS BIGINT) * {ticks}::BIGINT)"
        if a.type != "bigint":
            return call(args, sql, "timestamp")
        text = f"a time of so many units of {ticks} microseconds"
        least, most = -(-_FIRST // ticks), _LAST // ticks
        sql = held(ctx, a.sql, least, most, sql, _MAKE["timestamp"], text)
        return call(args, sql, "timestamp", raises=True)

    return handler


def date_add(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``date_add(date, days)``."""
    return _days(ctx, args, "+")


def date_sub(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``date_sub(date, days)``."""
    return _days(ctx, args, "-")


def _days(ctx: Context, args: Sequence[Typed], operator: str) -> Typed:
    a, days = _count(args, 2)
    if a.type != "date" or days.type not in ("int", "smallint", "tinyint"):
        raise NotTranslatable(f"{a.type} {operator} days of {days.type}")
    sql = f"({a.sql} {operator} CAST({days.sql} AS INTEGER))"
    number = f"(({a.sql} - DATE '1970-01-01') {operator} CAST({days.sql} AS BIGINT))"
    sql = held(ctx, number, -_LAST_DAY, _LAST_DAY, sql, _MAKE["date"], "a date moved by days")
    return call(args, sql, "date", raises=True)


def datediff(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``datediff(end, start)`` in days."""
    a, b = _count(args, 2)
    if a.type != "date" or b.type != "date":
        raise NotTranslatable(f"datediff of {a.type} and {b.type}")
    return call(args, wrapped(f"({a.sql} - {b.sql})::HUGEINT", "int"), "int")


def timestampdiff(ctx: Context, unit: str, a: Typed, b: Typed) -> Typed:
    """Whole units from ``a`` to ``b``, rounded toward zero; Spark counts them in local time."""
    ticks = _TICKS.get(unit.lower())
    if ticks is None or (a.type, b.type) != ("timestamp", "timestamp"):
        raise NotTranslatable(f"timestampdiff({unit}, {a.type}, {b.type})")
    ctx.fixed_offset("a difference of times")
    apart = f"({micros(b)}::HUGEINT - {micros(a)}::HUGEINT)"
    return call((a, b), f"CAST({apart} // {ticks} AS BIGINT)", "bigint", raises=True)


def timestampadd(ctx: Context, unit: str, count: Typed, a: Typed) -> Typed:
    """A timestamp plus a constant number of units."""
    ticks = _TICKS.get(unit.lower())
    if (
        ticks is None
        or not isinstance(count.value, int)
        or a.type not in ("timestamp", "timestamp_ntz")
    ):
        raise NotTranslatable(f"timestampadd({unit}, {count.sql}, {a.type})")
    if unit.lower() == "day" and a.type == "timestamp":
        ctx.fixed_offset("adding days")
    return call((a,), _moved(ctx, a, count.value * ticks), a.type, raises=True)


def _count(args: Sequence[Typed], count: int) -> Sequence[Typed]:
    if len(args) != count:
        raise NotTranslatable(f"{len(args)} arguments instead of {count}")
    return args


DAY = _TICKS["day"]
FUNCTIONS: dict[str, Handler] = {
    "year": _date_part("year({0})"), "month": _date_part("month({0})"),
    "day": _date_part("day({0})"), "dayofmonth": _date_part("day({0})"),
    "quarter": _date_part("quarter({0})"), "dayofyear": _date_part("dayofyear({0})"),
    "dayofweek": _date_part("(dayofweek({0}) + 1)"),
    "weekday": _date_part("((dayofweek({0}) + 6) % 7)"),
    "weekofyear": _date_part("weekofyear({0})"),
    "hour": _time_part(_TICKS["hour"], DAY), "minute": _time_part(60 * SECOND, _TICKS["hour"]),
    "second": _time_part(SECOND, 60 * SECOND),
    "date_trunc": date_trunc, "trunc": trunc,
    "unix_micros": _unix(1), "unix_millis": _unix(1_000), "unix_seconds": _unix(SECOND),
    "unix_timestamp": unix_timestamp, "to_unix_timestamp": unix_timestamp,
    "timestamp_micros": _from_unix(1), "timestamp_millis": _from_unix(1_000),
    "timestamp_seconds": _from_unix(SECOND),
    "date_add": date_add, "date_sub": date_sub, "datediff": datediff,
    "date_diff": datediff,
}  # fmt: skip
