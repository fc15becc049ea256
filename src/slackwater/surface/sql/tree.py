"""Queries and statements as they are written: clauses with their places; expressions are ranges of tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from slackwater.surface.sql.text import Span


@dataclass(frozen=True)
class Cut:
    """An expression: the tokens ``first`` up to ``last``, the latter exclusive, and where they stand."""

    first: int
    last: int
    span: Span


@dataclass(frozen=True)
class Word:
    """A name with its place."""

    name: str
    span: Span


@dataclass(frozen=True)
class Duration:
    """A span of time as a text, a number on integer times, or a number of rows."""

    value: str | int
    span: Span
    rows: bool = False


@dataclass(frozen=True)
class WindowClause:
    """``[RANGE ... SLIDE ... WATTR ...]``."""

    span: Span
    range: Duration | None = None
    all: bool = False
    tumbling: bool = False
    slide: Duration | None = None
    attribute: tuple[Word, ...] = ()
    slide_by: str = ""
    slide_attribute: Word | None = None
    partition: tuple[Word, ...] = ()
    origin: Cut | None = None


@dataclass(frozen=True)
class TableName:
    """A stream, a view or a table by name; ``watermark`` if it is a streaming view of Spark's."""

    name: Word
    alias: Word | None
    window: WindowClause | None
    span: Span
    watermark: TimeOf | None = None


@dataclass(frozen=True)
class LateRows:
    """``LATE(stream)``."""

    name: Word
    alias: Word | None
    window: WindowClause | None
    span: Span


@dataclass(frozen=True)
class SubQuery:
    """A query in brackets."""

    query: Query
    alias: Word | None
    window: WindowClause | None
    span: Span


@dataclass(frozen=True)
class TableFunction:
    """``TUMBLE(...)``, ``HOP(...)`` and so on over a stream; ``sizes`` are its durations and numbers of rows by name.

    ``partition`` are the columns of ``TABLE t PARTITION BY k``, which ``SESSION`` and ``ROWS`` have; ``origin`` is
    of ``LANDMARK``, ``over`` of ``BY_TUPLE``.
    """

    kind: str
    input: Source
    time: Word | None
    sizes: dict[str, Duration]
    alias: Word | None
    span: Span
    window: WindowClause | None = None
    partition: tuple[Word, ...] = ()
    origin: Cut | None = None
    over: str = ""


@dataclass(frozen=True)
class JoinOf:
    """Two sources, the left one perhaps a join itself. ``comma`` if they are only listed."""

    left: Source
    right: Source
    how: str
    on: Cut | None
    using: tuple[Word, ...]
    comma: bool
    span: Span


Source = TableName | LateRows | SubQuery | TableFunction | JoinOf


@dataclass(frozen=True)
class Item:
    """An expression of a select list; ``alias`` if it says AS, ``star`` for ``*`` and ``t.*``."""

    cut: Cut
    alias: Word | None = None
    star: bool = False
    of: Word | None = None
    without: tuple[Word, ...] = ()

    @property
    def span(self) -> Span:
        """With the name that it is given."""
        return self.cut.span if self.alias is None else self.cut.span.to(self.alias.span)


@dataclass(frozen=True)
class Distinct:
    """``DISTINCT [ON (...)] [WITHIN d]``."""

    span: Span
    on: tuple[Word, ...] = ()
    within: Duration | None = None


@dataclass(frozen=True)
class Select:
    """One SELECT."""

    items: tuple[Item, ...]
    source: Source
    where: Cut | None
    group: tuple[Cut, ...]
    having: Cut | None
    distinct: Distinct | None
    window: WindowClause | None
    span: Span
    group_span: Span | None = None

    @property
    def list_span(self) -> Span:
        """The select list."""
        return self.items[0].span.to(self.items[-1].span)


@dataclass(frozen=True)
class UnionAll:
    """Queries one after the other."""

    parts: tuple[Query, ...]
    span: Span


@dataclass(frozen=True)
class Promise:
    """``WITH ERROR ...`` or ``WITH DELAY ...``: the policy, and its place."""

    policy: Any
    span: Span


@dataclass(frozen=True)
class Query:
    """A query: tables of WITH, the body, its order and promise."""

    body: Select | UnionAll | Query
    views: tuple[tuple[Word, Query], ...]
    order: Cut | None
    promise: Promise | None
    emit: Literal["", "ordered", "immediate"]
    span: Span


@dataclass(frozen=True)
class Option:
    """A name and its value."""

    name: str
    value: str
    span: Span


@dataclass(frozen=True)
class TimeOf:
    """``TIME c [UNIT u] [PROGRESS policy]``."""

    column: Word
    unit: str | None
    policy: Any
    span: Span


@dataclass(frozen=True)
class SourceClauses:
    """What a stream says of itself besides its format."""

    times: tuple[TimeOf, ...] = ()
    order: tuple[Word, ...] = ()
    partition: Word | None = None
    partitions: int | tuple[str | None, ...] | None = None
    late: str | None = None
    end: bool = False


@dataclass(frozen=True)
class CreateStream:
    """``CREATE STREAM``: of a format, or of a select over a raw input."""

    name: Word
    columns: Cut | None
    format: Word | None
    options: tuple[Option, ...]
    clauses: SourceClauses
    query: Query | None
    span: Span


@dataclass(frozen=True)
class CreateView:
    """``CREATE TEMPORARY VIEW``."""

    name: Word
    query: Query
    span: Span


@dataclass(frozen=True)
class CreateTable:
    """``CREATE STREAMING TABLE``."""

    name: Word
    format: Word | None
    options: tuple[Option, ...]
    partitions: tuple[Word, ...]
    query: Query
    span: Span


@dataclass(frozen=True)
class Setting:
    """``SET option = value``."""

    option: Option
    span: Span


@dataclass(frozen=True)
class Explain:
    """``EXPLAIN query``."""

    query: Query
    span: Span


@dataclass(frozen=True)
class Show:
    """A query alone: its rows are printed."""

    query: Query
    span: Span


Statement = CreateStream | CreateView | CreateTable | Setting | Explain | Show


@dataclass
class Script:
    """The statements of a text."""

    statements: list[Statement] = field(default_factory=list)
