"""Packets of two routers, as they arrive at a collector: the disorder of a real network, repeatable.

- ``main1`` is close by. Its packets arrive within a second, most of them.
- ``main2`` reports over a slow link, about eight seconds behind, and for a while not at all.
- Some packets of both take a detour and come seconds later than their neighbours.
- Traffic comes in bursts, each from one sender.
- One device on ``main1`` has a clock that now and then shows an hour ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.model.time import SECOND

SCHEMA = "srcIP string, destIP string, len int, ts timestamp, router string, offset long"
ROUTERS = ("main1", "main2")
WRONG_CLOCK = "10.0.0.66"
HOUR = 3_600 * SECOND
SENDERS = 400
RECEIVERS = 120
DETOUR_SHARE = 0.01

_ARROW = pa.schema(
    [
        ("srcIP", pa.string()),
        ("destIP", pa.string()),
        ("len", pa.int32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("router", pa.string()),
        ("offset", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Router:
    """How the packets of one router arrive; spans in seconds, rates in packets per second."""

    name: str
    rate: float
    lag: float
    jitter: float
    detour: float


@dataclass(frozen=True)
class Burst:
    """A sender that sends much more than usual, from ``begin`` up to, not including, ``end`` (seconds)."""

    router: int
    begin: float
    end: float
    rate: float
    sender: str


@dataclass(frozen=True)
class Scene:
    """What happens during a run of ``seconds``; ``lull`` is when ``main2`` is silent, half-open."""

    seconds: float
    routers: tuple[Router, ...]
    bursts: tuple[Burst, ...]
    lull: tuple[float, float]

    @classmethod
    def of(cls, seconds: float, rate: float = 6_000.0) -> Scene:
        """The usual story, told within ``seconds``."""
        return cls(
            seconds,
            (
                Router("main1", rate, 0.0, 0.25, 2.5),
                Router("main2", rate / 4, 8.0, 0.4, 2.5),
            ),
            (
                Burst(0, 0.10 * seconds, 0.20 * seconds, 3 * rate, "10.0.7.7"),
                Burst(1, 0.70 * seconds, 0.76 * seconds, 2 * rate, "10.0.9.9"),
                Burst(0, 0.85 * seconds, 0.92 * seconds, 4 * rate, "10.0.8.8"),
            ),
            # Longer than the query waits for a silent router, so that it goes on without this one.
            (0.25 * seconds, 0.25 * seconds + max(5.0, 0.2 * seconds)),
        )


class Traffic:
    """Makes the packets that arrive in one tick of the scene. Each tick has its own seed.

    Parameters
    ----------
    start
        The wall time of the scene's beginning, in microseconds.
    """

    def __init__(self, scene: Scene, start: int, seed: int = 7):
        self.scene = scene
        self.start = start
        self.seed = seed
        self._offsets = [0] * len(scene.routers)
        self._senders = pa.array([f"10.0.{i // 250}.{i % 250 + 1}" for i in range(SENDERS)])
        self._receivers = pa.array([f"198.51.100.{i + 1}" for i in range(RECEIVERS)])
        # Few senders make most of the traffic.
        weight = 1.0 / np.arange(1, SENDERS + 1) ** 1.1
        self._share = np.cumsum(weight / weight.sum())

    def arrivals(self, router: int, begin: float, end: float) -> pa.Table:
        """The packets of a router that arrive from ``begin`` up to, not including, ``end``."""
        random = np.random.default_rng([self.seed, router, round(begin * 1_000)])
        spec, scene = self.scene.routers[router], self.scene
        if router == 1 and scene.lull[0] <= begin < scene.lull[1]:
            return _ARROW.empty_table()
        swell = 1.0 + 0.4 * np.sin(2 * np.pi * begin / 11.0 + router)
        usual = self._usual(random, spec, random.poisson(spec.rate * swell * (end - begin)))
        tables = [usual]
        for burst in scene.bursts:
            if burst.router == router and burst.begin <= begin < burst.end:
                more = self._usual(random, spec, random.poisson(burst.rate * (end - begin)))
                tables.append(_with_sender(more, burst.sender))
        if router == 0:
            tables.append(_with_sender(self._usual(random, spec, 2), WRONG_CLOCK))
        table = pa.concat_tables(tables)
        table = table.take(pa.array(random.permutation(table.num_rows)))
        arrive = np.sort(random.uniform(begin, end, table.num_rows))
        delay = table["delay"].to_numpy()
        times = self.start + ((arrive - delay) * SECOND).astype(np.int64)
        if router == 0 and random.random() < 0.15:
            wrong = np.asarray(table["srcIP"].to_pylist()) == WRONG_CLOCK
            times = np.where(wrong, times + HOUR, times)
        first = self._offsets[router]
        self._offsets[router] += table.num_rows
        columns = [
            table["srcIP"],
            table["destIP"],
            table["len"],
            pa.array(times, pa.timestamp("us", tz="UTC")),
            pa.array([spec.name] * table.num_rows),
            pa.array(np.arange(first, first + table.num_rows)),
        ]
        return pa.table(columns, schema=_ARROW)

    def _usual(self, random: np.random.Generator, spec: Router, count: int) -> pa.Table:
        sender = np.searchsorted(self._share, random.random(count))
        small = random.random(count) < 0.4
        length = np.where(
            small, random.integers(40, 100, count), random.integers(400, 1_501, count)
        )
        delay = spec.lag + random.exponential(spec.jitter, count)
        detour = random.random(count) < DETOUR_SHARE
        delay += np.where(detour, random.exponential(spec.detour, count), 0.0)
        receiver = random.integers(0, RECEIVERS, count)
        return pa.table(
            {
                "srcIP": self._senders.take(pa.array(np.minimum(sender, SENDERS - 1))),
                "destIP": self._receivers.take(pa.array(receiver)),
                "len": pa.array(length.astype(np.int32)),
                "delay": pa.array(delay),
            }
        )


def _with_sender(table: pa.Table, sender: str) -> pa.Table:
    return table.set_column(0, "srcIP", pa.array([sender] * table.num_rows, pa.string()))
