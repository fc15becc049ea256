"""Finding pairs of rows with equal keys whose times lie in a span: sort one side, look up the other.

The cost is n log n for the rows plus the pairs found, whatever the number of rows of one key: what is
outside the span is never looked at. Pairs come in chunks of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.buckets import Column, flat, is_text
from slackwater.kernels.order import group_codes

Ints = npt.NDArray[np.int64]
NO_KEY = -1
"""Code of a row whose key holds a null: it equals no row, not even itself."""
MAX_PAIRS = 1 << 18

_ROOM = 1 << 62


def key_codes(
    keys: Sequence[Sequence[Column]], rows: Sequence[int], leading: int | None = None
) -> list[Ints]:
    """A code per row of each table, equal where the keys are, `NO_KEY` where one is null.

    ``keys[i]`` are the key columns of table i, ``rows[i]`` its number of rows; columns correspond by
    position and have one type. NaN equals NaN, and -0.0 equals 0.0. With ``leading`` the keys of the
    later tables matter only if one of the first ``leading`` tables has them; else they may be
    `NO_KEY`, which is faster to find out.
    """
    total = sum(rows)
    split = total if leading is None else sum(rows[:leading])
    none = np.zeros(total, dtype=np.bool_)
    columns: list[Column | Ints] = []
    for parts in zip(*keys, strict=True):
        column = pa.concat_arrays([flat(p) for p in parts])
        if is_text(column.type):
            column = _numbered(column, split)
        if column.null_count:
            none |= column.is_null().to_numpy(zero_copy_only=False)
        columns.append(column)
    codes, size = group_codes(columns, total)
    if size > _sparse(total):
        codes = _numbered(pa.array(codes), total).to_numpy(zero_copy_only=False).astype(np.int64)
    if none.any():
        codes = np.where(none, np.int64(NO_KEY), codes)
    return np.split(codes, np.cumsum(rows)[:-1])


def _numbered(column: pa.Array, split: int) -> pa.Array:
    """Values numbered as they first occur before ``split``; null for others.

    Only which values are equal matters to a join, not their order.
    """
    head = column.slice(0, split).dictionary_encode()
    if split == len(column):
        return head.indices
    return pa.concat_arrays(
        [head.indices, pc.index_in(column.slice(split), value_set=head.dictionary)]
    )


class Spans(NamedTuple):
    """Probing rows that have partners, with the place of the first and the number of them."""

    rows: Ints
    first: Ints
    length: Ints

    @property
    def total(self) -> int:
        """Number of pairs."""
        return int(self.length.sum())


class TimeIndex:
    """Rows of one side in order of (code, time). Rows without a key are left out.

    Index the smaller side: it is sorted, while rows of the other one are looked up as they come.
    """

    def __init__(self, codes: Ints, times: Ints) -> None:
        rows = np.flatnonzero(codes >= 0)
        if len(rows) < len(codes):
            codes, times = codes[rows], times[rows]
        self._known: Ints | None = None
        if len(codes) and int(codes.max()) >= max(32 * len(codes), 1 << 14):
            # An array with a place for each code would be mostly empty.
            self._known, codes = np.unique(codes, return_inverse=True)
        order = _order(codes, times)
        self._times = times[order]
        # Where the rows of a code start; one code more, so that each has an end.
        self._starts: Ints = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        self.rows: Ints = rows[order]
        """Row numbers in order."""

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, codes: Ints, low: Ints, high: Ints) -> Spans:
        """For each probing row the rows of equal code with ``low <= time <= high``."""
        if not len(self.rows):
            none = np.empty(0, dtype=np.int64)
            return Spans(none, none, none)
        if self._known is not None:
            place = np.minimum(np.searchsorted(self._known, codes), len(self._known) - 1)
            codes = np.where(self._known[place] == codes, place, NO_KEY)
        probing = np.flatnonzero((codes >= 0) & (codes < len(self._starts) - 1))
        codes = codes[probing]
        start, end = self._starts[codes], self._starts[codes + 1]
        there = np.flatnonzero(end > start)
        probing, start, end = probing[there], start[there], end[there]
        return spans_within(self._times, probing, start, end, low[probing], high[probing])

    def pairs(self, spans: Spans, max_pairs: int = MAX_PAIRS) -> Iterator[tuple[Ints, Ints]]:
        """(probing row, row) of all pairs, at most ``max_pairs`` at a time."""
        for probing, place in places_of(spans, max_pairs):
            yield probing, self.rows[place]

    def covered(self, spans: Spans) -> Ints:
        """The rows that are in one of the spans, each once."""
        edges = np.zeros(len(self.rows) + 1, dtype=np.int64)
        np.add.at(edges, spans.first, 1)
        np.add.at(edges, spans.first + spans.length, -1)
        return self.rows[np.cumsum(edges[:-1]) > 0]


def spans_within(
    times: Ints, probing: Ints, start: Ints, end: Ints, low: Ints, high: Ints
) -> Spans:
    """For each probing row what of [start, end), not empty and in order of time, has ``low <= time <= high``.

    ``start`` and ``end`` are changed.
    """
    # Most keys lie in the span as a whole or not at all: their first and last time tell.
    after, before = times[start] >= low, times[end - 1] <= high
    cut = np.flatnonzero(~after)
    start[cut] = _bisect(times, start[cut], end[cut], low[cut])
    cut = np.flatnonzero(~before)
    end[cut] = _bisect(times, start[cut], end[cut], high[cut] + 1)
    hit = np.flatnonzero(end > start)
    return Spans(probing[hit], start[hit], end[hit] - start[hit])


def places_of(spans: Spans, max_pairs: int) -> Iterator[tuple[Ints, Ints]]:
    """(probing row, place) of all pairs, at most ``max_pairs`` at a time."""
    ends = np.cumsum(spans.length)
    total = int(ends[-1]) if len(ends) else 0
    if total == len(ends) <= max_pairs:  # one partner each
        if total:
            yield spans.rows, spans.first
        return
    # From the start of a span's pairs in the whole sequence to the place of its first row.
    shift = spans.first - (ends - spans.length)
    for low in range(0, total, max_pairs):
        high = min(low + max_pairs, total)
        a = int(np.searchsorted(ends, low, side="right"))
        b = int(np.searchsorted(ends, high, side="left")) + 1
        edges = np.minimum(ends[a:b], high)
        span = np.repeat(np.arange(a, b), np.diff(edges, prepend=np.int64(low)))
        yield spans.rows[span], np.arange(low, high) + shift[span]


def present(codes_a: Ints, codes_b: Ints) -> npt.NDArray[np.bool_]:
    """Whether a code of b occurs in a; rows without a key do not count."""
    if not len(codes_a) or not len(codes_b):
        return np.zeros(len(codes_b), dtype=np.bool_)
    size = max(int(codes_a.max()), int(codes_b.max())) + 1
    if size > _sparse(len(codes_a) + len(codes_b)):
        return np.isin(codes_b, codes_a[codes_a >= 0])
    seen = np.zeros(size + 1, dtype=np.bool_)  # the last one is of NO_KEY
    seen[codes_a] = True
    seen[NO_KEY] = False
    return np.asarray(seen[codes_b])


def _bisect(times: Ints, start: Ints, end: Ints, value: Ints) -> Ints:
    """In each [start, end) of ``times`` the first place whose time is not below the value."""
    place = start.copy()
    rows = np.flatnonzero(start < end)
    low, high, sought = start[rows], end[rows], value[rows]
    while len(rows):
        middle = (low + high) >> 1
        below = times[middle] < sought
        low = np.where(below, middle + 1, low)
        high = np.where(below, high, middle)
        more = low < high
        done = ~more
        place[rows[done]] = low[done]
        rows, low, high, sought = rows[more], low[more], high[more], sought[more]
    return np.asarray(place)


def _order(codes: Ints, times: Ints) -> Ints:
    """Row numbers in order of (code, time)."""
    if not len(codes):
        return np.empty(0, dtype=np.int64)
    first = int(times.min())
    width = int(times.max()) - first + 1
    if (int(codes.max()) + 1) * width < _ROOM:
        return np.asarray(np.argsort(codes * np.int64(width) + (times - np.int64(first))))
    return np.lexsort((times, codes))


def _sparse(rows: int) -> int:
    """From here on codes are too few for their size to serve as places in an array."""
    return max(8 * rows, 1 << 21)
