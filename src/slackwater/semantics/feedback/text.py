"""Feedback as text: ``~[*, *, >= 50]`` has a test per column, by position; ``~{speed >= 50, wid < 9}`` by name.

A record is one such bracket, and feedback is one or more of them. A test is made of comparisons by OR and AND, the
latter binding closer; the column is not repeated: ``~{speed >= 50 AND < 80 OR IS NULL}``. A value alone is short for
``=``. Every set of values that a record can hold can be written, and what `written` gives is read back the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

from slackwater.errors import AnalysisError, SlackwaterError
from slackwater.semantics.feedback import order
from slackwater.semantics.feedback.columns import Column, Columns, moved
from slackwater.semantics.feedback.value import ANY, Feedback
from slackwater.semantics.patterns import Pattern, Test, Value

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>'(?:[^']|'')*') |
    (?P<quoted>`(?:[^`]|``)+`) |
    (?P<number>-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?) |
    (?P<word>-?[^\W\d]\w*) |
    (?P<symbol><=|>=|<>|!=|==|[~\[\]{}(),.*<>=])
    )""",
    re.VERBOSE,
)
_COMPARE: dict[str, Callable[..., Test]] = {
    "=": order.equal, "==": order.equal, "<": order.below, "<=": order.up_to, ">": order.above, ">=": order.from_,
}  # fmt: skip
_WORDS: dict[str, Any] = {
    "true": True, "false": False, "nan": float("nan"), "infinity": float("inf"), "-infinity": float("-inf"),
}  # fmt: skip
_NO_NULL = Test(ANY.spans)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parsed(text: str, columns: Columns) -> Feedback:
    """Feedback from its text, on an output of these columns.

    >>> from slackwater.model.schema import Field
    >>> two = Columns((Field("k", "string"), Field("speed", "double")))
    >>> print(parsed("~[*, >= 50]", two), parsed("~{speed < 3 or is null, k 'a'}", two))
    ~{speed >= 50.0} ~{k = 'a', speed < 3.0 OR IS NULL}
    >>> parsed("~{sped >= 50}", two)
    Traceback (most recent call last):
    slackwater.errors.AnalysisError: [COLUMN_NOT_FOUND] there is no column 'sped'
      ~{sped >= 50}
        ^
      to fix: the output's columns are: k, speed
    """
    return _Parser(text, columns).feedback()


