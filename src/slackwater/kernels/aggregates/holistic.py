"""Aggregates from value→count tables: distinct values, quantiles, modes, frequent values, collections.

What a table holds is exact, so these aggregates are. Ties and orders do not depend on arrival: values are
ordered as Spark orders them (NaN greatest, -0.0 equal to 0.0, text by bytes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.errors import ExecutionError
from slackwater.kernels.aggregates import limbs as lb
from slackwater.kernels.aggregates import overlapping
from slackwater.kernels.aggregates.cells import Array, Exact, Floats, Ints, Ranged
from slackwater.kernels.aggregates.tables import Merged, Tables, listed, sums, table_type
from slackwater.kernels.buckets import flat, list_parts
from slackwater.kernels.types import arrow_type, parse

Selected = list[tuple[str, str]]
"""(expression of the column engine, suffix of its column)"""


@dataclass
class TableKind(Ranged):
    """The common part: a table per row. ``types`` are the arguments', several make a struct."""

    name: str
    types: tuple[str, ...]

    def __post_init__(self) -> None:
        self.value = value_type(self.types)
        self.fields = [pa.field(f"{self.name}_t", table_type(self.value))]

    def load(self, table: pa.Table) -> tuple[list[Array], Any]:
        return self.rows(table.num_rows), Tables.load(table.column(f"{self.name}_t"))

    def dump(self, arrays: Sequence[Array], memory: Any) -> list[pa.Array]:
        return [memory.column(self.thinned(memory, memory.merge(arrays[0], arrays[1])))]

    def thinned(self, tables: Tables, merged: Merged) -> Merged:
        """What is kept of merged tables: all, unless the kind is an approximate one."""
        return merged

    def select(self, args: Sequence[str]) -> Selected:
        present = " AND ".join(f"({a}) IS NOT NULL" for a in args)
        return [(f"list({_value(args)}) FILTER (WHERE {present})", "_t")]

    def read(self, table: pa.Table) -> list[pa.Array]:
        raw = Tables.of_values(table.column(f"{self.name}_t"), self.value)
        return self.dump(self.rows(table.num_rows), raw)


@dataclass
class Distinct(TableKind):
    """count(DISTINCT ...)"""

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        lo, hi = arrays
        if overlapping.worth_it(memory, lo, hi, rising=True):
            return pa.array(overlapping.distinct(memory, lo, hi))
        return pa.array(np.diff(memory.merge(lo, hi).offsets))


@dataclass
class DistinctSum(TableKind):
    """sum(DISTINCT x), avg(DISTINCT x): ``inner`` is the kind of sum(x) or avg(x)."""

    inner: Exact | Floats

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        merged = memory.merge(*arrays)
        values = memory.values.take(pa.array(merged.entries))
        if isinstance(self.inner, Floats):
            doubles = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
            with np.errstate(invalid="ignore", over="ignore"):
                parts = [sums(doubles, merged.offsets)]
        elif pa.types.is_decimal(values.type):
            parts = [sums(x, merged.offsets) for x in lb.from_decimals(values, self.inner.limbs)]
        else:
            whole = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
            parts = [sums(x, merged.offsets) for x in lb.from_ints(whole, self.inner.limbs)]
        return self.inner.finish([np.diff(merged.offsets), *parts], None, ansi)


