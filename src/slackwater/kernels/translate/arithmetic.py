"""Numbers: operators and functions with Spark's result types, overflow and division rules."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slackwater.kernels.translate.typed import (
    Context,
    Handler,
    Typed,
    call,
    fail,
    guarded,
    same_types,
)
from slackwater.kernels.translate.types import (
    FRACTIONS,
    INTEGERS,
    Decimal,
    NotTranslatable,
    decimal_of,
    duck_type,
)

LIMIT = 38
# By these names DuckDB's optimizer does not turn ``i + 1 > 5`` into ``i > 4``, which cannot overflow
_CHECKED = {"+": "add", "-": "subtract", "*": "multiply"}


def binary(ctx: Context, operator: str, a: Typed, b: Typed) -> Typed:
    """``a operator b`` for ``+ - * / % div``."""
    left, right = decimal_of(a.type), decimal_of(b.type)
    if left is not None and right is not None:
        return _decimal(ctx, operator, a, left, b, right)
    type = same_types((a, b), f"'{operator}'")
    if type in INTEGERS:
        return _integer(ctx, operator, a, b, type)
    if type in FRACTIONS:
        return _fraction(ctx, operator, a, b, type)
    raise NotTranslatable(f"'{operator}' of {a.type} and {b.type}")


def wrapped(sql: str, type: str) -> str:
    """A HUGEINT cut to the bits of an integer type, as Java does it."""
    bits = INTEGERS[type]
    half, mask = 1 << (bits - 1), (1 << bits) - 1
    return (
        f"CAST(((({sql}) + {half}::HUGEINT) & {mask}::HUGEINT) - {half}::HUGEINT"
        f" AS {duck_type(type)})"
    )


def _integer(ctx: Context, operator: str, a: Typed, b: Typed, type: str) -> Typed:
    if operator in ("+", "-", "*"):
        if ctx.ansi:
            return call((a, b), f"{_CHECKED[operator]}({a.sql}, {b.sql})", type, raises=True)
        wide = f"{a.sql}::HUGEINT {operator} {b.sql}::HUGEINT"
        return call((a, b), wrapped(wide, type), type)
    if operator == "%":
        plain = f"{a.sql} % {b.sql}"
        if not b.constant or b.value == -1:
            # the remainder by -1 is 0; asked for it of the smallest integer DuckDB overflows
            plain = f"CASE WHEN {b.sql} = -1 THEN {a.sql} & {_zero(type)} ELSE {plain} END"
        return _divided(ctx, a, b, plain, type)
    if operator == "div" and type == "bigint":
        plain = f"{a.sql} // {b.sql}"
        if not ctx.ansi:
            plain = f"CASE WHEN {b.sql} = -1 THEN {wrapped(f'-({a.sql}::HUGEINT)', type)} ELSE {plain} END"
        return _divided(ctx, a, b, plain, type, raises=ctx.ansi)
    raise NotTranslatable(f"'{operator}' of {type}")


def _fraction(ctx: Context, operator: str, a: Typed, b: Typed, type: str) -> Typed:
    if operator in ("+", "-", "*"):
        return call((a, b), f"({a.sql} {operator} {b.sql})", type)
    if operator == "/":
        return _divided(ctx, a, b, f"{a.sql} / {b.sql}", type)
    if operator == "%":
        rest = f"({a.sql} % {b.sql})"
        # C's remainder, but with the dividend's sign on zero and infinite divisors
        plain = (
            f"CASE WHEN isinf({b.sql}) AND isfinite({a.sql}) THEN {a.sql}"
            f" WHEN {rest} = 0 THEN {a.sql} * {_zero(type)} ELSE {rest} END"
        )
        return _divided(ctx, a, b, plain, type)
    raise NotTranslatable(f"'{operator}' of {type}")


def _divided(
    ctx: Context, a: Typed, b: Typed, plain: str, type: str, *, raises: bool = False
) -> Typed:
    """A division with Spark's rule for zero; it looks at the divisor first."""
    if b.constant and b.value not in (None, 0):
        return call((b, a), f"({plain})", type, raises=raises)
    zero = fail("DIVIDE_BY_ZERO", "division by zero") if ctx.ansi else "NULL"
    sql = f"(CASE WHEN {a.sql} IS NULL THEN NULL WHEN {b.sql} = 0 THEN {zero} ELSE {plain} END)"
    return Typed(guarded((b, a), sql), type, raises=ctx.ansi or raises or a.raises or b.raises)


def _zero(type: str) -> str:
    return f"CAST(0 AS {duck_type(type)})"


