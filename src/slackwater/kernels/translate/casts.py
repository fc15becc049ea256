"""CAST between types where DuckDB can be made to do what Spark does."""

from __future__ import annotations

from slackwater.kernels.translate import literals, times
from slackwater.kernels.translate.arithmetic import saturated, wrapped
from slackwater.kernels.translate.typed import Context, Typed, call, fail, null
from slackwater.kernels.translate.types import (
    FRACTIONS,
    INTEGER_DIGITS,
    INTEGERS,
    Decimal,
    NotTranslatable,
    decimal_of,
    duck_type,
)

# what Spark trims from text before it reads a number: ASCII control characters and space
_BLANK = r"[\x00-\x20\x7f]*"


def cast(ctx: Context, a: Typed, to: str, *, attempt: bool = False) -> Typed:
    """``CAST(a AS to)``, or ``TRY_CAST`` if ``attempt``."""
    if a.type == "void":
        return Typed(null(to), to, None, True)
    if a.type == to:
        return a
    if a.type == "string":
        return _from_text(ctx, a, to, attempt)
    if attempt:
        raise NotTranslatable(f"try_cast of {a.type} to {to}")
    number, target = decimal_of(a.type), decimal_of(to)
    if a.type in INTEGERS:
        return _from_integer(ctx, a, to, target)
    if number is not None:
        return _from_decimal(ctx, a, number, to, target)
    if a.type in FRACTIONS:
        return _from_fraction(ctx, a, to)
    if a.type == "boolean":
        return _from_boolean(a, to)
    if a.type in ("timestamp", "timestamp_ntz", "date"):
        return _from_time(ctx, a, to)
    raise _no(a, to)


def _no(a: Typed, to: str) -> NotTranslatable:
    return NotTranslatable(f"cast of {a.type} to {to}")


def _plain(a: Typed, to: str, *, raises: bool = False) -> Typed:
    return call((a,), f"CAST({a.sql} AS {duck_type(to)})", to, raises=raises)


def _from_integer(ctx: Context, a: Typed, to: str, target: Decimal | None) -> Typed:
    if to in INTEGERS:
        if isinstance(a.value, int) and abs(a.value) < 1 << (INTEGERS[to] - 1):
            return literals.integer(a.value, to)
        if INTEGERS[to] >= INTEGERS[a.type]:
            return _plain(a, to)
        if ctx.ansi:
            return _plain(a, to, raises=True)
        return call((a,), wrapped(f"{a.sql}::HUGEINT", to), to)
    if to in FRACTIONS or to == "string":
        if isinstance(a.value, int) and to == "double":
            done = _plain(a, to)
            return Typed(done.sql, to, float(a.value) or None, True, nullable=False)
        return _plain(a, to)
    if to == "boolean":
        return call((a,), f"({a.sql} <> 0)", to)
    if target is not None:
        fits = target.precision - target.scale >= INTEGER_DIGITS[a.type] - (a.type == "bigint")
        if isinstance(a.value, int):
            fits = fits or len(str(abs(a.value))) <= target.precision - target.scale
        return _checked_decimal(ctx, a, to, fits)
    raise _no(a, to)


def _checked_decimal(ctx: Context, a: Typed, to: str, fits: bool) -> Typed:
    if fits or ctx.ansi:
        done = _plain(a, to, raises=not fits)
        if a.constant and fits:
            return Typed(done.sql, to, a.value, True, nullable=False)
        return done
    return call((a,), f"TRY_CAST({a.sql} AS {duck_type(to)})", to, nullable=True)


def _from_decimal(
    ctx: Context, a: Typed, number: Decimal, to: str, target: Decimal | None
) -> Typed:
    whole = number.precision - number.scale
    if target is not None:
        room = target.precision - target.scale
        # rounding up to a smaller scale may carry into one more digit
        fits = room > whole or (room == whole and target.scale >= number.scale)
        return _checked_decimal(ctx, a, to, fits)
    if to in INTEGERS:
        if not ctx.ansi:
            raise _no(a, to)
        fits = whole < INTEGER_DIGITS[to] - (to == "bigint")
        sql = f"CAST(trunc({a.sql}) AS {duck_type(to)})"
        return call((a,), sql, to, raises=not fits)
    if to == "boolean":
        return call((a,), f"({a.sql} <> 0)", to)
    if to == "double" and number.precision <= 15:
        # the digits and the power of ten are exact doubles: one division, rounded once
        return _plain(a, to)
    if to == "string" and ctx.ansi:
        return _plain(a, to)
    raise _no(a, to)


