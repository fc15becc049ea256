"""A progress policy on one time column, its durations resolved into ticks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from slackwater.errors import AnalysisError
from slackwater.model.node import Source
from slackwater.model.policy import (
    DEFAULT_FUTURE_GUARD,
    BoundedDelay,
    BoundedLatency,
    BoundedRows,
    MaxDelay,
    Ordered,
    Policy,
    Punctuated,
    Quality,
)
from slackwater.model.time import TimeColumn, parse_duration, parse_span
from slackwater.semantics.bounds import shift
from slackwater.semantics.local_time import greatest_until, least_from
from slackwater.semantics.quality.target import Target

Kind = Literal["ordered", "delay", "rows", "max_delay", "latency", "punctuated", "quality"]

GRANULARITY = 10_000
"""Microseconds in which slack is chosen unless the policy says otherwise; one tick of integer columns."""


@dataclass(frozen=True)
class BoundRule:
    """How one time column's bound is found.

    ``delay``, ``guard`` and ``lag`` are in the column's ticks, ``idle`` in microseconds of wall time.
    ``unit`` is how many microseconds a tick is (None: the column cannot be compared with a clock). ``zone`` is the
    zone whose local times the column holds (None: they are instants).
    ``step``, if not 0, is what bounds are multiples of. ``patterns`` says that the punctuation column holds
    patterns instead of bounds. ``target`` is a quality target, ``strict`` that lateness is judged row by row.
    """

    column: str
    kind: Kind
    unit: int | None = 1
    delay: int = 0
    rows: int = 0
    punctuation: str = ""
    data: bool = False
    idle: int | None = None
    guard: int | None = None
    future: Literal["keep", "side"] = "keep"
    lag: int | None = None
    step: int = 0
    patterns: bool = False
    target: Target | None = None
    strict: bool = False
    zone: str | None = None

    def bound_at(self, now: int, behind: int) -> int | None:
        """The least time that can be ``behind`` ticks behind the clock, or less, at the reading ``now`` or later."""
        if self.unit is None:
            return None
        if self.zone is None:
            return shift(now // self.unit, -behind)
        return shift(least_from(now - behind, self.zone), 0)

    def limit_at(self, now: int, ahead: int) -> int | None:
        """The greatest time that can be ``ahead`` ticks ahead of the clock, or less, at the reading ``now`` or before."""
        if self.unit is None:
            return None
        if self.zone is None:
            return now // self.unit + ahead
        return greatest_until(now + ahead, self.zone)


def resolve(policy: Policy, time: TimeColumn, replay: bool, zone: str = "UTC") -> BoundRule:
    """The settings of a policy on a column; durations that do not fit the column are errors.

    The future guard is five minutes unless the policy says otherwise. It is off for replays and for
    integer columns without a unit, unless asked for.
    """
    kind: Kind
    delay = rows = 0
    punctuation, data = "", False
    target, strict = None, False
    if isinstance(policy, Ordered):
        kind = "ordered"
    elif isinstance(policy, BoundedDelay):
        kind = "delay"
        delay = parse_span(policy.delay, time, what="delay of BoundedDelay", positive=False)
    elif isinstance(policy, BoundedLatency):
        kind = "latency"
        _need_unit(time, "BoundedLatency")
        delay = parse_span(policy.delay, time, what="delay of BoundedLatency", positive=False)
    elif isinstance(policy, BoundedRows):
        kind, rows = "rows", _row_count(policy.rows)
    elif isinstance(policy, MaxDelay):
        kind = "max_delay"
    elif isinstance(policy, Punctuated):
        kind, punctuation, data = "punctuated", policy.column, policy.data
    elif isinstance(policy, Quality):
        kind, target, strict = "quality", quality_target(policy, time), policy.strict
    else:
        raise AnalysisError(
            "BAD_POLICY",
            f"{policy!r} is not a progress policy that sources understand",
            hint="use Ordered, BoundedDelay, BoundedRows, BoundedLatency, MaxDelay, Punctuated or Quality",
            policy=type(policy).__name__,
        )
    idle = None
    if policy.idle is not None:
        _need_unit(time, "idleAfter")
        idle = parse_duration(policy.idle, what="idleAfter")
    lag = None if policy.lag is None else parse_span(policy.lag, time, what="lagLimit")
    return BoundRule(
        time.name,
        kind,
        time.unit,
        delay,
        rows,
        punctuation,
        data,
        idle,
        _guard(policy, time, replay),
        policy.future,
        lag,
        0 if policy.step is None else parse_span(policy.step, time, what="inSteps"),
        target=target,
        strict=strict,
        zone=zone if time.is_local else None,
    )


def quality_target(policy: Quality, time: TimeColumn) -> Target:
    """A quality policy in the ticks of a column."""

    def span(value: object, what: str) -> int | None:
        return None if value is None else parse_span(value, time, what=f"{what} of Quality")

    granularity = span(policy.granularity, "granularity")
    if granularity is None:
        granularity = 1 if time.unit is None else max(1, GRANULARITY // time.unit)
    return Target(
        error=policy.error,
        confidence=policy.confidence,
        coverage=policy.coverage,
        method=policy.method,
        per=policy.per,
        granularity=granularity,
        warmup=span(policy.warmup, "warmup"),
        limit=span(policy.limit, "limit"),
        recall=policy.recall,
        over=span(policy.over, "over"),
    )


def resolve_source(source: Source) -> tuple[BoundRule, ...]:
    """The settings of a source, one per progressing column."""
    if len(source.policies) != len(source.times):
        raise AnalysisError(
            "BAD_POLICY",
            f"stream '{source.given_name}' has {len(source.times)} time columns and "
            f"{len(source.policies)} progress policies",
            hint='give one policy per time column: progress={"start": ..., "end": ...}',
            stream=source.given_name,
        )
    for time, policy in zip(source.times, source.policies, strict=True):
        if isinstance(policy, BoundedRows) and not source.order:
            raise AnalysisError(
                "ORDER_NEEDED",
                f"BoundedRows on '{time.name}' of stream '{source.given_name}' needs the order of arrival",
                hint='say which column gives it: order="offset"',
                stream=source.given_name,
            )
    resolved = []
    for time, policy in zip(source.times, source.policies, strict=True):
        if isinstance(policy, Quality):
            _check_quality(source, policy)
        settings = resolve(policy, time, source.replay, source.zone)
        column = source.field(settings.punctuation) if settings.punctuation else None
        patterns = column is not None and column.type.startswith("map<")
        resolved.append(replace(settings, patterns=patterns))
    return tuple(resolved)


def _check_quality(source: Source, policy: Quality) -> None:
    if policy.strict and not source.order:
        raise AnalysisError(
            "ORDER_NEEDED",
            f"Quality(strict=True) on stream '{source.given_name}' needs the order of arrival",
            hint='say which column gives it: order="offset"',
            stream=source.given_name,
        )
    if policy.strict and (source.partition is not None or policy.per == "group"):
        what = "a partition column" if source.partition is not None else 'per="group"'
        raise AnalysisError(
            "BAD_QUALITY",
            f"Quality(strict=True) on stream '{source.given_name}' does not go with {what}",
            hint="leave strict out: lateness is then judged batch by batch",
            stream=source.given_name,
        )
    if source.late != "admit":
        raise AnalysisError(
            "BAD_OPTION",
            f"late=\"{source.late}\" on stream '{source.given_name}' does not go with a quality target: "
            "late rows always enter the windows that are open",
            hint='leave late= out; the late rows are in the stream\'s ".late"',
            stream=source.given_name,
        )


def guard_limit(settings: BoundRule, now: int | None) -> int | None:
    """The largest time that may advance a bound, at the clock reading ``now``; None = any."""
    if settings.guard is None or now is None:
        return None
    return settings.limit_at(now, settings.guard)


def _guard(policy: Policy, time: TimeColumn, replay: bool) -> int | None:
    if policy.guard is None:
        return None
    if policy.guard == "default":
        if replay or time.unit is None:
            return None
        return parse_duration(DEFAULT_FUTURE_GUARD) // time.unit
    _need_unit(time, "futureGuard")
    return parse_span(policy.guard, time, what="futureGuard", positive=False)


def _row_count(rows: object) -> int:
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
        raise AnalysisError(
            "BAD_POLICY",
            f"BoundedRows({rows!r}): not a number of rows",
            hint="give how many rows may overtake a row, zero or more",
            value=rows,
        )
    return rows


def _need_unit(time: TimeColumn, what: str) -> None:
    if time.unit is None:
        raise AnalysisError(
            "TIME_UNIT_NEEDED",
            f"{what} compares integer column '{time.name}' with the clock, but its unit is not known",
            hint='say it where the stream is made: timeUnit="second"',
            column=time.name,
        )
