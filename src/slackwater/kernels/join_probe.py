"""Rows of one side against blocks of the other, one block at a time.

The rows are indexed once and every block looked up in the index. Keys are compared by a stored 64-bit hash
first and by themselves before a pair comes out. Pairs come in chunks of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.band_join import Ints, TimeIndex, key_codes
from slackwater.kernels.buckets import flat, hash_of
from slackwater.kernels.join import BUCKET, TIME, JoinSpec, Predicate, column_name, output_schema
from slackwater.semantics.join import partners
from slackwater.semantics.limits import START

CODE = "_code"
"""Stored with each row: its key's hash, >= 0."""

_LEAST_PAIRS = 256

Flags = npt.NDArray[np.bool_]


class Loaded(NamedTuple):
    """The rows of a block that count, and their places in the block (None: all rows count)."""

    table: pa.Table
    places: Ints | None = None


class Pairs(NamedTuple):
    """A chunk of results, and of which rows (of the probing side, of the other) they are."""

    output: pa.Table
    own: Ints
    other: Ints


class Rows:
    """Rows of a side in one piece, with what a join asks of them again and again at hand."""

    def __init__(self, spec: JoinSpec, table: pa.Table) -> None:
        self.width = table.nbytes / max(1, table.num_rows)
        self.columns = {name: flat(table.column(name)) for name in table.column_names}
        self.times = ints(table, TIME)
        self.codes = ints(table, CODE)
        self.keys = [self.columns[f"_k{i}"] for i in range(spec.keys)]
        self.words = [_words(k) for k in self.keys]


def ints(table: pa.Table, name: str) -> Ints:
    """A column of integers without nulls as an array."""
    return np.asarray(flat(table.column(name)).to_numpy(zero_copy_only=False))


def with_codes(spec: JoinSpec, table: pa.Table) -> pa.Table:
    """The table with the hash of its keys. Rows with a null key must be gone."""
    hashes = hash_of([table.column(f"_k{i}") for i in range(spec.keys)], rows=table.num_rows)
    return table.append_column(CODE, pa.array((hashes >> np.uint64(1)).astype(np.int64)))


def no_key(spec: JoinSpec, table: pa.Table) -> Flags:
    """Which rows have a null in their key, so that they match nothing."""
    null = np.zeros(table.num_rows, dtype=np.bool_)
    for i in range(spec.keys):
        column = table.column(f"_k{i}")
        if column.null_count:
            null |= flat(column.is_null()).to_numpy(zero_copy_only=False)
    return null


def narrowed_rows(table: pa.Table, buckets: tuple[int, int] | None) -> Loaded:
    """The rows of a block in the buckets [first, end)."""
    if buckets is None:
        return Loaded(table)
    own = ints(table, BUCKET)
    places = np.flatnonzero((own >= buckets[0]) & (own < buckets[1]))
    if len(places) == table.num_rows:
        return Loaded(table)
    return Loaded(table.take(pa.array(places)), places)


