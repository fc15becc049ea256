"""Which segments of a table may have the keys of some rows, and their rows that have one.

A segment is known by the least and the greatest value of each part of the key. These are bounds: they may be wider than the values,
and a bound that is null says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


@dataclass(frozen=True)
class KeyRange:
    """The bounds of one part of the key, a value per segment; null where nothing is known."""

    least: pa.Array
    greatest: pa.Array

    @property
    def is_open(self) -> NDArray[np.bool_]:
        """Which segments may have any value."""
        return _mask(pc.or_(self.least.is_null(), self.greatest.is_null()))


class Wanted:
    """The values of one part of the keys that rows ask for: each once, in order, with how many rows have it."""

    def __init__(self, values: pa.Array, rows: NDArray[np.int64]):
        values = as_compared(values)
        if _is_counted(values.type):
            numbers, places = np.unique(_numbers(values), return_inverse=True)
            self.values: pa.Array = _as_kind(numbers, values.type)
        else:
            unique = pc.unique(values)
            self.values = unique.take(pc.sort_indices(unique))
            # Where each value came from, so that its rows are added up.
            places = pc.index_in(values, value_set=self.values).to_numpy()
        counts = np.bincount(places, weights=rows, minlength=len(self.values))
        self._before = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def within(self, bounds: KeyRange) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first value, and the one behind the last, that each segment may have."""
        first = np.zeros(len(bounds.least), np.int64)
        end = np.full(len(bounds.least), len(self.values), np.int64)
        known = np.flatnonzero(~bounds.is_open)
        if len(known):
            at = pa.array(known)
            first[known] = _below(self.values, bounds.least.take(at), "min")
            end[known] = np.maximum(
                _below(self.values, bounds.greatest.take(at), "max"), first[known]
            )
        return first, end

    def rows(self, first: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many rows have the values from ``first`` to before ``end``."""
        return self._before[end] - self._before[first]


def _below(values: pa.Array, points: pa.Array, ties: str) -> NDArray[np.int64]:
    """How many of ``values``, which are distinct, are below each point, or at it if ``ties`` is max; for all types with an order."""
    if _is_counted(values.type):
        side: Literal["left", "right"] = "left" if ties == "min" else "right"
        return np.searchsorted(_numbers(values), _numbers(points), side).astype(np.int64)
    among = pc.rank(pa.concat_arrays([values, points]), sort_keys="ascending", tiebreaker=ties)
    own = pc.rank(points, sort_keys="ascending", tiebreaker=ties)
    below: NDArray[np.int64] = among.to_numpy()[len(values) :].astype(
        np.int64
    ) - own.to_numpy().astype(np.int64)
    return below


class WantedKeys:
    """Keys that rows ask for, part by part, against the segments of a table.

    ``keys`` has a column per part of the key, without nulls, and ``rows`` how many rows have each.
    """

    def __init__(self, keys: pa.Table, rows: NDArray[np.int64], ranges: Sequence[KeyRange]):
        self._parts = [Wanted(c.combine_chunks(), rows) for c in keys.columns]
        self._slices = [
            part.within(bounds) for part, bounds in zip(self._parts, ranges, strict=True)
        ]

    def asking(self) -> NDArray[np.int64]:
        """How many rows ask for each segment: they have a key that it may have."""
        counts = [part.rows(*at) for part, at in zip(self._parts, self._slices, strict=True)]
        least: NDArray[np.int64] = np.minimum.reduce(counts)
        return least

    def met(self, segment: int, rows: pa.Table, keys: Sequence[str]) -> pa.Table:
        """The rows of a segment that have, in each part, a value that is asked for. ``keys`` are their columns."""
        keep = None
        for name, part, (first, end) in zip(keys, self._parts, self._slices, strict=True):
            values = part.values.slice(first[segment], end[segment] - first[segment])
            if len(keys) == 1:
                places = _places(rows[name], values)
                if places is not None:
                    return rows.take(pa.array(places))
            here = among(rows[name], values)
            keep = here if keep is None else pc.and_(keep, here)
        return rows if keep is None else rows.filter(keep)


DENSE = 8
"""A table of what is asked for may have so many places for each value that is looked up in it."""


def _places(values: pa.ChunkedArray, asked: pa.Array) -> NDArray[np.int64] | None:
    """Where the values are that are ``asked`` for, which are distinct and in order: searched, if the values are in order, too, and many
    more; else None.
    """
    if len(asked) * DENSE > len(values) or values.null_count or not _is_counted(values.type):
        return None
    here, wanted = _numbers(values.combine_chunks()), _numbers(asked)
    if (here[1:] > here[:-1]).all():
        places = np.searchsorted(here, wanted)
        places = places[places < len(here)]
        met: NDArray[np.int64] = places[here[places] == wanted[: len(places)]]
        return met
    if not (here[1:] >= here[:-1]).all():
        return None
    first = np.searchsorted(here, wanted, "left")
    counts = np.searchsorted(here, wanted, "right") - first
    before = np.cumsum(counts) - counts
    found: NDArray[np.int64] = np.repeat(first - before, counts) + np.arange(counts.sum())
    return found


def among(values: pa.ChunkedArray, asked: pa.Array) -> pa.Array | pa.ChunkedArray:
    """Which values are ``asked`` for. These are distinct and in order; null is not among them."""
    if len(values) and len(asked) and not values.null_count and _is_counted(values.type):
        here, wanted = _numbers(values.combine_chunks()), _numbers(asked)
        mask = _in_table(here, wanted)
        if mask is None:
            mask = _in_order(here, wanted)
        if mask is not None:
            return pa.array(mask)
    return pc.is_in(as_compared(values), value_set=asked, skip_nulls=True)


def _in_table(here: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Each number is looked up in a table from the least that is wanted to the greatest; None if that were too long."""
    least = int(wanted[0])
    width = int(wanted[-1]) - least + 1
    if width > DENSE * (len(here) + len(wanted)):
        return None
    table = np.zeros(width + 1, bool)  # the last place is that of all other numbers
    table[wanted - least] = True
    # Without signs, what is below the least is far above the greatest, also where the difference has no room.
    places = here.view(np.uint64) - np.uint64(least % (1 << 64))
    found: NDArray[np.bool_] = table[np.minimum(places, np.uint64(width)).astype(np.int64)]
    return found


def _in_order(here: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """What is wanted is searched among numbers in order; None if they are in none, or if it were too often."""
    if len(wanted) * DENSE > len(here) or not (here[1:] >= here[:-1]).all():
        return None
    inside = np.zeros(len(here) + 1, np.int64)
    np.add.at(inside, np.searchsorted(here, wanted, "left"), 1)
    np.add.at(inside, np.searchsorted(here, wanted, "right"), -1)
    found: NDArray[np.bool_] = np.cumsum(inside[:-1]) > 0
    return found


def _is_counted(kind: pa.DataType) -> bool:
    """Whether values of a type are whole numbers inside."""
    return bool(
        pa.types.is_signed_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    )


def _numbers(values: pa.Array) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = values.view(_whole(values.type)).to_numpy()
    return numbers.astype(np.int64, copy=False)


def _as_kind(numbers: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    return pa.array(numbers, pa.int64()).cast(_whole(kind)).view(kind)


def _whole(kind: pa.DataType) -> pa.DataType:
    return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]


def segments_per_key(ranges: KeyRange, rows: NDArray[np.int64]) -> float:
    """How many segments a key may be in, in the mean: over the least keys of the segments, by their rows."""
    is_open = ranges.is_open
    known = np.flatnonzero(~is_open)
    if not len(known) or not rows.sum():
        return float(len(rows))
    least, greatest = ranges.least.take(pa.array(known)), ranges.greatest.take(pa.array(known))
    starts = _at(least, least, "max")
    ended = _at(greatest, least, "min")
    inside = starts - ended + int(is_open.sum())
    if not rows[known].sum():
        return float(inside.mean())
    return float(np.average(inside, weights=rows[known]))


def _at(values: pa.Array, points: pa.Array, ties: str) -> NDArray[np.int64]:
    """How many of ``values``, which may recur, are below each point, or at it if ``ties`` is max."""
    unique = pc.unique(values)
    order = pc.sort_indices(unique)
    unique = unique.take(order)
    counts = np.bincount(pc.index_in(values, value_set=unique).to_numpy())
    before = np.concatenate([[0], np.cumsum(counts)])
    found: NDArray[np.int64] = before[_below(unique, points, ties)]
    return found


def as_compared(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Values of which those that a join takes for equal are the same: to Arrow, the zeros and the NaNs are several."""
    if not pa.types.is_floating(values.type):
        return values
    nan = pa.scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, pa.scalar(0.0, values.type)))


def _mask(values: pa.Array) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = values.to_numpy(zero_copy_only=False).astype(bool)
    return mask
