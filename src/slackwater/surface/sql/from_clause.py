"""FROM: tables, sub-queries, table functions, late rows, and joins of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slackwater.surface.sql import refusals
from slackwater.surface.sql.cursor import RESERVED, Cursor
from slackwater.surface.sql.extents import expression, opens_window
from slackwater.surface.sql.table_functions import ABSENT, FUNCTIONS, ReadQuery, table_function
from slackwater.surface.sql.text import Span, meant, nearest
from slackwater.surface.sql.tokens import Token
from slackwater.surface.sql.tree import (
    Cut,
    JoinOf,
    LateRows,
    Source,
    SubQuery,
    TableFunction,
    TableName,
    Word,
)
from slackwater.surface.sql.watermarks import delay_of
from slackwater.surface.sql.window_clause import window_clause

_NO_ALIAS = RESERVED | frozenset(
    [
        "INNER",
        "LEFT",
        "RIGHT",
        "FULL",
        "CROSS",
        "NATURAL",
        "SEMI",
        "ANTI",
        "ASOF",
        "WITH",
        "EMIT",
        "LIMIT",
        "WINDOW",
        "LATERAL",
        "TABLESAMPLE",
        "EXCEPT",
        "INTERSECT",
        "MINUS",
        "OFFSET",
        "QUALIFY",
        "SORT",
        "CLUSTER",
        "DISTRIBUTE",
        "PIVOT",
        "UNPIVOT",
        "MATCH_RECOGNIZE",
        "FOR",
    ]
)
_HOWS = {
    "INNER": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full",
}  # fmt: skip

Checked = Callable[[Cursor, Cut], None]


class FromReader:
    """Reads what stands behind FROM; ``query`` reads a query, ``checked`` sees each expression."""

    def __init__(self, cursor: Cursor, query: ReadQuery, checked: Checked):
        self.cursor, self._query, self._checked = cursor, query, checked

    def read(self) -> Source:
        """All of the clause."""
        made = self._joined()
        while self.cursor.take_sign(","):
            right = self._joined()
            made = JoinOf(made, right, "inner", None, (), True, made.span.to(right.span))
        return made

    def _joined(self) -> Source:
        made = self._item()
        while True:
            how = self._how()
            if how is None:
                return made
            right = self._item()
            on: Cut | None = None
            using: tuple[Word, ...] = ()
            cursor = self.cursor
            if cursor.take("ON"):
                on = expression(cursor, "a condition")
                self._checked(cursor, on)
            elif cursor.take("USING"):
                cursor.expect_sign("(")
                using = cursor.names("a column of both sides")
                cursor.expect_sign(")")
            span = made.span.to(Span(right.span.start, cursor.last().end))
            made = JoinOf(made, right, how, on, using, False, span)

    def _how(self) -> str | None:
        """The kind of join that comes next, or None."""
        cursor = self.cursor
        if cursor.take("JOIN"):
            return "inner"
        first = cursor.peek()
        if first.is_word("CROSS", "NATURAL", "ASOF") and cursor.peek(1).kind == "word":
            raise refusals.clause(cursor) or cursor.expected("JOIN")
        kind = _HOWS.get(first.word)
        if kind is None and not first.is_word("SEMI", "ANTI"):
            return None
        if not cursor.peek(1).is_word("JOIN", "OUTER", "SEMI", "ANTI"):
            return None
        if kind is not None:
            cursor.next()
        if cursor.peek().is_word("SEMI", "ANTI"):
            if kind == "right":
                raise refusals.refuse(
                    cursor, first.span.to(cursor.peek().span), f"RIGHT {cursor.peek().word} JOIN",
                    "swap the two sides and write LEFT",
                )  # fmt: skip
            kind = f"left_{cursor.next().word.lower()}"
        else:
            cursor.take("OUTER")
        cursor.expect("JOIN")
        return kind

    def _item(self) -> Source:
        cursor = self.cursor
        first = cursor.peek()
        made: Source
        if first.is_word("TABLE") and cursor.peek(1).is_sign("("):
            cursor.at += 2
            made = table_function(cursor, self._query)
            cursor.expect_sign(")")
        elif first.is_word(*FUNCTIONS, *ABSENT) and cursor.peek(1).is_sign("("):
            made = table_function(cursor, self._query)
        elif first.is_word("LATE") and cursor.peek(1).is_sign("("):
            cursor.at += 2
            name = cursor.expect_name("a stream")
            cursor.expect_sign(")")
            made = LateRows(name, None, None, cursor.span_from(first))
        elif first.is_sign("("):
            made = self._bracketed()
        elif (
            first.is_name
            and cursor.peek(1).is_sign("(")
            and not first.is_word(*RESERVED)
            and not first.is_word("STREAM")
        ):
            raise cursor.text.error(
                first.span, "NO_FUNCTION", f"there is no table function {first.text}",
                hint=meant(first.text, [*FUNCTIONS, "LATE"]),
            )  # fmt: skip
        else:
            made = self._name(first)
        return self._dressed(made, first)

    def _bracketed(self) -> Source:
        cursor = self.cursor
        first = cursor.next()
        inside = cursor.peek()
        if inside.is_word("SELECT", "WITH") or inside.is_sign("("):
            query = self._query(cursor)
            cursor.expect_sign(")")
            return SubQuery(query, None, None, cursor.span_from(first))
        if inside.is_word("VALUES"):
            raise refusals.refuse(
                cursor,
                inside.span,
                "VALUES",
                "read a stream; rows that are given once are no stream",
            )
        close = nearest(inside.text, ["SELECT"], 0.66) if inside.kind == "word" else None
        if close and not cursor.peek(1).is_sign(")", ",", "["):
            raise cursor.expected("SELECT", known=["SELECT"], back=0)
        made = self.read()
        cursor.expect_sign(")")
        return made

    def _name(self, first: Token) -> Source:
        cursor = self.cursor
        if first.is_word("TABLE") and cursor.peek(1).is_name:
            raise cursor.text.error(
                first.span, "SYNTAX", "TABLE stands in front of a name", hint="write the name alone"
            )
        # Spark's word for a table whose rows keep coming, as all do here.
        bracket = None
        if first.is_word("STREAM") and (cursor.peek(1).is_name or cursor.peek(1).is_sign("(")):
            cursor.next()
            bracket = cursor.take_sign("(")
        name = cursor.expect_name("a stream, a view or a table")
        if cursor.peek().is_sign("."):
            raise cursor.text.error(
                name.span, "NO_TABLE", f"'{name.name}.' names a schema, and streams have none",
                hint="a table of Spark's catalogue is no stream: define one with CREATE STREAM",
            )  # fmt: skip
        if bracket is not None:
            cursor.expect_sign(")")
        return TableName(name, None, None, name.span)

    def _dressed(self, made: Source, first: Token) -> Source:
        """With the window and the alias that stand behind."""
        cursor = self.cursor
        window = alias = None
        watermark = delay_of(cursor)
        if opens_window(cursor):
            window = window_clause(cursor)
        joins = cursor.peek().is_word("CROSS", "NATURAL", "ASOF")
        if not joins and (refused := refusals.clause(cursor)):
            raise refused
        implied = cursor.peek().is_name and cursor.peek().word not in _NO_ALIAS
        if cursor.take("AS") or implied:
            alias = cursor.expect_name("an alias")
        watermark = watermark or delay_of(cursor)
        if window is None and opens_window(cursor):
            window = window_clause(cursor)
        if alias is not None and cursor.peek().is_sign("("):
            raise cursor.text.error(
                cursor.peek().span, "SYNTAX", "names of columns stand behind an alias",
                hint="name the columns in the select list, with AS",
            )  # fmt: skip
        if isinstance(made, JoinOf):
            if alias is None and window is None:
                return made
            raise cursor.text.error(
                cursor.last().span, "SYNTAX", "a join in brackets has no alias or window of its own",
                hint="write (SELECT * FROM ... JOIN ...) alias",
            )  # fmt: skip
        if isinstance(made, TableFunction) and window is not None:
            raise cursor.text.error(
                window.span, "SYNTAX", f"the window stands behind {made.kind}, which is one already",
                hint="take one of the two out",
            )  # fmt: skip
        if watermark is not None:
            if not isinstance(made, TableName):
                raise cursor.text.error(
                    watermark.span, "SYNTAX", "WATERMARK stands behind something that is no view of Spark's",
                    hint="write it behind the view's name: FROM STREAM v WATERMARK ts DELAY OF INTERVAL 10 SECONDS",
                )  # fmt: skip
            made = replace(made, watermark=watermark)
        return replace(made, alias=alias, window=window, span=cursor.span_from(first))
