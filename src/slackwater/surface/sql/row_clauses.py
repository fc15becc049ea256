"""DISTINCT and ORDER BY: what a query does to whole rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slackwater.errors import AnalysisError
from slackwater.surface.sql.expressions import Expressions, Written
from slackwater.surface.sql.scopes import Scope
from slackwater.surface.sql.tree import Cut, Select, Word

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


class RowClauses:
    """Builds both for the queries of one text."""

    def __init__(self, expressions: Expressions):
        self.expressions, self.text = expressions, expressions.text

    def distinct(self, select: Select, made: Stream, below: Stream) -> Stream:
        """Rows without duplicates, of the select list."""
        distinct = select.distinct
        if distinct is None:
            return made
        subset = [self._named(made, w) for w in distinct.on] or None
        within = None if distinct.within is None else distinct.within.value
        try:
            with self.expressions.blamed([], distinct.span):
                unique = made.dropDuplicates(subset, within=within)
        except AnalysisError as error:
            raise self._distinct_error(error, below) from None
        self.expressions.clauses.note(unique._node, distinct.span)
        return unique

    def _distinct_error(self, error: AnalysisError, stream: Stream) -> AnalysisError:
        if error.condition not in ("UNBOUNDED_STATE", "NO_PROGRESS") or error.place is None:
            return error
        time = next(iter(stream.timeColumns), "the time")
        return AnalysisError(
            "UNBOUNDED_STATE",
            "DISTINCT would have to remember every row for ever",
            hint=f"add {time} to the select list, or write DISTINCT ON (...) WITHIN 10 MINUTES: how far apart duplicates can be",
        ).at(error.place)

    def distinct_before(
        self, select: Select, scope: Scope, columns: Sequence[Written]
    ) -> Stream | None:
        """Rows without duplicates where these are told by columns below the select list."""
        distinct = select.distinct
        if distinct is None or (not distinct.on and distinct.within is None):
            return None
        names = [scope.column(w) for w in distinct.on]
        if not names:
            for c in columns:
                if not (c.text.startswith("`") and c.text.endswith("`") and c.text.count("`") == 2):
                    return None
                names.append(c.text[1:-1])
        within = None if distinct.within is None else distinct.within.value
        try:
            with self.expressions.blamed([], distinct.span):
                unique = scope.stream.dropDuplicates(names, within=within)
        except AnalysisError as error:
            raise self._distinct_error(error, scope.stream) from None
        self.expressions.clauses.note(unique._node, distinct.span)
        return unique

    def _named(self, stream: Stream, word: Word) -> str:
        with self.expressions.blamed([], word.span):
            return stream._column(word.name)

    def keeps(self, order: Cut, columns: Sequence[Written]) -> bool:
        """Whether the column of ORDER BY is one of the select list."""
        name = self._order_name(order)
        names = [c.alias or c.text.strip("`") for c in columns]
        return name.rpartition(".")[2].lower() in [n.lower() for n in names]

    def _order_name(self, order: Cut) -> str:
        tokens = list(self.expressions.tokens_of(order))
        if tokens and tokens[-1].is_word("ASC"):
            tokens = tokens[:-1]
        elif tokens and tokens[-1].is_word("DESC"):
            raise self.text.error(
                tokens[-1].span, "BAD_ORDER", "rows of a stream leave in rising order of time alone",
                hint="leave DESC out",
            )  # fmt: skip
        parts = [t.name for t in tokens[::2] if t.is_name]
        plain = len(tokens) == 2 * len(parts) - 1 and all(t.is_sign(".") for t in tokens[1::2])
        if not plain or not parts:
            raise self.text.error(
                order.span,
                "BAD_ORDER",
                "a stream is ordered by its time column alone",
                hint="write ORDER BY ts",
            )
        return ".".join(parts)

    def ordered(self, made: Stream, order: Cut | None, scope: Scope | None = None) -> Stream:
        """Rows in order of their time, if the query asks for it."""
        if order is None:
            return made
        name = self._order_name(order)
        if scope is not None:
            name = scope.column(Word(name, order.span))
        else:
            name = name.rpartition(".")[2]
        column = next((c for c in made.columns if made._same(c, name)), None)
        if column is None or column not in made.timeColumns:
            have = ", ".join(made.timeColumns) or "none"
            raise self.text.error(
                order.span, "BAD_ORDER", f"a stream is ordered by its time, and '{name}' is not it",
                hint=f"the times here are: {have}",
            )  # fmt: skip
        with self.expressions.blamed([], order.span):
            made = made.sort(column)
        self.expressions.clauses.note(made._node, order.span)
        return made
