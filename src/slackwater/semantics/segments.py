"""Which segments of a relation may stay in memory: those that many rows ask for, by their size.

A segment is a part of a relation that is read as one. Each has a frequency: how many rows asked for it, where those of
earlier epochs count less and less. An epoch is a span of time, or a number of rows.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

DECAY = 0.3
"""What a frequency is multiplied by at the end of an epoch."""

RELUCTANCE = 0.25
"""By how much more often, for its size, rows must ask for a segment than for the one whose place it takes."""

FORGOTTEN = 1e-3
"""A frequency below this is none."""


@dataclass(frozen=True)
class Epoch:
    """How long rows count as new: ``length`` rows, or ticks of the query's clock if it is ``by_time``."""

    length: int = 100_000
    by_time: bool = False


@dataclass
class Frequencies:
    """How often rows ask for each segment, by its name.

    Each row adds one, and at the end of an epoch every frequency is multiplied by `DECAY`.
    """

    epoch: Epoch = field(default_factory=Epoch)
    values: dict[str, float] = field(default_factory=dict)
    _since: int | None = None
    _rows: int = 0

    def count(self, asked: Mapping[str, int], rows: int, now: int | None) -> None:
        """Take in a batch of ``rows`` rows: how many of them asked for each segment. ``now`` is the batch's time."""
        if self.epoch.by_time and now is not None:
            # Epochs that are over ended before the batch came.
            if self._since is None:
                self._since = now
            over = max(0, now - self._since) // self.epoch.length
            self._since += over * self.epoch.length
            self._end(over)
        for name, count in asked.items():
            self.values[name] = self.values.get(name, 0.0) + count
        if not self.epoch.by_time:
            # A batch fills its epoch, and those behind it.
            over, self._rows = divmod(self._rows + rows, self.epoch.length)
            self._end(over)

    def keep(self, names: Set[str]) -> None:
        """Forget all segments but these."""
        self.values = {n: v for n, v in self.values.items() if n in names}

    def _end(self, epochs: int) -> None:
        if epochs:
            factor = DECAY**epochs
            aged = {n: v * factor for n, v in self.values.items()}
            self.values = {n: v for n, v in aged.items() if v >= FORGOTTEN}


def may_stay(
    frequencies: Mapping[str, float],
    sizes: Mapping[str, int],
    resident: Set[str],
    candidates: Set[str],
    memory: int,
) -> frozenset[str]:
    """The segments that may be in memory from now on: ``resident`` may so far, ``candidates`` were read.

    A candidate takes free room first. Where there is none it takes the place of the resident whose frequency is least for
    its size, if its own is greater by the share `RELUCTANCE`, each for its size (6.1), and if it fits there (6.2). Candidates
    with the greatest frequency for their size come first.
    """

    def share(name: str) -> tuple[float, str]:
        return frequencies.get(name, 0.0) / max(1, sizes[name]), name

    stays = _within(sorted(resident, key=share), sizes, memory)
    free = memory - sum(sizes[n] for n in stays)
    for one in sorted(set(candidates).difference(stays), key=share, reverse=True):
        if sizes[one] <= free:
            free -= sizes[one]
            insort(stays, one, key=share)
            continue
        for place, victim in enumerate(stays):
            if share(one)[0] < (1 + RELUCTANCE) * share(victim)[0]:
                break  # and less than those behind it, which are asked for more
            if free + sizes[victim] >= sizes[one]:
                free += sizes[victim] - sizes[one]
                del stays[place]
                insort(stays, one, key=share)
                break
    return frozenset(stays)


def _within(coldest_first: list[str], sizes: Mapping[str, int], memory: int) -> list[str]:
    """Those that fit: after a restart with less memory the coldest go."""
    total = sum(sizes[n] for n in coldest_first)
    gone = 0
    while total > memory:
        total -= sizes[coldest_first[gone]]
        gone += 1
    return coldest_first[gone:]
