"""The only place that reads the wall clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Answers what time it is, in microseconds since the epoch; None = this run has no clock."""

    def now(self, batch: int) -> int | None:
        """The time at which batch number ``batch`` (counted over batches with work) begins."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self, batch: int) -> int | None:
        return wall_micros()


class NoClock:
    """For replays: time does not pass, so nothing becomes idle and no guard applies."""

    def now(self, batch: int) -> int | None:
        return None


class ManualClock:
    """A clock that stands still until told to move; can be scripted per batch.

    >>> clock = ManualClock(1_000_000)
    >>> clock.advance(500_000)
    >>> clock.now(0)
    1500000
    >>> clock.script({2: 9_000_000})
    >>> clock.now(2), clock.now(3)
    (9000000, 9000000)
    """

    def __init__(self, micros: int = 0):
        self._now = micros
        self._script: dict[int, int] = {}

    def advance(self, micros: int) -> None:
        """Move the clock on."""
        self._now += micros

    def script(self, at: dict[int, int]) -> None:
        """From batch ``b`` on the clock shows at least ``at[b]``."""
        self._script = dict(at)

    def now(self, batch: int) -> int | None:
        reached = [t for b, t in self._script.items() if b <= batch]
        return max([self._now, *reached])


def wall_micros() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1_000


def monotonic() -> float:
    """Seconds of a clock that never goes back, for durations."""
    return time.perf_counter()


def sleep(seconds: float) -> None:
    """Wait; here so that no other module needs the time module."""
    time.sleep(seconds)
