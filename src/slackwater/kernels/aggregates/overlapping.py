"""Order statistics, distinct values and frequent values of ranges of rows that overlap.

Nothing here costs entries × results: ranks are found for all ranges at once, bit by bit of the value
(`ranked`); the count of a value is a step function over the results, with two steps per entry (`steps`),
and distinct, most frequent and frequent values are read from those steps.

Except for `ranked`, ranges must rise: neither end of a range lies before that of its predecessor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.kernels.aggregates.tables import Tables, spread
from slackwater.kernels.order import group_codes, stable_order

Ints = npt.NDArray[np.int64]

WORTH = 2.0
"""How often an entry must be used on average for these ways to be worth it."""


def worth_it(tables: Tables, lo: Ints, hi: Ints, *, rising: bool) -> bool:
    """Whether the ranges overlap enough (and, if asked, rise)."""
    used = int((tables.offsets[hi] - tables.offsets[lo]).sum())
    if used <= WORTH * len(tables.counts):
        return False
    return not rising or bool((lo[1:] >= lo[:-1]).all() and (hi[1:] >= hi[:-1]).all())


def ranked(tables: Tables, lo: Ints, hi: Ints, rank: Ints) -> Ints:
    """An entry with the value of that rank (from 0) in each range's sum of tables, -1 beyond it.

    A wavelet matrix: for each bit of the values' codes, from the highest on, entries are stably parted
    by the bit, and each query goes to the side where its rank lies.
    """
    codes, size = tables.codes
    left, right = tables.offsets[lo], tables.offsets[hi]
    inside = (rank >= 0) & (rank < tables.totals(lo, hi))
    rest = np.where(inside, rank, 0)
    where = np.arange(len(codes))
    counts, entries = tables.counts, np.zeros(len(rank), dtype=np.int64)
    for bit in range(max(size - 1, 1).bit_length() - 1, -1, -1):
        one = (codes >> np.int64(bit)) & 1
        zeros = np.concatenate([[0], np.cumsum(1 - one)])
        weight = np.concatenate([[0], np.cumsum(np.where(one == 0, counts, 0))])
        below = weight[right] - weight[left]
        up = inside & (rest >= below)
        rest = np.where(up, rest - below, rest)
        entries = (entries << 1) | up
        split = zeros[-1]
        left = np.where(up, split + left - zeros[left], zeros[left])
        right = np.where(up, split + right - zeros[right], zeros[right])
        order = np.argsort(one, kind="stable")
        codes, counts, where = codes[order], counts[order], where[order]
    # The entries are sorted by code now, and the queried range begins with one of the wanted code.
    if not len(where):
        return np.full(len(rank), -1, dtype=np.int64)
    return np.where(inside, where[np.minimum(left, len(where) - 1)], -1)


def distinct(tables: Tables, lo: Ints, hi: Ints) -> Ints:
    """How many values each range has.

    An entry adds its value to the results that its predecessor of the same value did not reach.
    """
    order = stable_order(tables.codes)
    first, end = _reach(tables, lo, hi)
    code, first, end = tables.codes.codes[order], first[order], end[order]
    same = code[1:] == code[:-1]
    first[1:] = np.where(same, np.maximum(first[1:], end[:-1]), first[1:])
    new = first < end
    change = np.bincount(first[new], minlength=len(lo) + 1)
    change -= np.bincount(end[new], minlength=len(lo) + 1)
    return np.asarray(np.cumsum(change)[:-1])


class Steps(NamedTuple):
    """An entry's value has the count ``counts[i]`` in the results [``first[i]``, ``end[i]``)."""

    entries: Ints
    counts: Ints
    first: Ints
    end: Ints


def steps(tables: Tables, lo: Ints, hi: Ints) -> Steps:
    """The step functions of all values' counts over the results, where above 0."""
    first, end = _reach(tables, lo, hi)
    used = np.flatnonzero(first < end)
    entries = np.concatenate([used, used])
    at = np.concatenate([first[used], end[used]])
    change = np.concatenate([tables.counts[used], -tables.counts[used]])
    code = tables.codes.codes[entries]
    order = stable_order(group_codes([code, at], len(at)))
    code, at, entries = code[order], at[order], entries[order]
    count = np.cumsum(change[order])  # every value's changes add up to 0
    kept = np.flatnonzero((count[:-1] > 0) & (at[:-1] < at[1:]) & (code[:-1] == code[1:]))
    return Steps(entries[kept], count[kept], at[kept], at[kept + 1])


def best(counted: Steps, rank: Ints, results: int) -> Ints:
    """For each result the step of greatest ``rank`` that covers it, -1 if none does.

    Each interval is the union of two of a power of two's length; these are handed down level by level.
    """
    length = counted.end - counted.first
    level = np.frexp(length.astype(np.float64))[1] - 1
    order = np.argsort(rank, kind="stable")
    top = int(level.max()) if len(level) else 0
    place = np.empty(len(rank), dtype=np.int64)
    place[order] = np.arange(len(rank))
    here = np.full(results, -1, dtype=np.int64)
    for k in range(top, -1, -1):
        width = 1 << k
        if k < top:
            handed = here.copy()
            np.maximum(handed[width:], here[:-width], out=handed[width:])
            here = handed
        mine = np.flatnonzero(level == k)
        mine = mine[np.argsort(place[mine])]  # of two that meet the last one, the greater, stays
        for at in (counted.first[mine], counted.end[mine] - width):
            fresh = np.full(results, -1, dtype=np.int64)
            fresh[at] = place[mine]
            np.maximum(here, fresh, out=here)
    return np.where(here >= 0, order[np.maximum(here, 0)], -1) if len(order) else here


def least(values: Ints, first: Ints, end: Ints) -> Ints:
    """The least of values[first:end] for non-empty pieces."""
    out = np.empty(len(first), dtype=values.dtype)
    level = np.frexp((end - first).astype(np.float64))[1] - 1
    table = values
    for k in range(int(level.max()) + 1 if len(level) else 0):
        if k:
            half = 1 << (k - 1)
            table = np.minimum(table[:-half], table[half:])
        mine = level == k
        out[mine] = np.minimum(table[first[mine]], table[end[mine] - (1 << k)])
    return out


def frequent(tables: Tables, lo: Ints, hi: Ints, need: Ints) -> tuple[Ints, Ints, Ints]:
    """(result, entry, count) for each value whose count in the result is at least ``need`` there."""
    counted = steps(tables, lo, hi)
    hopeful = np.flatnonzero(counted.counts >= least(need, counted.first, counted.end))
    length = counted.end[hopeful] - counted.first[hopeful]
    result = spread(counted.first[hopeful], length)
    which = np.repeat(hopeful, length)
    kept = counted.counts[which] >= need[result]
    which = which[kept]
    return result[kept], counted.entries[which], counted.counts[which]


def _reach(tables: Tables, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    """The results [first, end) that use each entry."""
    rows = np.arange(len(tables.offsets) - 1)
    length = np.diff(tables.offsets)
    first = np.searchsorted(hi, rows, side="right")
    end = np.searchsorted(lo, rows, side="right")
    return np.repeat(first, length), np.repeat(np.maximum(end, first), length)
