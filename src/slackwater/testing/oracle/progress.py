"""Bounds of a source from the whole history of its arrivals, by the definition of each policy.

Nothing here calls `slackwater.semantics.progress`: the two are compared in tests. Every step looks at
all arrivals so far again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
)
from slackwater.model.time import TimeColumn, parse_duration, parse_span
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.local import greatest_shown, least_shown


@dataclass(frozen=True)
class ArrivedRow:
    """A row, the step it came in, and whether it is only punctuation."""

    row: Mapping[str, Any]
    step: int
    punctuation: bool


@dataclass
class History:
    """All that ever came from a source, and the clock at each step."""

    source: Source
    arrivals: list[ArrivedRow] = field(default_factory=list)
    clock: list[int | None] = field(default_factory=list)
    backlog: list[bool] = field(default_factory=list)
    ended: bool = False

    def add(self, rows: Sequence[Mapping[str, Any]], now: int | None, ended: bool) -> None:
        """One more step."""
        step = len(self.clock)
        self.clock.append(now)
        self.ended = self.ended or ended
        self.arrivals += [ArrivedRow(row, step, self.is_punctuation(row)) for row in rows]

    def is_punctuation(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is punctuation and not data."""
        return any(
            isinstance(p, Punctuated) and not p.data and row.get(p.column) is not None
            for p in self.source.policies
        )

    def punctuated(
        self, row: Mapping[str, Any], time: TimeColumn, policy: Punctuated
    ) -> int | None:
        """The bound that a row gives on a column, or None."""
        value = row.get(policy.column)
        if not isinstance(value, Mapping):
            return value
        from slackwater.testing.oracle.patterns import linear

        return linear(self.source, time, value)

    def partition(self, row: Mapping[str, Any]) -> str:
        """Name of the partition that a row is from."""
        if self.source.partition is None:
            return ""
        value = row.get(self.source.partition)
        return told_apart(value)

    def limit(self, time: TimeColumn, policy: Policy, step: int) -> int | None:
        """The greatest plausible time at a step; None = any."""
        return self.limit_at(time, policy, self.clock[step])

    def limit_at(self, time: TimeColumn, policy: Policy, now: int | None) -> int | None:
        """The greatest plausible time at a reading of the clock; None = any."""
        if now is None or time.unit is None or policy.guard is None:
            return None
        if policy.guard == "default":
            if self.source.replay:
                return None
            ahead = parse_duration(DEFAULT_FUTURE_GUARD) // time.unit
        else:
            ahead = parse_span(policy.guard, time, what="guard", positive=False)
        if time.is_local:
            return greatest_shown(now + ahead, self.source.zone)
        return now // time.unit + ahead

    def plausible(self, value: int | None, time: TimeColumn, policy: Policy, step: int) -> bool:
        """Whether a time, come at that step, may advance a bound."""
        limit = self.limit(time, policy, step)
        return value is not None and (limit is None or value <= limit)


def told_apart(value: object) -> str:
    """A value of a partition column as a text that no other value has: null is not a text."""
    return "null" if value is None else f"={value}"