class Joiner:
    """Turns index pairs into result tables, and says which of them hold."""

    def __init__(
        self,
        spec: JoinSpec,
        schemas: Sequence[pa.Schema],
        predicate: Predicate | None,
        room: int = 1 << 62,
    ) -> None:
        self.spec, self._room = spec, room
        self.schema = output_schema(spec, schemas)
        self._predicate = predicate
        self._origins = [self._origin(name) for name in self.schema.names[:-1]]

    def most_pairs(self, widths: Sequence[float]) -> int:
        """How many pairs of rows of these widths in bytes may be made at a time, with their places."""
        return min(self.spec.max_pairs, max(_LEAST_PAIRS, int(self._room / (sum(widths) + 64))))

    def joined(self, sides: Sequence[Rows], at: Sequence[Ints]) -> tuple[pa.Table, Flags]:
        """The results of candidate pairs, and which candidates they are."""
        keep = self._equal(sides, at)
        if not keep.all():
            at = [a[keep] for a in at]
        places = [pa.array(a) for a in at]
        columns = [sides[i].columns[own].take(places[i]) for i, own in self._origins]
        times = np.maximum(sides[0].times[at[0]], sides[1].times[at[1]])
        output = pa.table([*columns, pa.array(times)], schema=self.schema)
        if self._predicate is not None and output.num_rows:
            holds = flat(pc.fill_null(self._predicate(output), False))
            chosen = holds.to_numpy(zero_copy_only=False)
            if not chosen.all():
                output = output.filter(holds)
            keep[keep] = chosen
        return output, keep

    def padded(self, side: int, table: pa.Table) -> pa.Table:
        """Rows of a side with nulls for the other one."""
        rows = table.num_rows
        columns = [
            table.column(own) if i == side else pa.nulls(rows, self.schema.field(n).type)
            for n, (i, own) in enumerate(self._origins)
        ]
        return pa.table([*columns, table.column(TIME)], schema=self.schema)

    def _origin(self, name: str) -> tuple[int, str]:
        side = 0 if name.startswith(column_name(0, "")) else 1
        return side, name.removeprefix(column_name(side, ""))

    def _equal(self, sides: Sequence[Rows], at: Sequence[Ints]) -> Flags:
        """Where the keys are equal, not only their hashes."""
        same = np.ones(len(at[0]), dtype=np.bool_)
        rest = []
        for i, (a, b) in enumerate(zip(sides[0].words, sides[1].words)):
            if a is None or b is None:
                rest.append(i)
            else:
                same &= a[at[0]] == b[at[1]]
        if rest:
            keys = [[s.keys[i].take(pa.array(a)) for i in rest] for s, a in zip(sides, at)]
            codes = key_codes(keys, [len(same), len(same)])
            same &= codes[0] == codes[1]
        return same


class Probe:
    """Rows of ``side``, ready to meet rows of the other side."""

    def __init__(self, joiner: Joiner, side: int, table: pa.Table) -> None:
        self._joiner, self._side = joiner, side
        self._rows = Rows(joiner.spec, table)
        self._codes, dense = np.unique(self._rows.codes, return_inverse=True)
        self._index = TimeIndex(dense.astype(np.int64), self._rows.times)
        # Most rows of a window meet nothing: by some bits of their code most of these are told at once.
        self._mask = np.int64((1 << max(10, (4 * len(self._codes)).bit_length())) - 1)
        self._seen = np.zeros(int(self._mask) + 1, dtype=np.bool_)
        self._seen[self._codes & self._mask] = True

    def meet(
        self, table: pa.Table, *, allowed: Flags | None = None, floor: Ints | int = START
    ) -> Iterator[Pairs]:
        """All pairs with rows of the other side.

        ``allowed`` says which own rows take part (None: all). Other rows older than ``floor`` (one for
        all own rows, or one for each) do not.
        """
        spec, side = self._joiner.spec, self._side
        if not len(self._codes):
            return
        codes = ints(table, CODE)
        rows = np.flatnonzero(self._seen[codes & self._mask])
        codes = codes[rows]
        place = np.searchsorted(self._codes, codes)
        place[place == len(self._codes)] = 0
        hit = np.flatnonzero(self._codes[place] == codes)
        if not len(hit):
            return
        rows, place = rows[hit], place[hit]
        other = Rows(spec, table)
        times = other.times[rows]
        low, high = partners(spec.within, 1 - side, side, times)
        spans = self._index.find(place, np.asarray(low), np.asarray(high))
        most = self._joiner.most_pairs([self._rows.width, other.width])
        for found, own in self._index.pairs(spans, most):
            theirs = rows[found]
            keep = None if allowed is None else allowed[own]
            if not isinstance(floor, int) or floor > START:
                least = floor if isinstance(floor, int) else floor[own]
                young = times[found] >= least
                keep = young if keep is None else keep & young
            if keep is not None and not keep.all():
                own, theirs = own[keep], theirs[keep]
            if not len(own):
                continue
            sides, at = [self._rows, other], [own, theirs]
            if side == 1:
                sides, at = sides[::-1], at[::-1]
            output, holds = self._joiner.joined(sides, at)
            if output.num_rows:
                yield Pairs(output, own[holds], theirs[holds])


def _words(column: pa.Array) -> npt.NDArray[Any] | None:
    """Values as numbers that are equal just when the values are; None for types where it is not so simple."""
    kind = column.type
    if pa.types.is_integer(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        width = pa.int64() if kind.bit_width == 64 else pa.int32()
        return np.asarray(column.view(width).to_numpy(zero_copy_only=False))
    return None
