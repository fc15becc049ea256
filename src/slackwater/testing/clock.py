"""A clock for tests, which move it themselves."""

from __future__ import annotations


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
