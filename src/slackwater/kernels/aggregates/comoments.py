"""covar_pop, covar_samp, corr: how many pairs, both means, the sums of products of distances from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.kernels.aggregates.cells import Array, Ints, numbers

_PARTS = ("n", "mx", "my", "xy", "xx", "yy")


@dataclass
class Comoments:
    """``function`` is covar_pop, covar_samp or corr. Merged by Chan's rule, folded forward only.

    A value that is not finite makes the result NaN. (In Spark an infinite one does so, or gives an infinity, as
    rows happen to be ordered.)
    """

    name: str
    function: str

    def __post_init__(self) -> None:
        self.additive = 0
        self.fields = [
            pa.field(f"{self.name}_{p}", pa.int64() if p == "n" else pa.float64()) for p in _PARTS
        ]

    def load(self, table: pa.Table) -> tuple[list[Array], Any]:
        return [numbers(table, f.name, 0).astype(np.float64) for f in self.fields], None

    def dump(self, arrays: Sequence[Array], memory: Any) -> list[pa.Array]:
        return [pa.array(arrays[0].astype(np.int64)), *(pa.array(a) for a in arrays[1:])]

    def reduce(self, arrays: Sequence[Array], starts: Ints) -> list[Array]:
        if not len(starts):
            return [a[:0] for a in arrays]
        n, mx, my, xy, xx, yy = arrays
        lengths = np.diff(np.append(starts, len(n)))
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            total = np.add.reduceat(n, starts)
            safe = np.where(total > 0, total, 1.0)
            best = np.maximum.reduceat(np.where(n > 0, np.arange(len(n)), -1), starts)
            means, apart = [], []
            for mean in (mx, my):
                # Relative to one of the segment's own means, as for the variance.
                base = np.where(best >= 0, mean[np.maximum(best, 0)], 0.0)
                delta = np.where(n > 0, mean - np.repeat(base, lengths), 0.0)
                shift = np.add.reduceat(delta * n, starts) / safe
                means.append(base + shift)
                apart.append(delta - np.repeat(shift, lengths))
            out = [total, *means]
            for part, a, b in ((xy, 0, 1), (xx, 0, 0), (yy, 1, 1)):
                moved = np.where(n > 0, n * apart[a] * apart[b], 0.0)
                out.append(np.add.reduceat(part + moved, starts))
        return out

    def op(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        na, nb = left[0], right[0]
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            n = na + nb
            share = nb / np.where(n > 0, n, 1.0)
            dx, dy = right[1] - left[1], right[2] - left[2]
            out = [left[1] + dx * share, left[2] + dy * share]
            for i, product in ((3, dx * dy), (4, dx * dx), (5, dy * dy)):
                out.append(left[i] + right[i] + product * (na * share))
        whole = [
            np.where(nb == 0, a, np.where(na == 0, b, x))
            for a, b, x in zip(left[1:], right[1:], out)
        ]
        return [n, *whole]

    def finish(self, arrays: Sequence[Array], memory: Any, ansi: bool) -> pa.Array:
        n, _, _, xy, xx, yy = arrays
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            if self.function == "covar_pop":
                value, none = xy / n, n < 1
            elif self.function == "covar_samp":
                value, none = xy / (n - 1.0), n < 2
            else:
                below = np.sqrt(xx * yy)
                value, none = xy / below, (n < 2) | (below == 0)
        return pa.array(value, mask=none, from_pandas=False)

    def select(self, args: Sequence[str]) -> list[tuple[str, str]]:
        """Expressions of the column engine; what is not finite is only counted."""
        x, y = (f"CAST({a} AS DOUBLE)" for a in args)
        present = f"({x}) IS NOT NULL AND ({y}) IS NOT NULL"
        finite = f"FILTER (WHERE {present} AND isfinite({x}) AND isfinite({y}))"
        return [
            (f"count(*) FILTER (WHERE {present})", "_n"),
            (
                f"count(*) FILTER (WHERE {present} AND NOT (isfinite({x}) AND isfinite({y})))",
                "_bad",
            ),
            (f"favg({x}) {finite}", "_mx"),
            (f"favg({y}) {finite}", "_my"),
            (f"covar_pop({x}, {y}) {finite}", "_xy"),
            (f"var_pop({x}) {finite}", "_xx"),
            (f"var_pop({y}) {finite}", "_yy"),
        ]

    def read(self, table: pa.Table) -> list[pa.Array]:
        """State columns from what `select` gave."""
        n = numbers(table, f"{self.name}_n").astype(np.int64)
        bad = numbers(table, f"{self.name}_bad") > 0
        out: list[pa.Array] = [pa.array(n)]
        for p in _PARTS[1:]:
            values = numbers(table, f"{self.name}_{p}", 0.0)
            if not p.startswith("m"):
                values = values * n
            out.append(pa.array(np.where(bad, np.nan, values)))
        return out
