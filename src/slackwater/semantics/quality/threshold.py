"""The coverage that an error target asks for.

Model: each of the N rows that belong to a window is in it with the same probability, the coverage, independent of
its value. A result is never scaled up for rows that are missing. ``spread`` is the standard deviation of the
aggregated values over their mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist


def deviations(confidence: float) -> float:
    """How many standard deviations lie between the mean and the ends of an interval of that confidence."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def sum_threshold(error: float, confidence: float, rows: float, spread: float) -> float:
    """The least coverage with which a sum's relative error stays within ``error``.

    The error is the share that is missing plus ``c`` standard deviations of the rest:
    ``(1 - C) + c * sqrt((C - C**2) * (spread**2 + 1) / rows) <= error``, solved for C.

    >>> round(sum_threshold(0.01, 0.95, 555, 0.5), 6)
    0.995925
    """
    if error >= 1:
        return 0.0
    if rows < 1 or not math.isfinite(spread):
        return 1.0
    a = deviations(confidence) ** 2 * (spread * spread + 1) / rows
    b = 2 * error + a
    # The smaller root, in the form that does not subtract nearly equal numbers.
    missing = 2 * error * error / (b + math.sqrt(b * b - 4 * (1 + a) * error * error))
    return 1 - missing


def count_threshold(error: float, confidence: float, rows: float) -> float:
    """A count is a sum of ones; what is missing is its error, so this errs to the safe side."""
    return sum_threshold(error, confidence, rows, 0.0)


def mean_threshold(error: float, confidence: float, rows: float, spread: float) -> float:
    """An average of the rows that are there is right on average; only its spread counts."""
    if rows < 1 or not math.isfinite(spread):
        return 1.0
    return _unbiased((deviations(confidence) * spread) ** 2 / rows, error)


def quantile_threshold(error: float, confidence: float, rows: float, share: float) -> float:
    """A quantile whose rank is off by at most ``error`` of all rows; ``share`` is the quantile's own."""
    if rows < 1:
        return 1.0
    return _unbiased(deviations(confidence) ** 2 * share * (1 - share) / rows, error)


def _unbiased(k: float, error: float) -> float:
    return k / (k + error * error)


def complete_threshold(confidence: float, rows: float) -> float:
    """The coverage with which a window is complete at that confidence: then every aggregate is exact.

    Late rows that come in bursts are missed together, which only makes complete windows more likely.

    >>> round(complete_threshold(0.95, 1), 2)
    0.95
    """
    return float(confidence ** (1 / max(1.0, rows)))


@dataclass(frozen=True)
class Asked:
    """One aggregate of a query: its ``rule`` (sum, count, avg, quantile, other), the column of values whose moments
    it needs (a number that the caller gives meaning), and a quantile's share.

    An ``other`` aggregate (min, max, distinct, collect, ...) has no error model.
    """

    rule: str
    column: int | None = None
    share: float = 0.5


def threshold(
    asked: Sequence[Asked],
    error: float,
    confidence: float,
    rows: float,
    spreads: Sequence[float],
) -> float:
    """The coverage that all aggregates need: that of the worst one.

    For one without an error model, windows are to be complete at the given confidence.
    """
    needed = []
    for one in asked:
        spread = spreads[one.column] if one.column is not None else 0.0
        if one.rule == "sum":
            needed.append(sum_threshold(error, confidence, rows, spread))
        elif one.rule == "count":
            needed.append(count_threshold(error, confidence, rows))
        elif one.rule == "avg":
            needed.append(mean_threshold(error, confidence, rows, spread))
        elif one.rule == "quantile":
            needed.append(quantile_threshold(error, confidence, rows, one.share))
        else:
            needed.append(complete_threshold(confidence, rows))
    return max(needed, default=1.0)