def _from_fraction(ctx: Context, a: Typed, to: str) -> Typed:
    if to in FRACTIONS:
        if a.type == "double":
            # DuckDB refuses what is beyond the range of floats
            limit = "3.4028235677973366e38::DOUBLE"
            sql = (
                f"(CASE WHEN isfinite({a.sql}) AND abs({a.sql}) >= {limit}"
                f" THEN CAST(sign({a.sql}) AS FLOAT) * 'Infinity'::FLOAT"
                f" ELSE CAST({a.sql} AS FLOAT) END)"
            )
            return call((a,), sql, to)
        return _plain(a, to)
    if to == "boolean":
        return call((a,), f"({a.sql} <> 0)", to)
    if to in INTEGERS:
        whole = f"trunc({a.sql})"
        if ctx.ansi:
            sql = f"CAST({whole} AS {duck_type(to)})"
            if to == "bigint":
                # 2^63 passes Spark's check, which is made in doubles, and is cut to the largest
                top = f"{a.sql} = 9223372036854775808::{duck_type(a.type)}"
                sql = f"(CASE WHEN {top} THEN {(1 << 63) - 1}::BIGINT ELSE {sql} END)"
            return call((a,), sql, to, raises=True)
        if to in ("int", "bigint"):
            return call((a,), saturated(f"CAST({whole} AS DOUBLE)", to), to)
        inner = saturated(f"CAST({whole} AS DOUBLE)", "int")
        return call((a,), wrapped(f"{inner}::HUGEINT", to), to)
    raise _no(a, to)


def _from_boolean(a: Typed, to: str) -> Typed:
    if to in INTEGERS or to in FRACTIONS or to == "string":
        return _plain(a, to)
    raise _no(a, to)


def _from_time(ctx: Context, a: Typed, to: str) -> Typed:
    if a.type == "date":
        if to in ("timestamp", "timestamp_ntz"):
            return times.date_to_timestamp(ctx, a, to)
        raise _no(a, to)
    if to == "date":
        return times.to_date(ctx, a)
    if a.type == "timestamp" and to == "timestamp_ntz":
        return call((a,), times.local_time(ctx, a, "local time"), to)
    if a.type == "timestamp_ntz" and to == "timestamp":
        return call((a,), times.from_local(ctx, a.sql, "local time"), to)
    if a.type == "timestamp" and to == "bigint":
        return call((a,), times.floor_div(times.micros(a), times.SECOND), to)
    if a.type == "timestamp" and to == "double":
        return call((a,), f"(CAST({times.micros(a)} AS DOUBLE) / 1000000::DOUBLE)", to)
    raise _no(a, to)


def _from_text(ctx: Context, a: Typed, to: str, attempt: bool) -> Typed:
    if isinstance(a.value, str):
        return _constant_text(ctx, a.value, to)
    if to in INTEGERS and ctx.ansi and not attempt:
        trimmed = f"regexp_replace({a.sql}, '^{_BLANK}|{_BLANK}$', '', 'g')"
        bad = fail("CAST_INVALID_INPUT", f"text that is no {to}")
        sql = (
            f"(CASE WHEN regexp_full_match({a.sql}, '{_BLANK}[+-]?[0-9]+{_BLANK}')"
            f" THEN CAST({trimmed} AS {duck_type(to)}) WHEN {a.sql} IS NULL THEN NULL"
            f" ELSE {bad} END)"
        )
        return call((a,), sql, to, raises=True)
    raise _no(a, to)


def _constant_text(ctx: Context, value: str, to: str) -> Typed:
    """Text that is known now: how Spark prints its NaN, infinities and floats."""
    if to in FRACTIONS or decimal_of(to) is not None:
        try:
            float(value)
        except ValueError:
            raise NotTranslatable(f"cast of '{value}' to {to}") from None
        known = value.lower() in ("nan", "infinity", "-infinity")
        plain = all(c in "+-0123456789.eE" for c in value)
        if not (plain or (known and to in FRACTIONS)):
            raise NotTranslatable(f"cast of '{value}' to {to}")
        return literals.number(value, to)
    if to == "date":
        return literals.date(value)
    if to in ("timestamp", "timestamp_ntz"):
        return literals.instant(ctx, value, to)
    if to in INTEGERS and value.lstrip("-").isascii() and value.lstrip("-").isdigit():
        return literals.integer(int(value), to)
    raise NotTranslatable(f"cast of '{value}' to {to}")
