"""Where an expression ends, and which name it gives itself: all that the grammar of clauses must know of it."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.surface.sql.cursor import RESERVED, Cursor
from slackwater.surface.sql.tokens import Token
from slackwater.surface.sql.tree import Cut, Word

WINDOW_WORDS = ("RANGE", "SLIDE", "WATTR", "WA", "RATTR", "SATTR", "PATTR", "PA", "ORIGIN")
_ALWAYS = (
    "FROM",
    "WHERE",
    "HAVING",
    "UNION",
    "INTERSECT",
    "JOIN",
    "ON",
    "USING",
    "QUALIFY",
    "SELECT",
)
_WITH_BY = ("GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE")
_BEFORE_JOIN = ("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "ASOF")
_JOIN_WORDS = ("JOIN", "OUTER", "SEMI", "ANTI", *_BEFORE_JOIN)
_OPERATORS = frozenset(
    [
        "AND",
        "OR",
        "NOT",
        "IS",
        "LIKE",
        "RLIKE",
        "ILIKE",
        "REGEXP",
        "BETWEEN",
        "IN",
        "DIV",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "DISTINCT",
        "ALL",
        "ANY",
        "SOME",
        "INTERVAL",
        "COLLATE",
        "ESCAPE",
        "FROM",
        "AS",
        "SELECT",
        "BY",
        "XOR",
        "TO",
    ]
)
_VALUES = ("NULL", "TRUE", "FALSE", "END", "UNKNOWN")
_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND", "WEEK", "MILLISECOND", "MICROSECOND", "MONTH", "YEAR", "QUARTER")  # fmt: skip


def opens_window(cursor: Cursor) -> bool:
    """Whether a window clause opens here, and no index of an array."""
    return (
        cursor.peek().is_sign("[")
        and cursor.peek(1).is_word(*WINDOW_WORDS)
        and not cursor.peek(2).is_sign("]", ".", "+", "-", "*", "/", "%")
    )


def ends_clause(cursor: Cursor, first: int) -> bool:
    """Whether the next token belongs to the clause behind; ``first`` is where the expression began."""
    token, after = cursor.peek(), cursor.peek(1)
    if token.kind == "end" or token.is_sign(",", ")", "]", "}", ";"):
        return True
    if opens_window(cursor):
        return True
    if token.kind != "word":
        return False
    if token.is_word("FROM") and cursor.last().is_word("DISTINCT"):
        return not cursor.tokens[max(cursor.at - 2, 0)].is_word("IS", "NOT")
    if token.is_word(*_ALWAYS):
        return True
    if token.is_word(*_WITH_BY):
        return after.is_word("BY")
    if token.is_word(*_BEFORE_JOIN):
        return after.is_word(*_JOIN_WORDS)
    if cursor.at == first:
        return False
    if token.is_word("WITH"):
        return after.kind == "word"
    if token.is_word("EXCEPT", "MINUS"):
        return after.is_word("SELECT", "ALL", "DISTINCT") or after.is_sign("(")
    if token.is_word("EMIT"):
        return after.is_word("ORDERED", "IMMEDIATE", "CHANGES", "ON", "FINAL")
    if token.is_word("LIMIT", "OFFSET"):
        return after.kind in ("number", "variable") or after.is_word("ALL")
    if token.is_word("LATERAL"):
        return after.is_word("VIEW")
    if token.is_word("WINDOW"):
        return after.is_name and cursor.peek(2).is_word("AS")
    return False


def expression(cursor: Cursor, what: str = "an expression") -> Cut:
    """Read up to the end of an expression."""
    first = cursor.at
    while not ends_clause(cursor, first):
        opening = cursor.next()
        if opening.is_sign("(", "[", "{"):
            skip(cursor)
    if cursor.at == first:
        raise cursor.expected(what, back=0, known=())
    return cursor.cut(first)


def skip(cursor: Cursor) -> None:
    """Read to the bracket that closes the one that was read last; pairs have been checked."""
    depth = 1
    while depth:
        token = cursor.next()
        if token.is_sign("(", "[", "{"):
            depth += 1
        elif token.is_sign(")", "]", "}"):
            depth -= 1


def beginnings(cursor: Cursor, first: int, last: int) -> list[int]:
    """The numbers of the tokens with which columns and their types begin, in a list with commas."""
    depth, begins = 0, [first]
    for i in range(first, last):
        token = cursor.tokens[i]
        depth += token.is_sign("(", "[", "{", "<") - token.is_sign(")", "]", "}", ">")
        depth -= 2 * token.is_sign(">>")
        if depth == 0 and token.is_sign(","):
            begins.append(i + 1)
    return begins


def named(cursor: Cursor, cut: Cut) -> tuple[Cut, Word | None]:
    """An expression without the name that it is given, and that name."""
    tokens = cursor.tokens
    last = tokens[cut.last - 1]
    if cut.last - cut.first < 2 or not last.is_name:
        return cut, None
    before = tokens[cut.last - 2]
    if before.is_word("AS"):
        if cut.last - cut.first < 3:
            return cut, None
        return cursor.cut(cut.first, cut.last - 2), _word(cursor, last)
    implied = _ends_operand(before) and last.word not in (*_OPERATORS, *_VALUES, *RESERVED)
    if implied and not _is_unit(tokens, cut):
        return cursor.cut(cut.first, cut.last - 1), _word(cursor, last)
    return cut, None


def _word(cursor: Cursor, token: Token) -> Word:
    return Word(cursor.variables.value(token), token.span)


def _ends_operand(token: Token) -> bool:
    if token.kind in ("name", "number", "text", "variable"):
        return True
    if token.kind == "word":
        return token.word not in _OPERATORS
    return token.is_sign(")", "]")


def _is_unit(tokens: Sequence[Token], cut: Cut) -> bool:
    """Whether the last word is the unit of an interval."""
    words = tokens[cut.first : cut.last]
    if words[-1].word.removesuffix("S") not in _UNITS:
        return False
    return any(t.is_word("INTERVAL") for t in words[-8:-1]) or words[-2].is_word("TO")