def bound(history: History, time: TimeColumn, policy: Policy, before: int) -> int:
    """The bound of a column after the last step; ``before`` is the bound before it."""
    if history.ended:
        return END
    now = history.clock[-1]
    if isinstance(policy, BoundedLatency):
        if now is None or time.unit is None:
            return before
        delay = parse_span(policy.delay, time, what="delay", positive=False)
        return max(before, _stepped(_reach(history, time, now, delay), time, policy) or 0)
    wait = None if policy.idle is None else parse_duration(policy.idle)
    spoke: dict[str, list[ArrivedRow]] = {}
    for a in history.arrivals:
        spoke.setdefault(history.partition(a.row), []).append(a)
    names: list[str | None] = list(spoke)
    known = history.source.partitions if history.source.partition else None
    if isinstance(known, tuple):
        names += [n for n in map(told_apart, known) if n not in spoke]
    elif isinstance(known, int):
        names += [None] * (known - len(spoke))
    if not names:
        names = [None]  # silence so far, from we do not know whom

    def idle(name: str | None) -> bool:
        if wait is None or now is None:
            return False
        steps = [a.step for a in spoke.get(name or "", [])] if name is not None else []
        seen = [c for s in steps if (c := history.clock[s]) is not None]
        first = next((c for c in history.clock if c is not None), None)
        since = max(seen, default=first)
        return since is not None and now - since >= wait

    awake = [n for n in names if not idle(n)]
    if not awake:
        if now is None or time.unit is None or wait is None:
            return before
        behind = max(
            (_own_delay(history, time, policy, rows) for rows in spoke.values()),
            default=_own_delay(history, time, policy, []),
        )
        reach = _reach(history, time, now, behind - (-wait // time.unit))
        return max(before, _stepped(reach, time, policy) or 0)
    own = {n: _own_bound(history, time, policy, spoke.get(n, [])) for n in awake if n is not None}
    if any(n is None for n in awake):
        return before
    bounds = list(own.values())
    if policy.lag is not None:
        lag = parse_span(policy.lag, time, what="lag")
        bounds = [b for b in bounds if b == START or max(bounds) - b <= lag]
    return max(before, min(bounds))


def _reach(h: History, time: TimeColumn, now: int, behind: int) -> int:
    """The least time that can still come if rows come so many ticks after their time, or sooner."""
    assert time.unit is not None
    if time.is_local:
        return least_shown(now - behind, h.source.zone)
    return now // time.unit - behind


def _own_bound(h: History, time: TimeColumn, policy: Policy, rows: list[ArrivedRow]) -> int:
    """The best bound that a partition's policy ever gave, up to now."""
    best = START
    for step in range(len(h.clock)):
        so_far = [a for a in rows if a.step <= step]
        found = _stepped(_policy_bound(h, time, policy, so_far), time, policy)
        best = best if found is None else max(best, found)
    return best


def _stepped(v: int | None, time: TimeColumn, policy: Policy) -> int | None:
    """The greatest multiple of the policy's step that is not above, found by trying."""
    if v is None or policy.step is None:
        return v
    step = parse_span(policy.step, time, what="step")
    return (
        max(k for k in range(v - step + 1, v + 1) if k % step == 0)
        if step < 10_000
        else v - v % step
    )


def _policy_bound(
    h: History, time: TimeColumn, policy: Policy, rows: list[ArrivedRow]
) -> int | None:
    """What the policy says of exactly these arrivals."""
    if isinstance(policy, BoundedLatency):
        return None
    if isinstance(policy, Punctuated):
        values = [
            v
            for a in rows
            if h.plausible(v := h.punctuated(a.row, time, policy), time, policy, a.step)
            and v is not None
        ]
        return max(values, default=None)
    times = _times(h, time, policy, rows)
    if isinstance(policy, BoundedRows):
        order = h.source.order
        ordered = sorted(times, key=lambda p: tuple(p[0].row[c] for c in order))
        times = ordered[: max(0, len(ordered) - policy.rows)]
    newest = max((t for _, t in times), default=None)
    if newest is None or isinstance(policy, BoundedRows | Ordered):
        return newest
    return newest - _own_delay(h, time, policy, rows)


def _own_delay(h: History, time: TimeColumn, policy: Policy, rows: list[ArrivedRow]) -> int:
    """How far a policy stays behind the newest time."""
    if isinstance(policy, BoundedDelay):
        return parse_span(policy.delay, time, what="delay", positive=False)
    if not isinstance(policy, MaxDelay):
        return 0
    times = _times(h, time, policy, rows)
    order = h.source.order

    def came_before(a: ArrivedRow, b: ArrivedRow) -> bool:
        if a.step != b.step:
            return a.step < b.step
        # Inside a batch only the order column tells.
        return bool(order) and tuple(a.row[c] for c in order) < tuple(b.row[c] for c in order)

    return max([0, *(t - u for a, t in times for b, u in times if came_before(a, b))])


def _times(
    h: History, time: TimeColumn, policy: Policy, rows: list[ArrivedRow]
) -> list[tuple[ArrivedRow, int]]:
    """The data rows with a plausible time."""
    return [
        (a, t)
        for a in rows
        if not a.punctuation
        and (t := a.row.get(time.name)) is not None
        and h.plausible(t, time, policy, a.step)
    ]
