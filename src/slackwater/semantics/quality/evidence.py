"""What few windows tell: whether they miss their targets too often, and how large a quantile of their needs may be."""

from __future__ import annotations

import math
from statistics import NormalDist

ALIKE = 5.0
"""Where more windows than this share a row, each tells that much less: one burst of late rows spoils all of them."""
SURE = 0.95
"""Probability with which a bound of a quantile holds."""


def more_evidence(
    evidence: float, run: int, missed: bool, confidence: float, overlap: float
) -> tuple[float, int]:
    """Evidence that windows miss their targets half the time or more, not as seldom as promised, and how many made it.

    It is the logarithm of how much more likely what was seen is then, counted from the window from which on it is largest.
    """
    seldom = 1 - confidence
    often = (1 + seldom) / 2
    step = math.log(often / seldom) if missed else math.log((1 - often) / (1 - seldom))
    evidence += step / max(1.0, (ALIKE - 1 + overlap) / ALIKE)
    return (evidence, run + 1) if evidence > 0 else (0.0, 0)


def tolerance(number: float, level: float) -> float:
    """How many standard deviations above the mean of so many values a bound of their quantile is, which holds with the
    probability `SURE` (Natrella's approximation for the normal distribution); infinite for too few.
    """
    quantile, sure = NormalDist().inv_cdf(level), NormalDist().inv_cdf(SURE)
    a = 1 - sure**2 / (2 * (number - 1)) if number > 1 else 0.0
    if a <= 0:
        return math.inf
    return (quantile + math.sqrt(quantile**2 - a * (quantile**2 - sure**2 / number))) / a


def least_level(confidence: float) -> float:
    """The lowest level of the quantile: windows to come are no copies of past ones, so somewhat above what is asked."""
    return confidence + 0.2 * (1 - confidence)


def first_level(confidence: float) -> float:
    """Where the level of the quantile begins."""
    return confidence + 0.4 * (1 - confidence)
