"""What few windows tell: whether they miss their targets too often, and how large a quantile of their needs may be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

ALIKE = 5.0
"""Where more windows than this share a row, each tells that much less: one burst of late rows spoils all of them."""
CERTAIN = 11.5
"""Evidence for a change from which on it is believed: eight windows that miss their targets with 0.95, one after the other."""
BY_ROWS = 7.5
"""The same for the rows that windows miss: that is four rows, at 0.95, if they come one soon after the other."""
MOST_BY_ROWS = 2 * BY_ROWS
TAIL = 2
"""Margins make up for tails that fall with this power of the delay."""
SURE = 0.95
"""Probability with which a bound of a quantile holds."""


def alike(overlap: float) -> float:
    """How many windows that share rows tell as much as one that shares none."""
    return max(1.0, (ALIKE - 1 + overlap) / ALIKE)


@dataclass(frozen=True)
class Evidence:
    """Evidence that windows miss their targets half the time or more, not as seldom as promised.

    Each is the logarithm of how much more likely what was seen is then, counted from where on it is largest. ``windows`` is that of
    windows, of which ``run`` made it; ``rows`` is that of the late rows that they miss, each counted once. A row spoils all
    windows that it belongs to, and many rows may come in one burst: so both must tell.
    """

    windows: float = 0.0
    run: int = 0
    rows: float = 0.0

    def after(self, missed: bool, rows: float, confidence: float, overlap: float) -> Evidence:
        """With one more window, in which so many rows are missed for the first time.

        >>> one_row = Evidence().after(True, 1, 0.95, 11.0)
        >>> for _ in range(10):
        ...     one_row = one_row.after(True, 0, 0.95, 11.0)
        >>> round(one_row.windows, 2), one_row.run, round(one_row.rows, 2), one_row.certain
        (8.62, 11, 1.72, False)
        """
        seldom = 1 - confidence
        often = (1 + seldom) / 2
        sign, contrary = math.log(often / seldom), math.log((1 - often) / (1 - seldom))
        step = (sign if missed else contrary) / alike(overlap)
        windows = max(0.0, self.windows + step)
        by_rows = self.rows + (sign * rows if rows else contrary / max(1.0, overlap))
        by_rows = min(MOST_BY_ROWS, max(0.0, by_rows))
        return Evidence(windows, self.run + 1 if windows else 0, by_rows)

    @property
    def certain(self) -> bool:
        """Whether a change is believed."""
        return self.windows >= CERTAIN and self.rows >= BY_ROWS


def tolerance(number: float, level: float) -> float:
    """How many standard deviations above the mean of so many values a bound of their quantile is, which holds with the
    probability `SURE` (Natrella's approximation for the normal distribution); infinite for too few.
    """
    quantile, sure = NormalDist().inv_cdf(level), NormalDist().inv_cdf(SURE)
    a = 1 - sure**2 / (2 * (number - 1)) if number > 1 else 0.0
    if a <= 0:
        return math.inf
    return (quantile + math.sqrt(quantile**2 - a * (quantile**2 - sure**2 / number))) / a


def margin(number: float, confidence: float) -> float:
    """How many times the largest of so many needs is to be waited for, so that the next exceeds it as seldom as promised.

    The largest of n is exceeded by the next with probability 1 / (n + 1), whatever the distribution; a wait that is
    m times as long is exceeded m ** `TAIL` times as seldom.

    >>> [round(margin(n, 0.95), 2) for n in (0, 4, 10, 19, 30)]
    [4.47, 2.0, 1.35, 1.0, 1.0]
    """
    return float(max(1.0, 1 / ((number + 1) * (1 - confidence))) ** (1 / TAIL))


def least_level(confidence: float) -> float:
    """The lowest level of the quantile: windows to come are no copies of past ones, so somewhat above what is asked."""
    return confidence + 0.3 * (1 - confidence)


def first_level(confidence: float) -> float:
    """Where the level of the quantile begins."""
    return confidence + 0.4 * (1 - confidence)
