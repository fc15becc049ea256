"""Streams for joins under quality targets: the two generators of the source, a stand-in for its game data, one change of regime.

Times are microseconds. Rows of all streams stand in one order of arrival.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["same", "star", "near"]

MS = 1_000
SECOND = 1_000_000
VALUES = 100
STEP = 100 * MS
"""Grain of the generators' delays: with it they come nearest to the numbers that the source prints."""

LONGEST = 20 * SECOND


@dataclass(frozen=True, eq=False)
class JoinData:
    """Rows in order of arrival. ``keys`` has one column per attribute; ``kind`` says how they join.

    ``same``: the first attribute is equal in all streams. ``star``: attribute k of stream 0 equals the first one of stream
    k + 1. ``near``: the points (first two attributes, in millimetres) lie less than ``reach`` apart.
    """

    name: str
    kind: Kind
    windows: tuple[int, ...]
    stream: Ints
    time: Ints
    arrival: Ints
    keys: tuple[Ints, ...]
    reach: int = 0

    @property
    def streams(self) -> int:
        """How many."""
        return len(self.windows)

    def __len__(self) -> int:
        return len(self.time)

    def part(self, rows: Ints) -> JoinData:
        """Some of the rows, in the same order."""
        return replace(
            self,
            stream=self.stream[rows],
            time=self.time[rows],
            arrival=self.arrival[rows],
            keys=tuple(k[rows] for k in self.keys),
        )


def zipf(rng: np.random.Generator, skew: float, ranks: int, n: int) -> Ints:
    """Ranks from 0 on."""
    shares = np.cumsum(1.0 / np.arange(1, ranks + 1) ** skew)
    return np.searchsorted(shares / shares[-1], rng.random(n), side="right").astype(np.int64)


def _values(rng: np.random.Generator, seconds: int, rate: int) -> Ints:
    """Values from 1 to 100 whose skew starts at 1 and is drawn anew, from 0 to 5, after 1 to 10 minutes."""
    out, skew, left = [], 1.0, seconds
    while left > 0:
        span = min(left, int(rng.integers(60, 601)))
        out.append(zipf(rng, skew, VALUES, span * rate))
        skew, left = float(rng.uniform(0, 5)), left - span
    return np.concatenate(out)


