"""Partial aggregates as NumPy arrays, and how they merge.

A *kind* is the shape of an aggregate's state. Its arrays are of two sorts: the first ``additive`` ones
are integers that add up and can be taken back (so windows come from prefix sums); the others are only
ever folded forward by ``op``, since taking back would lose small floats after large ones, keep a NaN
for ever, or has no meaning (a maximum).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.errors import ExecutionError
from slackwater.kernels.aggregates import limbs as lb
from slackwater.kernels.buckets import flat
from slackwater.kernels.order import from_image, group_codes, has_image, image
from slackwater.kernels.types import arrow_type, parse

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
LEAST = np.iinfo(np.int64).min


class Kind(Protocol):
    """The state of one aggregate."""

    name: str
    additive: int
    fields: list[pa.Field]
    """State columns; none is null except values that do not exist yet."""

    def load(self, table: pa.Table) -> tuple[list[Array], Any]:
        """Arrays of a state table, and what is needed to turn them back."""

    def dump(self, arrays: Sequence[Array], memory: Any) -> list[pa.Array]:
        """State columns of arrays."""

    def reduce(self, arrays: Sequence[Array], starts: Ints) -> list[Array]:
        """One element per segment of rows."""

    def op(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        """Fold the arrays after the additive ones, element by element."""

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        """The aggregate's value, in Spark's type."""


class Ranged:
    """A kind whose elements are ranges [lo, hi) of the loaded rows, looked into only when finished.

    Merging neighbours is then free, and a subclass can finish overlapping ranges together. Ranges can
    only grow over neighbours, so there is no ``op``: a fold takes ``ranges`` instead.
    """

    additive = 0

    @staticmethod
    def rows(count: int) -> list[Array]:
        """Each row on its own."""
        return [np.arange(count), np.arange(1, count + 1)]

    def reduce(self, arrays: Sequence[Array], starts: Ints) -> list[Array]:
        ends = np.append(starts[1:], len(arrays[0]))
        return self.ranges(arrays, starts, ends if len(starts) else starts)

    def ranges(self, arrays: Sequence[Array], a: Ints, b: Ints) -> list[Array]:
        """The elements of the entries [a, b), which must lie together."""
        lo, hi = np.append(arrays[0], 0)[a], arrays[1][b - 1] if len(arrays[1]) else b
        return [lo, np.where(b > a, hi, lo)]

    def op(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        raise NotImplementedError("ranges are folded by `ranges`")


def numbers(table: pa.Table, name: str, fill: float | int = 0) -> Array:
    """A column as NumPy, nulls as ``fill``."""
    column = flat(table.column(name))
    if column.null_count:
        column = column.fill_null(fill)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _segments(array: Array, starts: Ints) -> Array:
    return np.asarray(np.add.reduceat(array, starts)) if len(starts) else array[:0]


@dataclass
class Counts:
    """count: a number of rows."""

    name: str

    def __post_init__(self) -> None:
        self.additive = 1
        self.fields = [pa.field(f"{self.name}_n", pa.int64())]

    def load(self, table: pa.Table) -> tuple[list[Array], Any]:
        return [numbers(table, f"{self.name}_n")], None

    def dump(self, arrays: Sequence[Array], memory: Any) -> list[pa.Array]:
        return [pa.array(arrays[0])]

    def reduce(self, arrays: Sequence[Array], starts: Ints) -> list[Array]:
        return [_segments(arrays[0], starts)]

    def op(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        return []

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        return pa.array(arrays[0])


@dataclass
class Exact:
    """sum and avg of integers and decimals: how many, and the sum in limbs.

    Only the final value can overflow. (Spark also gives up when a sum leaves its type on the way, which
    depends on the order of rows.)
    """

    name: str
    limbs: int
    average: bool
    argument: str
    type: str

    def __post_init__(self) -> None:
        self.additive = 1 + self.limbs
        self.columns = [f"{self.name}_n", *(f"{self.name}_{i}" for i in range(self.limbs))]
        self.fields = [pa.field(c, pa.int64()) for c in self.columns]

    def load(self, table: pa.Table) -> tuple[list[Array], Any]:
        return [numbers(table, c) for c in self.columns], None

    def dump(self, arrays: Sequence[Array], memory: Any) -> list[pa.Array]:
        # Carried, so that a stored limb is again small and any number of merges cannot overflow.
        return [pa.array(a) for a in (arrays[0], *lb.carry(arrays[1:]))]

    def reduce(self, arrays: Sequence[Array], starts: Ints) -> list[Array]:
        return [_segments(a, starts) for a in arrays]

    def op(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        return []

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        n, sums = arrays[0], arrays[1:]
        some = n > 0
        source, target = parse(self.argument), parse(self.type)
        if target.kind == "double":
            with np.errstate(divide="ignore", invalid="ignore"):
                return pa.array(lb.to_double(sums) / n, mask=~some)
        if target.kind == "bigint":
            value, bad = lb.to_int64(sums)
            if ansi and bool((bad & some).any()):
                raise overflow(self.name, self.type)
            return pa.array(value, mask=~some)
        if not self.average:
            result, bad = lb.to_decimal(sums, target.precision, target.scale, some)
        else:
            widest = min(38, source.precision + 10)
            _, bad = lb.to_decimal(sums, widest, source.scale, some)
            quotient = lb.divide(sums, np.where(some, n, 1), target.scale - source.scale)
            result, late = lb.to_decimal(quotient, target.precision, target.scale, some & ~bad)
            bad = bad | late
        if ansi and bool(bad.any()):
            raise overflow(self.name, self.type)
        return result


@dataclass
class Floats:
    """sum and avg of floats: how many, and the sum as a double."""

    name: str
    average: bool

    def __post_init__(self) -> None:
        self.additive = 1
        self.fields = [
            pa.field(f"{self.name}_n", pa.int64()),
            pa.field(f"{self.name}_s", pa.float64()),
        ]

    def load(self, table: pa.Table) -> tuple[list[Array], Any]:
        return [numbers(table, f"{self.name}_n"), numbers(table, f"{self.name}_s", 0.0)], None

    def dump(self, arrays: Sequence[Array], memory: Any) -> list[pa.Array]:
        return [pa.array(arrays[0]), pa.array(arrays[1], from_pandas=False)]

    def reduce(self, arrays: Sequence[Array], starts: Ints) -> list[Array]:
        with np.errstate(invalid="ignore", over="ignore"):
            return [_segments(a, starts) for a in arrays]

    def op(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        with np.errstate(invalid="ignore", over="ignore"):
            return [left[0] + right[0]]

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        n, value = arrays
        if self.average:
            with np.errstate(divide="ignore", invalid="ignore"):
                value = value / n
        return pa.array(value, mask=n == 0, from_pandas=False)


@dataclass
class Moments:
    """The variance family: how many, the mean, the sum of squared distances from it."""

    name: str
    sample: bool
    root: bool

    def __post_init__(self) -> None:
        self.additive = 0
        self.fields = [
            pa.field(f"{self.name}_n", pa.int64()),
            pa.field(f"{self.name}_mean", pa.float64()),
            pa.field(f"{self.name}_m2", pa.float64()),
        ]

    def load(self, table: pa.Table) -> tuple[list[Array], Any]:
        n = numbers(table, f"{self.name}_n").astype(np.float64)
        mean = numbers(table, f"{self.name}_mean", 0.0)
        return [n, mean, numbers(table, f"{self.name}_m2", 0.0)], None

    def dump(self, arrays: Sequence[Array], memory: Any) -> list[pa.Array]:
        n, mean, m2 = arrays
        return [pa.array(n.astype(np.int64)), pa.array(mean), pa.array(m2)]

    def reduce(self, arrays: Sequence[Array], starts: Ints) -> list[Array]:
        if not len(starts):
            return [a[:0] for a in arrays]
        n, mean, m2 = arrays
        lengths = np.diff(np.append(starts, len(n)))
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            total = np.add.reduceat(n, starts)
            safe = np.where(total > 0, total, 1.0)
            # Means relative to one of the segment's own: equal values then give exactly 0. That
            # one must count rows, and the mean of an empty part must not matter.
            best = np.maximum.reduceat(np.where(n > 0, np.arange(len(n)), -1), starts)
            base = np.where(best >= 0, mean[np.maximum(best, 0)], 0.0)
            delta = np.where(n > 0, mean - np.repeat(base, lengths), 0.0)
            shift = np.add.reduceat(delta * n, starts) / safe
            apart = delta - np.repeat(shift, lengths)
            spread = np.add.reduceat(m2 + np.where(n > 0, n * apart * apart, 0.0), starts)
        return [total, base + shift, spread]

    def op(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        (na, ma, sa), (nb, mb, sb) = left, right
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            n = na + nb
            share = nb / np.where(n > 0, n, 1.0)
            delta = mb - ma
            mean = ma + delta * share
            m2 = sa + sb + delta * delta * (na * share)
        mean = np.where(nb == 0, ma, np.where(na == 0, mb, mean))
        return [n, mean, np.where(nb == 0, sa, np.where(na == 0, sb, m2))]

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        n, _, m2 = arrays
        least = 2 if self.sample else 1
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            value = m2 / (n - 1.0 if self.sample else n)
            if self.root:
                value = np.sqrt(value)
        return pa.array(value, mask=n < least, from_pandas=False)


@dataclass
class Extreme:
    """min, max, bool_and, bool_or (values), max_by, min_by (values and what they are ordered by).

    Values become integers in their order, inverted for the least, so that the greatest integer wins. Of
    rows with equal ``y``, max_by takes the greatest ``x`` and min_by the least, null being least:
    the outcome does not depend on the order of arrival.
    """

    name: str
    least: bool
    types: tuple[str, ...]  # (value,) or (y, x)

    def __post_init__(self) -> None:
        self.additive = 1
        self.columns = (
            [f"{self.name}_v"] if len(self.types) == 1 else [f"{self.name}_y", f"{self.name}_x"]
        )
        self.fields = [pa.field(c, arrow_type(t)) for c, t in zip(self.columns, self.types)]

    def load(self, table: pa.Table) -> tuple[list[Array], Any]:
        columns = [flat(table.column(c)) for c in self.columns]
        present = columns[0].is_valid().to_numpy(zero_copy_only=False)
        if len(columns) == 1 and has_image(columns[0].type):
            codes, memory = image(columns[0]), None
        else:
            codes, size = group_codes(columns, len(present))
            # Where a code came from: any row with that code has the same values.
            where: Any
            if size <= max(4 * len(codes), 1 << 20):
                where = np.zeros(size, dtype=np.int64)
                where[codes] = np.arange(len(codes))
                memory = (columns, where)
            else:
                _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
                codes, memory = inverse.astype(np.int64), (columns, first)
        if self.least:
            codes = ~codes
        return [present.astype(np.int64), np.where(present, codes, LEAST)], memory

    def dump(self, arrays: Sequence[Array], memory: Any) -> list[pa.Array]:
        present, codes = arrays[0] > 0, arrays[1]
        codes = ~codes if self.least else codes
        if memory is None:
            return [from_image(codes, self.fields[0].type, present)]
        columns, where = memory
        if not len(where):
            return [pa.nulls(len(codes), f.type) for f in self.fields]
        rows = pa.array(where[np.where(present, codes, 0)], mask=~present)
        return [c.take(rows) for c in columns]

    def reduce(self, arrays: Sequence[Array], starts: Ints) -> list[Array]:
        if not len(starts):
            return [a[:0] for a in arrays]
        return [
            np.add.reduceat(arrays[0], starts),
            np.maximum.reduceat(arrays[1], starts),
        ]

    def op(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        return [np.maximum(left[0], right[0])]

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        return self.dump(arrays, memory)[-1]


def overflow(name: str, type: str) -> ExecutionError:
    """The error of a sum that does not fit its type."""
    return ExecutionError(
        "ARITHMETIC_OVERFLOW",
        f"the value of aggregate '{name}' does not fit {type}",
        hint="cast the argument to a wider type such as decimal(38,0), or set "
        "spark.sql.ansi.enabled to false",
        aggregate=name,
        type=type,
    )
