"""Queries: from tokens to clauses."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from slackwater.surface.sql import refusals
from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.durations import duration
from slackwater.surface.sql.extents import expression, named, opens_window
from slackwater.surface.sql.from_clause import Checked, FromReader
from slackwater.surface.sql.promises import PROMISES, promise
from slackwater.surface.sql.tokens import Token
from slackwater.surface.sql.tree import (
    Cut,
    Distinct,
    Item,
    Promise,
    Query,
    Select,
    UnionAll,
    WindowClause,
    Word,
)
from slackwater.surface.sql.window_clause import window_clause

CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "UNION", "ORDER", "JOIN", "WITH", "EMIT", "ON", "LEFT", "INNER")  # fmt: skip


class QueryReader:
    """Reads queries; ``checked`` sees each expression as soon as it is read."""

    def __init__(self, checked: Checked):
        self._see = checked

    def query(self, cursor: Cursor) -> Query:
        """A query with all that stands behind it."""
        first = cursor.peek()
        views = self._views(cursor) if cursor.take("WITH") else ()
        body: Select | UnionAll | Query = self._term(cursor)
        parts = [body]
        while cursor.peek().is_word("UNION"):
            word = cursor.next()
            if not cursor.take("ALL"):
                raise refusals.refuse(
                    cursor, word.span, "UNION",
                    "write UNION ALL; SELECT DISTINCT over it drops rows that are equal in all columns, their time too",
                )  # fmt: skip
            if cursor.take("BY"):
                raise refusals.refuse(
                    cursor,
                    cursor.last().span,
                    "UNION ALL BY NAME",
                    "list the columns in the same order in each part",
                )
            parts.append(self._term(cursor))
        if len(parts) > 1:
            body = UnionAll(tuple(_query_of(p) for p in parts), cursor.span_from(first))
        order, made, emit = self._behind(cursor)
        return Query(body, views, order, made, emit, cursor.span_from(first))

    def _views(self, cursor: Cursor) -> tuple[tuple[Word, Query], ...]:
        if cursor.take("RECURSIVE"):
            raise refusals.refuse(
                cursor, cursor.last().span, "WITH RECURSIVE", "write out the steps as joins"
            )
        views: list[tuple[Word, Query]] = []
        while True:
            name = cursor.expect_name("the name of a view")
            cursor.expect("AS")
            cursor.expect_sign("(")
            inner = self.query(cursor)
            cursor.expect_sign(")")
            same = next((v for v, _ in views if v.name.lower() == name.name.lower()), None)
            if same is not None:
                raise cursor.text.error(
                    name.span, "DUPLICATE_NAME", f"'{name.name}' is defined twice",
                    hint="give one of them another name", also=same.span,
                )  # fmt: skip
            views.append((name, inner))
            if not cursor.take_sign(","):
                return tuple(views)

    def _term(self, cursor: Cursor) -> Select | Query:
        if cursor.take_sign("("):
            inner = self.query(cursor)
            cursor.expect_sign(")")
            return inner
        return self._select(cursor)

    def _behind(
        self, cursor: Cursor
    ) -> tuple[Cut | None, Promise | None, Literal["", "ordered", "immediate"]]:
        """ORDER BY, WITH a promise, EMIT."""
        order, made = None, None
        emit: Literal["", "ordered", "immediate"] = ""
        while True:
            if cursor.is_words("ORDER", "BY"):
                cursor.at += 2
                order = self._expression(cursor, "the time column")
                if cursor.peek().is_sign(","):
                    raise refusals.refuse(
                        cursor, cursor.peek().span, "ORDER BY several columns",
                        "name the time column alone: rows leave in order of time",
                    )  # fmt: skip
            elif cursor.peek().is_word("WITH") and made is None:
                cursor.next()
                made = promise(cursor)
            elif cursor.peek().is_word("EMIT") and not emit:
                word = cursor.next()
                if cursor.take("ORDERED"):
                    emit = "ordered"
                elif cursor.take("IMMEDIATE"):
                    emit = "immediate"
                elif cursor.take("ON", "WINDOW", "CLOSE"):
                    pass  # results come when their window is complete anyway
                elif cursor.peek().is_word("CHANGES", "ON", "FINAL"):
                    raise refusals.refuse(
                        cursor, word.span.to(cursor.peek().span), f"EMIT {cursor.peek().word}",
                        "leave it out: each result comes once, when its window is complete; for earlier results use "
                        "shorter windows or WITH DELAY",
                    )  # fmt: skip
                else:
                    raise cursor.expected("ORDERED or IMMEDIATE", known=("ORDERED", "IMMEDIATE"), back=0)  # fmt: skip
            else:
                break
        if refused := refusals.clause(cursor):
            raise refused
        return order, made, emit

    def _select(self, cursor: Cursor) -> Select:
        first = cursor.peek()
        if first.is_word("FROM") or first.is_word("VALUES", "TABLE"):
            raise cursor.expected("SELECT", back=0, hint="write SELECT * FROM ...")
        cursor.expect("SELECT")
        distinct = self._distinct(cursor)
        items, window = self._items(cursor)
        if not cursor.take("FROM"):
            raise cursor.expected("FROM", known=("FROM",), back=3)
        source = FromReader(cursor, self.query, self._checked).read()
        where = self._expression(cursor, "a condition") if cursor.take("WHERE") else None
        group: tuple[Cut, ...] = ()
        group_span = None
        if word := cursor.take("GROUP", "BY"):
            group = self._group(cursor)
            group_span = cursor.span_from(word)
        elif cursor.peek().is_word("GROUP"):
            cursor.next()
            cursor.expect("BY")
        having = self._expression(cursor, "a condition") if cursor.take("HAVING") else None
        if where is None and cursor.peek().is_word("WHERE"):
            raise cursor.text.error(
                cursor.peek().span, "SYNTAX", "WHERE stands behind GROUP BY",
                hint="put it in front of GROUP BY; a condition on results is HAVING",
            )  # fmt: skip
        return Select(
            items, source, where, group, having, distinct, window, cursor.span_from(first), group_span
        )  # fmt: skip

    def _distinct(self, cursor: Cursor) -> Distinct | None:
        first = cursor.peek()
        if cursor.peek(1).is_sign("."):
            return None  # a table of that name
        if cursor.take("ALL") or not cursor.take("DISTINCT"):
            return None
        on: tuple[Word, ...] = ()
        within = None
        if cursor.is_words("ON") and cursor.peek(1).is_sign("("):
            cursor.at += 2
            on = cursor.names("a column")
            cursor.expect_sign(")")
        if cursor.take("WITHIN"):
            within = duration(cursor, "how far apart duplicates can be")
        return Distinct(cursor.span_from(first), on, within)

    def _items(self, cursor: Cursor) -> tuple[tuple[Item, ...], WindowClause | None]:
        items: list[Item] = []
        window: WindowClause | None = None
        while True:
            item = self._star(cursor)
            if item is None:
                cut = self._expression(cursor, "an expression")
                if opens_window(cursor):
                    also = window
                    window = window_clause(cursor)
                    if also is not None:
                        raise cursor.text.error(
                            window.span, "SYNTAX", "the select list has two windows",
                            hint="write one window, behind FROM and the name", also=also.span,
                        )  # fmt: skip
                    alias = None
                    if cursor.take("AS"):
                        alias = cursor.expect_name("a name")
                    item = Item(cut, alias)
                    if alias is None:
                        item = Item(*named(cursor, cut))
                else:
                    item = Item(*named(cursor, cut))
            items.append(item)
            if not cursor.take_sign(","):
                return tuple(items), window
            if cursor.peek().is_word("FROM"):
                raise cursor.text.error(
                    cursor.last().span, "SYNTAX", "an expression was expected after this comma, not FROM",
                    hint="take the comma out",
                )  # fmt: skip

    def _star(self, cursor: Cursor) -> Item | None:
        at, of = cursor.at, None
        if cursor.peek().is_name and cursor.peek(1).is_sign(".") and cursor.peek(2).is_sign("*"):
            of = cursor.expect_name("a table")
            cursor.next()
        if not cursor.peek().is_sign("*"):
            return None
        cursor.next()
        without: tuple[Word, ...] = ()
        if cursor.peek().is_word("EXCEPT") and cursor.peek(1).is_sign("("):
            cursor.at += 2
            without = cursor.names("a column")
            cursor.expect_sign(")")
        return Item(cursor.cut(at), None, True, of, without)

    def _group(self, cursor: Cursor) -> tuple[Cut, ...]:
        if refused := refusals.clause(cursor):
            raise refused
        if cursor.peek().is_word("ALL") and not cursor.peek(1).is_sign(",", "("):
            raise refusals.refuse(cursor, cursor.peek().span, "GROUP BY ALL", "name the keys")
        cuts = [self._expression(cursor, "a key")]
        while cursor.take_sign(","):
            cuts.append(self._expression(cursor, "a key"))
        if cursor.peek().is_word("WITH") and cursor.peek(1).is_word("ROLLUP", "CUBE"):
            word = cursor.peek(1)
            raise refusals.refuse(cursor, word.span, word.word, refusals.CLAUSES[word.word])
        return tuple(cuts)

    def _expression(self, cursor: Cursor, what: str) -> Cut:
        if cursor.peek().kind == "end" or cursor.peek().is_sign(")", ";", ","):
            raise cursor.expected(what, back=0)
        cut = expression(cursor, what)
        self._checked(cursor, cut)
        return cut

    def _checked(self, cursor: Cursor, cut: Cut) -> None:
        refusals.check(cursor, cut)
        self._see(cursor, cut)


def _query_of(part: Select | Query | UnionAll) -> Query:
    if isinstance(part, Query):
        return part
    return Query(part, (), None, None, "", part.span)


def single(cursor: Cursor, reader: QueryReader) -> Query:
    """The one query of a text."""
    if cursor.peek().kind == "end":
        raise cursor.expected("a query", hint="write SELECT ... FROM ...")
    made = reader.query(cursor)
    while cursor.take_sign(";"):
        pass
    if cursor.peek().kind != "end":
        again: Token = cursor.peek()
        if again.is_word("SELECT", "WITH") and cursor.last().is_sign(";"):
            raise cursor.text.error(
                again.span, "TWO_QUERIES", "the text has a second query, and sw.sql takes one",
                hint="use sw.script for several statements", also=made.span,
            )  # fmt: skip
        raise cursor.expected("the end of the query", known=(*CLAUSES, *PROMISES))
    return replace(made)
