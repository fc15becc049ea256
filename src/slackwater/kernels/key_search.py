"""Which segment of a sorted copy a key is in: a number per key, since no key is in two segments.

Numbers and times are looked up in an array of slots, equal spans of their domain: a slot names the segment that its first value
belongs to, and a segment that begins inside it is a step away. Other keys are searched for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slackwater.kernels.buckets import flat
from slackwater.kernels.order import group_codes, has_image, image
from slackwater.kernels.segments import Wanted, among

Ints = NDArray[np.int64]

SLOTS_PER_SEGMENT = 8
MOST_SLOTS = 1 << 20
STEPS = 8
"""So often keys go on to the next segment; those that would have to go farther, where many segments begin in one slot, are searched for."""


class KeySearch:
    """The segments of a copy by their keys.

    ``first`` and ``last`` have a column per part of the key and a row per segment, in the order of the keys, without nulls.
    ``numbers`` are those of the segments, if they are not from 0 on.
    """

    def __init__(self, first: pa.Table, last: pa.Table, numbers: Ints | None = None):
        self._first, self._last, self._numbers = first, last, numbers
        self._slots: _Slots | None = None
        if first.num_columns == 1 and first.num_rows and has_image(first.schema.types[0]):
            self._slots = _Slots(*(image(flat(t.column(0))) for t in (first, last)))

    def segment_of(self, keys: pa.Table) -> Ints:
        """The number of the segment that may have each key, which has no null; -1 if none has."""
        if not keys.num_rows or not self._first.num_rows:
            return np.full(keys.num_rows, -1, np.int64)
        found = self._found(keys)
        return found if self._numbers is None else np.where(found < 0, -1, self._numbers[found])

    def per_key(self) -> float:
        """How many segments a key is in, in the mean over the first keys of all: one, if none is cut."""
        first, last, _ = self._codes(self._first.slice(0, 0))
        if not len(first):
            return 0.0
        begun = np.searchsorted(np.sort(first), first, "right")
        ended = np.searchsorted(np.sort(last), first, "left")
        return float((begun - ended).mean())

    def _found(self, keys: pa.Table) -> Ints:
        if self._slots is not None:
            return self._slots.segment_of(image(flat(keys.column(0))))
        first, last, wanted = self._codes(keys)
        found = np.searchsorted(first, wanted, "right") - 1
        return np.where((found >= 0) & (wanted <= last[found]), found, -1)

    def _codes(self, keys: pa.Table) -> tuple[Ints, Ints, Ints]:
        """The first and last keys of the segments, and some more, as numbers in the order of the keys."""
        count, columns = self._first.num_rows, []
        for at in range(keys.num_columns):
            parts = (flat(t.column(at)) for t in (self._first, self._last, keys))
            columns.append(pa.concat_arrays(list(parts)))
        codes = group_codes(columns, 2 * count + keys.num_rows).codes
        return codes[:count], codes[count : 2 * count], codes[2 * count :]


class FoundKeys:
    """Keys that rows ask for against the segments of a copy: each is asked for in the one that has it.

    ``keys`` has a column per part of the key, without nulls, ``rows`` says how many rows have each; there are ``count`` segments.
    """

    def __init__(self, keys: pa.Table, rows: Ints, search: KeySearch, count: int):
        found = search.segment_of(keys)
        known = np.flatnonzero(found >= 0)
        order = known[np.argsort(found[known], kind="stable")]
        self._keys = keys.take(pa.array(order))
        ends = np.searchsorted(found[order], np.arange(count + 1), "left")
        self._begin, self._end = ends[:-1], ends[1:]
        self._asking = np.bincount(found[known], rows[known], count).astype(np.int64)

    def asking(self) -> Ints:
        """How many rows ask for each segment."""
        return self._asking

    def met(self, segment: int, rows: pa.Table, keys: Sequence[str]) -> pa.Table:
        """The rows of a segment that have, in each part, a value that is asked for there. ``keys`` are their columns."""
        begin, length = self._begin[segment], self._end[segment] - self._begin[segment]
        keep = None
        for name, column in zip(keys, self._keys.slice(begin, length).columns, strict=True):
            here = among(rows[name], Wanted(flat(column), np.zeros(length, np.int64)).values)
            keep = here if keep is None else pc.and_(keep, here)
        return rows if keep is None else rows.filter(keep)


class _Slots:
    """Segments by the images of their keys, which are 64-bit integers in the order of the keys."""

    def __init__(self, first: Ints, last: Ints):
        self._least = first[0]
        self._first, self._last = self._distance(first), self._distance(last)
        span = int(self._last[-1])
        wanted = min(MOST_SLOTS, max(64, SLOTS_PER_SEGMENT * len(first)))
        self._shift = np.uint64(max(0, span.bit_length() - (wanted - 1).bit_length()))
        count = (span >> int(self._shift)) + 1
        starts = np.arange(count, dtype=np.uint64) << self._shift
        self._slot = np.maximum(np.searchsorted(self._first, starts, "right") - 1, 0)

    def _distance(self, values: Ints) -> NDArray[np.uint64]:
        # Modulo 2^64, so that a domain of all integers does not overflow.
        far: NDArray[np.uint64] = values.view(np.uint64) - self._least.view(np.uint64)
        return far

    def segment_of(self, keys: Ints) -> Ints:
        at = self._distance(keys)
        inside = (keys >= self._least) & (at <= self._last[-1])
        at = np.where(inside, at, np.uint64(0))
        found: Ints = self._slot[at >> self._shift]
        beyond = len(self._first)
        next_first = np.append(self._first, np.uint64(0))
        going = np.arange(len(at))
        for _ in range(STEPS):
            following = found[going] + 1
            going = going[(following < beyond) & (next_first[following] <= at[going])]
            if not len(going):
                break
            found[going] += 1
        else:
            found[going] = np.searchsorted(self._first, at[going], "right") - 1
        return np.where(inside & (at <= self._last[found]), found, -1)
