"""Where a sorted copy of a relation is cut into segments: between the values of its key, never inside one.

A segment has at least ``theta`` bytes and at most twice as many, where the values allow it: one that is larger is a segment of its own, and what is
left in front of it, or at the end, may be smaller than ``theta``.
"""

from __future__ import annotations

from collections.abc import Sequence


def cut(sizes: Sequence[int], theta: int) -> list[int]:
    """Where segments end: the numbers of values before each end. ``sizes`` are those of the values of a key, in their order.

    A segment is closed once it has ``theta`` bytes; or before a value with which it would have more than twice as many. One that is
    smaller joins the segment before it, if both together have at most twice ``theta``.

    >>> cut([4, 4, 4, 4, 4], 8)
    [2, 5]
    >>> cut([3, 100, 3], 8)
    [1, 2, 3]
    """
    ends: list[int] = []
    totals: list[int] = []

    def close(end: int, total: int) -> None:
        if totals and total < theta and totals[-1] + total <= 2 * theta:
            ends[-1] = end
            totals[-1] += total
            return
        ends.append(end)
        totals.append(total)

    first = total = 0
    for number, size in enumerate(sizes):
        if number > first and total + size > 2 * theta:
            close(number, total)
            first, total = number, 0
        total += size
        if total >= theta:
            close(number + 1, total)
            first, total = number + 1, 0
    if first < len(sizes):
        close(len(sizes), total)
    return ends
