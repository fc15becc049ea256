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


def wall_micros() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1_000


def monotonic() -> float:
    """Seconds of a clock that never goes back, for durations."""
    return time.perf_counter()


def sleep(seconds: float) -> None:
    """Wait; here so that no other module needs the time module."""
    time.sleep(seconds)
