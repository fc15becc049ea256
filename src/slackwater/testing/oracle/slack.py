"""Joins behind slack buffers, row by row and by the definitions: slow, plain, and nobody's kernel.

Each stream has a buffer that holds a row back until the stream's own time has passed the row by the slack. Behind them
one buffer waits for the slowest stream. Then comes the join: a row in order looks for partners, a row that is still
late does not, but stays to be found while it can. A result's time is the greatest of its rows' times.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, TypeAlias

__all__ = ["Arrived", "Joined", "Profile", "SlackBuffer", "SlackJoin", "SyncBuffer", "WindowJoin", "true_results"]  # fmt: skip


@dataclass(frozen=True)
class Arrived:
    """A row: the ``number``-th to arrive at all, with the delay it had then."""

    stream: int
    time: int
    number: int
    value: Any = None
    delay: int = 0


Condition: TypeAlias = Callable[[Sequence[Arrived]], bool]


class SlackBuffer:
    """One stream's buffer. ``slack`` may be set at any time and counts from the next release on."""

    def __init__(self, slack: int) -> None:
        self.slack = slack
        self.now: int | None = None
        self.held: list[tuple[int, int, Arrived]] = []

    def arrive(self, row: Arrived) -> list[Arrived]:
        """Take a row in; what leaves does so in order of time, and only when the stream's time advances."""
        advanced = self.now is None or row.time > self.now
        if advanced:
            self.now = row.time
        assert self.now is not None
        heapq.heappush(self.held, (row.time, row.number, replace(row, delay=self.now - row.time)))
        out = []
        while advanced and self.held and self.held[0][0] + self.slack <= self.now:
            out.append(heapq.heappop(self.held)[2])
        return out

    def flush(self) -> list[Arrived]:
        """All that is held, at the end of the stream."""
        out = [heapq.heappop(self.held)[2] for _ in range(len(self.held))]
        return out


class SyncBuffer:
    """Holds rows of faster streams until each stream has one waiting. ``time``: that of the last row released."""

    def __init__(self, streams: int) -> None:
        self.time: int | None = None
        self.held: list[list[tuple[int, int, Arrived]]] = [[] for _ in range(streams)]
        self.count = 0

    def arrive(self, row: Arrived) -> list[Arrived]:
        """Take a row in; one that is late goes straight through."""
        self.count += 1
        if self.time is not None and row.time <= self.time:
            return [row]
        heapq.heappush(self.held[row.stream], (row.time, self.count, row))
        out: list[Arrived] = []
        while all(self.held):
            out += self._release()
        return out

    def flush(self) -> list[Arrived]:
        """All that is held, at the end of the streams."""
        out: list[Arrived] = []
        while any(self.held):
            out += self._release()
        return out

    def _release(self) -> list[Arrived]:
        self.time = min(h[0][0] for h in self.held if h)
        first = []
        for h in self.held:
            while h and h[0][0] == self.time:
                first.append(heapq.heappop(h))
        return [row for _, _, row in sorted(first, key=lambda entry: entry[1])]


@dataclass(frozen=True)
class Joined:
    """What a row did at the join: ``cross`` combinations looked at, ``results`` found; nothing if it was late."""

    row: Arrived
    in_order: bool
    cross: int
    results: tuple[tuple[Arrived, ...], ...]


class WindowJoin:
    """``windows[j]`` is how far a row of stream j may lie behind a result's time, that much included."""

    def __init__(self, windows: Sequence[int], condition: Condition) -> None:
        self.windows = windows
        self.condition = condition
        self.now: int | None = None
        self.held: list[list[Arrived]] = [[] for _ in windows]

    def receive(self, row: Arrived) -> Joined:
        """Probe and store, or only store."""
        if self.now is not None and row.time < self.now:
            if row.time >= self.now - self.windows[row.stream]:
                self.held[row.stream].append(row)
            return Joined(row, False, 0, ())
        self.now = row.time
        for j, rows in enumerate(self.held):
            if j != row.stream:
                rows[:] = [r for r in rows if r.time >= row.time - self.windows[j]]
        sides = [[row] if j == row.stream else rows for j, rows in enumerate(self.held)]
        combinations = list(product(*sides))
        self.held[row.stream].append(row)
        found = tuple(c for c in combinations if self.condition(c))
        return Joined(row, True, len(combinations), found)


@dataclass
class Profile:
    """How many combinations and results rows have yielded, by the bin of their delay on arrival.

    A late row is given the most that a row in order has yielded, in this interval or else the last one that had any.
    """

    grain: int
    cross: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    joined: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    late: list[int] = field(default_factory=list)
    most: tuple[int, int] | None = None
    before: tuple[int, int] | None = None

    def record(self, done: Joined) -> None:
        """Take note of one row at the join."""
        where = -(-done.row.delay // self.grain)
        if not done.in_order:
            self.late.append(where)
            return
        self.cross[where] += done.cross
        self.joined[where] += len(done.results)
        most = self.most or (0, 0)
        self.most = max(most[0], done.cross), max(most[1], len(done.results))

    def close(self) -> tuple[dict[int, int], dict[int, int]]:
        """The two maps of the interval that ends here; a new one begins."""
        most = self.most or self.before
        if most is not None:
            for where in self.late:
                self.cross[where] += most[0]
                self.joined[where] += most[1]
        maps = dict(self.cross), dict(self.joined)
        self.before, self.most = most, None
        self.cross, self.joined, self.late = defaultdict(int), defaultdict(int), []
        return maps


class SlackJoin:
    """The whole way of a row: its stream's buffer, the synchronising one, the join."""

    def __init__(self, windows: Sequence[int], condition: Condition, slack: int = 0) -> None:
        self.buffers = [SlackBuffer(slack) for _ in windows]
        self.sync = SyncBuffer(len(windows))
        self.join = WindowJoin(windows, condition)
        self.arrived = 0

    def set_slack(self, *slack: int) -> None:
        """One slack for all streams, or one for each."""
        for i, buffer in enumerate(self.buffers):
            buffer.slack = slack[i % len(slack)]

    def feed(self, stream: int, time: int, value: Any = None) -> list[Joined]:
        """The next row of all streams together, in order of arrival."""
        row = Arrived(stream, time, self.arrived, value)
        self.arrived += 1
        return self._on(self.buffers[stream].arrive(row))

    def flush(self) -> list[Joined]:
        """What is still held, at the end: by time."""
        rows = [row for buffer in self.buffers for row in buffer.flush()]
        rows.sort(key=lambda row: (row.time, row.number))
        done = self._on(rows)
        return done + [self.join.receive(row) for row in self.sync.flush()]

    def _on(self, rows: Iterable[Arrived]) -> list[Joined]:
        return [self.join.receive(out) for row in rows for out in self.sync.arrive(row)]


def true_results(
    rows: Sequence[Arrived], windows: Sequence[int], condition: Condition
) -> set[tuple[int, ...]]:
    """The numbers of the rows of each result that no disorder could have hidden, by brute force."""
    sides: list[list[Arrived]] = [[] for _ in windows]
    for row in rows:
        sides[row.stream].append(row)
    found = set()
    for one in product(*sides):
        time = max(row.time for row in one)
        if all(row.time >= time - w for row, w in zip(one, windows, strict=True)) and condition(
            one
        ):
            found.add(tuple(row.number for row in one))
    return found
