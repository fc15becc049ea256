"""What names mean in a query: the streams of FROM, their columns, and the columns of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from slackwater.surface.sql.expressions import Expressions, Parts, Swaps, Written, quoted
from slackwater.surface.sql.text import Span, meant
from slackwater.surface.sql.tree import Cut, Word
from slackwater.surface.stream_columns import labelled, sightings
from slackwater.surface.windows import Windowing

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


Condition = tuple[Cut, Swaps]
"""An expression, and what stands for the columns of a window in it."""


@dataclass(frozen=True)
class Side:
    """A stream of FROM under the name that the query has for it; ``shared`` are keys that are one column of a join."""

    name: str
    span: Span
    stream: Stream
    shared: frozenset[str] = frozenset()


@dataclass(frozen=True)
class WindowOf:
    """The window that FROM or GROUP BY says: the specification, and where."""

    spec: Windowing
    span: Span
    kind: str
    """``clause``, ``function`` or ``call``."""
    partition: tuple[Word, ...] = ()
    narrowed: bool = False
    """Whether WHERE leaves some rows out."""


@dataclass(frozen=True)
class Relation:
    """What a query reads: a stream, the streams that it was made of, and perhaps a window."""

    stream: Stream
    sides: tuple[Side, ...]
    span: Span
    window: WindowOf | None = None
    hidden: tuple[Side, ...] = ()
    """Right sides of semi and anti joins, whose columns are gone."""
    computed: Mapping[str, str] = field(default_factory=dict)
    """Texts of columns that no stream has, by ``side.column`` in small letters."""
    chosen: tuple[Condition, ...] = ()
    """Conditions on the window, which choose among its groups."""

    def of(self, stream: Stream) -> Relation:
        """The same names over another stream that was made of this one."""
        return replace(self, stream=stream)


class Scope:
    """Resolves names over a relation."""

    def __init__(self, relation: Relation, expressions: Expressions):
        self.relation, self.expressions = relation, expressions

    @property
    def stream(self) -> Stream:
        """The stream whose rows the names are of."""
        return self.relation.stream

    def written(self, cut: Cut, alias: str | None = None, swaps: Swaps | None = None) -> Written:
        """An expression over the stream."""
        place = self.place if self._needs_places(cut) else None
        return self.expressions.write(cut, place, swaps, alias)

    def _needs_places(self, cut: Cut) -> bool:
        if len(self.relation.sides) > 1 or self.relation.computed:
            return True
        names = {s.name.lower() for s in (*self.relation.sides, *self.relation.hidden)}
        names |= labelled(self.stream).keys()
        tokens = self.expressions.tokens_of(cut)
        return any(
            a.is_name and b.is_sign(".") and a.name.lower() in names for a, b in pairwise(tokens)
        )

    def place(self, parts: Parts, span: Span) -> str | None:
        """What a name is called in the stream: first as table.column, then as column.field."""
        if len(parts) > 1 and (side := self._side(parts[0])) is not None:
            if (computed := self.computed(parts)) is not None:
                return computed
            name = self._column_of(side, parts[1])
            if name is not None:
                return ".".join(quoted(p) for p in (name, *parts[2:]))
            if self._own(parts[0]) is None:
                raise self._no_column(side, parts[1], span)
        self.check_clear(parts[0], span)
        if (name := self._own(parts[0])) is not None:
            return None if name == parts[0] else ".".join(quoted(p) for p in (name, *parts[1:]))
        if len(parts) > 1 and parts[0].lower() in labelled(self.stream):
            # Python would know the stream by this name; in SQL an alias hides it.
            sides = ", ".join(s.name for s in self.relation.sides)
            raise self.expressions.text.error(
                span, "COLUMN_NOT_FOUND", f"FROM has no '{parts[0]}' to take '{parts[1]}' of",
                hint=f"FROM has: {sides}", name=".".join(parts),
            )  # fmt: skip
        return None

    def computed(self, parts: Parts) -> str | None:
        """The text of a column that no stream has, if a name is one."""
        return self.relation.computed.get(".".join(parts).lower()) if len(parts) == 2 else None

    def column(self, word: Word) -> str:
        """The name of a column that a clause names, perhaps with a table in front."""
        parts = tuple(word.name.split("."))
        columns = self.stream.columns
        if len(parts) == 2 and (side := self._side(parts[0])) is not None:
            name = self._column_of(side, parts[1])
            if name is None:
                raise self._no_column(side, parts[1], word.span)
            return name
        name = self._own(word.name) or next(
            (c for c in columns if self.stream._same(c, word.name)), None
        )
        if name is None:
            raise self.expressions.text.error(
                word.span, "COLUMN_NOT_FOUND", f"there is no column '{word.name}'",
                hint=meant(word.name, columns, "the columns are"), name=word.name,
            )  # fmt: skip
        return name

    def name_of(self, parts: Parts, span: Span) -> str | None:
        """The column of the stream that a name just is, or None."""
        if len(parts) == 2 and (side := self._side(parts[0])) is not None:
            return self._column_of(side, parts[1])
        if len(parts) != 1:
            return None
        self.check_clear(parts[0], span)
        return self._own(parts[0])

    def side_of(self, parts: Parts) -> str | None:
        """The stream of FROM that a name belongs to."""
        if len(parts) > 1 and (side := self._side(parts[0])) is not None:
            return side.name
        sides = [s.name for s in self.relation.sides if _has(s, parts[0])]
        return sides[0] if len(sides) == 1 else None

    def columns_of(self, word: Word) -> list[tuple[str, str]]:
        """The columns of one stream of FROM: their names there, and in the stream."""
        side = self._side(word.name)
        if side is None:
            raise self.expressions.text.error(
                word.span, "NO_TABLE", f"FROM has no '{word.name}'",
                hint=meant(word.name, [s.name for s in self.relation.sides]), name=word.name,
            )  # fmt: skip
        pairs = [(c, self._column_of(side, c)) for c in side.stream.columns]
        return [(c, n) for c, n in pairs if n is not None]

    def fields_of(self, word: Word) -> list[tuple[str, str]]:
        """The fields of a column that is a struct, with their texts; none if a table of FROM has that name."""
        own = None if self._side(word.name) is not None else self._own(word.name)
        kind = None if own is None else self.stream.schema[own].dataType
        names = getattr(kind, "names", [])
        return [(n, f"{quoted(own)}.{quoted(n)}") for n in names] if own is not None else []

    # --- inside -----------------------------------------------------------------------------------

    def _side(self, name: str) -> Side | None:
        return next((s for s in self.relation.sides if s.name.lower() == name.lower()), None)

    def _column_of(self, side: Side, name: str) -> str | None:
        own = next((c for c in side.stream.columns if side.stream._same(c, name)), None)
        if own is None:
            return None
        names = {s.name for s in sightings(self.stream, side.stream._owner, own)}
        if len(names) == 1:
            return names.pop()
        return own if own.lower() in side.shared or own in self.stream.columns else None

    def _own(self, name: str) -> str | None:
        """A column by its name alone; an error if it is in several streams."""
        sides = [s for s in self.relation.sides if _has(s, name)]
        if len(sides) == 1:
            return self._column_of(sides[0], name)
        if len(sides) > 1:
            names = {self._column_of(s, name) for s in sides}
            return names.pop() if len(names) == 1 else None
        return next((c for c in self.stream.columns if self.stream._same(c, name)), None)

    def check_clear(self, name: str, span: Span) -> None:
        """An error if a name is a column of several streams of FROM."""
        sides = [s for s in self.relation.sides if _has(s, name)]
        if len({self._column_of(s, name) for s in sides}) > 1:
            raise self.expressions.text.error(
                span, "AMBIGUOUS_COLUMN", f"column '{name}' is in several of the tables",
                hint=f"write {' or '.join(f'{s.name}.{name}' for s in sides)}", name=name,
            )  # fmt: skip

    def _no_column(self, side: Side, name: str, span: Span) -> Exception:
        return self.expressions.text.error(
            span, "COLUMN_NOT_FOUND", f"'{side.name}' has no column '{name}'",
            hint=meant(name, side.stream.columns, "its columns are"), name=name,
        )  # fmt: skip


def owners(scopes: Sequence[Scope], parts: Parts) -> list[int]:
    """The numbers of the scopes that a name is of: first as table.column, then as a column."""
    if len(parts) > 1:
        named = [i for i, scope in enumerate(scopes) if scope._side(parts[0]) is not None]
        if named:
            return named
    return [i for i, s in enumerate(scopes) if any(_has(x, parts[0]) for x in s.relation.sides)]


def _has(side: Side, name: str) -> bool:
    return any(side.stream._same(c, name) for c in side.stream.columns)