class _Parser:
    def __init__(self, text: str, columns: Columns):
        self.text, self.columns = text, columns
        self.tokens: list[_Token] = []
        self.next = 0
        at, end = 0, len(text.rstrip())
        while at < end:
            m = _TOKEN.match(text, at)
            if m is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                self.fail(
                    "this is not understood",
                    "write tests such as speed >= 50, names with blanks in backquotes, text in single quotes",
                    at,
                )
            kind = str(m.lastgroup)
            self.tokens.append(_Token(kind, m[kind], m.start(kind)))
            at = m.end()
        self.tokens.append(_Token("end", "", end))

    # --- brackets ---------------------------------------------------------------------------------------

    def feedback(self) -> Feedback:
        records: list[Pattern] = []
        tested: list[Column] = []
        while not records or self.token.kind != "end":
            start = self.token.at
            self.expect(
                "~", "feedback begins with ~: ~[*, >= 50] by position, ~{speed >= 50} by name"
            )
            opening = self.token
            if opening.text == "[":
                pairs = self.by_position()
            elif opening.text == "{":
                pairs = self.by_name()
            else:
                self.fail("a bracket is expected here", "write ~[*, >= 50] or ~{speed >= 50}")
            record = Pattern(())
            for column, test in pairs:
                record &= Pattern.of({column.name: test})
                tested.append(column)
            if all(t == ANY for _, t in record.tests):
                self.fail(
                    "a record without a test says that no row is wanted at all",
                    "test at least one column",
                    start,
                )
            records.append(record)
        return Feedback.of(records, tested)

    def by_position(self) -> list[tuple[Column, Test]]:
        self.take()
        found, place = [], 0
        while True:
            token = self.token
            if place >= len(self.columns.fields):
                self.fail(f"there are {len(self.columns.fields)} columns", self.listed(), token.at)
            name = self.columns.fields[place].name
            if token.text == "*":
                self.take()
            else:
                column = self.column([name], token.at)
                found.append((column, self.test(column)))
            place += 1
            if self.token.text != ",":
                break
            self.take()
        if place < len(self.columns.fields):
            self.fail(
                f"{place} of {len(self.columns.fields)} columns have a test or *", self.listed()
            )
        self.expect("]", "a record by position ends with ]")
        return found

    def by_name(self) -> list[tuple[Column, Test]]:
        self.take()
        found = []
        while True:
            at = self.token.at
            parts = [self.name()]
            while self.token.text == ".":
                self.take()
                parts.append(self.name())
            column = self.column(parts, at)
            found.append((column, self.test(column)))
            if self.token.text != ",":
                break
            self.take()
        self.expect("}", "a record by name ends with }, and its tests stand between commas")
        return found

    def name(self) -> str:
        token = self.token
        if token.kind not in ("word", "quoted") or token.text.startswith("-"):
            self.fail("the name of a column is expected here", self.listed())
        self.take()
        return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text

    def column(self, parts: list[str], at: int) -> Column:
        try:
            return self.columns.column(parts)
        except AnalysisError as e:
            raise self.error(e.condition, e.message, e.hint, at) from None

    def listed(self) -> str:
        return f"the output's columns are: {', '.join(self.columns.names())}"

    # --- tests ------------------------------------------------------------------------------------------

    def test(self, column: Column) -> Test:
        found = self.conjunction(column)
        while self.word("or"):
            found |= self.conjunction(column)
        return found

    def conjunction(self, column: Column) -> Test:
        found = self.comparison(column)
        while self.word("and"):
            found &= self.comparison(column)
        return found

    def comparison(self, column: Column) -> Test:
        token = self.token
        if token.text == "*":
            self.take()
            return ANY
        if self.word("is"):
            negated = self.word("not")
            if not self.word("null"):
                self.fail("NULL is expected here", "write IS NULL or IS NOT NULL")
            return _NO_NULL if negated else Test((), True)
        if self.word("in"):
            return self.among(column)
        if self.word("between"):
            low = self.value(column, order.from_)
            if not self.word("and"):
                self.fail("AND is expected here", "write BETWEEN 1 AND 5")
            return low & self.value(column, order.up_to)
        if token.text in ("<>", "!="):
            self.take()
            return _NO_NULL - self.value(column, order.equal)
        if token.text in _COMPARE:
            self.take()
            return self.value(column, _COMPARE[token.text])
        return self.value(column, order.equal)

    def among(self, column: Column) -> Test:
        self.expect("(", "write IN (1, 2)")
        found = Test()
        while True:
            if self.word("null"):
                found |= Test((), True)
            else:
                found |= self.value(column, order.equal)
            if self.token.text != ",":
                break
            self.take()
        self.expect(")", "the values of IN end with )")
        return found

    def value(self, column: Column, compare: Callable[..., Test]) -> Test:
        token = self.token
        value: Any
        if token.kind == "string":
            value = token.text[1:-1].replace("''", "'")
        elif token.kind == "number":
            value = Decimal(token.text)
            if column.type in order.FLOATS:
                value = float(value)  # as Spark reads a number that it compares with a float
        elif token.kind == "word" and token.text.lower() in _WORDS:
            value = _WORDS[token.text.lower()]
        else:
            self.fail(
                "a test is expected here",
                "write *, a value, =, <>, <, <=, >, >= and a value, IN (...), BETWEEN ... AND ..., IS NULL or IS NOT NULL",
            )
        try:
            test = compare(value, column.type, self.columns.zone)
        except (ValueError, TypeError, SlackwaterError):
            self.fail(
                f"{token.text} is no value of column '{column.written}' ({column.type})",
                "write numbers as they are, text, dates and times in single quotes",
            )
        self.take()
        return moved(test, -1) if column.ends else test

    # --- tokens -----------------------------------------------------------------------------------------

    @property
    def token(self) -> _Token:
        return self.tokens[self.next]

    def take(self) -> None:
        self.next += 1

    def word(self, word: str) -> bool:
        there = self.token.kind == "word" and self.token.text.lower() == word
        self.next += there
        return there

    def expect(self, symbol: str, hint: str) -> None:
        if self.token.text != symbol:
            self.fail(f"{symbol} is expected here", hint)
        self.take()

    def fail(self, message: str, hint: str, at: int | None = None) -> NoReturn:
        raise self.error("BAD_FEEDBACK", message, hint, self.token.at if at is None else at)

    def error(self, condition: str, message: str, hint: str, at: int) -> AnalysisError:
        """An error with the text and a caret at the fault."""
        line = self.text.replace("\n", " ").replace("\t", " ")
        return AnalysisError(
            condition, f"{message}\n  {line}\n  {' ' * at}^", hint=hint, text=self.text, position=at
        )


