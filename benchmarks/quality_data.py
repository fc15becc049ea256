"""Streams for aggregates under quality targets: the source's generators, stand-ins for its two data sets, a change of regime.

Times are microseconds, rows in order of arrival. The stand-ins have the rate and the largest delay of the originals, which are
not free to pass on, and about the share of late rows right after a late one; fewer rows are late than there, since one that is
late by less than the rows around it does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.quality_join_data import SECOND, STEP, Floats, Ints, zipf
from slackwater.semantics.quality.delays import delays, disorder


@dataclass(frozen=True, eq=False)
class Rows:
    """Times and values in order of arrival, which is at an even ``rate`` of rows a second."""

    name: str
    times: Ints
    values: Floats
    rate: int = 100

    def statistics(self) -> dict[str, float]:
        """What the source's table of data sets has, and quantiles of the delays in seconds."""
        found = delays(self.times)
        counts = disorder(found.delays)
        p50, p99, p999 = np.quantile(found.delays, [0.5, 0.99, 0.999]) / SECOND
        return {
            "rows": counts.rows,
            "late": counts.late / counts.rows,
            "correlated": counts.correlated / max(1, counts.late),
            "p50": p50,
            "p99": p99,
            "p999": p999,
            "max": float(found.delays.max()) / SECOND,
        }


def synthetic(skew: float, seed: int, seconds: int, name: str) -> Rows:
    """One stream of the source's generator: 100 rows a second, delays of up to 20 s by Zipf's law."""
    rng = np.random.default_rng([seed, round(10 * skew)])
    rows = 100 * seconds
    clock = np.arange(1, rows + 1, dtype=np.int64) * (SECOND // 100)
    times = clock - zipf(rng, skew, 201, rows) * STEP
    values = zipf(rng, 1.0, 100, rows).astype(np.float64) + 1
    return Rows(name, times, values)


def standin(
    seed: int,
    seconds: int,
    *,
    name: str,
    rate: int,
    late: float,
    correlated: float,
    longest: float,
    bursts: Callable[[Floats], Floats],
    calm: Callable[[Floats], Floats] = np.ones_like,
) -> Rows:
    """Rows of many sensors: runs of late rows of some 25 ms, and bursts that come much later.

    ``bursts`` is how many bursts begin per second, ``calm`` what usual delays are multiplied with, by time from 0 to
    1. A burst of 20 to 200 rows shares a delay by Pareto's law, ``longest`` at the most.
    """
    rng = np.random.default_rng([seed, rate])
    rows = rate * seconds
    clock = np.linspace(0, seconds, rows, endpoint=False)
    place = clock / seconds
    # A chain of two states in order of arrival has both shares at once.
    after_late = rng.random(rows) < correlated
    after_timely = rng.random(rows) < late * (1 - correlated) / (1 - late)
    is_late = np.zeros(rows, bool)
    state = False
    for i in range(rows):
        state = bool(after_late[i] if state else after_timely[i])
        is_late[i] = state
    run = np.cumsum(np.diff(is_late, prepend=False))
    usual = rng.exponential(0.025, int(run[-1]) + 1)[run] * calm(place) + 2 / rate
    delay = np.where(is_late, usual, 0.0)
    starts = np.flatnonzero(rng.random(rows) < bursts(place) / rate)
    for start in starts:
        burst = slice(start, start + int(rng.integers(20, 201)))
        extra = min(longest, 0.1 * (1 + rng.pareto(1.1)))
        delay[burst] = np.where(is_late[burst], extra * rng.uniform(0.8, 1.0), delay[burst])
    # The largest delay of the original comes at the same point of every run.
    delay[int(0.3 * rows)] = longest
    times = ((clock - np.minimum(delay, longest)) * SECOND).astype(np.int64)
    values = np.abs(5 + 3 * np.sin(clock / 40) + rng.normal(0, 2.0, rows))
    return Rows(name, times, values, rate)


def game1(seed: int, seconds: int) -> Rows:
    """Large delays mainly in the second half."""
    return standin(
        seed, seconds, name="game 1", rate=555, late=0.576, correlated=0.834, longest=4.49,
        bursts=lambda x: np.where(x > 0.5, 0.25, 0.02),
    )  # fmt: skip


def game2(seed: int, seconds: int) -> Rows:
    """More large delays, all over the stream."""
    return standin(
        seed, seconds, name="game 2", rate=399, late=0.5, correlated=0.828, longest=16.95,
        bursts=lambda x: np.full_like(x, 0.3),
    )  # fmt: skip


def change(seed: int, seconds: int) -> Rows:
    """Delays eight times as long in the middle third."""
    return standin(
        seed, seconds, name="change", rate=400, late=0.5, correlated=0.8, longest=8.0,
        bursts=lambda x: np.full_like(x, 0.1),
        calm=lambda x: np.where((x > 1 / 3) & (x < 2 / 3), 8.0, 1.0),
    )  # fmt: skip


GENERATORS: dict[str, Callable[[int, int], Rows]] = {
    "game1": game1,
    "game2": game2,
    "x3": lambda seed, seconds: synthetic(2.0, seed, seconds, "x3, first stream"),
    "x4": lambda seed, seconds: synthetic(3.0, seed, seconds, "x4, first stream"),
    "change": change,
}
