"""A place among the tokens of a text, and errors of what was expected there."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.errors import AnalysisError
from slackwater.surface.sql.text import Span, SqlText, nearest
from slackwater.surface.sql.tokens import Token
from slackwater.surface.sql.tree import Cut, Word
from slackwater.surface.sql.variables import Variables

RESERVED = frozenset(
    [
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "UNION",
        "JOIN",
        "ON",
        "USING",
        "WITH",
        "AS",
        "AND",
        "OR",
        "NOT",
        "BY",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
    ]
)
"""Words that name nothing unless they are quoted."""


class Cursor:
    """Reads tokens one after the other."""

    def __init__(self, text: SqlText, tokens: Sequence[Token], variables: Variables):
        self.text, self.tokens, self.variables = text, tokens, variables
        self.at = 0

    def peek(self, ahead: int = 0) -> Token:
        """A token that was not read yet."""
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def last(self) -> Token:
        """The token that was read last."""
        return self.tokens[max(self.at - 1, 0)]

    def next(self) -> Token:
        """The next token, which is read now."""
        token = self.peek()
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def is_words(self, *words: str) -> bool:
        """Whether these words come next."""
        return all(self.peek(i).is_word(w) for i, w in enumerate(words))

    def take(self, *words: str) -> Token | None:
        """Read these words if they come next; the first of them."""
        if not self.is_words(*words):
            return None
        first = self.peek()
        self.at += len(words)
        return first

    def take_sign(self, sign: str) -> Token | None:
        """Read a sign if it comes next."""
        return self.next() if self.peek().is_sign(sign) else None

    def take_any(self, *words: str) -> str:
        """Read one of these words if it comes next; which, or nothing."""
        return self.next().word if self.peek().is_word(*words) else ""

    def expect(self, *words: str) -> Token:
        """Read these words, which must come next."""
        first = self.peek()
        for word in words:
            if not self.peek().is_word(word):
                raise self.expected(word, known=[word])
            self.next()
        return first

    def expect_sign(self, sign: str, after: str = "") -> Token:
        """Read a sign, which must come next."""
        if not self.peek().is_sign(sign):
            raise self.expected(f"'{sign}'" + (f" after {after}" if after else ""))
        return self.next()

    def expect_name(self, what: str) -> Word:
        """Read a name, which must come next."""
        token = self.peek()
        if token.kind == "variable":
            raise self.text.error(
                token.span, "BAD_VARIABLE", f"{what} was expected: a variable is a value, not a name",
                hint="put it into backquotes: `${name}`",
            )  # fmt: skip
        if not token.is_name or token.is_word(*RESERVED):
            raise self.expected(what)
        self.next()
        return Word(self.variables.value(token), token.span)

    def names(self, what: str) -> tuple[Word, ...]:
        """Read names with commas between them."""
        words = [self.expect_name(what)]
        while self.take_sign(","):
            words.append(self.expect_name(what))
        return tuple(words)

    def span_from(self, first: Token | Span) -> Span:
        """From a token to the one that was read last."""
        start = first.start
        return Span(start, max(self.last().end, start))

    def cut(self, first: int, last: int | None = None) -> Cut:
        """The tokens from number ``first`` to here, or up to ``last``."""
        end = self.at if last is None else last
        return Cut(first, end, Span(self.tokens[first].start, self.tokens[end - 1].end))

    def expected(
        self, what: str, *, known: Sequence[str] = (), back: int = 2, hint: str = ""
    ) -> AnalysisError:
        """The error of another token here; a word near by that looks like a known one is what it points at."""
        token = self.peek()
        for candidate in [token, *reversed(self.tokens[max(0, self.at - back) : self.at])]:
            if candidate.kind != "word" or candidate.word in known:
                continue
            close = nearest(candidate.text, known, 0.66)
            if close is not None:
                return self.text.error(
                    candidate.span, "SYNTAX", f"{what} was expected, not {candidate.text}",
                    hint=f"did you mean {close}?", word=candidate.text,
                )  # fmt: skip
        return self.text.error(
            self.here(), "SYNTAX", f"{what} was expected, not {shown(token)}", hint=hint
        )

    def here(self) -> Span:
        """The next token, or the letter behind the last one if the text ends."""
        token = self.peek()
        if token.kind == "end" and self.at > 0:
            end = self.last().end
            return Span(end, end + 1)
        return token.span


def shown(token: Token) -> str:
    """A token in a message."""
    if token.kind == "end":
        return "the end of the text"
    return token.text if len(token.text) <= 40 else token.text[:37] + "..."
