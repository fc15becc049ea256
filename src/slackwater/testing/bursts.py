"""Bursts at every scale: how many rows come when, and with which keys, by repeated uneven halving.

A volume is split between the two halves of its span, each of these between its halves, and so on; ``bias`` is the share
of the larger part. With 0.5 all is even; towards 1 nearly all comes at once. Which half is the larger one is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.errors import AnalysisError
from slackwater.testing.disorder import Arrivals, Ints

__all__ = ["b_model", "bursty_events", "clustered", "skewed_keys"]

QUADRANTS = (0.4, 0.1, 0.1, 0.4)
"""Shares of (early, low key), (early, high), (late, low), (late, high): rows near in time have keys near each other."""


def b_model(total: int, *, bias: float, levels: int, seed: int = 0) -> Ints:
    """A volume over ``2 ** levels`` slots in order; the parts add up to it exactly.

    >>> b_model(1000, bias=0.7, levels=1, seed=3).tolist() in ([700, 300], [300, 700])
    True
    """
    _bias(bias)
    rng = np.random.default_rng([seed, levels])
    parts = np.array([total], np.int64)
    for _ in range(levels):
        larger = np.round(parts * bias).astype(np.int64)
        first = np.where(rng.random(len(parts)) < 0.5, larger, parts - larger)
        parts = np.stack([first, parts - first], axis=1).ravel()
    return parts


def skewed_keys(rows: int, keys: int, *, bias: float, seed: int = 0) -> Ints:
    """A key in [0, keys) per row, by the same halving of the range of keys; the larger half is fixed for all rows.

    With a bias of 0.7 two thirds of the rows have a fifth of the keys.
    """
    _bias(bias)
    rng = np.random.default_rng([seed, keys])
    levels = max(1, (keys - 1).bit_length())
    # Which half is the larger one, for each part of each level.
    larger = [rng.random(1 << level) < 0.5 for level in range(levels)]
    part = np.zeros(rows, np.int64)
    for level in range(levels):
        into_larger = rng.random(rows) < bias
        part = 2 * part + (into_larger == larger[level][part])
    return np.asarray(part * keys >> levels, np.int64)


def clustered(
    rows: int,
    *,
    length: int,
    keys: int,
    quadrants: Sequence[float] = QUADRANTS,
    levels: int = 10,
    seed: int = 0,
) -> tuple[Ints, Ints]:
    """Times in [0, length) in order, and keys in [0, keys), of rows that choose a quadrant of time x key again and again.

    ``quadrants`` are the shares of (early, low), (early, high), (late, low), (late, high); they add up to 1.
    """
    if len(quadrants) != 4 or min(quadrants) < 0 or abs(sum(quadrants) - 1) > 1e-9:
        raise AnalysisError(
            "BAD_DISORDER",
            f"quadrants are four shares that add up to 1, got {tuple(quadrants)}",
            hint="for example (0.4, 0.1, 0.1, 0.4)",
        )
    rng = np.random.default_rng([seed, rows])
    late, high = np.zeros(rows), np.zeros(rows)
    for level in range(1, levels + 1):
        chosen = rng.choice(4, rows, p=quadrants)
        late += (chosen >> 1) / 2.0**level
        high += (chosen & 1) / 2.0**level
    rest = 2.0**-levels
    times = np.floor((late + rng.random(rows) * rest) * length).astype(np.int64)
    found = np.floor((high + rng.random(rows) * rest) * keys).astype(np.int64)
    order = np.argsort(times, kind="stable")
    return times[order], found[order]


def bursty_events(
    rows: int,
    *,
    length: int,
    keys: int,
    bias: float = 0.6,
    levels: int = 6,
    quadrants: Sequence[float] = QUADRANTS,
    seed: int = 0,
) -> Arrivals:
    """So many rows over [0, length), in order and at once: bursts by `b_model`, and inside each slot by `clustered`."""
    slots = 1 << levels
    volume = b_model(rows, bias=bias, levels=levels, seed=seed)
    edges = np.linspace(0, length, slots + 1).astype(np.int64)
    times, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for slot, count in enumerate(volume.tolist()):
        width = int(edges[slot + 1] - edges[slot])
        t, k = clustered(
            count, length=width, keys=keys, quadrants=quadrants, seed=seed * slots + slot
        )
        times.append(t + edges[slot])
        found.append(k)
    time, key = np.concatenate(times), np.concatenate(found)
    number = np.arange(rows, dtype=np.int64)
    return Arrivals(time, time.copy(), np.zeros(rows, np.int64), key, number, seed, 1)


def _bias(value: float) -> None:
    if not 0.5 <= value <= 1:
        raise AnalysisError(
            "BAD_DISORDER", f"a bias is in [0.5, 1], got {value}", hint="0.5 is even, 0.6 bursty"
        )
