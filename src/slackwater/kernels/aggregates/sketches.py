"""Approximate aggregates in bounded memory: how tables are thinned, and sets of hashes.

=========================== ======================================================================
percentile_approx           a table in which, per power of two, at most 32 * accuracy counts have that bit
heavy hitters with an error the 1/error largest counters (Misra and Gries), and how many rows there were
approx_count_distinct       HyperLogLog registers, estimated as Ertl (2017) does
=========================== ======================================================================

All are merged in any order with the stated error, and none draws random numbers: a batch that is repeated
gives the same state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.errors import AnalysisError
from slackwater.kernels.aggregates.cells import Array, Ints, Ranged, numbers
from slackwater.kernels.aggregates.holistic import Heavy, Quantile, Selected, value_type
from slackwater.kernels.aggregates.tables import Merged, Tables, listed, spread, sums
from slackwater.kernels.buckets import flat, hash_of, list_parts

LEVELS = 32
"""Powers of two for which the rank error is promised: a thinned table may count 2**32 * accuracy rows."""
_SPARE = 1 << 25  # registers that are looked at together


@dataclass
class ThinQuantile(Quantile):
    """percentile_approx: the ranks of the answers are off by at most 1/accuracy of the rows."""

    accuracy: int = 10_000

    def thinned(self, tables: Tables, merged: Merged) -> Merged:
        return thin_ranks(merged, LEVELS * self.accuracy)


@dataclass
class ThinHeavy(Heavy):
    """Heavy hitters with 1/error counters.

    A counter is too low by at most ``error`` of the rows. Answered are all values that may have the
    share: none is missing, and each one has at least share - error of the rows.
    """

    error: Fraction = Fraction(1, 1000)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fields.append(pa.field(f"{self.name}_n", pa.int64()))
        self.most = -(-self.error.denominator // self.error.numerator)

    def load(self, table: pa.Table) -> tuple[list[Array], Any]:
        rows, tables = super().load(table)
        total = np.concatenate([[0], np.cumsum(numbers(table, f"{self.name}_n"))])
        return rows, (tables, total)

    def dump(self, arrays: Sequence[Array], memory: Any) -> list[pa.Array]:
        tables, total = memory
        lo, hi = arrays
        kept = thin_counts(tables.merge(lo, hi), self.most)
        return [tables.column(kept), pa.array(total[hi] - total[lo])]

    def read(self, table: pa.Table) -> list[pa.Array]:
        raw = Tables.of_values(table.column(f"{self.name}_t"), self.value)
        total = raw.prefix[raw.offsets]
        return self.dump(self.rows(table.num_rows), (raw, total))

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        tables, total = memory
        lo, hi = arrays
        least = max(self.share - self.error, Fraction(0))
        return self.found(tables, lo, hi, self.needed(total[hi] - total[lo], least))


def thin_ranks(merged: Merged, most: int) -> Merged:
    """Tables with the same totals in which, per power of two, at most ``most`` counts have that bit.

    Where more have it, neighbours by value are paired: one of them gives its 2**h to the other. That
    moves any rank by at most 2**h, and at least ``most`` such counts go to the next power, which can
    happen ``total / (most * 2**h)`` times: over L powers the ranks move by at most L / most of the total.
    """
    sizes = np.diff(merged.offsets)
    big = np.flatnonzero(sizes > most)
    if not len(big):
        return merged
    counts = merged.counts.copy()
    at = spread(merged.offsets[big], sizes[big])
    row = np.repeat(big, sizes[big])
    for h in range(62):
        if int(counts[at].max()) >> h == 0:
            break
        has = np.flatnonzero((counts[at] >> np.int64(h)) & 1)
        owner = row[has]
        per_row = np.bincount(owner, minlength=len(sizes))
        begin = np.concatenate([[0], np.cumsum(per_row)])[owner]
        position = np.arange(len(has)) - begin
        full = (per_row[owner] > most) & (position < per_row[owner] // 2 * 2)
        chosen = at[has[full]]
        counts[chosen] -= 1 << h
        # The upper and the lower neighbour in turn, so that errors tend to cancel.
        pair = np.arange(len(chosen) // 2)
        winner = chosen[2 * pair + (pair + h) % 2]
        counts[winner] += 2 << h
    return _without_zeros(merged, counts)


def thin_counts(merged: Merged, most: int) -> Merged:
    """Tables of at most ``most`` counters: of a larger one the count after those is taken from all."""
    sizes = np.diff(merged.offsets)
    big = np.flatnonzero(sizes > most)
    if not len(big):
        return merged
    counts = merged.counts.copy()
    at = spread(merged.offsets[big], sizes[big])
    row = np.repeat(np.arange(len(big)), sizes[big])
    order = np.lexsort((-counts[at], row))
    begin = np.concatenate([[0], np.cumsum(sizes[big])[:-1]])
    cut = counts[at][order][begin + most]
    counts[at] = np.maximum(counts[at] - cut[row], 0)
    return _without_zeros(merged, counts)


def _without_zeros(merged: Merged, counts: Ints) -> Merged:
    kept = counts > 0
    offsets = np.concatenate([[0], np.cumsum(kept)])[merged.offsets]
    return Merged(merged.entries[kept], counts[kept], offsets)


class Registers(NamedTuple):
    """Rows of registers that are not 0: ``packed`` is 64 * index + value, rising in each row."""

    packed: Ints
    offsets: Ints


@dataclass
class Hashes(Ranged):
    """approx_count_distinct: 2**bits registers, stored where not 0."""

    name: str
    types: tuple[str, ...]
    bits: int

    def __post_init__(self) -> None:
        self.value = value_type(self.types)
        self.fields = [pa.field(f"{self.name}_r", pa.list_(pa.int32()))]

    def load(self, table: pa.Table) -> tuple[list[Array], Any]:
        packed, offsets = list_parts(flat(table.column(f"{self.name}_r")))
        whole = np.asarray(packed.to_numpy(zero_copy_only=False), dtype=np.int64)
        return self.rows(table.num_rows), Registers(whole, offsets)

    def dump(self, arrays: Sequence[Array], memory: Any) -> list[pa.Array]:
        lo, hi = arrays
        merged = _united(memory, lo, hi)
        return [listed(merged.offsets, pa.array(merged.packed.astype(np.int32)))]

    def select(self, args: Sequence[str]) -> Selected:
        present = " AND ".join(f"({a}) IS NOT NULL" for a in args)
        return [(f"list(DISTINCT {args[0]}) FILTER (WHERE {present})", "_r")]

    def read(self, table: pa.Table) -> list[pa.Array]:
        values, offsets = list_parts(flat(table.column(f"{self.name}_r")))
        if not values.type.equals(self.value):
            values = values.cast(self.value)
        packed = registers(hash_of([values]), self.bits)
        raw = Registers(packed, offsets)
        return self.dump(self.rows(table.num_rows), raw)

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        lo, hi = arrays
        used = int((memory.offsets[hi] - memory.offsets[lo]).sum())
        counts = np.zeros((len(lo), 66 - self.bits), dtype=np.int64)
        if used <= 2 * len(memory.packed):
            merged = _united(memory, lo, hi)
            _tally(counts, np.repeat(np.arange(len(lo)), np.diff(merged.offsets)), merged.packed)
            counts[:, 0] = (1 << self.bits) - counts[:, 1:].sum(axis=1)
        else:
            self._sliding(memory, lo, hi, counts)
        return pa.array(np.rint(estimate(counts)).astype(np.int64))

    def _sliding(self, memory: Registers, lo: Ints, hi: Ints, counts: Ints) -> None:
        """Ranges that overlap: maxima of twice as many rows each time, a part of the registers at once."""
        size, rows = 1 << self.bits, len(memory.offsets) - 1
        row = np.repeat(np.arange(rows), np.diff(memory.offsets))
        index, value = memory.packed >> 6, memory.packed & 63
        step = max(1, min(size, _SPARE // max(rows, len(lo), 1)))
        level = np.frexp(np.maximum(hi - lo, 1).astype(np.float64))[1] - 1
        for first in range(0, size, step):
            width = min(step, size - first)
            mine = (index >= first) & (index < first + width)
            block = np.zeros((rows, width), dtype=np.uint8)
            block[row[mine], index[mine] - first] = value[mine]
            best = np.zeros((len(lo), width), dtype=np.uint8)
            for k in range(int(level.max()) + 1 if len(level) else 0):
                if k:
                    half = 1 << (k - 1)
                    block = np.maximum(block[:-half], block[half:])
                these = np.flatnonzero((level == k) & (hi > lo))
                best[these] = np.maximum(block[lo[these]], block[hi[these] - (1 << k)])
            result = np.repeat(np.arange(len(lo)), width)
            _tally(counts, result, best.ravel())


def registers(hashes: npt.NDArray[np.uint64], bits: int) -> Ints:
    """64 * index + value: the first bits choose a register, the value is the place of the next 1."""
    index = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    rest = (hashes << np.uint64(bits)) | np.uint64(1 << (bits - 1))
    high, low = rest >> np.uint64(32), rest & np.uint64(0xFFFFFFFF)
    length = np.where(
        high > 0,
        np.frexp(high.astype(np.float64))[1] + 32,
        np.frexp(low.astype(np.float64))[1],
    )
    return np.asarray(index * 64 + (65 - length))


def bits_for(deviation: float) -> int:
    """How many bits choose a register so that the relative standard deviation is at most that."""
    bits = int(np.ceil(2 * np.log2(1.106 / deviation)))
    if 4 <= bits <= 18:
        return bits
    raise AnalysisError(
        "BAD_OPTION",
        f"approx_count_distinct cannot have a relative standard deviation of {deviation}",
        hint="choose one between 0.0022 and 0.27, or use count(DISTINCT ...)",
        rsd=deviation,
    )


def estimate(counts: Ints) -> npt.NDArray[np.float64]:
    """How many different values, from the number of registers of each value (columns 0, 1, ...)."""
    m = counts.sum(axis=1).astype(np.float64)
    top = counts.shape[1] - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        z = m * _tau(1.0 - counts[:, top] / m)
        for k in range(top - 1, 0, -1):
            z = 0.5 * (z + counts[:, k])
        z = z + m * _sigma(counts[:, 0] / m)
        return np.asarray(np.where(np.isinf(z), 0.0, m * m / z / (2 * np.log(2))))


def _sigma(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """x + sum over k >= 1 of x**(2**k) * 2**(k - 1); infinite at 1."""
    full = x == 1.0
    x = np.where(full, 0.0, x)
    y, z = np.ones_like(x), x.copy()
    for _ in range(64):
        x = x * x
        more = z + x * y
        y = y + y
        if (more == z).all():
            break
        z = more
    return np.where(full, np.inf, z)


def _tau(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(1 - x - sum over k >= 1 of (1 - x**(2**-k))**2 * 2**-k) / 3; 0 at 0 and 1."""
    trivial = (x == 0.0) | (x == 1.0)
    y, z = np.ones_like(x), 1.0 - x
    for _ in range(64):
        x = np.sqrt(x)
        y = y * 0.5
        less = z - (1.0 - x) ** 2 * y
        if (less == z).all():
            break
        z = less
    return np.where(trivial, 0.0, z / 3.0)


def _united(memory: Registers, lo: Ints, hi: Ints) -> Registers:
    """The greatest value of each register over each range of rows."""
    first = memory.offsets[lo]
    length = memory.offsets[hi] - first
    packed = memory.packed[spread(first, length)]
    result = np.repeat(np.arange(len(lo)), length)
    order = np.lexsort((packed, result))
    packed, result = packed[order], result[order]
    last = np.ones(len(packed), dtype=np.bool_)
    last[:-1] = (result[1:] != result[:-1]) | (packed[1:] >> 6 != packed[:-1] >> 6)
    sizes = sums(last.astype(np.int64), np.concatenate([[0], np.cumsum(length)]))
    return Registers(packed[last], np.concatenate([[0], np.cumsum(sizes)]))


def _tally(counts: Ints, result: Ints, packed: Array) -> None:
    width = counts.shape[1]
    flat_counts = np.bincount(
        result * width + (packed.astype(np.int64) & 63), minlength=counts.size
    )
    counts += flat_counts.reshape(counts.shape)
