"""Truth: comparison, logic, null tests and choice.

Both engines hold NaN equal to itself and greater than all, order text by its bytes, and skip nulls
in ``greatest`` and ``least``. Spark does not evaluate what the left side decides; DuckDB does, so
an operand that may fail is put behind a CASE.
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.kernels.translate.typed import (
    LONGEST_REPEATED,
    Context,
    Handler,
    Typed,
    call,
    null,
    same_types,
)
from slackwater.kernels.translate.types import DUCK, FRACTIONS, NotTranslatable, decimal_of


def _comparable(args: Sequence[Typed], what: str) -> str:
    type = same_types(args, what)
    if type not in DUCK and decimal_of(type) is None:
        raise NotTranslatable(f"{what} of {type}")
    return type


def compare(operator: str, a: Typed, b: Typed) -> Typed:
    """``a operator b``."""
    _comparable((a, b), f"'{operator}'")
    sql = f"({a.sql} {operator} {b.sql})"
    if operator == "IS NOT DISTINCT FROM":
        return Typed(sql, "boolean", raises=a.raises or b.raises, nullable=False)
    return call((a, b), sql, "boolean")


def every(terms: Sequence[Typed]) -> Typed:
    """AND; a term only where those before it are not false."""
    return _chain(terms, "AND", "NOT ", "false")


def some(terms: Sequence[Typed]) -> Typed:
    """OR; a term only where those before it are not true."""
    return _chain(terms, "OR", "", "true")


def _chain(terms: Sequence[Typed], operator: str, negated: str, decided: str) -> Typed:
    """All terms in one text, each at most twice: guards in guards would double it with each term."""
    _logical(terms)
    sql = f"({f' {operator} '.join(t.sql for t in terms)})"
    last = max((i for i, t in enumerate(terms) if t.raises), default=0)
    if last:
        guards = " ".join(f"WHEN {negated}{t.sql} THEN {decided}" for t in terms[:last])
        sql = f"(CASE {guards} ELSE {sql} END)"
    nullable = any(t.nullable for t in terms)
    return Typed(sql, "boolean", raises=any(t.raises for t in terms), nullable=nullable)


def negation(a: Typed) -> Typed:
    """NOT."""
    _logical((a,))
    return call((a,), f"(NOT {a.sql})", "boolean")


def _logical(args: Sequence[Typed]) -> None:
    if any(a.type != "boolean" for a in args):
        raise NotTranslatable(f"logic of {', '.join(a.type for a in args)}")


def among(a: Typed, items: Sequence[Typed]) -> Typed:
    """``a IN (...)``."""
    _comparable((a, *items), "IN")
    if any(i.raises for i in items):
        raise NotTranslatable("IN a list of what may fail")
    sql = f"({a.sql} IN ({', '.join(i.sql for i in items)}))"
    return call((a, *items), sql, "boolean")


def case(pairs: Sequence[tuple[Typed, Typed]], default: Typed | None) -> Typed:
    """``CASE WHEN``: both engines evaluate only the branch that is taken."""
    _logical([condition for condition, _ in pairs])
    values = [value for _, value in pairs] + ([default] if default is not None else [])
    type = _typed(values, "CASE")
    branches = " ".join(f"WHEN {c.sql} THEN {_as(v, type)}" for c, v in pairs)
    last = f" ELSE {_as(default, type)}" if default is not None else ""
    return Typed(
        f"(CASE {branches}{last} END)",
        type,
        raises=any(c.raises or v.raises for c, v in pairs) or bool(default and default.raises),
        nullable=default is None or any(v.nullable for v in values),
    )


def _typed(values: Sequence[Typed], what: str) -> str:
    return same_types([v for v in values if v.type != "void"] or values, what)


def _as(a: Typed, type: str) -> str:
    return null(type) if a.type == "void" and type in DUCK else a.sql


def coalesce(ctx: Context, args: Sequence[Typed]) -> Typed:
    """The first that is not null."""
    type = _typed(args, "coalesce")
    sql = f"coalesce({', '.join(_as(a, type) for a in args)})"
    raises = any(a.raises for a in args)
    return Typed(sql, type, raises=raises, nullable=all(a.nullable for a in args))


def _extreme(name: str) -> Handler:
    def handler(ctx: Context, args: Sequence[Typed]) -> Typed:
        type = _comparable(args, name)
        if len(args) < 2:
            raise NotTranslatable(f"{name} of one")
        sql = f"{name}({', '.join(a.sql for a in args)})"
        if type in FRACTIONS:
            # of two zeros Spark takes the first
            sql = args[0].sql
            for a in args[1:]:
                sql = (
                    f"(CASE WHEN {sql} IS NULL OR {a.sql} {'>' if name == 'greatest' else '<'} {sql}"
                    f" THEN {a.sql} ELSE {sql} END)"
                )
                if len(sql) > LONGEST_REPEATED:
                    raise NotTranslatable(f"{name} of too many")
        raises = any(a.raises for a in args)
        return Typed(sql, type, raises=raises, nullable=all(a.nullable for a in args))

    return handler


def isnan(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``isnan``: false for null."""
    (a,) = args
    if a.type not in ("double", "float"):
        raise NotTranslatable(f"isnan of {a.type}")
    return Typed(f"coalesce(isnan({a.sql}), false)", "boolean", raises=a.raises, nullable=False)


def nanvl(ctx: Context, args: Sequence[Typed]) -> Typed:
    """The second where the first is NaN."""
    a, b = args
    type = same_types(args, "nanvl")
    if type not in FRACTIONS:
        raise NotTranslatable(f"nanvl of {type}")
    sql = f"(CASE WHEN isnan({a.sql}) THEN {b.sql} ELSE {a.sql} END)"
    return Typed(sql, type, raises=a.raises or b.raises, nullable=a.nullable or b.nullable)


def _null_test(word: str) -> Handler:
    def handler(ctx: Context, args: Sequence[Typed]) -> Typed:
        (a,) = args
        return Typed(f"({a.sql} {word})", "boolean", raises=a.raises, nullable=False)

    return handler


FUNCTIONS: dict[str, Handler] = {
    "coalesce": coalesce,
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "isnan": isnan,
    "nanvl": nanvl,
    "isnull": _null_test("IS NULL"),
    "isnotnull": _null_test("IS NOT NULL"),
}
