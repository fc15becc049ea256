"""Progress policies: how a source turns what it saw into a bound."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from slackwater.errors import AnalysisError

P = TypeVar("P", bound="Policy")

DEFAULT_FUTURE_GUARD = "5 minutes"


@dataclass(frozen=True)
class Policy:
    """What all policies share. Durations stay as the user wrote them until a column gives a unit.

    ``idle`` is the wall time without a row after which a partition counts as idle; ``guard`` is how
    far ahead of the clock a time may lie and still advance a bound (``"default"``: 5 minutes, off for
    replays; None: off); ``lag`` excludes a partition that is further behind than that; ``step`` is
    by how much a bound moves at least.
    """

    idle: Any = field(default=None, kw_only=True)
    guard: Any = field(default="default", kw_only=True)
    future: Literal["keep", "side"] = field(default="keep", kw_only=True)
    lag: Any = field(default=None, kw_only=True)
    step: Any = field(default=None, kw_only=True)

    def idleAfter(self: P, duration: Any) -> P:
        """A partition is idle after ``duration`` of wall time without a row."""
        return replace(self, idle=duration)

    def futureGuard(self: P, duration: Any, *, future: Literal["keep", "side"] = "keep") -> P:
        """Times further ahead of the clock than ``duration`` never advance a bound.

        ``future="side"`` sends such rows to ``s.late`` instead of keeping them as data; a
        ``duration`` of None switches the guard off.
        """
        if future not in ("keep", "side"):
            raise AnalysisError(
                "BAD_OPTION",
                f"future={future!r} is not known",
                hint='use future="keep" or future="side"',
                value=future,
            )
        return replace(self, guard=duration, future=future)

    def lagLimit(self: P, duration: Any) -> P:
        """A partition further behind the others than ``duration`` is left out until it catches up."""
        return replace(self, lag=duration)

    def inSteps(self: P, duration: Any) -> P:
        """The bound moves only in whole steps: to the greatest multiple of ``duration`` that it has passed."""
        return replace(self, step=duration)


@dataclass(frozen=True)
class Ordered(Policy):
    """Rows arrive in order of time: the bound is the newest time (ties may still come)."""


@dataclass(frozen=True)
class BoundedDelay(Policy):
    """No row comes more than ``delay`` behind the newest one."""

    delay: Any = None


@dataclass(frozen=True)
class BoundedRows(Policy):
    """No row is overtaken by more than ``rows`` rows; needs ``order``."""

    rows: int = 0


@dataclass(frozen=True)
class MaxDelay(Policy):
    """The bound stays behind the newest time by the largest delay seen so far."""


@dataclass(frozen=True)
class BoundedLatency(Policy):
    """Every row is there ``delay`` after its time, by the clock: the bound is the clock less ``delay``.

    It moves without rows too; not while input waits to be read.
    """

    delay: Any = None


@dataclass(frozen=True)
class Punctuated(Policy):
    """A row with a value in ``column`` says: no later row has a time below it.

    Such a row is punctuation only, unless ``data`` is true. A column of type ``map<string, struct<op, value>>``
    holds patterns instead: tests by column, and no later row passes all of them.
    """

    column: str = ""
    data: bool = False
