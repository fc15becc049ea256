"""The first of some segments of a table that may have each key: what a row must wait for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slackwater.kernels.buckets import flat
from slackwater.kernels.segments import KeyRange, Wanted, as_compared

Ints = NDArray[np.int64]


def first_in(keys: pa.Table, ranges: Sequence[KeyRange], which: NDArray[np.bool_]) -> Ints:
    """The least number of a segment, among those that ``which`` marks, that may have each key; -1 if none may.

    ``keys`` has a column per part of the key, without nulls; a key may recur. ``ranges`` has the segments' bounds, part by part.
    """
    count = keys.num_rows
    found = np.full(count, -1, np.int64)
    marked = np.flatnonzero(which)
    if not count or not len(marked):
        return found
    codes, slices = [], []
    for column, bounds in zip(keys.columns, ranges, strict=True):
        values = flat(column)
        part = Wanted(values, np.ones(count, np.int64))
        places = pc.index_in(as_compared(values), value_set=part.values)
        codes.append(places.to_numpy(zero_copy_only=False).astype(np.int64))
        at = pa.array(marked)
        slices.append(part.within(KeyRange(bounds.least.take(at), bounds.greatest.take(at))))
    order = np.argsort(codes[0], kind="stable")
    sorted_codes = [c[order] for c in codes]
    (first, end), others = slices[0], slices[1:]
    begin = np.searchsorted(sorted_codes[0], first, "left")
    stop = np.searchsorted(sorted_codes[0], end, "left")
    in_order = np.full(count, -1, np.int64)
    # From the last on, so that the first one has the last word.
    for i in range(len(marked) - 1, -1, -1):
        here = slice(begin[i], stop[i])
        if here.start >= here.stop:
            continue
        if not others:
            in_order[here] = marked[i]
            continue
        inside = np.ones(here.stop - here.start, bool)
        for part_codes, (low, high) in zip(sorted_codes[1:], others, strict=True):
            inside &= (part_codes[here] >= low[i]) & (part_codes[here] < high[i])
        in_order[here][inside] = marked[i]
    found[order] = in_order
    return found
