"""Finding pairs of rows with equal keys whose times lie in a span: sort one side, look up the other.

The cost is n log n for the rows plus the pairs found, whatever the number of rows of one key: rows of the
key outside the span are never looked at. Pairs come in chunks of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.buckets import Column, flat
from slackwater.kernels.order import group_codes

Ints = npt.NDArray[np.int64]
NO_KEY = -1
"""Code of a row whose key holds a null: it equals no row, not even itself."""
MAX_PAIRS = 1 << 18

_ROOM = 1 << 62


def key_codes(keys: Sequence[Sequence[Column]], rows: Sequence[int]) -> list[Ints]:
    """A code per row of each table, equal where the keys are, `NO_KEY` where one is null.

    ``keys[i]`` are the key columns of table i, ``rows[i]`` its number of rows; columns correspond by
    position and have one type. NaN equals NaN, and -0.0 equals 0.0.
    """
    total = sum(rows)
    null = np.zeros(total, dtype=np.bool_)
    columns = []
    for parts in zip(*keys, strict=True):
        arrays = [flat(p) for p in parts]
        column = pa.concat_arrays(arrays)
        columns.append(column)
        if column.null_count:
            null |= column.is_null().to_numpy(zero_copy_only=False)
    codes = group_codes(columns, total).codes
    if null.any():
        codes = np.where(null, np.int64(NO_KEY), codes)
    return np.split(codes, np.cumsum(rows)[:-1])


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
    """Rows of one side in order of (code, time). Rows without a key are left out."""

    def __init__(self, codes: Ints, times: Ints) -> None:
        rows = np.flatnonzero(codes >= 0)
        if len(rows) < len(codes):
            codes, times = codes[rows], times[rows]
        self._places = _Places(codes, times)
        places = self._places.of(codes, times)
        order = np.argsort(places)
        self._sorted = places[order]
        self.rows: Ints = rows[order]
        """Row numbers in order."""

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, codes: Ints, low: Ints, high: Ints) -> Spans:
        """For each probing row the rows of equal code with ``low <= time <= high``."""
        none = np.empty(0, dtype=np.int64)
        if not len(codes) or not len(self.rows):
            return Spans(none, none, none)
        # Looking up in order keeps to memory that is at hand: ten times as fast as at random.
        probing, start = self._places.sought(codes, low)
        order = np.argsort(start)
        probing, start = probing[order], start[order]
        _, end = self._places.sought(codes, high, 1, probing)
        first = np.searchsorted(self._sorted, start)
        length = np.searchsorted(self._sorted, end) - first
        hit = length > 0
        return Spans(probing[hit], first[hit], length[hit])

    def pairs(self, spans: Spans, max_pairs: int = MAX_PAIRS) -> Iterator[tuple[Ints, Ints]]:
        """(probing row, row) of all pairs, at most ``max_pairs`` at a time."""
        ends = np.cumsum(spans.length)
        total = int(ends[-1]) if len(ends) else 0
        # From the start of a span's pairs in the whole sequence to the place of its first row.
        shift = spans.first - (ends - spans.length)
        for low in range(0, total, max_pairs):
            high = min(low + max_pairs, total)
            a = int(np.searchsorted(ends, low, side="right"))
            b = int(np.searchsorted(ends, high, side="left")) + 1
            edges = np.minimum(ends[a:b], high)
            span = np.repeat(np.arange(a, b), np.diff(edges, prepend=np.int64(low)))
            yield spans.rows[span], self.rows[np.arange(low, high) + shift[span]]


def find_pairs(
    codes_a: Ints,
    codes_b: Ints,
    times_b: Ints,
    low: Ints,
    high: Ints,
    max_pairs: int = MAX_PAIRS,
) -> Iterator[tuple[Ints, Ints]]:
    """All (x, y) with equal codes and ``low[x] <= times_b[y] <= high[x]``, in bounded chunks."""
    used = present(codes_a, codes_b)
    rows = np.flatnonzero(used)
    index = TimeIndex(codes_b[rows], times_b[rows])
    for x, y in index.pairs(index.find(codes_a, low, high), max_pairs):
        yield x, rows[y]


def present(codes_a: Ints, codes_b: Ints) -> npt.NDArray[np.bool_]:
    """Whether a code of b occurs in a; rows without a key do not count."""
    if not len(codes_a) or not len(codes_b):
        return np.zeros(len(codes_b), dtype=np.bool_)
    size = max(int(codes_a.max()), int(codes_b.max())) + 1
    if size > max(8 * (len(codes_a) + len(codes_b)), 1 << 16):
        return np.isin(codes_b, codes_a[codes_a >= 0])
    seen = np.zeros(size + 1, dtype=np.bool_)  # the last one is of NO_KEY
    seen[codes_a] = True
    seen[NO_KEY] = False
    return np.asarray(seen[codes_b])


class _Places:
    """(code, time) as one integer in their order."""

    def __init__(self, codes: Ints, times: Ints) -> None:
        self._codes: Ints | None = None
        self._ticks: Ints | None = None
        self._size = int(codes.max()) + 1 if len(codes) else 0
        self._first = int(times.min()) if len(times) else 0
        # One place more than there are times, for what is later than all.
        self._width = int(times.max()) - self._first + 2 if len(times) else 1
        if self._size * self._width >= _ROOM:
            self._codes, self._ticks = np.unique(codes), np.unique(times)
            self._size, self._width = len(self._codes), len(self._ticks) + 1

    def of(self, codes: Ints, times: Ints) -> Ints:
        """Places of rows that were given to the constructor."""
        if self._codes is None or self._ticks is None:
            return np.asarray(codes * np.int64(self._width) + (times - np.int64(self._first)))
        code = np.searchsorted(self._codes, codes)
        return np.asarray(code * np.int64(self._width) + np.searchsorted(self._ticks, times))

    def sought(
        self, codes: Ints, times: Ints, after: int = 0, rows: Ints | None = None
    ) -> tuple[Ints, Ints]:
        """Rows whose code may be there, and the first place of the code at or (1) after the time."""
        if rows is None:
            rows = np.flatnonzero((codes >= 0) & (codes < self._max_code()))
            if self._codes is not None:
                rows = rows[np.isin(codes[rows], self._codes)]
        code, time = codes[rows], times[rows]
        if self._codes is None or self._ticks is None:
            offset = np.clip(time - np.int64(self._first), -after, self._width - 1 - after)
            return rows, code * np.int64(self._width) + (offset + after)
        rank = np.searchsorted(self._ticks, time, side="right" if after else "left")
        return rows, np.searchsorted(self._codes, code) * np.int64(self._width) + rank

    def _max_code(self) -> int:
        return self._size if self._codes is None else int(self._codes[-1]) + 1