def _decimal(
    ctx: Context, operator: str, a: Typed, left: Decimal, b: Typed, right: Decimal
) -> Typed:
    (p1, s1), (p2, s2) = (left.precision, left.scale), (right.precision, right.scale)
    if operator in ("+", "-"):
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
        return _sum(ctx, operator, a, b, precision, scale)
    if operator == "*":
        precision, scale = p1 + p2 + 1, s1 + s2
        if precision > LIMIT:
            raise NotTranslatable(f"product of {left} and {right}: more than {LIMIT} digits")
        # narrow operands would be multiplied in 64 bits with a check of their own
        width = max(p1, 19)
        product = f"CAST(CAST({a.sql} AS DECIMAL({width},{s1})) * {b.sql} AS "
        type = Decimal(precision, scale)
        if width + p2 > LIMIT:
            raise NotTranslatable(f"product of {left} and {right}: more than {LIMIT} digits")
        return call((a, b), f"{product}{duck_type(str(type))})", str(type))
    if operator == "%":
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
        inner = max(p1 - s1, p2 - s2) + scale
        if inner > LIMIT or precision < 1:
            raise NotTranslatable(f"remainder of {left} and {right}: more than {LIMIT} digits")
        wide = f"DECIMAL({inner},{scale})"
        type = Decimal(precision, scale)
        plain = f"CAST(CAST({a.sql} AS {wide}) % CAST({b.sql} AS {wide}) AS {duck_type(str(type))})"
        return _divided(ctx, a, b, plain, str(type))
    raise NotTranslatable(f"'{operator}' of {left} and {right}")


def _sum(ctx: Context, operator: str, a: Typed, b: Typed, precision: int, scale: int) -> Typed:
    if precision > LIMIT:
        raise NotTranslatable(f"decimal '{operator}': more than {LIMIT} digits")
    type = str(Decimal(precision, scale))
    duck = duck_type(type)
    sql = f"CAST(CAST({a.sql} AS {duck}) {operator} CAST({b.sql} AS {duck}) AS {duck})"
    return call((a, b), sql, type)


# --- functions ------------------------------------------------------------------------------------


def negate(ctx: Context, a: Typed) -> Typed:
    """Unary minus."""
    if a.type in INTEGERS:
        duck = duck_type(a.type)
        if ctx.ansi:
            return call((a,), f"subtract({_zero(a.type)}, {a.sql})", a.type, raises=True)
        least = f"CAST({-(1 << (INTEGERS[a.type] - 1))} AS {duck})"
        sql = f"(CASE WHEN {a.sql} = {least} THEN {least} ELSE CAST(-{a.sql} AS {duck}) END)"
        return call((a,), sql, a.type)
    if a.type in FRACTIONS or decimal_of(a.type):
        return call((a,), f"(-{a.sql})", a.type)
    raise NotTranslatable(f"'-' of {a.type}")


