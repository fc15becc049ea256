"""Table functions: ``TUMBLE``, ``HOP`` and ``SESSION`` as Flink has them, and ``LANDMARK``, ``ROWS``, ``BY_TUPLE`` beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.durations import duration
from slackwater.surface.sql.extents import expression
from slackwater.surface.sql.text import Span, meant
from slackwater.surface.sql.tokens import Token
from slackwater.surface.sql.tree import (
    Cut,
    Duration,
    LateRows,
    Query,
    SubQuery,
    TableFunction,
    TableName,
    Word,
)

ReadQuery = Callable[[Cursor], Query]

_ARGUMENTS = {
    "TUMBLE": ("size", "offset"),
    "HOP": ("slide", "size", "offset"),
    "SESSION": ("gap",),
    "LANDMARK": ("slide", "origin"),
    "ROWS": ("size", "slide"),
    "BY_TUPLE": ("size", "every", "over"),
}
_OPTIONAL = {
    "TUMBLE": ("offset",),
    "HOP": ("offset",),
    "LANDMARK": ("origin",),
    "ROWS": ("timecol", "slide"),
    "BY_TUPLE": ("every", "over"),
}
_COUNTS = {"ROWS": ("size", "slide"), "BY_TUPLE": ("every",)}
"""Arguments that are numbers of rows."""
_PARTITIONED = ("SESSION", "ROWS")
OVER = ("ARRIVAL", "RANK")
FUNCTIONS = tuple(_ARGUMENTS)
ABSENT = {
    "CUMULATE": "write one TUMBLE for each size, or LANDMARK(TABLE t, DESCRIPTOR(ts), slide, origin) for all since an origin",
    "UNMATCHED": 'it is in Python: the .unmatched of stream.join(sw.relation(...), on="k"), which sw.sql takes in streams=',
}  # fmt: skip


def table_function(cursor: Cursor, query: ReadQuery) -> TableFunction:
    """Read one; ``query`` reads a sub-query."""
    first = cursor.peek()
    if first.word in ABSENT:
        raise cursor.text.error(
            first.span, "NOT_THERE_YET", f"{first.word} is not there", hint=ABSENT[first.word]
        )
    if not first.is_word(*FUNCTIONS):
        raise cursor.expected(
            f"{', '.join(FUNCTIONS[:-1])} or {FUNCTIONS[-1]}", known=FUNCTIONS, back=0
        )
    cursor.next()
    return _Reader(cursor, query, first).read()


@dataclass
class _Reader:
    cursor: Cursor
    query: ReadQuery
    first: Token
    given: dict[str, object] = field(default_factory=dict)
    places: dict[str, Span] = field(default_factory=dict)
    partition: tuple[Word, ...] = ()

    @property
    def kind(self) -> str:
        return self.first.word

    @property
    def names(self) -> tuple[str, ...]:
        return ("data", "timecol", *_ARGUMENTS[self.kind])

    def read(self) -> TableFunction:
        cursor = self.cursor
        cursor.expect_sign("(")
        number = 0
        while True:
            if self.given and not cursor.take_sign(","):
                break
            begin = cursor.peek()
            if self._without_time(number):
                number += 1
            name = self._argument_name(number)
            if name in self.given:
                raise cursor.text.error(
                    begin.span, "SYNTAX", f"{name.upper()} of {self.kind} is given twice",
                    hint="take one out", also=self.places[name],
                )  # fmt: skip
            self.given[name] = self._argument(name)
            self.places[name] = cursor.span_from(begin)
            number += 1
        cursor.expect_sign(")", f"the arguments of {self.kind}")
        span = cursor.span_from(self.first)
        self._check(span)
        sizes = {n: v for n, v in self.given.items() if isinstance(v, Duration)}
        source, time = self.given["data"], self.given.get("timecol")
        origin, over = self.given.get("origin"), self.given.get("over", "")
        assert isinstance(source, TableName | SubQuery | LateRows)
        assert time is None or isinstance(time, Word)
        assert origin is None or isinstance(origin, Cut)
        assert isinstance(over, str)
        return TableFunction(
            self.kind, source, time, sizes, None, span, partition=self.partition, origin=origin, over=over
        )  # fmt: skip

    def _check(self, span: Span) -> None:
        optional = _OPTIONAL.get(self.kind, ())
        for name in self.names:
            if name not in self.given and name not in optional:
                shown = {"data": "TABLE t", "timecol": "DESCRIPTOR(ts)"}
                order = ", ".join(shown.get(n, n) for n in self.names if n not in optional)
                raise self.cursor.text.error(
                    span,
                    "SYNTAX",
                    f"{self.kind} has no {name.upper()}",
                    hint=f"write {self.kind}({order})",
                )
        if self.partition and self.kind not in _PARTITIONED:
            raise self.cursor.text.error(
                self.partition[0].span, "SYNTAX", f"{self.kind} has no PARTITION BY: its windows are the same for all rows",
                hint="take it out, and write GROUP BY",
            )  # fmt: skip

    def _without_time(self, number: int) -> bool:
        """Whether ROWS goes on with its size: rows are counted without a time, too."""
        here, then = self.cursor.peek(), self.cursor.peek(1)
        interval = here.is_word("INTERVAL") and not then.is_sign(",", ")", "=>")
        size = interval or here.kind in ("number", "text", "variable")
        return self.kind == "ROWS" and number == 1 and size

    def _argument_name(self, number: int) -> str:
        cursor, names = self.cursor, self.names
        if cursor.peek(1).is_sign("=>"):
            token = cursor.next()
            cursor.next()
            if token.text.lower() not in names:
                raise cursor.text.error(
                    token.span, "SYNTAX", f"{self.kind} has no argument {token.text}",
                    hint=meant(token.text, [n.upper() for n in names]),
                )  # fmt: skip
            return token.text.lower()
        if number >= len(names):
            raise cursor.text.error(
                cursor.here(), "SYNTAX", f"{self.kind} takes at most {len(names)} arguments",
                hint=f"write {self.kind}({', '.join(names)})",
            )  # fmt: skip
        return names[number]

    def _argument(self, name: str) -> object:
        cursor = self.cursor
        if name == "data":
            return self._partitioned(self._data())
        if name == "timecol":
            if not cursor.take("DESCRIPTOR"):
                return cursor.expect_name("the time column")
            cursor.expect_sign("(", "DESCRIPTOR")
            time = cursor.expect_name("the time column")
            cursor.expect_sign(")")
            return time
        if name == "origin":
            return expression(cursor, "the origin of the windows")
        if name == "over":
            return self._over()
        if name in _COUNTS.get(self.kind, ()):
            return self._count(name)
        return duration(cursor, f"the {name}")

    def _count(self, name: str) -> Duration:
        made = duration(self.cursor, f"the {name}", rows=True)
        if not isinstance(made.value, int):
            raise self.cursor.text.error(
                made.span, "BAD_WINDOW", f"the {name} of {self.kind} is a number of rows, not a time",
                hint=f"write {name.upper()} => 1000, or TUMBLE and HOP for windows of time",
            )  # fmt: skip
        return Duration(made.value, made.span, rows=True)

    def _over(self) -> str:
        token = self.cursor.next()
        word = self.cursor.variables.value(token).upper() if token.kind != "end" else ""
        if word not in OVER:
            raise self.cursor.text.error(
                token.span, "SYNTAX", f"BY_TUPLE counts rows over ARRIVAL or RANK, not over {token.text}",
                hint=meant(token.text, OVER) or "write BY_TUPLE(TABLE t, DESCRIPTOR(ts), INTERVAL 5 MINUTES, 5, RANK)",
            )  # fmt: skip
        return word.lower()

    def _partitioned(self, made: object) -> object:
        cursor = self.cursor
        if cursor.take("PARTITION", "BY"):
            bracket = cursor.take_sign("(")
            self.partition = (cursor.expect_name("a column"),)
            # Without brackets the next comma begins the next argument, unless a column follows and another comma.
            while cursor.peek().is_sign(",") and (bracket or self._goes_on()):
                cursor.next()
                self.partition += (cursor.expect_name("a column"),)
            if bracket:
                cursor.expect_sign(")")
        return made

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
            query = self.query(cursor)
            cursor.expect_sign(")")
            return SubQuery(query, None, None, cursor.span_from(first))
        if first.is_word("LATE") and cursor.peek(1).is_sign("("):
            cursor.at += 2
            late = cursor.expect_name("a stream")
            cursor.expect_sign(")")
            return LateRows(late, None, None, cursor.span_from(first))
        word = cursor.expect_name("a stream, a view or a table")
        return TableName(word, None, None, word.span)
