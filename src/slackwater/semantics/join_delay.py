"""How long results of a bounded join come after their rows: mean and 95 %, over counts that can be added up.

The delay of a pair begins with the batch that brought its later row, and ends with the batch in which the pair leaves. A pair that leaves
in the batch of its later row has none. Rows that leave without a partner are not counted: they wait for the bound, not for the join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Delays = Sequence[Sequence[int]]
"""Pairs of a delay and how many results had it."""


@dataclass(frozen=True)
class ResultDelay:
    """Of the results of a batch; ``p95`` is the least delay that 95 % of them do not exceed."""

    mean: float
    p95: int


def delay_of(groups: Iterable[Delays]) -> ResultDelay | None:
    """The delay over all groups; None if there was no result.

    >>> delay_of([[[0, 90]], [[1000, 4], [5000, 6]]])
    ResultDelay(mean=340.0, p95=5000)
    >>> delay_of([[[0, 0]], []])
    """
    counts: Counter[int] = Counter()
    for delays in groups:
        for delay, count in delays:
            counts[delay] += count
    total = counts.total()
    if not total:
        return None
    mean = sum(delay * count for delay, count in counts.items()) / total
    return ResultDelay(
        mean, next(d for d in sorted(counts) if 100 * _upto(counts, d) >= 95 * total)
    )


def _upto(counts: Mapping[int, int], most: int) -> int:
    return sum(count for delay, count in counts.items() if delay <= most)
