"""How good are results that may miss rows: found values against the true ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Accuracy:
    """``expected`` true results; how many of them are ``missing``, how many of those found are ``wrong``,
    and how many there should not be (``extra``).

    ``mean_error`` is the mean over the results found of |true - found| / |true| (1 where only the truth is
    0), 0 if none was found.
    """

    expected: int
    missing: int
    wrong: int
    extra: int
    mean_error: float

    @property
    def recall(self) -> float:
        """Share of the true results that were found, right or wrong; 1 if there are none."""
        return 1.0 if self.expected == 0 else 1 - self.missing / self.expected

    @property
    def wrong_share(self) -> float:
        """Share of the results found that are wrong."""
        found = self.expected - self.missing
        return 0.0 if found == 0 else self.wrong / found


def accuracy(found: Mapping[Any, float], truth: Mapping[Any, float]) -> Accuracy:
    """Compare results by key, say (group, window id), with those that complete input gives.

    >>> accuracy({"a": 10, "b": 18, "x": 1}, {"a": 10, "b": 20, "c": 5})
    Accuracy(expected=3, missing=1, wrong=1, extra=1, mean_error=0.05)
    """
    both = [(found[key], value) for key, value in truth.items() if key in found]
    errors = [abs(v - f) / abs(v) if v else float(f != v) for f, v in both]
    return Accuracy(
        len(truth),
        len(truth) - len(both),
        sum(f != v for f, v in both),
        sum(key not in truth for key in found),
        sum(errors) / len(errors) if errors else 0.0,
    )
