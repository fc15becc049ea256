"""Delays of rows in order of arrival, and their histogram.

A stream's *current time* is the greatest time seen. A row's *delay* is its distance behind the current time, which
the row itself has moved first: a row in order has delay 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slackwater.semantics.limits import START

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_BINS = 4096
"""A histogram that would need more bins, for more than a few delays, gets bins twice as wide instead."""


class Delays(NamedTuple):
    """Per row: the current time once the row is there, and the row's delay behind it."""

    clocks: Ints
    delays: Ints


def delays(times: Ints, clock: int = START) -> Delays:
    """Current times and delays of rows in order of arrival, after rows up to the current time ``clock``.

    >>> delays(np.array([1, 4, 3, 5, 7, 8, 6])).delays.tolist()
    [0, 0, 1, 0, 0, 0, 2]
    """
    if len(times) == 0:
        return Delays(times, times)
    clocks = np.maximum.accumulate(np.maximum(times, clock))
    return Delays(clocks, clocks - times)


def bins(delays: Ints, granularity: int) -> Ints:
    """The bin of each delay: 0 for none, d for a delay in ((d - 1) * granularity, d * granularity].

    >>> bins(np.array([0, 1, 10, 11, 20]), 10).tolist()
    [0, 1, 1, 2, 2]
    """
    return np.asarray(-(-delays // granularity))


def histogram(delays: Ints, granularity: int) -> Ints:
    """How many delays lie in each bin; no zeros at the end."""
    return np.bincount(bins(delays, granularity)).astype(np.int64)


def dense(bins: Sequence[tuple[int, int]]) -> tuple[Ints, int]:
    """A histogram from pairs of bin and number, in order of bins; the second is how many times wider its bins are.

    >>> dense([(0, 5), (3, 2)])[0].tolist()
    [5, 0, 0, 2]
    """
    last, factor = bins[-1][0], 1
    while last > factor * MAX_BINS:
        factor *= 2
    counts = np.zeros(-(-last // factor) + 1, np.int64)
    for at, n in bins:
        counts[-(-at // factor)] += n
    return counts, factor


def coarser(counts: Ints, factor: int) -> Ints:
    """The histogram of the same delays with bins ``factor`` times as wide.

    >>> coarser(np.array([5, 1, 1, 1, 1]), 2).tolist()
    [5, 2, 2]
    """
    if factor == 1 or len(counts) < 2:
        return counts
    inner = counts[1:]
    padded = np.concatenate([inner, np.zeros(-len(inner) % factor, np.int64)])
    return np.concatenate([counts[:1], padded.reshape(-1, factor).sum(axis=1)])


def finer(counts: Ints, factor: int) -> Ints:
    """The histogram of delays with bins ``factor`` times as narrow: each is taken for as large as its bin allows.

    >>> finer(np.array([5, 2, 0, 1]), 2).tolist()
    [5, 0, 2, 0, 0, 0, 1]
    """
    out = np.zeros((len(counts) - 1) * factor + 1, np.int64)
    out[::factor] = counts
    return out


def added(a: Ints, b: Ints) -> Ints:
    """The sum of two histograms of any lengths."""
    if len(a) < len(b):
        a, b = b, a
    out: Ints = a.copy()
    out[: len(b)] += b
    return out


class Disorder(NamedTuple):
    """How many rows there are, how many come late, and how many of those right after a late one."""

    rows: int
    late: int
    correlated: int

    def plus(self, other: Disorder) -> Disorder:
        """The counts of two pieces of a stream."""
        return Disorder(*(a + b for a, b in zip(self, other, strict=True)))


def disorder(delays: Ints, after_late: bool = False) -> Disorder:
    """Count late rows in order of arrival; ``after_late`` tells of the row before the first.

    >>> disorder(np.array([0, 3, 2, 0, 1]))
    Disorder(rows=5, late=3, correlated=1)
    """
    late = delays > 0
    before = np.concatenate([[after_late], late[:-1]]) if len(late) else late
    return Disorder(len(late), int(late.sum()), int((late & before).sum()))
