"""Sorted rows of a table, cut into segments as they come, in memory that does not depend on how large the table is.

The column engine sorts, and spills what does not fit. `semantics.copies.cut` says where segments end; one is given out once it is certain
that the one behind it does not join it. So two segments are in memory, and a batch of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slackwater.kernels.buckets import flat
from slackwater.kernels.order import group_codes

Ints = NDArray[np.int64]


class ValueTooLarge(Exception):
    """The rows with one key take more bytes than a segment may have."""

    def __init__(self, key: dict[str, Any], size: int):
        super().__init__(f"the rows with the key {key} take at least {size} bytes")
        self.key, self.size = key, size


@dataclass(frozen=True)
class Piece:
    """The rows of a segment, and what the columns that are counted take of memory."""

    rows: pa.Table
    size: int


class Cutter:
    """Cuts sorted rows into segments.

    Parameters
    ----------
    keys
        The columns that the rows are sorted by.
    counted
        Those whose bytes count.
    theta
        The least bytes of a segment, as far as values allow it.
    most
        What a segment may have at most: a key whose rows have more is an error. None: it does not matter.
    """

    def __init__(
        self, keys: Sequence[str], counted: Sequence[str], theta: int, most: int | None = None
    ):
        self._keys, self._counted = list(keys), list(counted)
        self._theta, self._most = theta, most
        # The last value that was seen: rows with its key may follow.
        self._value = _Pile()
        self._open = _Pile()
        self._closed = _Pile()

    def add(self, rows: pa.Table) -> Iterator[Piece]:
        """The next rows, and the segments that are certain with them."""
        if not rows.num_rows:
            return
        starts, goes_on = self._starts(rows)
        sizes = np.add.reduceat(row_sizes(rows.select(self._counted)), starts)
        ends = np.append(starts[1:], rows.num_rows)
        first = 0
        if goes_on:
            self._value.add([rows.slice(0, ends[0])], int(sizes[0]))
            self._check()
            first = 1
        if first == len(sizes):
            return
        yield from self._whole_value()

        def between(begin: int, end: int) -> list[pa.Table]:
            return [rows.slice(starts[begin], ends[end - 1] - starts[begin])]

        last = len(sizes) - 1
        offset = first
        yield from self._take(
            sizes[first:last], lambda begin, end: between(begin + offset, end + offset)
        )
        self._value.add(between(last, last + 1), int(sizes[last]))
        self._check()

    def end(self) -> Iterator[Piece]:
        """The segments that are left."""
        yield from self._whole_value()
        yield from self._close()
        yield from self._closed.given()

    def _starts(self, rows: pa.Table) -> tuple[Ints, bool]:
        """Where values begin in some rows, and whether the first one goes on from the rows before. A row without a key is one alone."""
        keys = rows.select(self._keys)
        before = self._value.last(self._keys)
        if before is not None:
            keys = pa.concat_tables([before, keys])
        columns = [flat(c) for c in keys.columns]
        codes = group_codes(columns, keys.num_rows).codes
        steps = np.diff(codes)
        if len(steps) and int(steps.min()) < 0:
            raise RuntimeError("rows to be cut are not in the order of their keys")
        alone = np.zeros(keys.num_rows, bool)
        for column in columns:
            alone |= np.asarray(column.is_null())
        new = np.append(True, (steps > 0) | alone[1:])
        goes_on = False
        if before is not None:
            goes_on = not new[1]
            new = new[1:]
        starts = np.flatnonzero(new)
        return (np.append(0, starts) if goes_on else starts).astype(np.int64), goes_on

    def _check(self) -> None:
        if self._most is not None and self._value.size > self._most:
            key = self._value.last(self._keys)
            assert key is not None, "it has rows"
            raise ValueTooLarge(key.to_pylist()[0], self._value.size)

    def _whole_value(self) -> Iterator[Piece]:
        value, self._value = self._value, _Pile()
        if value.tables:
            yield from self._take(np.array([value.size]), lambda _begin, _end: value.tables)

    def _take(self, sizes: Ints, rows: Callable[[int, int], list[pa.Table]]) -> Iterator[Piece]:
        """Values that are whole, with their sizes; ``rows`` gives those of some of them."""
        before = np.concatenate([[0], np.cumsum(sizes)])
        at = 0
        while at < len(sizes):
            # The value with which the segment has its least bytes.
            need = self._theta - self._open.size + before[at]
            full = int(np.searchsorted(before[1:], need, "left"))
            if full >= len(sizes):
                self._open.add(rows(at, len(sizes)), int(before[-1] - before[at]))
                return
            total = self._open.size + int(before[full + 1] - before[at])
            if total > 2 * self._theta and (self._open.tables or full > at):
                if full > at:
                    self._open.add(rows(at, full), int(before[full] - before[at]))
                at = full
            else:
                self._open.add(rows(at, full + 1), int(before[full + 1] - before[at]))
                at = full + 1
            yield from self._close()

    def _close(self) -> Iterator[Piece]:
        """The open segment has its end; it may join the one before it."""
        made, self._open = self._open, _Pile()
        if not made.tables:
            return
        joined = self._closed.size + made.size
        if self._closed.tables and made.size < self._theta and joined <= 2 * self._theta:
            self._closed.add(made.tables, made.size)
            return
        yield from self._closed.given()
        self._closed = made


class _Pile:
    """Rows that belong together, and what they take."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self.size = 0

    def add(self, tables: list[pa.Table], size: int) -> None:
        self.tables.extend(tables)
        self.size += size

    def last(self, columns: Sequence[str]) -> pa.Table | None:
        """The last row."""
        if not self.tables:
            return None
        table = self.tables[-1]
        return table.slice(table.num_rows - 1).select(columns)

    def given(self) -> Iterator[Piece]:
        if self.tables:
            yield Piece(pa.concat_tables(self.tables).combine_chunks(), self.size)


def row_sizes(rows: pa.Table) -> Ints:
    """What each row takes in memory: plain values as they are, nested ones in the mean."""
    sizes = np.zeros(rows.num_rows, np.int64)
    bits = 0
    for column in rows.columns:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            lengths = pc.fill_null(pc.binary_length(column), 0)
            sizes += lengths.to_numpy().astype(np.int64)
            bits += 33
        elif pa.types.is_nested(kind):
            bits += -(-column.nbytes * 8 // max(1, rows.num_rows))
        else:
            bits += kind.bit_width + 1
    return sizes + max(1, -(-bits // 8))


def span(keys: pa.Table) -> tuple[pa.Table, pa.Table] | None:
    """The first and the last of sorted keys, of which those with a null are none, a row each; None if there is no other."""
    whole = np.ones(keys.num_rows, bool)
    for column in keys.columns:
        whole &= np.asarray(flat(column).is_valid())
    places = np.flatnonzero(whole)
    if not len(places):
        return None
    # Taken, not sliced: a slice would keep the whole segment in memory.
    return keys.take(pa.array(places[:1])), keys.take(pa.array(places[-1:]))
