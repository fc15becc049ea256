"""Mean and spread of aggregated values over the latest stretch of a stream, one window long."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from slackwater.semantics.quality.delays import Floats


class Moments(NamedTuple):
    """Number, sum and sum of squares of some values."""

    rows: int = 0
    total: float = 0.0
    squares: float = 0.0

    def then(self, values: Floats) -> Moments:
        """Those with more values, without what is not a finite number.

        Added from left to right, so that where a stream was cut does not show in the last digit.
        """
        values = values[np.isfinite(values)]
        if not len(values):
            return self
        return Moments(
            self.rows + len(values),
            float(np.cumsum(np.concatenate([[self.total], values]))[-1]),
            float(np.cumsum(np.concatenate([[self.squares], values * values]))[-1]),
        )

    @classmethod
    def of(cls, values: Floats) -> Moments:
        """Those of an array."""
        return cls().then(values)

    @classmethod
    def ones(cls, rows: int) -> Moments:
        """Those of as many ones."""
        return cls(rows, float(rows), float(rows))

    def plus(self, other: Moments) -> Moments:
        """Those of two sets of values."""
        return Moments(
            self.rows + other.rows, self.total + other.total, self.squares + other.squares
        )

    @property
    def spread(self) -> float:
        """Standard deviation over mean; infinite where the mean is 0, or nothing is known."""
        if not self.rows or not self.total:
            return math.inf
        mean = self.total / self.rows
        variance = max(0.0, self.squares / self.rows - mean * mean)
        return math.sqrt(variance) / abs(mean)


def added(parts: Iterable[Moments]) -> Moments:
    """The sum, the same in whatever order the parts come."""
    out = Moments()
    for part in sorted(parts):
        out = out.plus(part)
    return out


@dataclass
class Recent:
    """Moments of several columns over the last ``span`` of time, in pieces as they came in.

    Each piece is (current time after it, moments by column).
    """

    columns: int
    pieces: list[tuple[int, list[Moments]]] = field(default_factory=list)

    def add(self, newest: int, moments: Sequence[Moments], span: int) -> None:
        """One more piece; pieces that ended before the last ``span`` go, except the last one with values."""
        if any(m.rows for m in moments):
            self.pieces.append((newest, list(moments)))
        keep = [p for p in self.pieces if p[0] > newest - span]
        self.pieces = keep or self.pieces[-1:]

    def of(self, column: int) -> Moments:
        """The moments of a column."""
        rows, total, squares = 0, 0.0, 0.0
        for _, moments in self.pieces:
            own = moments[column]
            rows, total, squares = rows + own[0], total + own[1], squares + own[2]
        return Moments(rows, total, squares)

    def to_json(self) -> list[Any]:
        """Plain lists."""
        return [self.columns, [[t, [list(m) for m in ms]] for t, ms in self.pieces]]

    @classmethod
    def from_json(cls, json: list[Any]) -> Recent:
        """The inverse of `to_json`."""
        return cls(json[0], [(t, [Moments(*m) for m in ms]) for t, ms in json[1]])
