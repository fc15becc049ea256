"""What patterns close for an operator with state: tests on its keys, and spans of time."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.semantics.limits import START
from slackwater.semantics.patterns import Span, Test


@dataclass(frozen=True)
class Closing:
    """Patterns that an operator's input has, as far as they close groups, or partners of rows.

    ``tests`` has one entry per pattern: the test on each key (None: wildcard), in the keys' order, and the
    spans of time within which a window, or all that a row could meet, is closed.
    """

    tests: tuple[tuple[tuple[Test | None, ...], tuple[Span, ...]], ...] = ()
    closed: int = START
    """The greatest window, or time, that the linear bound closes."""

    def __bool__(self) -> bool:
        return bool(self.tests)
