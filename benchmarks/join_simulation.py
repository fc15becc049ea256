"""A join on a machine of any speed: time is simulated, the join and its disk traffic are real.

Rows are stamped when they arrive and then wait until the join is free; it takes all that wait at once. How long that takes
follows from what the join counts: rows, rows scanned, results, bytes and seeks. So overload shows, as does the wait in each
delay, and the same settings always give the same figures. What happens before the end of the warm-up is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from benchmarks.baselines.global_order import Row
from benchmarks.baselines.rpwj import Part, Rpwj, Settings
from benchmarks.simulations.disk import disk_time
from slackwater.kernels.joins.bounded.blocks import Counts, RunFile
from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.kernels.joins.bounded.step import BatchBounds, BoundedJoin, bounded_step
from slackwater.kernels.joins.step import JoinSpec
from slackwater.kernels.kept import Located
from slackwater.model.join import Band
from slackwater.semantics.join_memory import JoinPolicy
from slackwater.semantics.limits import START
from slackwater.testing import Arrivals, bursty_events

MILLI = 1000
SCALE = 200
"""Rows, memory, keys and the disk's bandwidth are those of the source divided by this; its times are as they were."""


@dataclass(frozen=True)
class Workload:
    """Two streams; ``rate`` in rows per second and stream, ``memory`` in bytes for the join, both before scaling."""

    rate: float = 1200
    window: int = 600
    bias: float = 0.6
    memory: int = 20_000_000
    row_bytes: int = 64
    keys: int = 10_000_000
    length: int = 1680
    warm_up: int = 720
    trigger: int = 10
    seed: int = 5

    @property
    def scaled_memory(self) -> int:
        """Bytes for the join."""
        return self.memory // SCALE

    def streams(self) -> list[Arrivals]:
        """Both, in order of time, which is that of arrival; times in ms."""
        rows = round(self.rate * self.length / SCALE)
        keys, length = self.keys // SCALE, self.length * MILLI
        return [
            bursty_events(rows, length=length, keys=keys, bias=self.bias, seed=self.seed + side)
            for side in (0, 1)
        ]


@dataclass(frozen=True)
class Machine:
    """Seconds for an arriving row, a row that is scanned, a result, a seek; bytes per second; ``slow`` times slower.

    ``slow`` is such that the baseline is overloaded at some 1600 rows per second; in the source it is at 1400.
    """

    row: float = 0.008
    scanned: float = 0.0001
    result: float = 0.002
    seek: float = 0.01
    bandwidth: float = 250_000.0
    slow: float = 1.2

    def seconds(self, work: Work) -> tuple[float, float]:
        """Of the processor, and of the disk."""
        cpu = self.row * work.rows + self.scanned * work.scanned + self.result * len(work.newest)
        disk = disk_time(work.seeks, work.bytes, seek=self.seek, bandwidth=self.bandwidth)
        return self.slow * cpu, self.slow * disk


class Work(NamedTuple):
    """What a step took, and for each result the newer time of its two rows; ``window``: the bytes of both windows."""

    rows: int
    scanned: float
    newest: np.ndarray
    seeks: int
    bytes: int
    window: int


class Join(Protocol):
    """Rows of both sides, in order of time, to what that cost; ``now`` in ms."""

    def step(self, rows: list[Arrivals], now: int) -> Work: ...


@dataclass
class Figures:
    """What was measured after the warm-up; times in seconds.

    ``delay`` is the mean over results, from the arrival of the newer row; ``late`` the share of them that came later
    than the window is long. ``waiting``: rows in the queue, the most and the last. ``over_time`` is (time, results so far).
    """

    processed: int = 0
    results: int = 0
    delay: float = 0.0
    late: float = 0.0
    most_waiting: int = 0
    last_waiting: int = 0
    waited: float = 0.0
    cpu: float = 0.0
    disk: float = 0.0
    idle: float = 0.0
    window: int = 0
    over_time: list[tuple[float, int]] = field(default_factory=list)

    @property
    def busy(self) -> float:
        """Processor and disk."""
        return self.cpu + self.disk

    @property
    def overloaded(self) -> bool:
        """Whether there was work for more than nine tenths of the time; some goes in waiting for the trigger."""
        return self.idle < 0.1 * (self.busy + self.idle)