# --- printing -------------------------------------------------------------------------------------------


def written(feedback: Feedback) -> str:
    """The text of feedback, by names."""
    return " ".join(_record(feedback, r) for r in feedback.records)


def _record(feedback: Feedback, record: Pattern) -> str:
    tests = []
    for name, test in record.tests:
        column = feedback.column(name)
        tests.append(f"{_name(column)} {_test(column, test)}")
    return "~{" + ", ".join(tests) + "}"


def _name(column: Column) -> str:
    return ".".join(
        p if re.fullmatch(r"[^\W\d]\w*", p) else f"`{p.replace('`', '``')}`" for p in column.parts
    )


def _test(column: Column, test: Test) -> str:
    if column.ends:
        test = moved(test, 1)
    if test == _NO_NULL:
        return "IS NOT NULL"
    points = [_point(column, *span) for span in test.spans]
    single = [p for p in points if p is not None]
    ranges = [_span(column, *s) for s, p in zip(test.spans, points, strict=True) if p is None]
    if len(single) > 1:
        ranges.insert(0, f"IN ({', '.join(_literal(column, p) for p in single)})")
    elif single:
        ranges.insert(0, f"= {_literal(column, single[0])}")
    if test.null:
        ranges.append("IS NULL")
    return " OR ".join(ranges)


def _point(column: Column, low: Value | None, high: Value | None) -> Value | None:
    """The only value of a span."""
    ends = order.limits(column.type)
    if ends is not None:
        low, high = ends[0] if low is None else low, ends[1] + 1 if high is None else high
    if isinstance(low, int):
        return low if high == low + 1 else None
    return low if isinstance(low, str) and high == low + "\0" else None


def _span(column: Column, low: Value | None, high: Value | None) -> str:
    """A span by its ends, each in the shorter of the two ways in which it can be written."""
    if low is None and high is None:
        return "IS NOT NULL"
    ends = []
    if low is not None:
        ends.append(_shorter(column, ">=", low, ">"))
    if high is not None:
        ends.append(_shorter(column, "<", high, "<="))
    return " AND ".join(ends)


def _shorter(column: Column, at: str, code: Value, beside: str) -> str:
    one = f"{at} {_literal(column, code)}"
    if isinstance(code, str):
        if not code.endswith("\0"):
            return one
        return f"{beside} {_literal(column, code[:-1])}"
    limits = order.limits(column.type)
    if limits is not None and code - 1 < limits[0]:
        return one
    other = f"{beside} {_literal(column, code - 1)}"
    return other if len(other) < len(one) - 1 else one


def _literal(column: Column, code: Value) -> str:
    return order.literal(code, column.type)