def _synthetic(
    name: str,
    kind: Kind,
    window: int,
    skews: tuple[tuple[float, ...], ...],
    seconds: int,
    seed: int,
    rate: int = 100,
) -> JoinData:
    """Streams of ``rate`` rows a second; ``skews`` has the delays' skew per stream, for each part of the time."""
    rng = np.random.default_rng(seed)
    streams = len(skews[0])
    n, every = seconds * rate, SECOND // rate
    clock = 60 * SECOND + every * np.arange(1, n + 1)
    parts = np.array_split(np.arange(n), len(skews))
    columns: list[list[Ints]] = [[] for _ in range(3 if kind == "star" else 1)]
    times = []
    for i in range(streams):
        late = np.concatenate(
            [
                zipf(rng, s[i], LONGEST // STEP + 1, len(p))
                for s, p in zip(skews, parts, strict=True)
            ]
        )
        times.append(clock - STEP * late)
        for k, column in enumerate(columns):
            used = k == 0 or i == 0
            column.append(_values(rng, seconds, rate) if used else np.zeros(n, np.int64))
    # All streams bring one row at each tick.
    order = np.argsort(np.tile(clock, streams), kind="stable")
    return JoinData(
        name,
        kind,
        (window,) * streams,
        np.repeat(np.arange(streams), n)[order],
        np.concatenate(times)[order],
        np.tile(clock, streams)[order],
        tuple(np.concatenate(c)[order] for c in columns),
    )


def x3(seed: int, seconds: int = 1800) -> JoinData:
    """Three streams with a common key, windows of 5 s."""
    return _synthetic("x3", "same", 5 * SECOND, ((2.0, 3.0, 3.0),), seconds, seed)


def x4(seed: int, seconds: int = 1800) -> JoinData:
    """Four streams, three of which join the first by an attribute each, windows of 3 s."""
    return _synthetic("x4", "star", 3 * SECOND, ((3.0, 3.0, 3.0, 4.0),), seconds, seed)


def shift(seed: int, seconds: int = 1800) -> JoinData:
    """As x3, but its delays grow for the middle third: streams in good order, then bad, then good again."""
    calm, rough = (3.5, 4.0, 4.0), (2.2, 2.5, 2.5)
    return _synthetic("shift", "same", 5 * SECOND, (calm, rough, calm), seconds, seed)


def x2(seed: int, seconds: int = 600, rate: int = 326) -> JoinData:
    """A stand-in for the two teams of a football game: who comes within 5 m of whom, windows of 5 s.

    Half of the rows are late, mostly by some milliseconds, neighbours together, and some runs of rows by seconds.
    """
    rng = np.random.default_rng(seed)
    n, players = seconds * rate, 16
    streams, times, arrivals = [], [], []
    points: list[list[Ints]] = [[], []]
    for i, longest in enumerate((22 * SECOND, 26_300 * MS)):
        born = 60 * SECOND + np.sort(rng.integers(0, seconds * SECOND, n))
        who = rng.integers(0, players, n)
        late = _late_by(rng, born, who, longest)
        streams.append(np.full(n, i))
        times.append(born)
        arrivals.append(born + late)
        for axis, size in enumerate((105_000.0, 68_000.0)):
            points[axis].append(_walk(rng, born, who, players, size))
    arrival = np.concatenate(arrivals)
    order = np.argsort(arrival, kind="stable")
    return JoinData(
        "x2",
        "near",
        (5 * SECOND,) * 2,
        np.concatenate(streams)[order],
        np.concatenate(times)[order],
        arrival[order],
        tuple(np.concatenate(p)[order] for p in points),
        reach=5_000,
    )


def _late_by(rng: np.random.Generator, born: Ints, who: Ints, longest: int) -> Ints:
    """Delays in transmission: some sensors send what they saw in packets, and at times the line is down."""
    n = len(born)
    packet = born // (60 * MS)
    sent = (packet + 1) * 60 * MS + rng.exponential(20 * MS, int(packet[-1]) + 1)[packet]
    late = np.where(who < 9, sent - born, 0.0)
    for start in np.flatnonzero(rng.random(n) < 1 / 4000):
        run = slice(start, start + int(rng.integers(20, 200)))
        late[run] += min(longest, 150 * MS * (1 + rng.pareto(0.9)))
    return np.minimum(late, longest).astype(np.int64)


def _walk(rng: np.random.Generator, born: Ints, who: Ints, players: int, size: float) -> Ints:
    """One coordinate of each player over time: to and fro, at some metres a second."""
    steps = rng.normal(0, 1.5, (players, int(born[-1] // SECOND) + 2)).cumsum(axis=1)
    place = rng.uniform(0.2, 0.8, (players, 1)) * size + steps * 1_000
    folded = np.abs((place + size) % (2 * size) - size)
    at, rest = born // SECOND, (born % SECOND) / SECOND
    return np.asarray((folded[who, at] * (1 - rest) + folded[who, at + 1] * rest), np.int64)


GENERATORS = {"x2": x2, "x3": x3, "x4": x4, "shift": shift}


def statistics(data: JoinData) -> list[dict[str, float]]:
    """Per stream: rows, rate, share of late rows, share of these that follow a late row, delays."""
    out = []
    for i in range(data.streams):
        time = data.time[data.stream == i]
        behind = np.maximum.accumulate(time) - time
        late = behind > 0
        after = late[1:] & late[:-1]
        span = (time.max() - time.min()) / SECOND
        out.append(
            {
                "rows": len(time),
                "rate": len(time) / span,
                "late": float(late.mean()),
                "correlated": float(after.sum() / max(1, late.sum())),
                "p99": float(np.quantile(behind, 0.99)) / SECOND,
                "max": float(behind.max()) / SECOND,
            }
        )
    return out