def simulate(join: Join, load: Workload, machine: Machine) -> Figures:
    """Run the streams through a join on a machine."""
    streams = load.streams()
    done = [0, 0]
    found = Figures()
    delays: list[np.ndarray] = []
    waits: list[np.ndarray] = []
    free, warm = 0.0, False
    while free < load.length:
        begin = max(free, (int(free) // load.trigger + 1) * load.trigger)
        if not warm and begin >= load.warm_up:
            # But for the size of the windows, which is the most they ever had.
            warm, found, delays, waits = True, Figures(window=found.window), [], []
        found.idle += begin - free
        ends = [int(np.searchsorted(s.time, begin * MILLI)) for s in streams]
        taken = [_slice(s, d, e) for s, d, e in zip(streams, done, ends)]
        stamps = np.concatenate([t.time for t in taken])
        done = ends
        work = join.step(taken, round(begin * MILLI))
        cpu, disk = machine.seconds(work)
        free = begin + cpu + disk
        found.cpu, found.disk = found.cpu + cpu, found.disk + disk
        found.processed += work.rows
        found.results += len(work.newest)
        found.window = max(found.window, work.window)
        delays.append(free - work.newest / MILLI)
        waits.append(begin - stamps / MILLI)
        left = [int(np.searchsorted(s.time, min(free, load.length) * MILLI)) for s in streams]
        found.last_waiting = sum(left) - sum(done)
        found.most_waiting = max(found.most_waiting, found.last_waiting)
        found.over_time.append((free, found.results))
    every = np.concatenate(delays)
    found.delay = float(every.mean()) if len(every) else 0.0
    found.late = float((every > load.window).mean()) if len(every) else 0.0
    found.waited = float(np.concatenate(waits).mean())
    return found


def _slice(rows: Arrivals, first: int, end: int) -> Arrivals:
    part = slice(first, end)
    columns = {c: getattr(rows, c)[part] for c in ("time", "arrival", "source", "key", "number")}
    return replace(rows, **columns)


# --- the contenders


class Ours:
    """The join in little memory, on a disk that is a list."""

    def __init__(self, load: Workload, **policy: Any) -> None:
        payload = max(1, load.row_bytes - 34)  # time, bucket, key, number and code are the rest
        self._payload = pa.binary(payload)
        self.schema = pa.schema(
            [
                ("__sw_time", pa.int64()),
                ("__sw_bucket", pa.int16()),
                ("__sw_k0", pa.int64()),
                ("id", pa.int64()),
                ("p", self._payload),
            ]
        )
        reach = load.window * MILLI
        self.spec = JoinSpec(Band(reach, reach), 1, (("id",), ("id",)))
        self.policy = JoinPolicy(load.scaled_memory, **policy)
        self.row_bytes = load.row_bytes
        self.ledger = Ledger()
        self.store = MemoryStore()
        self.bounds = (START, START)

    def step(self, rows: list[Arrivals], now: int) -> Work:
        """A batch. All rows that arrived before now are here, so now is the bound."""
        newest: list[np.ndarray] = [np.empty(0, np.int64)]

        def emit(results: pa.Table, delayed: bool) -> None:
            newest.append(results.column("__sw_time").to_numpy())

        batch = BatchBounds(self.bounds, (now, now), now=now * MILLI)
        inputs = [[self._table(r)] if len(r) else [] for r in rows]
        join = BoundedJoin(self.spec, [self.schema] * 2, self.policy)
        done = bounded_step(join, self.ledger, self.store, inputs, batch, emit)
        self.bounds = (now, now)
        self.ledger = done.ledger
        self.store.keep(done.ledger.runs())
        stats = done.stats
        return Work(
            sum(stats.arrived_rows),
            (stats.read_bytes + stats.kept_bytes) / self.row_bytes,  # kept rows are looked at, too
            np.concatenate(newest),
            stats.seeks + len(done.files),
            stats.read_bytes + stats.written_bytes,
            stats.state_bytes,
        )

    def _table(self, rows: Arrivals) -> pa.Table:
        width, n = self._payload.byte_width, len(rows)
        body = pa.FixedSizeBinaryArray.from_buffers(
            self._payload, n, [None, pa.py_buffer(bytes(n * width))]
        )
        bucket = np.zeros(n, np.int16)
        return pa.table([rows.time, bucket, rows.key, rows.number, body], schema=self.schema)


class MemoryStore:
    """Runs as lists of bytes; counts as a disk would. What is to be kept is, and costs no reading."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._runs: dict[str, list[pa.Buffer]] = {}
        self._open: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._head = ("", -1)
        self._blocks: dict[tuple[str, int], pa.Buffer] = {}
        self._kept: set[tuple[str, int]] = set()

    def append(self, kind: str, table: pa.Table, *, keep: bool = False) -> Located:
        """Write one block at the end of the open run of a kind."""
        run = self._open.setdefault(kind, f"{kind}-{len(self._sizes)}")
        offset = self._sizes.get(run, 0)
        data = table.combine_chunks().to_batches()[0].serialize()
        self._blocks[run, offset] = data
        self._sizes[run] = offset + data.size
        self.counts.writes += 1
        self.counts.written_bytes += data.size
        if keep:
            self._kept.add((run, offset))
        return Located(run, offset, data.size, 0)

    def read(self, at: Located, schema: pa.Schema, *, keep: bool = False) -> pa.Table:
        """One block."""
        if keep and (at.run, at.offset) in self._kept:
            self.counts.kept_bytes += at.length
        else:
            self.counts.seeks += self._head != (at.run, at.offset)
            self._head = (at.run, at.offset + at.length)
            self.counts.reads += 1
            self.counts.read_bytes += at.length
            if keep:
                self._kept.add((at.run, at.offset))
        batch = pa.ipc.read_record_batch(self._blocks[at.run, at.offset], schema)
        return pa.Table.from_batches([batch])

    def release(self, at: Located) -> None:
        """Keep a block no longer."""
        self._kept.discard((at.run, at.offset))

    def finish(self) -> list[RunFile]:
        """End the open runs."""
        done = [RunFile(run, 0, self._sizes[run], 0) for run in self._open.values()]
        self._open.clear()
        self._head = ("", -1)
        return done

    def close(self) -> None:
        """Nothing to let go of."""

    def keep(self, runs: set[str]) -> None:
        """Forget all other runs."""
        self._blocks = {at: data for at, data in self._blocks.items() if at[0] in runs}


class Baseline(Rpwj):
    """RPWJ that counts its disk accesses as its own cost formulas do."""

    def __init__(self, load: Workload, **settings: Any) -> None:
        basic_window = 1_000_000 // SCALE
        values: dict[str, Any] = {
            "windows": (load.window * MILLI,) * 2,
            "partitions": 60,
            "memory": load.scaled_memory // load.row_bytes,
            "flush": 0.4,
            "block": 1024 // load.row_bytes,
            "slide": 60 * MILLI,
            "spacing": 15 * MILLI,
            "read_rows": max(1, basic_window // load.row_bytes),
            **settings,
        }
        super().__init__(Settings(**values))
        self.row_bytes = load.row_bytes
        self.seeks = 0.0

    def step(self, rows: list[Arrivals], now: int) -> Work:
        """Rows in one order of time."""
        came = [
            (side, Row(t, k, n))
            for side, part in enumerate(rows)
            for t, k, n in zip(part.time.tolist(), part.key.tolist(), part.number.tolist())
        ]
        came.sort(key=lambda e: (e[1].time, e[0]))
        read, written, seeks, flushed = (
            self.read_rows,
            self.written_rows,
            self.seeks,
            len(self.flushed),
        )
        newest = [max(a.time, b.time) for a, b in self.arrive(came)]
        scanned = self.read_rows - read
        moved = scanned + self.written_rows - written
        stored = sum(p.disk_rows + p.memory_rows for side in self.parts for p in side)
        return Work(
            len(came),
            scanned,
            np.array(newest, np.int64),
            round(self.seeks - seeks) + len(self.flushed) - flushed,
            moved * self.row_bytes,
            stored * self.row_bytes,
        )

    def _md(self, side: int, p: int) -> Iterator[Any]:
        self.seeks += self._accesses(self.parts[1 - side][p], 1)
        return super()._md(side, p)

    def _dd(self, p: int) -> Iterator[Any]:
        for side in self.parts:
            self.seeks += self._accesses(side[p], 2)
        return super()._dd(p)

    def _accesses(self, part: Part, factor: int) -> float:
        return part.runs + factor * part.disk_rows / self.settings.read_rows if part.disk else 0.0
