"""Errors: one root, few leaves; each says what is wrong, what was expected, and the way out."""

from __future__ import annotations

from collections.abc import Mapping


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

    def __init__(self, condition: str, message: str, *, hint: str = "", **parameters: object):
        self.condition = condition
        self.message = message
        self.hint = hint
        self.parameters = {name: str(value) for name, value in parameters.items()}
        text = f"[{condition}] {message}"
        if hint:
            text += f"\n  to fix: {hint}"
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.condition, self.message, self.hint, self.parameters))

    def getCondition(self) -> str:
        """Name of the condition, as PySpark's errors have it."""
        return self.condition

    def getMessageParameters(self) -> Mapping[str, str]:
        """The values that the message speaks of, as PySpark's errors have them."""
        return self.parameters


class SetupError(SlackwaterError):
    """The machine lacks something: Java, PySpark, a usable directory."""


class AnalysisError(SlackwaterError):
    """The query is wrong; nothing has run."""


class UnsupportedNameError(AnalysisError, AttributeError):
    """A name that PySpark has and we do not; to ``hasattr`` it is not there."""


class CheckpointError(SlackwaterError):
    """The checkpoint cannot be used: another query's, in use, damaged."""


class LateRowError(SlackwaterError):
    """A row came late on a stream that was told ``late="raise"``."""


class ExecutionError(SlackwaterError):
    """A batch failed while it ran."""


def _rebuild(
    kind: type[SlackwaterError],
    condition: str,
    message: str,
    hint: str,
    parameters: dict[str, str],
) -> SlackwaterError:
    return kind(condition, message, hint=hint, **parameters)
