"""Translated pieces: text for DuckDB with Spark's type, and how pieces are put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slackwater.kernels.translate.types import NotTranslatable, duck_type
from slackwater.model.duck_sql import literal, quote

LONGEST = 200_000
"""Longest text of a piece, some 1,000 terms of AND or OR."""
LONGEST_REPEATED = 20_000
"""Longest text that repeats its operands as guards do: nested, it doubles with each level, and so does what it costs."""


@dataclass(frozen=True)
class Typed:
    """A piece of DuckDB SQL, safe to stand anywhere (parenthesised where needed).

    ``value`` is the constant's value if it is one (``None`` of ``constant`` true is NULL).
    ``raises`` says that evaluating it may fail, ``nullable`` that it may be null.
    """

    sql: str
    type: str
    value: object = None
    constant: bool = False
    raises: bool = False
    nullable: bool = True

    def __post_init__(self) -> None:
        if len(self.sql) > LONGEST:
            raise NotTranslatable(f"it takes more than {LONGEST:,} letters of DuckDB's SQL")


@dataclass(frozen=True)
class Context:
    """What a translation depends on besides the expression."""

    ansi: bool
    zone: str
    columns: dict[str, tuple[str, str]] = field(default_factory=dict)
    offset: int | None = None
    """Microseconds that local time is ahead of UTC; None if the zone is no fixed offset."""
    reads: tuple[str, ...] = ()
    """The columns that the expression at hand reads, to be shown where a row of them fails."""

    def row(self) -> str:
        """A text of the row's columns that the expression at hand reads."""
        parts = [_shown(*self.columns[name]) for name in self.reads if name in self.columns]
        return " || ', ' || ".join(parts)

    def fixed_offset(self, what: str) -> int:
        """The zone's offset, for a ``what`` that depends on the zone."""
        if self.offset is None:
            raise NotTranslatable(f"{what} in the time zone {self.zone}, which is no fixed offset")
        return self.offset


def _shown(name: str, type: str) -> str:
    # As text, a time that is too far away would be an error of its own.
    value = f"epoch_us({quote(name)})" if type.startswith("timestamp") else quote(name)
    unit = " microseconds" if type.startswith("timestamp") else ""
    shown = f"coalesce(CAST({value} AS VARCHAR) || '{unit}', 'NULL')"
    return f"{text_literal(f'{name} = ')} || {shown}"


Handler = Callable[[Context, Sequence[Typed]], Typed]


def text_literal(value: str) -> str:
    """A string literal; one with a zero byte cannot be written."""
    if "\0" in value:
        raise NotTranslatable("a zero byte in a string")
    return literal(value)


def null(type: str) -> str:
    """NULL of a type."""
    return f"CAST(NULL AS {duck_type(type)})"


def fail(condition: str, text: str) -> str:
    """Raise when evaluated."""
    return f"error({text_literal(f'[{condition}] {text}')})"


def held(ctx: Context, value: str, least: int, most: int, made: str, of: str, what: str) -> str:
    """``made`` where an integer ``value`` lies in [least, most]; elsewhere an error that shows the row.

    For results that Spark has and the column engine cannot hold. ``of`` makes such a result of an integer. The
    error comes from the row's text, which is no integer: with ``error`` a filter would not be pushed into a scan.
    """
    if not ctx.reads:
        return made
    text = text_literal(f"[OUT_OF_RANGE] {what} lies beyond what the column engine can hold: ")
    return (
        f"(CASE WHEN {value} BETWEEN {least}::BIGINT AND {most}::BIGINT THEN {made}"
        f" WHEN {value} IS NULL THEN NULL"
        f" ELSE {of.format(f'CAST(({text} || {ctx.row()}) AS BIGINT)')} END)"
    )


def call(
    args: Sequence[Typed],
    sql: str,
    type: str,
    *,
    raises: bool = False,
    nullable: bool | None = None,
) -> Typed:
    """A function that is null if any argument is, and evaluates its arguments left to right.

    Spark stops at the first null argument: a later one that would fail is not evaluated then.
    """
    sql = guarded(args, sql)
    some_null = any(a.nullable for a in args) if nullable is None else nullable
    return Typed(sql, type, raises=raises or any(a.raises for a in args), nullable=some_null)


def guarded(args: Sequence[Typed], sql: str) -> str:
    """``sql``, but null without evaluating it if an argument before a failing one is null."""
    last = max((i for i, a in enumerate(args) if a.raises), default=0)
    earlier = [a for a in args[:last] if a.nullable]
    if not earlier:
        return sql
    nulls = " OR ".join(f"{a.sql} IS NULL" for a in earlier)
    made = f"(CASE WHEN {nulls} THEN NULL ELSE {sql} END)"
    if len(made) > LONGEST_REPEATED:
        raise NotTranslatable("what may be null and may fail is nested too often in it")
    return made


def same_types(args: Sequence[Typed], what: str) -> str:
    """The one type of all arguments; NULL literals of no type have any."""
    types = {a.type for a in args}
    if len(types) != 1:
        raise NotTranslatable(f"{what} of {', '.join(sorted(types))}")
    return types.pop()
