"""Texts cut into tokens. Quotes, brackets and comments are followed here, so that open ones are known by their place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from slackwater.surface.sql.text import Span, SqlText

Kind = Literal["word", "name", "text", "number", "sign", "variable", "end"]
"""``name`` is a word in backquotes, ``text`` a literal in quotes, ``variable`` a ``${...}`` outside of both."""

_VARIABLE = re.compile(r"\$\{([^{}\s]*)\}")
_NUMBER = re.compile(
    r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYFD](?![A-Za-z0-9_]))?", re.IGNORECASE
)
_WORD = re.compile(r"[^\W\d]\w*|\d+[^\W\d]\w*")
_SIGNS = (
    "<=>", "||", "<=", ">=", "<>", "!=", "==", "->", "=>", "::", "<<", ">>", "|>",
)  # fmt: skip
_PLAIN = "+-*/%=<>()[]{},.;:&|^~!?@"
_ODD_QUOTES = {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "`": "`", "´": "'", "«": '"', "»": '"'}  # fmt: skip
_PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Token:
    """A piece of the text. ``word`` is a plain word in capitals, else empty; ``text`` is what is written."""

    kind: Kind
    text: str
    start: int
    end: int
    word: str = ""

    @property
    def span(self) -> Span:
        """Where it stands."""
        return Span(self.start, self.end)

    def is_sign(self, *signs: str) -> bool:
        """Whether it is one of these signs."""
        return self.kind == "sign" and self.text in signs

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these words, in any case and without quotes."""
        return self.word in words and self.word != ""

    @property
    def is_name(self) -> bool:
        """Whether it can name something."""
        return self.kind in ("word", "name")

    @property
    def name(self) -> str:
        """The name that a word or a backquoted name stands for."""
        return self.text[1:-1].replace("``", "`") if self.kind == "name" else self.text

    @property
    def is_binary(self) -> bool:
        """Whether it is a literal of bytes, ``X'1F'``."""
        return self.kind == "text" and self.text[0] in "xX"

    @property
    def holds_variable(self) -> bool:
        """Whether a variable, or an escaped one, stands in it."""
        return self.kind == "variable" or (self.kind in ("text", "name") and "${" in self.text)


