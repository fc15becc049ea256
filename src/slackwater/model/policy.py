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
    holds patterns instead: tests by column, and no later row passes all of them. ``scheme`` declares the forms of
    these patterns, such as ``["[[order:#]]", "[[shop:#, ts:+]]"]``: of each form one comes, sooner or later, for every row, and
    for every value that another stream may ask about. Patterns of another form are counted in ``lastProgress``;
    ``onViolation="raise"`` stops the query at the first one.
    """

    column: str = ""
    data: bool = False
    scheme: Any = None
    onViolation: str | None = None  # noqa: N815

    def __post_init__(self) -> None:
        """Keep the scheme as a tuple of texts, so that policies can be compared."""
        given = self.scheme
        if self.onViolation not in (None, "count", "raise") or (self.onViolation and given is None):
            raise AnalysisError(
                "BAD_SCHEME",
                f"onViolation={self.onViolation!r} of Punctuated is not possible here",
                hint='use "count" or "raise", beside a scheme: scheme=["[[order:#]]"], onViolation="raise"',
            )
        if given is None:
            return
        texts = (given,) if isinstance(given, str) else given
        if not isinstance(texts, (list, tuple)) or not all(isinstance(t, str) for t in texts):
            raise AnalysisError(
                "BAD_SCHEME",
                f"scheme={given!r} of Punctuated is no list of templates",
                hint='give texts: scheme=["[[ts:+]]", "[[sensor:#, ts:+]]"]',
            )
        object.__setattr__(self, "scheme", tuple(texts))


@dataclass(frozen=True, kw_only=True)
class Quality(Policy):
    """The bound stays behind the newest time by the least slack with which results are as good as asked for.

    One of three targets: ``error`` (with probability ``confidence`` the relative error of a window's result is at
    most this; where an aggregate has no error model its windows are complete with that probability), ``coverage``
    (share of each window's rows that are in it), or ``recall`` of joins ``over`` a stretch of time.

    Parameters
    ----------
    method
        ``"model"``: slack follows from the delays seen; ``"pd"``: a controller steers it by measured quality.
    strict
        Lateness is judged row by row in order of arrival, so that results do not depend on how arrivals were cut
        into batches; needs ``order``.
    per
        Whether the error is that of all groups together or of each group's result.
    granularity
        The step in which slack is chosen; 10 milliseconds by default.
    warmup
        Stream time before slack follows the target; until then it is the largest delay seen. One window by default.
    limit
        The most slack there may be.
    """

    error: float | None = None
    confidence: float = 0.95
    coverage: float | None = None
    recall: float | None = None
    over: Any = None
    method: Literal["model", "pd"] = "model"
    strict: bool = False
    per: Literal["total", "group"] = "total"
    granularity: Any = None
    warmup: Any = None
    limit: Any = None

    def __post_init__(self) -> None:
        """Refuse targets outside their range."""
        given = [n for n in ("error", "coverage", "recall") if getattr(self, n) is not None]
        if len(given) != 1:
            named = " and ".join(given) or "none of them"
            raise AnalysisError(
                "BAD_QUALITY",
                f"Quality needs exactly one of error=, coverage=, recall=, but has {named}",
                hint="sw.Quality(error=0.01), sw.Quality(coverage=0.99) or "
                'sw.Quality(recall=0.95, over="60 seconds")',
            )
        _in_range("error", self.error, "above 0 and below 1", lambda v: 0 < v < 1)
        _in_range("confidence", self.confidence, "above 0 and below 1", lambda v: 0 < v < 1)
        _in_range("coverage", self.coverage, "above 0 and at most 1", lambda v: 0 < v <= 1)
        _in_range("recall", self.recall, "above 0 and at most 1", lambda v: 0 < v <= 1)
        _one_of("method", self.method, ("model", "pd"))
        _one_of("per", self.per, ("total", "group"))
        if (self.recall is None) != (self.over is None):
            raise AnalysisError(
                "BAD_QUALITY",
                "recall= and over= go together: recall is measured over a stretch of time",
                hint='sw.Quality(recall=0.95, over="60 seconds")',
            )


def _in_range(name: str, value: Any, range: str, holds: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not holds(value):
        raise AnalysisError(
            "BAD_QUALITY",
            f"{name}={value!r} of Quality is out of its range: {range}",
            hint=_share(name, value),
            name=name,
            value=value,
        )


def _share(name: str, value: Any) -> str:
    """The way out for what is no share; a number above 1 is probably one of per cent."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 1 < value <= 100:
        return f"give a share: {value:g} % is {name}={value / 100:g}"
    return f"give a share, e.g. {name}={0.01 if name == 'error' else 0.95}"


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        shown = " or ".join(f'{name}="{c}"' for c in choices)
        raise AnalysisError(
            "BAD_QUALITY",
            f"{name}={value!r} of Quality is not known",
            hint=f"use {shown}",
            name=name,
            value=value,
        )
