"""Rows of one side against blocks of the other, a few blocks at a time.

The rows are indexed once and every block looked up in the index. Keys are compared by a stored hash
first and by themselves before a pair comes out. Pairs come in chunks of bounded size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.buckets import flat, hash_of
from slackwater.kernels.joins.band_join import Ints, key_codes, places_of, spans_within
from slackwater.kernels.joins.step import (
    BUCKET,
    TIME,
    JoinSpec,
    Predicate,
    column_name,
    output_schema,
)
from slackwater.model.names import CODE
from slackwater.semantics.join import partners
from slackwater.semantics.join_memory import bucket_bits

CODE_BITS = 63
"""The hash of its keys (`CODE`) that is stored with each row is >= 0, and has so many bits."""

_LEAST_PAIRS = 256
_WIDE_PIECES = 4

Flags = npt.NDArray[np.bool_]


class Loaded(NamedTuple):
    """The rows of a block that count, and their places in the block (None: all rows count)."""

    table: pa.Table
    places: Ints | None = None


class Pairs(NamedTuple):
    """A chunk of results, and of which rows they are: of the probing side, and of the hits."""

    output: pa.Table
    own: Ints
    other: Ints


class Hits:
    """Rows of the other side that may have partners here, as far as hashes tell, from several look-ups.

    Only they are copied, so that many rows can be looked at, a few blocks at a time, before pairs are made of what is left.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """``names`` are the columns that pairs need."""
        self.names = (TIME, *names)
        self._columns: list[list[pa.Array]] = [[] for _ in self.names]
        self._places: list[list[Ints]] = [[], []]
        self.size = 0
        """Bytes."""

    def add(self, table: pa.Table, start: Ints, end: Ints) -> None:
        """Rows with the columns in order, and from where to where their code is known."""
        for parts, column in zip(self._columns, table.columns, strict=True):
            parts.append(flat(column))
        for known, part in zip(self._places, (start, end)):
            known.append(part)
        self.size += table.get_total_buffer_size() + start.nbytes + end.nbytes

    def gathered(self) -> tuple[PairRows, Ints, Ints]:
        """All of them, in order. They are here no longer."""
        times, *rest = (Pieces(parts).one for parts in self._columns)
        start, end = map(np.concatenate, self._places)
        self._places, self.size = [[], []], 0
        columns = {n: Pieces([c]) for n, c in zip(self.names[1:], rest)}
        return PairRows(columns, times.to_numpy(zero_copy_only=False)), start, end