class _Reader:
    def __init__(self, text: SqlText):
        self.text, self.raw, self.at = text, text.raw, 0
        self.tokens: list[Token] = []

    def read(self) -> list[Token]:
        while self.at < len(self.raw):
            if not self._blank():
                self._next()
        self.tokens.append(Token("end", "", len(self.raw), len(self.raw)))
        return self.tokens

    def _add(self, kind: Kind, end: int) -> None:
        piece = self.raw[self.at : end]
        word = piece.upper() if kind == "word" else ""
        self.tokens.append(Token(kind, piece, self.at, end, word))
        self.at = end

    def _blank(self) -> bool:
        """Pass white space or a comment."""
        raw, at = self.raw, self.at
        if raw[at].isspace() or raw[at] in "\ufeff\u200b":
            self.at += 1
            return True
        if raw.startswith("--", at):
            while self.at < len(raw) and raw[self.at] not in "\r\n":
                # As in Spark a backslash at the end of the line goes on with the comment.
                self.at += 2 if raw.startswith("\\\n", self.at) else 1
            return True
        if raw.startswith("/*", at):
            depth, i = 0, at
            while True:
                if raw.startswith("/*", i):
                    depth, i = depth + 1, i + 2
                elif raw.startswith("*/", i):
                    depth, i = depth - 1, i + 2
                elif i >= len(raw):
                    raise self.text.error(
                        Span(at, at + 2), "OPEN_COMMENT", "this comment is not closed",
                        hint="end it with */",
                    )  # fmt: skip
                else:
                    i += 1
                if depth == 0:
                    break
            self.at = i
            return True
        return False

    def _next(self) -> None:
        raw, at = self.raw, self.at
        letter = raw[at]
        raw_text = letter in "rRxX" and raw[at + 1 : at + 2] in ("'", '"')
        if raw_text:
            self._add("text", self._closed(at + 1, raw[at + 1], escapes=False))
        elif letter in "'\"":
            self._add("text", self._closed(at, letter, escapes=True, doubled=True))
        elif letter == "`":
            self._add("name", self._closed(at, letter, escapes=False, doubled=True))
        elif letter == "$":
            self._variable()
        elif (word := _WORD.match(raw, at)) and not _NUMBER.fullmatch(word[0]):
            self._add("word", word.end())
        elif number := _NUMBER.match(raw, at):
            self._add("number", number.end())
        elif sign := next((s for s in _SIGNS if raw.startswith(s, at)), None):
            self._add("sign", at + len(sign))
        elif letter in _PLAIN:
            self._add("sign", at + 1)
        else:
            raise self._odd(letter)

    def _closed(self, quote_at: int, quote: str, *, escapes: bool, doubled: bool = False) -> int:
        """The end of what opens with a quote."""
        raw, i = self.raw, quote_at + 1
        while i < len(raw):
            if escapes and raw[i] == "\\":
                i += 2
            elif raw[i] == quote:
                if doubled and raw.startswith(quote, i + 1):
                    i += 2
                    continue
                return i + 1
            else:
                i += 1
        called = "name" if quote == "`" else "text"
        raise self.text.error(
            Span(quote_at, quote_at + 1), "OPEN_QUOTE", f"the {called} that opens here with {quote} is not closed",
            hint=f"add {quote} where it ends",
        )  # fmt: skip

    def _variable(self) -> None:
        match = _VARIABLE.match(self.raw, self.at)
        if match is None:
            opens = self.raw.startswith("${", self.at)
            raise self.text.error(
                Span(self.at, self.at + (2 if opens else 1)), "BAD_VARIABLE",
                "this variable is not closed" if opens else "'$' stands alone",
                hint="write a variable as ${name}",
            )  # fmt: skip
        self._add("variable", match.end())

    def _odd(self, letter: str) -> Exception:
        if letter in _ODD_QUOTES:
            return self.text.error(
                Span(self.at, self.at + 1), "ODD_QUOTE",
                f"{letter} is no quote in SQL: it comes from a word processor",
                hint=f"write {_ODD_QUOTES[letter]} instead",
            )  # fmt: skip
        return self.text.error(
            Span(self.at, self.at + 1), "ODD_LETTER", f"{letter!r} is no part of SQL",
            hint="take it out, or put it into quotes",
        )  # fmt: skip


def tokens_of(text: SqlText) -> list[Token]:
    """The tokens of a text, the last one its end; brackets are checked in pairs."""
    tokens = _Reader(text).read()
    check_pairs(text, tokens)
    return tokens


def check_pairs(text: SqlText, tokens: Sequence[Token]) -> None:
    """Each bracket has its partner, in the same statement."""
    opened: list[Token] = []
    for token in tokens:
        if token.is_sign("(", "[", "{"):
            opened.append(token)
        elif token.is_sign(")", "]", "}"):
            if not opened or opened[-1].text != _PAIRS[token.text]:
                if opened:
                    closing = {v: k for k, v in _PAIRS.items()}[opened[-1].text]
                    raise text.error(
                        token.span, "BRACKETS", f"'{closing}' was expected here, not '{token.text}'",
                        hint=f"the bracket '{opened[-1].text}' that it would close is marked too",
                        also=opened[-1].span,
                    )  # fmt: skip
                raise text.error(
                    token.span, "BRACKETS", f"'{token.text}' closes nothing",
                    hint=f"take it out, or add '{_PAIRS[token.text]}' in front",
                )  # fmt: skip
            opened.pop()
        elif (token.is_sign(";") or token.kind == "end") and opened:
            raise text.error(
                opened[-1].span, "BRACKETS", f"the bracket '{opened[-1].text}' is not closed",
                hint="close it before the statement ends",
                also=token.span if token.is_sign(";") else None,
            )  # fmt: skip
