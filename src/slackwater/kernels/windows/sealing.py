"""Which partials of a batch prove that all windows of a group that hold their pane are given up (`semantics.sealing`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slackwater.kernels.aggregates import partials as states
from slackwater.kernels.buckets import flat
from slackwater.kernels.windows.partials_step import AggregateSpec, ints
from slackwater.model.codec import positional
from slackwater.semantics.feedback import order
from slackwater.semantics.patterns import Test, Value
from slackwater.semantics.sealing import MOST_SEALED, Proof

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]


@positional
@dataclass(frozen=True)
class Proven:
    """A group for which a partial proved something, in windows (first, end); ``weight`` says how much there is to gain."""

    proof: int
    group: tuple[Value | None, ...]
    windows: tuple[int, int]
    weight: int = 0


def proven(
    spec: AggregateSpec, partials: pa.Table, proofs: Sequence[Proof], closed: int
) -> list[Proven]:
    """What partials prove of windows after ``closed``: of each proof at most `MOST_SEALED`, largest counts and newest panes first.

    A partial needs not be all that there is of its pane: the rest cannot take back what it proves.
    """
    if not partials.num_rows:
        return []
    pane = ints(partials, "_pane")
    first, end = spec.panes.first_window(pane), spec.panes.end_window(pane)
    open = (first < end) & (end > closed + 1)
    weight = np.zeros(len(pane), np.int64)
    counts = [p for p in spec.primitives if p.function == "count"]
    if counts:
        weight = ints(states_of(spec, partials, counts[0].name), "value")
    found = []
    for number, proof in enumerate(proofs):
        mask = open & _windows(proof.windows, first, end)
        for name, test in proof.values:
            values = states_of(spec, partials, name)["value"]
            mask &= passes(values, _type(spec, name), test)
        for i, test in proof.groups:
            mask &= passes(partials[spec.key_names[i]], spec.keys[i].type, test)
        rows = np.flatnonzero(mask)
        rows = rows[np.lexsort((-pane[rows], -weight[rows]))][:MOST_SEALED]
        taken = pa.array(rows)
        groups = [
            _codes(partials[n].take(taken), k.type)
            for n, k in zip(spec.key_names, spec.keys, strict=True)
        ]
        for at, row in enumerate(rows):
            windows = (int(first[row]), int(end[row]))
            found.append(Proven(number, tuple(g[at] for g in groups), windows, int(weight[row])))
    return found


def states_of(spec: AggregateSpec, partials: pa.Table, name: str) -> pa.Table:
    """The values that partials would give alone, of one primitive."""
    primitive = next(p for p in spec.primitives if p.name == name)
    return pa.table({"value": states.finish(primitive, partials, spec.ansi)})


def _type(spec: AggregateSpec, name: str) -> str:
    return next(p.type for p in spec.primitives if p.name == name)


def _windows(wanted: Test | None, first: Ints, end: Ints) -> Mask:
    """Whether all windows from ``first`` to ``end`` are wanted: spans do not touch, so that one must hold them."""
    if wanted is None:
        return np.ones(len(first), bool)
    mask = np.zeros(len(first), bool)
    for low, high in wanted.spans:
        inside = np.ones(len(first), bool)
        if isinstance(low, int):
            inside &= first >= low
        if isinstance(high, int):
            inside &= end <= high
        mask |= inside
    return mask


def passes(column: pa.ChunkedArray | pa.Array, type: str, test: Test) -> Mask:
    """Which values of a column pass a test on their codes."""
    array = flat(column)
    null = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    mask = np.zeros(len(array), bool)
    for low, high in test.spans:
        inside = ~null
        if low is not None:
            inside &= _from(array, type, low)
        if high is not None:
            inside &= ~_from(array, type, high)
        mask |= inside
    return mask | null if test.null else mask


def _from(array: pa.Array, type: str, code: Value) -> Mask:
    """Which values have a code that is not below ``code``; of nulls it says nothing of use."""
    known = order.limits(type)
    if known is not None and isinstance(code, int):
        if code > known[1]:
            return np.zeros(len(array), bool)
        if code <= known[0]:
            return np.ones(len(array), bool)
    if type in order.FLOATS:
        values = np.asarray(array.to_numpy(zero_copy_only=False), np.float64)
        limit = order.value_of(code, type)
        # NaN is above all.
        return np.asarray(
            np.isnan(values) if math.isnan(limit) else np.isnan(values) | (values >= limit)
        )
    if type == "string" or type.startswith("decimal"):
        limit = pa.scalar(order.value_of(code, type), array.type)
        return np.asarray(
            pc.greater_equal(array, limit).fill_null(False).to_numpy(zero_copy_only=False)
        )
    return np.asarray(_whole(array, type).fill_null(0).to_numpy(zero_copy_only=False) >= code)


def _whole(array: pa.Array, type: str) -> pa.Array:
    if type == "boolean":
        return array.cast(pa.int8())
    return (array.cast(pa.int32()) if type == "date" else array).cast(pa.int64())


def _codes(column: pa.ChunkedArray | pa.Array, type: str) -> list[Value | None]:
    """The codes of a column's values."""
    array = flat(column)
    if type in order.FLOATS or type == "string" or type.startswith("decimal"):
        return [order.code(v, type) for v in array.to_pylist()]
    codes: list[Value | None] = _whole(array, type).to_pylist()
    return codes
