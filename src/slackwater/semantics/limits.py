"""The domain of bounds: its two ends, inside int64 with room for sums, and arithmetic that stays within them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

START = -(1 << 62)
"""No bound yet."""

END = 1 << 62
"""The stream has ended."""

EARLIEST, LATEST = -(1 << 61), (1 << 61) - 1
"""A time outside of these (some 73,000 years from the epoch in microseconds) counts as no time: so near the ends of
int64, the ends of its windows could not be computed."""

LEAST, MOST = -(1 << 63), (1 << 63) - 1
"""The ends of int64."""

Bounds = Mapping[str, int]
"""Bound by progressing column."""


def clamp(value: int) -> int:
    """The nearest 64-bit integer."""
    return max(LEAST, min(MOST, value))


def shift(bound: int, ticks: int) -> int:
    """The bound of ``time + ticks``. Unknown stays unknown, ended stays ended.

    A finite bound saturates below `END`: a shift must never claim that a stream has ended.

    >>> shift(10, -3), shift(START, 5) == START, shift(END, -5) == END, shift(END - 1, 9) == END - 1
    (7, True, True, True)
    """
    if bound <= START:
        return START
    if bound >= END:
        return END
    return max(START, min(END - 1, bound + ticks))


def minimum(bounds: Iterable[int]) -> int:
    """The bound of a union: the least of its inputs' (`END` of none, since nothing can come).

    >>> minimum([20, 19])
    19
    """
    return min(bounds, default=END)


def aligned(bound: int, granularity: int, origin: int = 0) -> int:
    """The greatest ``origin + k*granularity`` that is <= ``bound``: what a consumer can use of it.

    >>> aligned(13, 5), aligned(-1, 5), aligned(13, 5, 1)
    (10, -5, 11)
    """
    if bound <= START or bound >= END:
        return bound
    return max(START, origin + (bound - origin) // granularity * granularity)
