"""A text of SQL with its places: offsets are code points, and a place is shown as a terminal displays its line."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from slackwater.errors import AnalysisError, Place

BYTE_ORDER_MARK = "\ufeff"
TAB = 4
WIDEST = 160


@dataclass(frozen=True)
class Span:
    """Letters ``start`` to ``end`` of a text, the latter exclusive."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """From the start of this one to the end of another."""
        return Span(self.start, max(self.end, other.end))


class SqlText:
    """A text, and what it is called in errors."""

    def __init__(self, raw: str, name: str = "query.sql"):
        # A mark that an editor put in front is no part of a name.
        self.raw = raw.removeprefix(BYTE_ORDER_MARK)
        self.name = name

    def place(self, span: Span) -> Place:
        r"""Where a span is.

        >>> place = SqlText("SELECT x\n\tFROM 表 t").place(Span(16, 17))
        >>> place.line, place.column, place.shown, place.caret
        (2, 8, '    FROM 表 t', '            ^')
        """
        start = min(span.start, len(self.raw))
        before = self.raw[:start].replace("\r\n", "\n\n").replace("\r", "\n")
        # A CRLF is one end of a line; the pair keeps its two letters.
        first = max(before.rfind("\n") + 1, 0)
        line = _lines(self.raw[:start])
        rest = self.raw[first:]
        end = min((i for i in (rest.find("\n"), rest.find("\r")) if i >= 0), default=len(rest))
        whole = rest[:end]
        length = max(1, min(span.end, first + len(whole)) - start)
        shown, caret = _drawn(whole, start - first, length)
        return Place(self.name, line, start - first + 1, length, shown, caret)

    def error(
        self,
        span: Span,
        condition: str,
        message: str,
        *,
        hint: str = "",
        also: Span | None = None,
        **parameters: Any,
    ) -> AnalysisError:
        """An error that points at a span."""
        made = AnalysisError(condition, message, hint=hint, **parameters)
        return made.at(self.place(span), None if also is None else self.place(also))


def _lines(before: str) -> int:
    return 1 + before.count("\n") + before.count("\r") - before.count("\r\n")


def _drawn(line: str, at: int, length: int) -> tuple[str, str]:
    """The line without tabs, and carets under some of its letters; a long line is cut around them."""
    shown, carets = "", ""
    cut = max(0, at - WIDEST // 2)
    for i, letter in enumerate(line + " "):
        if i < cut or i >= cut + WIDEST:
            continue
        piece = " " * (TAB - len(carets) % TAB) if letter == "\t" else letter
        marked = at <= i < at + length
        shown += piece
        carets += ("^" if marked else " ") * _width(piece)
    dots = "…" if cut else ""
    return dots + shown.rstrip(), (" " * len(dots) + carets).rstrip()


def _width(piece: str) -> int:
    """How many columns of a terminal letters take."""
    total = 0
    for letter in piece:
        if unicodedata.combining(letter) or unicodedata.category(letter) in ("Cf", "Mn", "Me"):
            continue
        total += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
    return total


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of the known names that was probably meant.

    >>> nearest("FORM", ["FROM", "WHERE"]), nearest("lenn", ["Len", "ts"]), nearest("x", ["len"])
    ('FROM', 'Len', None)
    """
    names = list(known)
    lower = [n.lower() for n in names]
    close = difflib.get_close_matches(name.lower(), lower, 1, cutoff)
    return names[lower.index(close[0])] if close else None


def meant(name: str, known: Iterable[str], kind: str = "there are") -> str:
    """The way out for a name that is not known: the nearest one, or all of them."""
    names = list(known)
    close = nearest(name, names)
    if close is not None:
        return f"did you mean {close}?"
    if not names:
        return ""
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"{kind}: {shown}"
