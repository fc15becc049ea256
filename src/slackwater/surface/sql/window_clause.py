"""The window clause: ``[RANGE 10 MINUTES SLIDE 1 MINUTE WATTR ts]``, with its parts in any order."""

from __future__ import annotations

from dataclasses import replace

from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.durations import duration
from slackwater.surface.sql.extents import WINDOW_WORDS
from slackwater.surface.sql.text import Span
from slackwater.surface.sql.tree import WindowClause, Word


def window_clause(cursor: Cursor) -> WindowClause:
    """Read a window clause, from bracket to bracket."""
    first = cursor.expect_sign("[")
    made = WindowClause(first.span)
    seen: dict[str, Span] = {}
    while not cursor.take_sign("]"):
        if cursor.take_sign(","):
            continue
        token = cursor.peek()
        if not token.is_word(*WINDOW_WORDS):
            raise cursor.expected(
                "RANGE, SLIDE, WATTR, RATTR, SATTR, PATTR, ORIGIN or ]", known=WINDOW_WORDS, back=0
            )
        cursor.next()
        word = {"WA": "WATTR", "PA": "PATTR"}.get(token.word, token.word)
        if word in seen:
            raise cursor.text.error(
                token.span, "SYNTAX", f"{word} stands twice in the window", hint="take one out",
                also=seen[word],
            )  # fmt: skip
        seen[word] = token.span
        made = _part(cursor, word, made)
    made = replace(made, span=cursor.span_from(first))
    if "WATTR" in seen and ("RATTR" in seen or "SATTR" in seen):
        both = "RATTR" if "RATTR" in seen else "SATTR"
        raise cursor.text.error(
            seen["WATTR"], "SYNTAX", f"WATTR stands beside {both}: it says both at once",
            hint="write WATTR a, or RATTR a SATTR b", also=seen[both],
        )  # fmt: skip
    if made.range is None and not made.all:
        raise cursor.text.error(
            made.span,
            "SYNTAX",
            "the window has no RANGE",
            hint="write, for example, RANGE 10 MINUTES",
        )
    return made


def _part(cursor: Cursor, word: str, made: WindowClause) -> WindowClause:
    if word == "RANGE":
        if cursor.take("ALL"):
            return replace(made, all=True)
        tumbling = cursor.take("TUMBLING") is not None
        return replace(made, range=duration(cursor, "the range", rows=True), tumbling=tumbling)
    if word == "SLIDE":
        return replace(made, slide=duration(cursor, "the slide", rows=True))
    if word == "PATTR":
        names = [_attribute(cursor)]
        while cursor.peek().is_sign(",") and not cursor.peek(1).is_word(*WINDOW_WORDS):
            cursor.next()
            names.append(_attribute(cursor))
        return replace(made, partition=tuple(names))
    if word == "ORIGIN":
        at = cursor.at
        while not cursor.peek().is_sign("]", ",") and not cursor.peek().is_word(*WINDOW_WORDS):
            cursor.next()
        if cursor.at == at:
            raise cursor.expected("the origin of the windows", back=0)
        return replace(made, origin=cursor.cut(at))
    if word == "SATTR":
        return _slides_by(cursor, made)
    if _row_number(cursor):
        return replace(made, slide_by="row-num")
    return replace(made, attribute=(_attribute(cursor),))


def _slides_by(cursor: Cursor, made: WindowClause) -> WindowClause:
    if _row_number(cursor):
        return replace(made, slide_by="row-num")
    if cursor.peek().is_word("RANK") and cursor.peek(1).is_sign("("):
        cursor.at += 2
        attribute = _attribute(cursor)
        cursor.expect_sign(")")
        return replace(made, slide_by="rank", slide_attribute=attribute)
    raise cursor.expected("row-num or rank(time) after SATTR", back=0)


def _row_number(cursor: Cursor) -> bool:
    """``row-num``, which is three tokens, or ``row_num``."""
    if cursor.peek().is_word("ROW") and cursor.peek(1).is_sign("-") and cursor.peek(2).is_word("NUM"):  # fmt: skip
        cursor.at += 3
        return True
    return cursor.take("ROW_NUM") is not None


def _attribute(cursor: Cursor) -> Word:
    """A column, perhaps with the name of its table in front."""
    first = cursor.expect_name("a column")
    if not cursor.take_sign("."):
        return first
    second = cursor.expect_name("a column")
    return Word(f"{first.name}.{second.name}", first.span.to(second.span))
