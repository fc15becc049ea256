"""From clauses to streams, by the calls that a user of Python would write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.surface.named_views import views_of
from slackwater.surface.sql.calls import AGGREGATES, calls
from slackwater.surface.sql.conjuncts import conjuncts
from slackwater.surface.sql.expressions import Expressions, Written, quoted
from slackwater.surface.sql.groups import GroupBuilder
from slackwater.surface.sql.joins import JoinBuilder
from slackwater.surface.sql.row_clauses import RowClauses
from slackwater.surface.sql.scopes import Relation, Scope, Side
from slackwater.surface.sql.text import Span, meant
from slackwater.surface.sql.tree import (
    Cut,
    Item,
    JoinOf,
    LateRows,
    Query,
    Select,
    Source,
    SubQuery,
    TableFunction,
    TableName,
    TimeOf,
    UnionAll,
    WindowClause,
    Word,
)
from slackwater.surface.sql.views import Views
from slackwater.surface.sql.window_filters import Filters, filters_of, of_groups
from slackwater.surface.sql.windows import check_node, of_clause, of_function

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


@dataclass(frozen=True)
class Known:
    """A stream, view or table that a query may read; ``why_not`` says why not."""

    name: str
    stream: Stream | None
    span: Span | None = None
    why_not: str = ""


Names = Mapping[str, Known]
"""What may be read, by its name in small letters."""


class Builder:
    """Builds the streams of the queries of one text."""

    def __init__(
        self,
        expressions: Expressions,
        functions: Mapping[str, Any] | None = None,
        *,
        ended: bool = False,
    ):
        self.expressions, self.text = expressions, expressions.text
        self._rows = RowClauses(expressions)
        self._views = Views(expressions)
        self._functions = functions or {}
        self._ended = ended

    def query(self, query: Query, names: Names) -> Stream:
        """The stream of a query."""
        names = dict(names)
        for word, view in query.views:
            names[word.name.lower()] = Known(word.name, self.query(view, names), word.span)
        body = query.body
        if isinstance(body, Select):
            made = self._select(body, names, query)
        elif isinstance(body, Query):
            made = self.query(body, names)
        else:
            made = self._union(body, names)
        if not isinstance(body, Select):
            made = self._rows.ordered(made, query.order)
        if query.promise is not None:
            with self.expressions.blamed([], query.promise.span):
                made = made.withQuality(query.promise.policy)
            self.expressions.clauses.note(made._node, query.promise.span)
        return made

    def _union(self, union: UnionAll, names: Names) -> Stream:
        parts = [self.query(p, names) for p in union.parts]
        for one, query in zip(parts, union.parts, strict=True):
            check_node(one._node, self.expressions, query.span, "UNION ALL")
        made = parts[0]
        for part, query in zip(parts[1:], union.parts[1:], strict=True):
            with self.expressions.blamed([], query.span):
                made = made.union(part)
            self.expressions.clauses.note(made._node, query.span)
        return made

    # --- SELECT -----------------------------------------------------------------------------------

    def _select(self, select: Select, names: Names, query: Query) -> Stream:
        where = [] if select.where is None else conjuncts(self.expressions.cursor, select.where)
        if select.where is not None:
            self._check_where(select.where)
        relation, left = self._source(select.source, names, where, query.emit)
        if query.emit and not isinstance(select.source, JoinOf):
            raise self.text.error(
                select.source.span, "BAD_EMIT", "EMIT is for joins: other results leave when they are complete",
                hint="leave EMIT out, or write ORDER BY and the time",
            )  # fmt: skip
        relation = self._windowed(select, relation)
        try:
            relation = self._filtered(relation, select.where, left, len(where))
        except AnalysisError as error:
            raise of_groups(error, select, self.expressions) from None
        scope = Scope(relation, self.expressions)
        groups = GroupBuilder(select, scope, self._functions, ended=self._ended)
        clause = relation.window is not None and relation.window.kind == "clause"
        if groups.is_grouped() or clause:
            made = groups.built()
            made = self._rows.distinct(select, made, made)
            return self._rows.ordered(made, query.order)
        if select.having is not None:
            raise self.text.error(
                select.having.span, "NO_GROUP_BY", "HAVING is a condition on groups, and there is no GROUP BY and no aggregate",
                hint="write WHERE instead",
            )  # fmt: skip
        if relation.window is not None:
            raise self.text.error(
                relation.window.span, "NO_GROUP_BY", "a table function stands without GROUP BY: its windows are those of aggregates",
                hint="add GROUP BY window_start, window_end and aggregates, or read the stream itself",
            )  # fmt: skip
        return self._projected(select, scope, query.order)

    def _check_where(self, where: Cut) -> None:
        tokens = self.expressions.tokens
        # LIKE ANY (...) and the like are no calls.
        if made := calls(tokens, where, AGGREGATES - {"any", "some"}):
            call = made[0]
            span = Span(tokens[call.first].start, tokens[call.last - 1].end)
            raise self.text.error(
                span, "BAD_SELECT", "an aggregate stands in WHERE, which sees one row at a time",
                hint="write it into HAVING, behind GROUP BY",
            )  # fmt: skip

    def _windowed(self, select: Select, relation: Relation) -> Relation:
        """With the window clause that stands in the select list."""
        if select.window is None:
            return relation
        if relation.window is not None:
            raise self.text.error(
                select.window.span, "SEVERAL_WINDOWS", "there is a second window", hint="take one out",
                also=relation.window.span,
            )  # fmt: skip
        return replace(relation, window=of_clause(select.window, Scope(relation, self.expressions)))

    def _filtered(
        self, relation: Relation, where: Cut | None, left: Sequence[Cut], whole: int
    ) -> Relation:
        if where is None or not left:
            return relation
        scope = Scope(relation, self.expressions)
        # All of WHERE stays one condition, unless a join took parts of it, or it speaks of the window.
        filters = filters_of(where, scope) if len(left) == whole else Filters(tuple((c, {}) for c in left))  # fmt: skip
        relation = replace(relation, chosen=(*relation.chosen, *filters.windows))
        if relation.window is not None and filters.rows:
            relation = replace(relation, window=replace(relation.window, narrowed=True))
        if filters.rows and relation.window is not None and getattr(relation.window.spec, "at", "") == "operator":  # fmt: skip
            raise self.text.error(
                where.span, "BAD_WINDOW", "the window counts the rows of FROM, and WHERE would leave some out first",
                hint="put WHERE into the sub-query, or count there", also=relation.window.span,
            )  # fmt: skip
        for cut, swaps in filters.rows:
            written = scope.written(cut, None, swaps)
            with self.expressions.blamed([written], cut.span, columns=relation.stream.columns):
                relation = relation.of(relation.stream.where(written.text))
            self.expressions.clauses.note(relation.stream._node, cut.span)
        return relation

    def _projected(self, select: Select, scope: Scope, order: Cut | None) -> Stream:
        stream = scope.stream
        columns = [c for item in select.items for c in self._columns(item, scope)]
        before = self._rows.distinct_before(select, scope, columns)
        if before is not None:
            stream = before
        early = order is not None and not self._rows.keeps(order, columns)
        if early:
            stream = self._rows.ordered(stream, order, scope)
        made = stream
        if [c.named for c in columns] != [quoted(n) for n in stream.columns]:
            fields = stream.columns

            def alone(one: Written) -> object:
                return stream.select(one.named)

            with self.expressions.blamed(columns, None, alone, fields):
                self._check_twice(select, columns)
                made = stream.select(*[c.named for c in columns])
            self.expressions.clauses.note(made._node, select.list_span)
        if select.distinct is not None and before is None:
            made = self._rows.distinct(select, made, stream)
        return made if early else self._rows.ordered(made, order)

    def _fields(self, item: Item, fields: Sequence[tuple[str, str]]) -> list[Written]:
        """The fields of ``struct.*``."""
        gone = {w.name.lower() for w in item.without}
        return [
            Written(text, (), item.cut.span, name)
            for name, text in fields
            if name.lower() not in gone
        ]

    def _columns(self, item: Item, scope: Scope) -> list[Written]:
        """The columns of an item: several for a star."""
        span = item.cut.span
        if item.star:
            if item.of is not None and (fields := scope.fields_of(item.of)):
                return self._fields(item, fields)
            pairs = [(c, c) for c in scope.stream.columns] if item.of is None else scope.columns_of(item.of)  # fmt: skip
            gone = {w.name.lower() for w in item.without}
            for word in item.without:
                if word.name.lower() not in [c.lower() for c, _ in pairs]:
                    raise self.text.error(
                        word.span, "COLUMN_NOT_FOUND", f"there is no column '{word.name}'",
                        hint=meant(word.name, [c for c, _ in pairs]), name=word.name,
                    )  # fmt: skip
            return [
                Written(quoted(n), (), span, None if n == c else c)
                for c, n in pairs
                if c.lower() not in gone
            ]
        parts = self.expressions.chain(item.cut)
        name = None if parts is None else scope.name_of(parts, span)
        if name is not None and parts is not None:
            wanted = item.alias.name if item.alias is not None else parts[-1]
            pieces = self.expressions.write(item.cut).pieces
            return [Written(quoted(name), pieces[:1], span, None if wanted == name else wanted)]
        alias = item.alias.name if item.alias is not None else None
        return [scope.written(item.cut, alias)]

    def _check_twice(self, select: Select, columns: Sequence[Written]) -> None:
        seen: dict[str, Span] = {}
        for c in columns:
            plain = c.text[1:-1] if c.text.startswith("`") and c.text.count("`") == 2 else None
            name = c.alias or plain
            if name is None:
                continue
            if name.lower() in seen:
                raise self.text.error(
                    c.span, "DUPLICATE_COLUMN", f"two columns are called '{name}'",
                    hint="give one of them another name with AS", also=seen[name.lower()],
                )  # fmt: skip
            seen[name.lower()] = c.span

    # --- FROM -------------------------------------------------------------------------------------

    def _source(
        self, source: Source, names: Names, where: Sequence[Cut], emit: str
    ) -> tuple[Relation, Sequence[Cut]]:
        """What FROM says, and the parts of WHERE that are still to be done."""
        if not isinstance(source, JoinOf):
            relation = self._one(source, names)
            clause = source.window
            if clause is not None:
                relation = replace(relation, window=of_clause(clause, Scope(relation, self.expressions)))  # fmt: skip
            return relation, where
        joins = JoinBuilder(self.expressions, emit)
        items = _listed(source)
        clauses = [i.window for i in items if not isinstance(i, JoinOf)]
        if len(items) > 2 and any(clauses) and len(clauses) == len(items):
            done = joins.several([self._one(i, names) for i in items], clauses, where, source.span)  # type: ignore[arg-type]
            return done.relation, done.where
        return self._join(source, names, where, joins, last=True)

    def _join(
        self, join: JoinOf, names: Names, where: Sequence[Cut], joins: JoinBuilder, last: bool
    ) -> tuple[Relation, Sequence[Cut]]:
        left, rest = self._operand(join.left, names, where, joins)
        right, rest = self._operand(join.right, names, rest, joins)
        windows: list[WindowClause | None] = [
            None if isinstance(s, JoinOf) else s.window for s in (join.left, join.right)
        ]
        done = joins.pair(left, right, join, windows, rest, last)
        return done.relation, done.where

    def _operand(
        self, source: Source, names: Names, where: Sequence[Cut], joins: JoinBuilder
    ) -> tuple[Relation, Sequence[Cut]]:
        if isinstance(source, JoinOf):
            return self._join(source, names, where, joins, last=False)
        return self._one(source, names), where

    def _one(self, source: Source, names: Names) -> Relation:
        """One item of FROM, without the window clause behind it."""
        if isinstance(source, SubQuery):
            return self._sub(source, names)
        if isinstance(source, TableFunction):
            inner = self._one(source.input, names)
            if inner.window is not None:
                raise self.text.error(
                    source.span, "SEVERAL_WINDOWS", "a window over a window", hint="aggregate the inner one first",
                    also=inner.window.span,
                )  # fmt: skip
            window = of_function(source, Scope(inner, self.expressions))
            named = self._aliased(inner, source.alias, source.span)
            return replace(named, window=window)
        assert isinstance(source, TableName | LateRows)
        if isinstance(source, TableName) and source.watermark is not None:
            stream = self._watermarked(source.name, source.watermark, names)
        else:
            stream = self._known(source.name, names)
        if isinstance(source, LateRows):
            with self.expressions.blamed([], source.span):
                stream = stream.late
            self.expressions.clauses.note(stream._node, source.span)
        word = source.alias or source.name
        return Relation(stream, (Side(word.name, word.span, stream),), source.span)

    def _aliased(self, relation: Relation, alias: Word | None, span: Span) -> Relation:
        if alias is None:
            return relation
        return replace(relation, sides=(Side(alias.name, alias.span, relation.stream),), span=span)

    def _known(self, word: Word, names: Names) -> Stream:
        known = names.get(word.name.lower())
        if known is None:
            if (named := self._views.named(word.name)) is not None:
                return named
            every = [k.name for k in names.values()] + views_of(self.expressions.spark)
            raise self._views.missing(word) or self.text.error(
                word.span, "NO_TABLE", f"there is no stream, view or table '{word.name}' above",
                hint=meant(word.name, every) or "define it with CREATE STREAM",
                name=word.name,
            )  # fmt: skip
        if known.stream is None:
            raise self.text.error(
                word.span, "NOT_A_STREAM", f"'{known.name}' cannot be read here: {known.why_not}",
                hint="name its time with CREATE STREAM ... TIME ... AS SELECT ... FROM " + known.name,
                also=known.span,
            )  # fmt: skip
        return known.stream

    def _watermarked(self, word: Word, watermark: TimeOf, names: Names) -> Stream:
        known = names.get(word.name.lower())
        if known is not None or self._views.named(word.name) is not None:
            raise self.text.error(
                watermark.span, "SEVERAL_WATERMARKS", f"'{word.name}' says itself how its bound advances",
                hint="leave WATERMARK out; WITH DELAY 10 SECONDS at the end asks for another wait",
                also=None if known is None else known.span,
            )  # fmt: skip
        return self._views.of_spark(word, watermark)

    def _sub(self, source: SubQuery, names: Names) -> Relation:
        word = source.alias or Word("subquery", source.span)
        passed = self._passed(source.query, names)
        if passed is not None:
            return self._aliased(passed, word, source.span)
        stream = self.query(source.query, names)
        return Relation(stream, (Side(word.name, word.span, stream),), source.span)

    def _passed(self, query: Query, names: Names) -> Relation | None:
        """``SELECT * FROM TUMBLE(...)`` with its window, so that a join or GROUP BY around it knows the window."""
        body = query.body
        if not isinstance(body, Select) or query.order or query.promise or query.emit:
            return None
        star = len(body.items) == 1 and body.items[0].star and not body.items[0].without
        if not star or body.group or body.having or body.distinct or body.window:
            return None
        if not isinstance(body.source, TableFunction):
            return None
        inner = dict(names)
        for word, view in query.views:
            inner[word.name.lower()] = Known(word.name, self.query(view, inner), word.span)
        relation = self._one(body.source, inner)
        left = [] if body.where is None else [body.where]
        return self._filtered(relation, body.where, left, 1)


def _listed(join: JoinOf) -> list[Source]:
    """The items of a list with commas."""
    if not join.comma:
        return [join]
    left = _listed(join.left) if isinstance(join.left, JoinOf) else [join.left]
    return [*left, join.right]