class Pieces:
    """A column in a few pieces: one would need twice the memory while it is made."""

    def __init__(self, parts: list[pa.Array], most: int = 1) -> None:
        """Takes the parts out of the list as it goes."""
        share = -(-sum(map(len, parts)) // most)
        self._pieces: list[pa.Array] = []
        parts.reverse()
        while parts:
            some = [parts.pop()]
            while parts and sum(map(len, some)) + len(parts[-1]) <= share:
                some.append(parts.pop())
            self._pieces.append(pa.concat_arrays(some))
        self._ends = np.cumsum([len(p) for p in self._pieces])

    @property
    def one(self) -> pa.Array:
        """The column, if it is in one piece."""
        (piece,) = self._pieces
        return piece

    def take(self, rows: Ints) -> pa.Array:
        """The values of these rows."""
        if len(self._pieces) == 1:
            return self._pieces[0].take(pa.array(rows))
        owner = np.searchsorted(self._ends, rows, side="right")
        order = np.argsort(owner, kind="stable")
        cuts = np.searchsorted(owner[order], np.arange(1, len(self._pieces)))
        taken = []
        for i, at in enumerate(np.split(rows[order], cuts)):
            first = int(self._ends[i]) - len(self._pieces[i])
            taken.append(self._pieces[i].take(pa.array(at - first)))
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(taken).take(pa.array(back))


class PairRows:
    """Rows of a side with what a join asks of them again and again at hand."""

    def __init__(self, columns: Mapping[str, Pieces], times: Ints) -> None:
        self.columns, self.times = columns, times


def ints(table: pa.Table, name: str) -> Ints:
    """A column of integers without nulls as an array."""
    values: Ints = flat(table.column(name)).to_numpy(zero_copy_only=False)
    return values


def with_codes(spec: JoinSpec, side: int, table: pa.Table) -> pa.Table:
    """The table with the hash of its keys. Rows with a null key must be gone."""
    hashes = hash_of([table.column(k) for k in spec.keys_of(side)], rows=table.num_rows)
    return table.append_column(CODE, pa.array((hashes >> np.uint64(1)).astype(np.int64)))


def no_key(spec: JoinSpec, side: int, table: pa.Table) -> Flags:
    """Which rows have a null in their key, so that they match nothing."""
    null = np.zeros(table.num_rows, dtype=np.bool_)
    for key in spec.keys_of(side):
        column = table.column(key)
        if column.null_count:
            null |= flat(column.is_null()).to_numpy(zero_copy_only=False)
    return null


def present_in(table: pa.Table) -> str:
    """The buckets in which a table has rows, as a block tells them."""
    return bucket_bits(np.flatnonzero(np.bincount(ints(table, BUCKET))).tolist())


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
        self._keys = list(zip(spec.keys_of(0), spec.keys_of(1), strict=True))
        self.needed = [self._needed(side) for side in (0, 1)]
        """The columns of each side that `joined` asks for, beside its times."""

    def most_pairs(self, widths: Sequence[float]) -> int:
        """How many pairs of rows of these widths in bytes may be made at a time, with their places."""
        return min(self.spec.max_pairs, max(_LEAST_PAIRS, int(self._room / (sum(widths) + 64))))

    def joined(
        self, sides: Sequence[PairRows], at: Sequence[Ints], times: Sequence[Ints]
    ) -> tuple[pa.Table, Flags]:
        """The results of candidate pairs, and which candidates they are.

        ``at`` are the places of their rows, ``times`` the times of these.
        """
        taken: list[dict[str, Any]] = [{TIME: pa.array(t)} for t in times]
        for i, (side, rows) in enumerate(zip(sides, at)):
            for name in self.needed[i]:
                taken[i][name] = side.columns[name].take(rows)
        latest = pa.array(np.maximum(*times))
        columns = [taken[i][own] for i, own in self._origins]
        output = pa.table([*columns, latest], schema=self.schema)
        keep = self._equal(taken, len(latest))
        if not keep.all():
            output = output.filter(pa.array(keep))
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

    def _needed(self, side: int) -> list[str]:
        wanted = [own for i, own in self._origins if i == side and own != TIME]
        return list(dict.fromkeys([*wanted, *self.spec.keys_of(side)]))

    def _origin(self, name: str) -> tuple[int, str]:
        side = 0 if name.startswith(column_name(0, "")) else 1
        return side, name.removeprefix(column_name(side, ""))

    def _equal(self, taken: Sequence[Mapping[str, Any]], rows: int) -> Flags:
        """Where the keys of candidates are equal, not only their hashes."""
        same = np.ones(rows, dtype=np.bool_)
        rest: list[list[Any]] = [[], []]
        for names in self._keys:
            keys = [taken[i][name] for i, name in enumerate(names)]
            words = [_words(k) for k in keys]
            if words[0] is None or words[1] is None:
                for i, key in enumerate(keys):
                    rest[i].append(key)
            else:
                same &= words[0] == words[1]
        if rest[0]:
            codes = key_codes(rest, [rows, rows])
            same &= codes[0] == codes[1]
        return same


class Probe:
    """Rows of ``side``, ready to meet rows of the other side.

    The tables are taken one by one, and only what is needed of each is kept: together they may fill the memory.
    """

    def __init__(self, joiner: Joiner, side: int, tables: Iterable[pa.Table]) -> None:
        self._joiner, self._side = joiner, side
        kept: dict[str, list[pa.Array]] = {n: [] for n in joiner.needed[side]}
        codes, times, size = [], [], 0
        for table in tables:
            size += table.nbytes
            codes.append(np.array(ints(table, CODE)))
            times.append(np.array(ints(table, TIME)))
            for name, parts in kept.items():
                # A copy, or else the whole block that it was read with would stay.
                parts.append(table.column(name).combine_chunks())
            del table
        self._codes: Ints = np.concatenate(codes)
        self._times: Ints = np.concatenate(times)
        del codes, times
        order = code_time_order(self._codes, self._times)
        self._codes, self._times = self._codes[order], self._times[order]
        # Half the size if it can be, as it stays.
        self._order: Ints = order if len(order) >> 31 else order.astype(np.int32)
        self._ends = _run_ends(self._codes).astype(self._order.dtype)
        self._rows = PairRows({n: _pieces(parts) for n, parts in kept.items()}, self._times)
        self._width = size / max(1, len(order))
        # Most rows of a window meet nothing: by the first bits of their code most of these are told at once.
        bits = max(10, (4 * len(order)).bit_length())
        self._shift = np.int64(CODE_BITS - bits)
        self._seen = np.zeros(1 << bits, dtype=np.bool_)
        self._seen[self._codes >> self._shift] = True

    def __len__(self) -> int:
        return len(self._order)

    def no_hits(self) -> Hits:
        """Where to put what is looked up here."""
        return Hits(self._joiner.needed[1 - self._side])

    def look_up(self, tables: Sequence[pa.Table], hits: Hits) -> Ints:
        """Add those rows of the other side to the hits that may have partners here; returns which, counted over all tables."""
        rows, start, end = self._known(np.concatenate([ints(t, CODE) for t in tables]))
        if len(rows):
            whole = pa.concat_tables([t.select(hits.names) for t in tables])
            hits.add(whole.take(pa.array(rows)), start, end)
        return rows

    def pairs(
        self, hits: Hits, width: float, keep: Callable[[Ints, Ints, Ints], Flags | None]
    ) -> Iterator[Pairs]:
        """All pairs with the hits, which are used up.

        ``width`` is that of the other side's rows, in bytes. ``keep`` says which of some candidates may pair: it is given own rows, hits and
        the times of these. None: all.
        """
        if not hits.size:
            return
        spec, side = self._joiner.spec, self._side
        other, start, end = hits.gathered()
        times = other.times
        low, high = partners(spec.within, 1 - side, side, times)
        every = np.arange(len(times))
        spans = spans_within(self._times, every, start, end, np.asarray(low), np.asarray(high))
        del every, start, end, low, high
        for met, place in places_of(spans, self._joiner.most_pairs([self._width, width])):
            own, met_times = self._order[place], times[met]
            kept = keep(own, met, met_times)
            if kept is not None and not kept.all():
                own, met, place, met_times = own[kept], met[kept], place[kept], met_times[kept]
            if not len(own):
                continue
            sides: list[PairRows] = [self._rows, other]
            at: list[Ints] = [own, met]
            at_times = [self._times[place], met_times]
            if side == 1:
                sides, at, at_times = sides[::-1], at[::-1], at_times[::-1]
            output, holds = self._joiner.joined(sides, at, at_times)
            if output.num_rows:
                yield Pairs(output, own[holds], met[holds])

    def _known(self, codes: Ints) -> tuple[Ints, Ints, Ints]:
        """The rows whose code is known here, and from where to where."""
        rows = np.flatnonzero(self._seen[codes >> self._shift])
        codes = codes[rows]
        start = np.searchsorted(self._codes, codes)
        start[start == len(self)] = 0
        hit = np.flatnonzero(self._codes[start] == codes)
        start = start[hit]
        return rows[hit], start, self._ends[start].astype(np.int64)


def _pieces(parts: list[pa.Array]) -> Pieces:
    kind = parts[0].type
    narrow = pa.types.is_primitive(kind) and kind.bit_width <= 64
    return Pieces(parts, 1 if narrow else _WIDE_PIECES)


def code_time_order(codes: Ints, times: Ints) -> Ints:
    """Row numbers in order of (code, time)."""
    order = np.argsort(codes)
    ordered = codes[order]
    same = ordered[1:] == ordered[:-1]
    if not same.any():
        return order
    shared = np.zeros(len(codes), dtype=np.bool_)
    shared[1:] |= same
    shared[:-1] |= same
    rows = order[shared]
    order[shared] = rows[_run_time_order(ordered[shared], times[rows])]
    return order


def _run_time_order(ordered: Ints, times: Ints) -> Ints:
    """As `code_time_order`, of codes that are in order."""
    first = int(times.min())
    span = int(times.max()) - first + 1
    run = np.cumsum(ordered[1:] != ordered[:-1])
    if (len(run) + 1) * span >= 1 << 62:
        return np.lexsort((times, ordered))
    # One number for both: a third of the time that two columns take.
    both = times - first
    both[1:] += run * span
    return np.argsort(both)


def _run_ends(codes: Ints) -> Ints:
    """For each of some codes in order the end of those that are equal to it."""
    ends = np.append(np.flatnonzero(codes[1:] != codes[:-1]) + 1, len(codes))
    return np.repeat(ends, np.diff(ends, prepend=0))


def _words(column: pa.Array) -> npt.NDArray[Any] | None:
    """Values as numbers that are equal just when the values are; None for types where it is not so simple."""
    kind = column.type
    if pa.types.is_integer(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        width = pa.int64() if kind.bit_width == 64 else pa.int32()
        return np.asarray(column.view(width).to_numpy(zero_copy_only=False))
    return None
