"""FROM: tables, sub-queries, table functions, late rows, and joins of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slackwater.surface.sql import refusals
from slackwater.surface.sql.cursor import RESERVED, Cursor
from slackwater.surface.sql.durations import duration
from slackwater.surface.sql.extents import expression, opens_window
from slackwater.surface.sql.text import Span, meant, nearest
from slackwater.surface.sql.tokens import Token
from slackwater.surface.sql.tree import (
    Cut,
    Duration,
    JoinOf,
    LateRows,
    Query,
    Source,
    SubQuery,
    TableFunction,
    TableName,
    Word,
)
from slackwater.surface.sql.window_clause import window_clause

FUNCTIONS = ("TUMBLE", "HOP", "SESSION")
_ABSENT = {
    "CUMULATE": "write one TUMBLE for each size, or [RANGE ALL SLIDE 1 MINUTE WATTR ts] for all since an origin",
}  # fmt: skip
_SIZES = {"TUMBLE": ("size", "offset"), "HOP": ("slide", "size", "offset"), "SESSION": ("gap",)}
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

ReadQuery = Callable[[Cursor], Query]
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
            made = self._function()
            cursor.expect_sign(")")
        elif first.is_word(*FUNCTIONS, *_ABSENT) and cursor.peek(1).is_sign("("):
            made = self._function()
        elif first.is_word("LATE") and cursor.peek(1).is_sign("("):
            cursor.at += 2
            name = cursor.expect_name("a stream")
            cursor.expect_sign(")")
            made = LateRows(name, None, None, cursor.span_from(first))
        elif first.is_sign("("):
            made = self._bracketed()
        elif first.is_name and cursor.peek(1).is_sign("(") and not first.is_word(*RESERVED):
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
        if first.is_word("STREAM", "TABLE") and cursor.peek(1).is_name:
            raise cursor.text.error(
                first.span,
                "SYNTAX",
                f"{first.word} stands in front of a name",
                hint="write the name alone",
            )
        name = cursor.expect_name("a stream, a view or a table")
        if cursor.peek().is_sign("."):
            raise cursor.text.error(
                name.span, "NO_TABLE", f"'{name.name}.' names a schema, and streams have none",
                hint="a table of Spark's catalogue is no stream: define one with CREATE STREAM",
            )  # fmt: skip
        return TableName(name, None, None, name.span)

    def _dressed(self, made: Source, first: Token) -> Source:
        """With the window and the alias that stand behind."""
        cursor = self.cursor
        window = alias = None
        if opens_window(cursor):
            window = window_clause(cursor)
        joins = cursor.peek().is_word("CROSS", "NATURAL", "ASOF")
        if not joins and (refused := refusals.clause(cursor)):
            raise refused
        implied = cursor.peek().is_name and cursor.peek().word not in _NO_ALIAS
        if cursor.take("AS") or implied:
            alias = cursor.expect_name("an alias")
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
        return replace(made, alias=alias, window=window, span=cursor.span_from(first))

    # --- table functions --------------------------------------------------------------------------

    def _function(self) -> TableFunction:
        cursor = self.cursor
        first = cursor.peek()
        if first.word in _ABSENT:
            raise cursor.text.error(
                first.span, "NOT_THERE_YET", f"{first.word} is not there", hint=_ABSENT[first.word]
            )
        if not first.is_word(*FUNCTIONS):
            raise cursor.expected("TUMBLE, HOP or SESSION", known=FUNCTIONS, back=0)
        cursor.next()
        cursor.expect_sign("(")
        names = ("data", "timecol", *_SIZES[first.word])
        given: dict[str, object] = {}
        self._partition: tuple[Word, ...] = ()
        places: dict[str, Span] = {}
        for number in range(len(names) + 1):
            if number and not cursor.take_sign(","):
                break
            begin = cursor.peek()
            name = self._argument_name(names, number, first)
            if name in given:
                raise cursor.text.error(
                    begin.span, "SYNTAX", f"{name.upper()} of {first.word} is given twice",
                    hint="take one out", also=places[name],
                )  # fmt: skip
            given[name] = self._argument(name)
            places[name] = cursor.span_from(begin)
        cursor.expect_sign(")", f"the arguments of {first.word}")
        span = cursor.span_from(first)
        for name in names:
            if name not in given and name != "offset":
                shown = {"data": "TABLE t", "timecol": "DESCRIPTOR(ts)"}
                order = ", ".join(shown.get(n, n) for n in names if n != "offset")
                raise cursor.text.error(
                    span,
                    "SYNTAX",
                    f"{first.word} has no {name.upper()}",
                    hint=f"write {first.word}({order})",
                )
        if self._partition and first.word != "SESSION":
            raise cursor.text.error(
                self._partition[0].span, "SYNTAX", f"{first.word} has no PARTITION BY: its windows are the same for all rows",
                hint="take it out, and write GROUP BY",
            )  # fmt: skip
        sizes = {n: v for n, v in given.items() if isinstance(v, Duration)}
        source, time = given["data"], given["timecol"]
        assert isinstance(source, TableName | SubQuery | LateRows)
        assert isinstance(time, Word)
        return TableFunction(first.word, source, time, sizes, None, span, partition=self._partition)

    def _argument_name(self, names: tuple[str, ...], number: int, function: Token) -> str:
        cursor = self.cursor
        if cursor.peek(1).is_sign("=>"):
            token = cursor.next()
            cursor.next()
            if token.text.lower() not in names:
                raise cursor.text.error(
                    token.span, "SYNTAX", f"{function.word} has no argument {token.text}",
                    hint=meant(token.text, [n.upper() for n in names]),
                )  # fmt: skip
            return token.text.lower()
        if number >= len(names):
            raise cursor.text.error(
                cursor.here(), "SYNTAX", f"{function.word} takes at most {len(names)} arguments",
                hint=f"write {function.word}({', '.join(names)})",
            )  # fmt: skip
        return names[number]

    def _argument(self, name: str) -> object:
        cursor = self.cursor
        if name == "data":
            made = self._data()
            if cursor.take("PARTITION", "BY"):
                bracket = cursor.take_sign("(")
                self._partition = (cursor.expect_name("a column"),)
                # Without brackets the next comma begins the next argument, unless a column follows and another comma.
                while cursor.peek().is_sign(",") and (bracket or self._goes_on()):
                    cursor.next()
                    self._partition += (cursor.expect_name("a column"),)
                if bracket:
                    cursor.expect_sign(")")
            return made
        if name == "timecol":
            if not cursor.take("DESCRIPTOR"):
                return cursor.expect_name("the time column")
            cursor.expect_sign("(", "DESCRIPTOR")
            time = cursor.expect_name("the time column")
            cursor.expect_sign(")")
            return time
        return duration(cursor, f"the {name}")

    def _goes_on(self) -> bool:
        """Whether a further column of PARTITION BY stands behind the comma: the time is a DESCRIPTOR, or the last name."""
        after, then = self.cursor.peek(1), self.cursor.peek(2)
        return (
            after.is_name
            and then.is_sign(",")
            and self.cursor.peek(3).is_name
            and not self.cursor.peek(3).is_word("INTERVAL")
        )

    def _data(self) -> object:
        cursor = self.cursor
        cursor.take("TABLE")
        first = cursor.peek()
        if first.is_sign("("):
            cursor.next()
            query = self._query(cursor)
            cursor.expect_sign(")")
            return SubQuery(query, None, None, cursor.span_from(first))
        if first.is_word("LATE") and cursor.peek(1).is_sign("("):
            cursor.at += 2
            late = cursor.expect_name("a stream")
            cursor.expect_sign(")")
            return LateRows(late, None, None, cursor.span_from(first))
        word = cursor.expect_name("a stream, a view or a table")
        return TableName(word, None, None, word.span)
