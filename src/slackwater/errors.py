"""Errors: one root, few leaves; each says what is wrong, what was expected, and the way out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

E = TypeVar("E", bound="SlackwaterError")


@dataclass(frozen=True)
class Place:
    """Where in a text a mistake is; ``line`` and ``column`` count from 1, ``column`` and ``length`` in code points.

    ``shown`` is the line as a terminal displays it, and ``caret`` the line below it.
    """

    file: str
    line: int
    column: int
    length: int
    shown: str
    caret: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class SlackwaterError(Exception):
    """Root of all errors raised on purpose by Slackwater.

    Parameters
    ----------
    condition
        Name of the kind of error, e.g. ``COLUMN_NOT_FOUND``; stable, for programs.
    message
        What is wrong and what was expected, for people.
    hint
        The way out.
    parameters
        The values the message speaks of, by name.

    Examples
    --------
    >>> e = AnalysisError("COLUMN_NOT_FOUND", "no column 'x'", hint="use one of: a, b", name="x")
    >>> e.getCondition(), e.getMessageParameters()
    ('COLUMN_NOT_FOUND', {'name': 'x'})
    >>> print(e)
    [COLUMN_NOT_FOUND] no column 'x'
      to fix: use one of: a, b
    """

    place: Place | None = None
    also: Place | None = None

    def __init__(self, condition: str, message: str, *, hint: str = "", **parameters: object):
        self.condition = condition
        self.message = message
        self.hint = hint
        self.parameters = {name: str(value) for name, value in parameters.items()}
        text = f"[{condition}] {message}"
        if hint:
            text += f"\n  to fix: {hint}"
        super().__init__(text)

    def at(self: E, place: Place, also: Place | None = None) -> E:
        """The same error, which says where the mistake is, and what other place has to do with it."""
        self.place, self.also = place, also
        return self

    def __str__(self) -> str:
        if self.place is None:
            return super().__str__()
        # What differs between two queries is a list of lines.
        message = self.message if isinstance(self, CheckpointError) else _one_line(self.message)
        lines = [f"{self.place}: [{self.condition}] {message}"]
        for place in (self.place, self.also):
            if place is not None:
                lines += [f"  {place.shown}", f"  {place.caret}".rstrip()]
        if self.hint:
            lines.append(f"  to fix: {_one_line(self.hint)}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        given = (type(self), self.condition, self.message, self.hint, self.parameters)
        return (_rebuild, given, {"place": self.place, "also": self.also})

    def getCondition(self) -> str:
        """Name of the condition, as PySpark's errors have it."""
        return self.condition

    def getMessageParameters(self) -> Mapping[str, str]:
        """The values that the message speaks of, as PySpark's errors have them."""
        return self.parameters


class SetupError(SlackwaterError):
    """The machine lacks something: Java, PySpark, a usable directory."""


class AnalysisError(SlackwaterError):
    """The query is wrong; nothing has run. ``place`` says where in a text, if the query is one."""

    @property
    def line(self) -> int | None:
        """The line of the mistake, from 1."""
        return None if self.place is None else self.place.line

    @property
    def column(self) -> int | None:
        """The first letter of the mistake in its line, from 1, in code points."""
        return None if self.place is None else self.place.column

    @property
    def length(self) -> int | None:
        """How many letters the mistake has in its line."""
        return None if self.place is None else self.place.length


class UnsupportedNameError(AnalysisError, AttributeError):
    """A name that PySpark has and we do not; to ``hasattr`` it is not there."""


class CheckpointError(SlackwaterError):
    """The checkpoint cannot be used: another query's, in use, damaged."""


class LateRowError(SlackwaterError):
    """A row came late on a stream that was told ``late="raise"``."""


class ExecutionError(SlackwaterError):
    """A batch failed while it ran."""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _rebuild(
    kind: type[SlackwaterError],
    condition: str,
    message: str,
    hint: str,
    parameters: dict[str, str],
) -> SlackwaterError:
    return kind(condition, message, hint=hint, **parameters)
