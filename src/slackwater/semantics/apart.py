"""Which partition has a clock of its own: the one that is far from the middle of the others.

The partition that holds a bound back is the least one, but it is to blame only if the others agree with each other. Where one
clock is ahead, all others are behind it, and the bound is behind its newest time through no fault of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Apart:
    """A partition and how far its newest time is ``ahead`` of the others, in ticks; below zero: behind them."""

    partition: str
    ahead: int


def apart(newest: Mapping[str, int], bound: int) -> Apart | None:
    """The partition that is to blame for most of how far ``bound`` is behind the newest time, or None.

    ``newest`` is the newest time of each partition. The middle of the others is every time that at least half of them have not
    passed, and at least half have reached. Of two partitions nobody can tell which is wrong: the one that is named is ahead, since
    the other one holds the bound back and is named for that.
    """
    if len(newest) < 2:
        return None
    times = sorted(newest.values())
    made = [Apart(name, _beyond(time, times)) for name, time in sorted(newest.items())]
    furthest = max(made, key=lambda a: (abs(a.ahead), a.ahead))
    return furthest if 0 < times[-1] - bound < 2 * abs(furthest.ahead) else None


def _beyond(time: int, times: Sequence[int]) -> int:
    """How far a time is from the middle of the other ``times``, which are sorted."""
    at, others = times.index(time), len(times) - 1
    low, high = ((k if k < at else k + 1) for k in ((others - 1) // 2, others // 2))
    if time > times[high]:
        return time - times[high]
    return min(0, time - times[low])