@dataclass
class Quantile(TableKind):
    """percentile and median, percentile_disc, percentile_approx.

    ``frequency``: a second argument says how often a row counts. ``method`` is "interpolate" (between the
    two values around the place), "discrete" (the first value that so many do not exceed, as a double), or
    "value" (the same, in the argument's type).
    """

    percentages: tuple[float, ...]
    many: bool
    method: str
    descending: bool = False
    frequency: bool = False

    def select(self, args: Sequence[str]) -> Selected:
        if not self.frequency:
            return super().select(args)
        pair = f"{{'v': {args[0]}, 'f': CAST({args[1]} AS BIGINT)}}"
        present = f"({args[0]}) IS NOT NULL AND ({args[1]}) IS NOT NULL"
        return [(f"list({pair}) FILTER (WHERE {present})", "_t")]

    def read(self, table: pa.Table) -> list[pa.Array]:
        if not self.frequency:
            return super().read(table)
        pairs, offsets = list_parts(flat(table.column(f"{self.name}_t")))
        values, counts = pairs.flatten()
        numbers = np.asarray(counts.to_numpy(zero_copy_only=False), dtype=np.int64)
        if len(numbers) and numbers.min() < 0:
            raise ExecutionError(
                "NEGATIVE_FREQUENCY",
                f"a frequency of percentile is negative: {numbers.min()}",
                hint="give how often each value counts, 0 or more",
                aggregate=self.name,
            )
        raw = Tables.of_rows(values, numbers, offsets, self.value)
        return self.dump(self.rows(table.num_rows), raw)

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        lo, hi = arrays
        total = memory.totals(lo, hi)[:, None]
        share = np.array(self.percentages)[None, :]
        if self.method == "interpolate":
            place = (total - 1) * share
            low, high = np.floor(place), np.ceil(place)
        else:
            place = low = high = np.maximum(np.ceil(total * share), 1) - 1
        ranks = np.stack([low, high] if self.method == "interpolate" else [low]).astype(np.int64)
        if self.descending:
            ranks = total[None] - 1 - ranks
        entries = _ranked(memory, lo, hi, ranks)
        empty = np.broadcast_to(total == 0, place.shape)
        if self.method == "value":
            values = _taken(memory.values, entries[0].ravel(), empty.ravel())
        else:
            codes = memory.codes.codes
            first = _doubles(memory.values, entries[0])
            value = first
            if self.method == "interpolate" and len(codes):
                last = _doubles(memory.values, entries[1])
                with np.errstate(invalid="ignore", over="ignore"):
                    between = (high - place) * first + (place - low) * last
                value = np.where(codes[entries[0]] == codes[entries[1]], first, between)
            values = pa.array(value.ravel(), mask=empty.ravel(), from_pandas=False)
        if not self.many:
            return values
        count = len(self.percentages)
        offsets = pa.array(np.arange(len(lo) + 1, dtype=np.int32) * count)
        nothing = pa.array(total[:, 0] == 0)
        return pa.ListArray.from_arrays(offsets, values, mask=nothing)


@dataclass
class Mode(TableKind):
    """The most frequent value; of equally frequent ones the least, or the greatest."""

    greatest: bool = False

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        lo, hi = arrays
        if overlapping.worth_it(memory, lo, hi, rising=True):
            steps = overlapping.steps(memory, lo, hi)
            code = memory.codes.codes[steps.entries]
            order = np.lexsort((code if self.greatest else -code, steps.counts))
            rank = np.empty(len(order), dtype=np.int64)
            rank[order] = np.arange(len(order))
            which = overlapping.best(steps, rank, len(lo))
            entries = steps.entries[np.maximum(which, 0)] if len(order) else which
            return _taken(memory.values, entries, which < 0)
        merged = memory.merge(lo, hi)
        sizes = np.diff(merged.offsets)
        some = np.flatnonzero(sizes)
        entries = np.zeros(len(lo), dtype=np.int64)
        if len(some):
            top = np.maximum.reduceat(merged.counts, merged.offsets[:-1][some])
            best = np.flatnonzero(merged.counts == np.repeat(top, sizes[some]))
            result = np.repeat(some, sizes[some])[best]
            if self.greatest:
                entries[result] = merged.entries[best]  # the last one stays
            else:
                entries[result[::-1]] = merged.entries[best[::-1]]
        return _taken(memory.values, entries, sizes == 0)


