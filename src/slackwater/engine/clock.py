"""The only place that reads the wall clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Answers what time it is, in microseconds since the epoch; None = this run has no clock."""

    def ended(self, batch: int) -> frozenset[str]:
        """Streams that are known to end with batch number ``batch``; a script's way to end a stream."""
        ...

    def now(self, batch: int) -> int | None:
        """The time at which batch number ``batch`` (counted over batches with work) begins."""
        ...


class SystemClock:
    """The machine's clock."""

    def ended(self, batch: int) -> frozenset[str]:
        return frozenset()

    def now(self, batch: int) -> int | None:
        return wall_micros()


class NoClock:
    """For replays: time does not pass, so nothing becomes idle and no guard applies."""

    def ended(self, batch: int) -> frozenset[str]:
        return frozenset()

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

    def __init__(self, micros: int | None = 0):
        self._now = micros
        self._script: dict[int, int] = {}
        self._ends: dict[int, frozenset[str]] = {}

    def advance(self, micros: int) -> None:
        """Move the clock on."""
        self._now = (self._now or 0) + micros

    def script(self, at: dict[int, int]) -> None:
        """From batch ``b`` on the clock shows at least ``at[b]``."""
        self._script = dict(at)

    def end(self, at: dict[int, frozenset[str]]) -> None:
        """Say which streams end with which batch."""
        self._ends = dict(at)

    def ended(self, batch: int) -> frozenset[str]:
        """Streams that have ended by the end of a batch."""
        return frozenset(n for b, names in self._ends.items() if b <= batch for n in names)

    def now(self, batch: int) -> int | None:
        if self._now is None:
            return None
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
