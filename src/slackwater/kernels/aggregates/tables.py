"""Value→count tables: what a pane carries for an aggregate that no state of constant size can hold.

The tables of many rows lie behind each other in one set of arrays. A result is a *range* of rows
[lo, hi): its table is the sum of theirs. Ranges that overlap little are summed one by one (`Tables.merge`);
`overlapping` has the ways that take time in proportion to entries and results, whatever the overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.buckets import Column, flat, list_parts
from slackwater.kernels.order import Codes, column_codes, dense, group_codes, stable_order

Ints = npt.NDArray[np.int64]

CHUNK = 1 << 21
"""Entries that are merged at a time: bounds the memory of merging ranges that overlap."""


class Merged(NamedTuple):
    """Tables of results: entries (as indices) sorted by value, their counts, where each table starts."""

    entries: Ints
    counts: Ints
    offsets: Ints


def table_type(value: pa.DataType) -> pa.DataType:
    """The Arrow type of a table: a list of (value, count), sorted by value."""
    return pa.list_(pa.struct([pa.field("v", value), pa.field("n", pa.int64())]))


@dataclass
class Tables:
    """Row r has the entries [offsets[r], offsets[r + 1]): no value is null, no count is 0."""

    values: pa.Array
    counts: Ints
    offsets: Ints
    _prefix: Any = field(default=None, repr=False)

    @staticmethod
    def load(column: Column) -> Tables:
        """From a column of `table_type`."""
        elements, offsets = list_parts(flat(column))
        values, counts = elements.flatten()
        return Tables(values, _numpy(counts), offsets)

    @staticmethod
    def of_values(column: Column, value: pa.DataType) -> Tables:
        """From lists of values, unsorted; nulls are left out."""
        elements, offsets = list_parts(flat(column))
        return Tables.of_rows(elements, np.ones(len(elements), dtype=np.int64), offsets, value)

    @staticmethod
    def of_rows(values: pa.Array, counts: Ints, offsets: Ints, value: pa.DataType) -> Tables:
        """From values and how often each counts; what is null or counts 0 is left out."""
        if not values.type.equals(value):
            values = values.cast(value)
        kept = values.is_valid().to_numpy(zero_copy_only=False) & (counts > 0)
        if not kept.all():
            before = np.concatenate([[0], np.cumsum(kept)])
            offsets = before[offsets]
            values, counts = values.filter(pa.array(kept)), counts[kept]
        if pa.types.is_floating(value):
            values = pc.add(values, pa.scalar(0.0, value))  # one zero
        return Tables(values, counts, offsets)

    @cached_property
    def codes(self) -> Codes:
        """The entries' values as integers in Spark's order, none left out between."""
        return dense(column_codes(self.values))

    @property
    def prefix(self) -> Ints:
        """Sum of the counts before each entry, and of all."""
        if self._prefix is None:
            self._prefix = np.concatenate([[0], np.cumsum(self.counts)])
        return np.asarray(self._prefix)

    def totals(self, lo: Ints, hi: Ints) -> Ints:
        """How many values each range of rows has, repeated ones counted again."""
        return np.asarray(self.prefix[self.offsets[hi]] - self.prefix[self.offsets[lo]])

    def merge(self, lo: Ints, hi: Ints) -> Merged:
        """The sum of the tables of each range of rows."""
        first, last = self.offsets[lo], self.offsets[hi]
        length = last - first
        done = np.concatenate([[0], np.cumsum(length)])
        if int(done[-1]) <= CHUNK or len(lo) < 2:
            return self._merge(first, length, single=bool(((hi - lo) <= 1).all()))
        cuts = np.unique(np.searchsorted(done, np.arange(0, int(done[-1]), CHUNK), side="right"))
        edges = np.unique(np.concatenate([[0], cuts, [len(lo)]]))
        parts = [self._merge(first[a:b], length[a:b], single=False) for a, b in pairwise(edges)]
        shift = np.cumsum([0] + [len(p.entries) for p in parts])
        return Merged(
            np.concatenate([p.entries for p in parts]),
            np.concatenate([p.counts for p in parts]),
            np.concatenate([[0], *(p.offsets[1:] + s for p, s in zip(parts, shift))]),
        )

    def _merge(self, first: Ints, length: Ints, single: bool) -> Merged:
        entries = spread(first, length)
        offsets = np.concatenate([[0], np.cumsum(length)])
        if single and self.sorted:
            return Merged(entries, self.counts[entries], offsets)
        result = np.repeat(np.arange(len(first)), length)
        both = group_codes([result, self.codes.codes[entries]], len(entries))
        order = stable_order(both)
        code = both.codes[order]
        starts = np.flatnonzero(np.diff(code, prepend=np.int64(-1)))
        entries, result = entries[order], result[order]
        counts = self.counts[entries]
        if len(starts) < len(entries):
            counts = np.add.reduceat(counts, starts)
            entries, result = entries[starts], result[starts]
        sizes = np.bincount(result, minlength=len(first))
        return Merged(entries, counts, np.concatenate([[0], np.cumsum(sizes)]))

    @cached_property
    def sorted(self) -> bool:
        """Whether each row's entries rise: always so for stored tables."""
        codes = self.codes.codes
        rises = np.ones(len(codes) + 1, dtype=np.bool_)
        rises[1:-1] = codes[1:] > codes[:-1]
        rises[self.offsets] = True
        return bool(rises.all())

    def column(self, merged: Merged) -> pa.Array:
        """Merged tables as a column of `table_type`."""
        pairs = pa.StructArray.from_arrays(
            [self.values.take(pa.array(merged.entries)), pa.array(merged.counts)], ["v", "n"]
        )
        return listed(merged.offsets, pairs).cast(table_type(self.values.type))


def spread(first: Ints, length: Ints) -> Ints:
    """The integers first[i] ... first[i] + length[i] - 1, for all i, behind each other."""
    total = int(length.sum())
    before = np.cumsum(length) - length
    return np.asarray(np.arange(total) + np.repeat(first - before, length))


def listed(offsets: Ints, values: pa.Array) -> pa.Array:
    """A column of lists."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)


def sums(values: npt.NDArray[Any], offsets: Ints) -> npt.NDArray[Any]:
    """Sums of the pieces between offsets, by adding only (an empty piece gives 0)."""
    out = np.zeros(len(offsets) - 1, dtype=values.dtype)
    some = np.flatnonzero(offsets[1:] > offsets[:-1])
    if len(some):
        out[some] = np.add.reduceat(values, offsets[:-1][some])
    return out


def _numpy(array: pa.Array) -> Ints:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.int64)