def absolute(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``abs``."""
    (a,) = _count(args, 1, "abs")
    if a.type in INTEGERS:
        if ctx.ansi:
            return call(args, f"abs({a.sql})", a.type, raises=True)
        least = f"CAST({-(1 << (INTEGERS[a.type] - 1))} AS {duck_type(a.type)})"
        return call(
            args, f"(CASE WHEN {a.sql} = {least} THEN {least} ELSE abs({a.sql}) END)", a.type
        )
    if a.type in FRACTIONS or decimal_of(a.type):
        return call(args, f"abs({a.sql})", a.type)
    raise NotTranslatable(f"abs of {a.type}")


def ceiling(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``ceil`` of one argument."""
    return _to_whole(ctx, "ceil", args)


def floor(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``floor`` of one argument."""
    return _to_whole(ctx, "floor", args)


def _to_whole(ctx: Context, name: str, args: Sequence[Typed]) -> Typed:
    (a,) = _count(args, 1, name)
    number = decimal_of(a.type)
    if a.type == "bigint":
        return a
    if number is not None:
        type = str(Decimal(number.precision - number.scale + 1, 0) if number.scale else number)
        return call(args, f"CAST({name}({a.sql}) AS {duck_type(type)})", type)
    if a.type == "double" and ctx.ansi:
        whole = f"{name}({a.sql})"
        sql = f"(CASE WHEN isnan({a.sql}) THEN 0::BIGINT ELSE CAST({whole} AS BIGINT) END)"
        return call(args, sql, "bigint", raises=True)
    if a.type == "double":
        return call(args, saturated(f"{name}({a.sql})", "bigint"), "bigint")
    raise NotTranslatable(f"{name} of {a.type}")


def saturated(sql: str, type: str) -> str:
    """A whole double as an integer, as Java does it: NaN is 0, beyond the ends are the ends."""
    bits = INTEGERS[type]
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    duck = duck_type(type)
    return (
        f"(CASE WHEN isnan({sql}) THEN CAST(0 AS {duck})"
        f" WHEN {sql} >= {float(most)!r}::DOUBLE THEN CAST({most} AS {duck})"
        f" WHEN {sql} <= {float(least)!r}::DOUBLE THEN CAST({least} AS {duck})"
        f" ELSE CAST({sql} AS {duck}) END)"
    )


def round_(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``round`` half up: decimals to any scale, integers and whole doubles."""
    a, places = _count(args, 2, "round")
    if not places.constant or not isinstance(places.value, int) or places.value < 0:
        raise NotTranslatable("round to places that are no constant of zero or more")
    number = decimal_of(a.type)
    if number is not None:
        scale = min(places.value, number.scale)
        type = str(Decimal(min(number.precision - number.scale + 1 + scale, LIMIT), scale))
        if number.precision - number.scale + 1 + scale > LIMIT:
            raise NotTranslatable(f"round of {a.type}")
        return call((a,), f"CAST({a.sql} AS {duck_type(type)})", type)
    if a.type in INTEGERS:
        return a
    if a.type == "double" and places.value == 0:
        # Spark never gives a negative zero here
        return call((a,), f"(round({a.sql}) + 0.0::DOUBLE)", "double")
    raise NotTranslatable(f"round of {a.type} to {places.value} places")


def _doubles(args: Sequence[Typed], count: int, name: str) -> Sequence[Typed]:
    args = _count(args, count, name)
    if any(a.type != "double" for a in args):
        raise NotTranslatable(f"{name} of {', '.join(a.type for a in args)}")
    return args


def square_root(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``sqrt``: NaN below zero."""
    (a,) = _doubles(args, 1, "sqrt")
    return call(
        args, f"(CASE WHEN {a.sql} < 0 THEN 'NaN'::DOUBLE ELSE sqrt({a.sql}) END)", "double"
    )


def exponential(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``exp``, to the last digit or so."""
    (a,) = _doubles(args, 1, "exp")
    return call(args, f"exp({a.sql})", "double")


def _logarithm(name: str) -> Handler:
    def handler(ctx: Context, args: Sequence[Typed]) -> Typed:
        (a,) = _doubles(args, 1, name)
        sql = f"(CASE WHEN {a.sql} <= 0 THEN NULL ELSE {name}({a.sql}) END)"
        return call(args, sql, "double", nullable=True)

    return handler


def logarithm(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``log(x)`` and ``log(base, x)``: null at or below zero."""
    if len(args) == 1:
        return ln(ctx, args)
    base, x = _doubles(args, 2, "log")
    sql = (
        f"(CASE WHEN {base.sql} <= 0 OR {x.sql} <= 0 THEN NULL"
        f" ELSE ln({x.sql}) / ln({base.sql}) END)"
    )
    return call(args, sql, "double", nullable=True)


def euler(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``e()``."""
    return Typed(f"{math.e!r}::DOUBLE", "double", math.e, True, nullable=False)


def ln(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``ln``: null at or below zero."""
    return _logarithm("ln")(ctx, args)


def log10(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``log10``: null at or below zero."""
    return _logarithm("log10")(ctx, args)


def power(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``power``: Java's special cases differ from C's."""
    x, y = _doubles(args, 2, "power")
    sql = (
        f"(CASE WHEN {x.sql} IS NULL OR {y.sql} IS NULL THEN NULL"
        f" WHEN isnan({y.sql}) OR (abs({x.sql}) = 1 AND isinf({y.sql})) THEN 'NaN'::DOUBLE"
        f" ELSE pow({x.sql}, {y.sql}) END)"
    )
    return call(args, sql, "double")


def sign(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``signum``: keeps NaN and the sign of zero."""
    (a,) = _doubles(args, 1, "sign")
    sql = (
        f"(CASE WHEN isnan({a.sql}) THEN {a.sql} WHEN {a.sql} > 0 THEN 1.0::DOUBLE"
        f" WHEN {a.sql} < 0 THEN -1.0::DOUBLE ELSE {a.sql} END)"
    )
    return call(args, sql, "double")


def remainder(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``mod``."""
    a, b = _count(args, 2, "mod")
    return binary(ctx, "%", a, b)


def positive_modulus(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``pmod`` of integers by a positive constant."""
    a, b = _count(args, 2, "pmod")
    type = same_types(args, "pmod")
    if type not in INTEGERS or not isinstance(b.value, int) or b.value <= 0:
        raise NotTranslatable("pmod other than of integers by a positive constant")
    rest = f"{a.sql} % {b.sql}"
    return call((a,), f"(CASE WHEN {rest} < 0 THEN {rest} + {b.sql} ELSE {rest} END)", type)


def bitwise(operator: str, a: Typed, b: Typed) -> Typed:
    """``& | ^`` of integers."""
    type = same_types((a, b), f"'{operator}'")
    if type not in INTEGERS:
        raise NotTranslatable(f"'{operator}' of {type}")
    sql = f"xor({a.sql}, {b.sql})" if operator == "^" else f"({a.sql} {operator} {b.sql})"
    return call((a, b), sql, type)


def invert(a: Typed) -> Typed:
    """``~``."""
    if a.type not in INTEGERS:
        raise NotTranslatable(f"'~' of {a.type}")
    return call((a,), f"(~{a.sql})", a.type)


def _count(args: Sequence[Typed], count: int, name: str) -> Sequence[Typed]:
    if len(args) != count:
        raise NotTranslatable(f"{name} with {len(args)} arguments")
    return args
