"""RPWJ: an XJoin-like join in little memory, adapted to sliding windows. Rows arrive in order of time.

Rows are hashed into partitions. New rows meet what is in memory; when memory is full whole partitions are
flushed to disk, as one run each. What was missed that way is made up by tasks: memory of one side against disk of the
other (md), disk against disk (dd). They run when the input is empty, the one with the most expected results per second
first, and all of them before rows expire. A logical clock tells when a block was in memory, and so
which pairs were made already.

The disk is a list: its traffic is counted, not done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from benchmarks.baselines.global_order import Row

FOREVER = 1 << 62
Pair = tuple[Row, Row]


@dataclass
class Block:
    """Rows with the ticks at which each came (one for all in block mode) and the block left memory."""

    rows: list[Row]
    arrived: list[int]
    left: int = FOREVER

    @property
    def newest(self) -> int:
        """Its newest time."""
        return max(r.time for r in self.rows)


@dataclass(frozen=True)
class Settings:
    """Sizes in rows; costs in seconds."""

    windows: tuple[int, int]
    partitions: int = 4
    memory: int = 64
    flush: float = 0.4
    block: int = 8
    slide: int = 20
    decay: float = 0.5
    high_mark: int = 16
    low_mark: int = 4
    spacing: int = 1
    read_rows: int = 16
    access_seconds: float = 0.01
    row_seconds: float = 0.001


@dataclass
class Part:
    """One partition of one side."""

    memory: list[Block] = field(default_factory=list)
    disk: list[Block] = field(default_factory=list)
    runs: int = 0
    passes: list[int] = field(default_factory=list)
    """Ticks of md tasks that used the memory of this part."""
    scanned: int = -1
    """The last tick of leaving memory that a dd task has seen."""
    frequency: float = 0.0
    expected: float = 0.0
    """Results that an md task of this part may find, as a number of candidates."""

    @property
    def disk_rows(self) -> int:
        """Rows on disk."""
        return sum(len(b.rows) for b in self.disk)

    @property
    def memory_rows(self) -> int:
        """Rows in memory."""
        return sum(len(b.rows) for b in self.memory)


Task = tuple[str, int, int]
"""("md", side, partition) or ("dd", 0, partition)."""


class Rpwj:
    """A row of side i pairs with a later one of the other side that is newer by at most ``windows[i]``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.parts = [[Part() for _ in range(settings.partitions)] for _ in range(2)]
        self.expected_dd = [0.0] * settings.partitions
        self.waiting: deque[tuple[int, Row]] = deque()
        self.by_block = False
        self.done: list[Task] = []
        self.flushed: list[tuple[int, int]] = []
        self.read_rows = 0
        self.written_rows = 0
        self.expired_rows = 0
        self._clock = 0
        self._now = 0
        self._next_slide: int | None = None
        self._next_idle = 0

    # ---- the three stages ----
    def arrive(self, rows: Iterable[tuple[int, Row]]) -> Iterator[Pair]:
        """Rows that come together, in order of time; then the input is empty for a moment."""
        self.waiting.extend(rows)
        while self.waiting:
            self._choose_granularity()
            yield from self._take(self.settings.block if self.by_block else 1)
            yield from self._slide()
        yield from self.idle()

    def idle(self) -> Iterator[Pair]:
        """The reactive stage: the best task, if any is of use and the last one was long enough ago."""
        if self._now < self._next_idle:
            return
        task = self.best_task()
        if task is not None:
            self._next_idle = self._now + self.settings.spacing
            yield from self._run(task)

    def finish(self) -> Iterator[Pair]:
        """All that is still owed."""
        yield from self._run_all()

    def _choose_granularity(self) -> None:
        if len(self.waiting) > self.settings.high_mark:
            self.by_block = True
        elif len(self.waiting) < self.settings.low_mark:
            self.by_block = False

    def _take(self, count: int) -> Iterator[Pair]:
        """Stage 1: new rows meet the other side's memory."""
        together: dict[tuple[int, int], list[Row]] = {}
        for _ in range(min(count, len(self.waiting))):
            side, row = self.waiting.popleft()
            self._now = max(self._now, row.time)
            together.setdefault((side, row.key % self.settings.partitions), []).append(row)
        for (side, p), rows in together.items():
            tick = self._tick()
            own, other = self.parts[side][p], self.parts[1 - side][p]
            for block in other.memory:
                for one in rows:
                    yield from self._matches(side, one, block.rows)
            self._store(own, rows, tick)
            own.frequency += len(rows)
            own.expected += len(rows) * other.disk_rows
            if self._in_memory() > self.settings.memory:
                self.flush()

    def _store(self, part: Part, rows: list[Row], tick: int) -> None:
        last = part.memory[-1] if part.memory else None
        if last is None or self.by_block or len(last.rows) + len(rows) > self.settings.block:
            part.memory.append(Block(list(rows), [tick] * len(rows)))
        else:
            last.rows += rows
            last.arrived += [tick] * len(rows)

    def _slide(self) -> Iterator[Pair]:
        """Stage 3: every ``slide`` of time all tasks, then what has expired goes."""
        if self._next_slide is None:
            self._next_slide = self._now + self.settings.slide
        if self._now < self._next_slide:
            return
        self._next_slide = self._now + self.settings.slide
        yield from self._before_expiry()
        self.expire()
        for side in self.parts:
            for part in side:
                part.frequency *= self.settings.decay

    def _before_expiry(self) -> Iterator[Pair]:
        yield from self._run_all()

    def expire(self) -> None:
        """Drop blocks of which every row is too old for any row to come."""
        for side, window in zip(self.parts, self.settings.windows, strict=True):
            for part in side:
                for blocks in (part.memory, part.disk):
                    old = [b for b in blocks if b.newest < self._now - window]
                    self.expired_rows += sum(len(b.rows) for b in old)
                    blocks[:] = [b for b in blocks if b.newest >= self._now - window]
        for p in range(self.settings.partitions):
            parts = [side[p] for side in self.parts]
            alive = [t for part in parts for b in (*part.memory, *part.disk) for t in b.arrived]
            for part in parts:
                part.passes = [t for t in part.passes if alive and t > min(alive)]

    # ---- flush ----
    def flush(self) -> None:
        """Whole partitions leave memory: those whose other side sees the fewest arrivals."""
        order = sorted(
            ((i, p) for i in (0, 1) for p in range(self.settings.partitions)),
            key=lambda at: self.parts[at[0]][at[1]].frequency,
        )
        goal, gone = self.settings.flush * self.settings.memory, 0
        for i, p in order:
            if gone >= goal:
                return
            part = self.parts[1 - i][p]
            if not part.memory:
                continue
            tick = self._tick()
            gone += part.memory_rows
            for block in part.memory:
                block.left = tick
            self.written_rows += part.memory_rows
            part.disk += part.memory
            part.memory = []
            part.runs += 1
            self.expected_dd[p] += part.expected
            part.expected = 0.0
            self.flushed.append((1 - i, p))

    # ---- tasks ----
    def cost(self, task: Task) -> float:
        """Expected seconds of a task."""
        s, (kind, side, p) = self.settings, task
        if kind == "md":
            other = self.parts[1 - side][p]
            accesses = other.runs + other.disk_rows / s.read_rows
            return accesses * s.access_seconds + s.row_seconds * other.disk_rows
        outer = self.parts[0][p]
        scans = 2 * outer.disk_rows / s.read_rows
        return self._scan_cost(outer) + scans * self._scan_cost(self.parts[1][p])

    def _scan_cost(self, part: Part) -> float:
        s = self.settings
        accesses = part.runs + 2 * part.disk_rows / s.read_rows
        return accesses * s.access_seconds + s.row_seconds * part.disk_rows

    def best_task(self) -> Task | None:
        """The task that promises the most results per second; None if none promises any."""
        found = [
            (self.parts[i][p].expected, ("md", i, p))
            for i in (0, 1)
            for p in range(self.settings.partitions)
        ]
        found += [(self.expected_dd[p], ("dd", 0, p)) for p in range(self.settings.partitions)]
        worth = [(e / self.cost(t), t) for e, t in found if e > 0 and self.cost(t) > 0]
        return max(worth)[1] if worth else None

    def _run_all(self) -> Iterator[Pair]:
        for p in range(self.settings.partitions):
            for task in (("md", 0, p), ("md", 1, p), ("dd", 0, p)):
                yield from self._run(task)

    def _run(self, task: Task) -> Iterator[Pair]:
        self.done.append(task)
        kind, side, p = task
        yield from self._md(side, p) if kind == "md" else self._dd(p)

    def _md(self, side: int, p: int) -> Iterator[Pair]:
        own, other = self.parts[side][p], self.parts[1 - side][p]
        last = own.passes[-1] if own.passes else -1
        self.read_rows += other.disk_rows
        for mine in own.memory:
            for theirs in other.disk:
                for one, came in zip(mine.rows, mine.arrived, strict=True):
                    met_in_memory = came <= theirs.left
                    met_in_pass = last > came and theirs.left < last
                    if not (met_in_memory or met_in_pass):
                        yield from self._matches(side, one, theirs.rows)
        own.passes.append(self._tick())
        own.expected = 0.0

    def _dd(self, p: int) -> Iterator[Pair]:
        left, right = self.parts[0][p], self.parts[1][p]
        self.read_rows += left.disk_rows + right.disk_rows
        for a in left.disk:
            for b in right.disk:
                if self._scanned(a, b, p):
                    continue
                for one, came in zip(a.rows, a.arrived, strict=True):
                    for two, came_b in zip(b.rows, b.arrived, strict=True):
                        if one.key == two.key and not self._met(a, came, b, came_b, p):
                            yield from self._match(0, one, two)
        for part in (left, right):
            part.scanned = max([part.scanned, *(b.left for b in part.disk)])
        self.expected_dd[p] = 0.0

    def _scanned(self, a: Block, b: Block, p: int) -> bool:
        """Whether an earlier dd task has seen both blocks."""
        return a.left <= self.parts[0][p].scanned and b.left <= self.parts[1][p].scanned

    def _met(self, a: Block, came_a: int, b: Block, came_b: int, p: int) -> bool:
        """Whether two rows on disk met in memory, or one of them in an md task."""
        if came_a <= b.left and came_b <= a.left:
            return True
        return any(came_a < t < a.left and t > b.left for t in self.parts[0][p].passes) or any(
            came_b < t < b.left and t > a.left for t in self.parts[1][p].passes
        )

    # ---- helpers ----
    def _matches(self, side: int, one: Row, rows: Iterable[Row]) -> Iterator[Pair]:
        key = one.key
        for two in rows:
            if two.key == key:
                yield from self._match(side, one, two)

    def _match(self, side: int, one: Row, two: Row) -> Iterator[Pair]:
        a, b = (one, two) if side == 0 else (two, one)
        if a.key == b.key and pairs(a, b, self.settings.windows):
            yield a, b

    def _in_memory(self) -> int:
        return sum(part.memory_rows for side in self.parts for part in side)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock


def pairs(a: Row, b: Row, windows: tuple[int, int]) -> bool:
    """Whether the times of a row of each side are near enough, ends included."""
    return b.time - a.time <= windows[0] and a.time - b.time <= windows[1]
