"""Variables are values, never syntax: they go into tokens that have been cut already, and nothing reads them again."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.surface.sql.text import Span, SqlText, meant
from slackwater.surface.sql.tokens import Token

_PIECES = re.compile(r"\$\$\{|\$\{([^{}\s]*)\}")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[01][0-7]{2}|.)|''|\"\"", re.DOTALL)
_LETTERS = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
_ENVIRONMENT = "env:"
_SURROGATES = re.compile("[\ud800-\udfff]+")
_NUMBER = re.compile(r"-?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


class Variables:
    """Values by name. Those of the environment stand in options alone, and are kept out of errors."""

    def __init__(self, text: SqlText, given: Mapping[str, Any] | None = None):
        self.text = text
        self._given = {name: _written(value) for name, value in (given or {}).items()}
        self._numbers = {n for n, v in (given or {}).items() if _is_number(v)}
        self._secrets: dict[str, str] = {}

    # --- values -----------------------------------------------------------------------------------

    def value(self, token: Token, *, environment: bool = False) -> str:
        """The text that a literal, a number, a name or a variable stands for."""
        if token.kind == "variable":
            return self._get(token.text[2:-1], token.span, environment)
        if token.kind == "text":
            return "".join(self._text_pieces(token, environment))
        if token.kind == "name":
            return "".join(self._name_pieces(token))
        return token.text

    def spark(self, token: Token) -> str:
        """The token as Spark must read it: a value becomes one literal or one name."""
        if token.kind == "variable":
            name = token.text[2:-1]
            value = self._get(name, token.span, False)
            if name in self._numbers or _NUMBER.fullmatch(value):
                # In brackets, so that a sign in front of it stays what it is.
                return f"({value})" if value.startswith("-") else value
            return literal(value)
        if token.kind == "text" and "${" in token.text:
            return self.texts([token])
        if token.kind == "name" and "${" in token.text:
            name = self.value(token)
            if "${" in name:
                raise self.text.error(
                    token.span, "BAD_VARIABLE", "a name cannot hold '${': Spark would replace it",
                    hint="give the column another name",
                )  # fmt: skip
            return "`" + name.replace("`", "``") + "`"
        return token.text

    def texts(self, tokens: Sequence[Token]) -> str:
        """Literals that stand side by side, and are one, as Spark must read them."""
        if tokens[0].is_binary and not tokens[0].holds_variable:
            return tokens[0].text
        value = "".join(self.value(t) for t in tokens)
        plain = "${" not in value and not any(t.holds_variable for t in tokens)
        return " ".join(t.text for t in tokens) if plain else literal(value)

    def hidden(self, shown: str) -> str:
        """A text for people without the values of the environment."""
        for value, name in self._secrets.items():
            if value:
                shown = shown.replace(value, f"${{{name}}}")
        return shown

    # --- inside -----------------------------------------------------------------------------------

    def _text_pieces(self, token: Token, environment: bool) -> list[str]:
        if token.is_binary:
            raise self.text.error(
                token.span, "BAD_VALUE", "a text was expected, and this is a binary literal", hint="leave the X out",
            )  # fmt: skip
        raw = token.text[0] in "rR"
        body = token.text[2:-1] if raw else token.text[1:-1]
        decode = (lambda s: s) if raw else (lambda s: _decoded(s, token.text[0]))
        return self._pieces(token, body, decode, environment)

    def _name_pieces(self, token: Token) -> list[str]:
        return self._pieces(token, token.text[1:-1], lambda s: s.replace("``", "`"), False)

    def _pieces(self, token: Token, body: str, decode: Any, environment: bool) -> list[str]:
        pieces, at = [], 0
        offset = token.start + token.text.index(body) if body else token.start
        for match in _PIECES.finditer(body):
            pieces.append(decode(body[at : match.start()]))
            span = Span(offset + match.start(), offset + match.end())
            plain = match[1] is None
            pieces.append("${" if plain else self._get(match[1], span, environment))
            at = match.end()
        return [*pieces, decode(body[at:])]

    def _get(self, name: str, span: Span, environment: bool) -> str:
        if name.startswith(_ENVIRONMENT):
            return self._environment(name, span, environment)
        if name not in self._given:
            raise self.text.error(
                span, "NO_VARIABLE", f"the variable ${{{name}}} has no value",
                hint=f"give it with --set {name}=..., in Python with variables={{{name!r}: ...}}"
                + (f"; {near}" if (near := meant(name, self._given, "those with a value are")) else ""),
                name=name,
            )  # fmt: skip
        return self._given[name]

    def _environment(self, name: str, span: Span, allowed: bool) -> str:
        if not allowed:
            raise self.text.error(
                span, "BAD_VARIABLE", f"${{{name}}} stands outside of OPTIONS and SET",
                hint="secrets go into options alone; give other values with --set",
            )  # fmt: skip
        value = os.environ.get(name.removeprefix(_ENVIRONMENT))
        if value is None:
            raise self.text.error(
                span, "NO_VARIABLE", f"the environment has no {name.removeprefix(_ENVIRONMENT)}",
                hint=f"export {name.removeprefix(_ENVIRONMENT)}=...",
            )  # fmt: skip
        self._secrets[value] = name
        return value


def literal(value: str) -> str:
    r"""A literal of Spark's that means the value, whatever is in it.

    Spark's parser replaces ``${...}`` in every text that it gets, so the two letters never stand together.

    >>> literal("it's"), literal("${env:HOME}")
    ("'it\\'s'", "concat('$', '{env:HOME}')")
    """
    parts = [_quoted(p) for p in _between(value)]
    return parts[0] if len(parts) == 1 else f"concat({', '.join(parts)})"


def _between(value: str) -> list[str]:
    """The value cut between each ``$`` and ``{``."""
    pieces = value.split("${")
    cut = [p + "$" for p in pieces[:-1]] + [pieces[-1]]
    return [cut[0]] + ["{" + p for p in cut[1:]]


def _quoted(piece: str) -> str:
    escaped = piece.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\u0000")
    return f"'{escaped}'"


def _decoded(body: str, quote: str) -> str:
    def letter(match: re.Match[str]) -> str:
        if match[1] is None:
            return quote if match[0][0] == quote else match[0]
        code = match[1]
        if code[0] in "uU" and len(code) > 1:
            return chr(int(code[1:], 16))
        if len(code) == 3 and code.isdigit():
            return chr(int(code, 8))
        return _LETTERS.get(code, code)

    return _SURROGATES.sub(_joined, _ESCAPE.sub(letter, body))


def _joined(match: re.Match[str]) -> str:
    """Halves of a letter that were escaped one by one; a half alone becomes ``?``, as in Java."""
    whole = match[0].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\ufffd", "?")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)) or hasattr(value, "__fspath__"):
        return str(value)
    raise AnalysisError(
        "BAD_VARIABLE",
        f"a variable cannot be a {type(value).__name__}",
        hint="give a text, a number or a path",
    )