@dataclass
class Heavy(TableKind):
    """Values with at least a share of all, with their counts: frequent ones first, then by value."""

    share: Fraction

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        lo, hi = arrays
        return self.found(memory, lo, hi, self.needed(memory.totals(lo, hi), self.share))

    def needed(self, total: Ints, share: Fraction) -> Ints:
        """The least count that is at least the share."""
        over = -(-total * np.int64(share.numerator) // np.int64(share.denominator))
        return np.asarray(np.maximum(over, 1))

    def found(self, tables: Tables, lo: Ints, hi: Ints, need: Ints) -> pa.Array:
        """Lists of (value, count)."""
        if overlapping.worth_it(tables, lo, hi, rising=True):
            result, entries, counts = overlapping.frequent(tables, lo, hi, need)
        else:
            merged = tables.merge(lo, hi)
            result = np.repeat(np.arange(len(lo)), np.diff(merged.offsets))
            kept = merged.counts >= need[result]
            result, entries, counts = result[kept], merged.entries[kept], merged.counts[kept]
        order = np.lexsort((tables.codes.codes[entries], -counts, result))
        pairs = pa.StructArray.from_arrays(
            [tables.values.take(pa.array(entries[order])), pa.array(counts[order])],
            ["value", "count"],
        )
        sizes = np.bincount(result, minlength=len(lo))
        return listed(np.concatenate([[0], np.cumsum(sizes)]), pairs)


@dataclass
class Collection(TableKind):
    """collect_set: the values, sorted. collect_list: each row's value, by (time, value).

    For a list the types are (time, value), so that sorting the tables sorts the rows; the arguments are
    (value, time).
    """

    def select(self, args: Sequence[str]) -> Selected:
        return super().select(args[::-1])

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        merged = memory.merge(*arrays)
        if len(self.types) == 1:
            return listed(merged.offsets, memory.values.take(pa.array(merged.entries)))
        each = np.repeat(merged.entries, merged.counts)
        ends = np.concatenate([[0], np.cumsum(merged.counts)])[merged.offsets]
        return listed(ends, memory.values.flatten()[1].take(pa.array(each)))


def value_type(types: Sequence[str]) -> pa.DataType:
    """The type of a table's values."""
    if len(types) == 1:
        return arrow_type(types[0])
    return pa.struct([pa.field(f"a{i}", arrow_type(t)) for i, t in enumerate(types)])


def fraction(share: float) -> Fraction:
    """A share as the nearest fraction with a denominator of at most a million: 0.07 is 7/100."""
    return Fraction(share).limit_denominator(10**6)


def is_number(type: str) -> bool:
    """Whether quantiles of the type can be interpolated."""
    return parse(type).kind in (
        "tinyint", "smallint", "int", "bigint", "float", "double", "decimal",
    )  # fmt: skip


def _value(args: Sequence[str]) -> str:
    if len(args) == 1:
        return args[0]
    return "{" + ", ".join(f"'a{i}': {a}" for i, a in enumerate(args)) + "}"


def _ranked(tables: Tables, lo: Ints, hi: Ints, ranks: Ints) -> Ints:
    """Entries of the ranks, of shape (kinds of rank, results, percentages); any entry if empty."""
    if not len(tables.counts):
        return np.zeros(ranks.shape, dtype=np.int64)
    if overlapping.worth_it(tables, lo, hi, rising=False):
        shape = ranks.shape
        wide = [np.broadcast_to(x[None, :, None], shape).ravel() for x in (lo, hi)]
        entries = overlapping.ranked(tables, wide[0], wide[1], ranks.ravel())
        return np.maximum(entries, 0).reshape(shape)
    merged = tables.merge(lo, hi)
    ends = np.cumsum(merged.counts)
    before = np.concatenate([[0], ends])[merged.offsets[:-1]]
    at = np.searchsorted(ends, before[None, :, None] + ranks, side="right")
    return np.asarray(merged.entries[np.minimum(at, len(ends) - 1)])


def _taken(values: pa.Array, entries: Ints, missing: Array) -> pa.Array:
    if not len(values):
        return pa.nulls(len(entries), values.type)
    return values.take(pa.array(np.where(missing, 0, entries), mask=np.asarray(missing)))


def _doubles(values: pa.Array, entries: Ints) -> Array:
    """The entries' values as doubles, decimals rounded once (through their digits)."""
    if not len(values):
        return np.zeros(entries.shape)
    wanted, back = np.unique(entries, return_inverse=True)
    some = values.take(pa.array(wanted))
    if pa.types.is_decimal(some.type):
        some = some.cast(pa.string())
    doubles = some.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(doubles[back].reshape(entries.shape))
