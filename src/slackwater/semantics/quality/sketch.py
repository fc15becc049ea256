"""Quantiles of the delays of late rows, in little space and to one per cent of their value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from slackwater.semantics.quality.delays import Ints

ACCURACY = 0.01
_BASE = math.log((1 + ACCURACY) / (1 - ACCURACY))


@dataclass
class DelaySketch:
    """Counts of delays above 0, in bins that grow with the delay. Sketches of parts of a stream add up."""

    counts: dict[int, int] = field(default_factory=dict)

    def add(self, delays: Ints) -> None:
        """Take delays; those of 0 are left out."""
        self.add_counts(delays, np.ones_like(delays))

    def add_counts(self, delays: Ints, counts: Ints) -> None:
        """Take delays with the number of rows that have each."""
        late = delays > 0
        at = np.ceil(np.log(delays[late]) / _BASE).astype(np.int64)
        if not len(at):
            return
        sums = np.bincount(at, weights=counts[late])
        for i in np.flatnonzero(sums).tolist():
            self.counts[i] = self.counts.get(i, 0) + int(sums[i])

    def merge(self, other: DelaySketch) -> None:
        """Take what another has seen."""
        for at, n in other.counts.items():
            self.counts[at] = self.counts.get(at, 0) + n

    def quantile(self, q: float) -> int:
        """A delay within one per cent of the ``q``-quantile; 0 if no row came late."""
        total = sum(self.counts.values())
        if not total:
            return 0
        rank, passed = q * (total - 1), 0
        for at in sorted(self.counts):
            passed += self.counts[at]
            if passed > rank:
                break
        return math.ceil(2 * math.exp(_BASE * at) / (1 + math.exp(_BASE)))

    def to_json(self) -> list[list[int]]:
        """Pairs of bin and count."""
        return [[at, n] for at, n in sorted(self.counts.items())]

    @classmethod
    def from_json(cls, json: list[list[int]]) -> DelaySketch:
        """The inverse of `to_json`."""
        return cls({int(at): int(n) for at, n in json})
