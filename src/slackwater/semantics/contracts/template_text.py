"""Templates and schemes as users write them: ``[[ts:+, sensor:#]]``. An error shows the text, with a caret at the fault."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NoReturn, cast

from slackwater.errors import AnalysisError
from slackwater.semantics.contracts.templates import CLASSES, Class, Template
from slackwater.semantics.pattern_text import PATTERN_TYPES

_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\W\d]\w*))")
_MEANING = "+ is for all values up to one, # for single values, - for anything"


def parse_template(
    text: str, types: Mapping[str, str] | None = None, *, feedback: bool = False
) -> Template:
    """The template of a text; with ``types``, those of the stream's columns, by their names and types.

    >>> print(parse_template("[[ts:+, v:-, sensor:#]]"))
    [[sensor:#, ts:+]]
    """
    if not isinstance(text, str):
        raise _error(f"a template is a text, not {text!r}", 'write it as in "[[ts:+, sensor:#]]"')
    return _Reader(text, types, feedback).template()


def parse_scheme(texts: Sequence[str], types: Mapping[str, str]) -> tuple[Template, ...]:
    """The templates of a scheme; there is at least one, and each says something."""
    if isinstance(texts, str):
        texts = (texts,)
    templates = dict.fromkeys(parse_template(t, types) for t in texts)
    if not templates:
        raise _error(
            "a scheme without templates promises nothing",
            "leave scheme= out, or say what the stream punctuates: scheme=["
            f'"[[{next(iter(types), "ts")}:+]]"]',
        )
    return tuple(templates)


class _Reader:
    """Reads one template from left to right."""

    def __init__(self, text: str, types: Mapping[str, str] | None, feedback: bool):
        self.text, self.at = text, 0
        self.types = types
        self.classes = CLASSES if feedback else CLASSES[:3]

    def template(self) -> Template:
        self.take("[[", "a template begins with [[")
        tags: dict[str, str] = {}
        while True:
            self.space()
            start = self.at
            name = self.column()
            if name in tags:
                self.fail(f"column '{name}' is there twice", "give each column one class", start)
            self.space()
            self.take(":", "a column and its class are written column:class")
            self.space()
            tags[name] = self.kind(name)
            self.space()
            if not self.text.startswith(",", self.at):
                break
            self.at += 1
        self.take("]]", "a template ends with ]]")
        self.space()
        if self.at < len(self.text):
            self.fail("nothing comes after ]]", "write each template as a text of its own")
        tagged = {c: cast("Class", k) for c, k in tags.items() if k != "-"}
        if not tagged:
            self.fail(
                "a template that restricts no column would say that the stream has ended",
                "give at least one column + or #",
                0,
            )
        return Template.of(tagged)

    def column(self) -> str:
        m = _NAME.match(self.text, self.at)
        if m is None:
            self.fail("a column's name was expected", "write column:class, e.g. ts:+")
        name = m[1].replace("``", "`") if m[1] is not None else m[2]
        if self.types is not None:
            own = next((c for c in self.types if c.lower() == name.lower()), None)
            if own is None:
                shown = ", ".join(self.types)
                self.fail(f"column '{name}' does not exist", f"use the stream's columns: {shown}")
            name = own
        self.at = m.end()
        return name

    def kind(self, column: str) -> str:
        kind = self.text[self.at : self.at + 1]
        if kind not in self.classes or not kind:
            shown = ", ".join(self.classes)
            more = " (^ is for feedback)" if kind == "^" else ""
            self.fail(f"{kind or 'nothing'!r} is no class{more}", f"use {shown}: {_MEANING}")
        type = "" if self.types is None else self.types[column]
        if self.types is not None and kind != "-" and type not in PATTERN_TYPES:
            known = ", ".join(PATTERN_TYPES)
            self.fail(
                f"column '{column}' is {type}, which punctuation cannot test",
                f"leave it out; these types can be tested: {known}",
            )
        if kind in "+^" and type == "boolean":
            self.fail(
                f"column '{column}' is boolean, which has no order to go up to", "use # for it"
            )
        self.at += 1
        return kind

    def take(self, wanted: str, rule: str) -> None:
        self.space()
        if not self.text.startswith(wanted, self.at):
            self.fail(f"{wanted} was expected: {rule}", 'write it as in "[[ts:+, sensor:#]]"')
        self.at += len(wanted)

    def space(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    def fail(self, message: str, hint: str, at: int | None = None) -> NoReturn:
        place = self.at if at is None else at
        while at is None and self.text[place : place + 1].isspace():
            place += 1
        raise _error(f"{message}\n    {self.text}\n    {' ' * place}^", hint, self.text)


def _error(message: str, hint: str, text: str = "") -> AnalysisError:
    return AnalysisError("BAD_SCHEME", f"scheme: {message}", hint=hint, template=text)
