"""Quantiles of the delays of late rows, in little space and to one per cent of their value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slackwater.semantics.quality.delays import Ints, added

ACCURACY = 0.01
_BASE = math.log((1 + ACCURACY) / (1 - ACCURACY))


@dataclass
class DelaySketch:
    """Counts of delays above 0, in bins that grow with the delay. Sketches of parts of a stream add up."""

    counts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, delays: Ints) -> None:
        """Take delays; those of 0 are left out."""
        late = delays[delays > 0]
        if len(late):
            self._put(np.bincount(places(late)))

    def add_counts(self, delays: Ints, counts: Ints) -> None:
        """Take delays with the number of rows that have each."""
        late = delays > 0
        if late.any():
            self._put(np.bincount(places(delays[late]), weights=counts[late]))

    def _put(self, counts: NDArray[np.generic]) -> None:
        self.counts = added(self.counts, counts.astype(np.int64))

    def merge(self, other: DelaySketch) -> None:
        """Take what another has seen."""
        self.counts = added(self.counts, other.counts)

    def quantile(self, q: float) -> int:
        """A delay within one per cent of the ``q``-quantile; 0 if no row came late."""
        passed = np.cumsum(self.counts)
        if not len(passed) or not passed[-1]:
            return 0
        at = int(np.searchsorted(passed, q * (int(passed[-1]) - 1), side="right"))
        return delay_at(at)

    def beyond(self, delay: int) -> float:
        """The share of late rows with a delay above ``delay``, to one per cent of it; 0 if no row came late."""
        total = int(self.counts.sum())
        if not total:
            return 0.0
        at = math.ceil(math.log(delay) / _BASE) if delay > 0 else -1
        return int(self.counts[at + 1 :].sum()) / total

    def to_json(self) -> list[list[int]]:
        """Pairs of bin and count."""
        return [[int(at), int(self.counts[at])] for at in np.flatnonzero(self.counts)]

    @classmethod
    def from_json(cls, json: list[list[int]]) -> DelaySketch:
        """The inverse of `to_json`."""
        counts = np.zeros(json[-1][0] + 1 if json else 0, np.int64)
        for at, n in json:
            counts[at] = n
        return cls(counts)


def delay_at(place: int) -> int:
    """A delay within one per cent of all those that have the place."""
    return math.ceil(2 * math.exp(_BASE * place) / (1 + math.exp(_BASE)))


def places(delays: Ints) -> Ints:
    """The bin of each delay above 0."""
    return np.ceil(np.log(delays) / _BASE).astype(np.int64)
