"""Rows and groups against a set of patterns, in columns.

The ends of all spans cut the values of a column into cells; inside a cell all values pass the same tests. So
a row is a few small numbers, and patterns are tried once per distinct combination of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slackwater.kernels.buckets import flat
from slackwater.semantics.closing import Closing
from slackwater.semantics.limits import END, START
from slackwater.semantics.patterns import Patterns, Span, Test

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]


def matching(
    patterns: Patterns, table: pa.Table, time: str, untested: int = END
) -> tuple[Mask, Ints]:
    """Which rows match a pattern; and of these, the greatest end of "``time`` below v" among the patterns they
    match: ``untested`` where a pattern does not test the time, `START` where its test is of another form.
    """
    n = table.num_rows
    columns = sorted({c for p in patterns for c in p.columns})
    cells = {c: _Cells(table[c], [t for p in patterns if (t := p.test(c))]) for c in columns}
    codes, groups = _distinct([cells[c].codes for c in columns], n)
    matched = np.zeros(len(groups), bool)
    limit = np.full(len(groups), START)
    for p in patterns:
        mask = np.ones(len(groups), bool)
        for i, c in enumerate(columns):
            test = p.test(c)
            if test is not None:
                mask &= cells[c].passing(test)[groups[:, i]]
        test = p.test(time)
        end: Any = untested if test is None else test.limit if test.limit is not None else START
        limit[mask] = np.maximum(limit[mask], end)
        matched |= mask
    return matched[codes], limit[codes]


def closed(
    closing: Closing,
    keys: Sequence[pa.ChunkedArray | None],
    starts: Ints,
    ends: Ints,
    wids: Ints,
    least: int = 0,
) -> Mask:
    """Which (group, window) pairs are closed, by the linear bound or by patterns.

    ``keys`` are the group columns, in the closing's order; windows are half-open, ``[start, end)``. Of what patterns
    close, stretches of fewer than ``least`` ticks do not count.
    """
    done = wids <= closing.closed
    if not closing.tests or len(wids) == 0:
        return np.asarray(done)
    cells = []
    for i, column in enumerate(keys):
        tried = [t for own, _ in closing.tests if (t := own[i]) is not None]
        cells.append(_Cells(column, tried) if tried else None)
    used = [i for i, c in enumerate(cells) if c is not None]
    codes, groups = _distinct([c.codes for c in cells if c is not None], len(wids))
    for tests, spans in closing.tests:
        mask = np.ones(len(groups), bool)
        for at, i in enumerate(used):
            test, column = tests[i], cells[i]
            if test is not None and column is not None:
                mask &= column.passing(test)[groups[:, at]]
        if mask.any():
            rows = mask[codes]
            for low, high in _of_length(spans, least):
                done |= rows & _inside(starts, ends, low, high)
    return np.asarray(done | _covered(closing, cells, used, codes, groups, starts, ends, least))


def _of_length(spans: Sequence[Span], least: int) -> list[Span]:
    """The spans of at least so many ticks."""

    def is_long(low: Any, high: Any) -> bool:
        return low is None or high is None or high - low >= least

    return [(low, high) for low, high in spans if least == 0 or is_long(low, high)]


def _covered(
    closing: Closing,
    cells: Sequence[_Cells | None],
    used: Sequence[int],
    codes: Ints,
    groups: Ints,
    starts: Ints,
    ends: Ints,
    least: int,
) -> Mask:
    """Windows that no single pattern closes, but several together do.

    Only spans with a beginning can add to each other like that; "below v" alone never needs this.
    """
    done = np.zeros(len(codes), bool)
    if all(low is None for _, spans in closing.tests for low, _ in spans):
        return done
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(groups) + 1))
    for g, group in enumerate(groups):
        spans: list[Span] = []
        for tests, own in closing.tests:
            passing = all(
                (t := tests[i]) is None or (c := cells[i]) is None or c.passing(t)[group[at]]
                for at, i in enumerate(used)
            )
            spans += own if passing else ()
        if len(spans) < 2:
            continue
        rows = order[edges[g] : edges[g + 1]]
        for low, high in _of_length(Test.of(spans).spans, least):
            done[rows] |= _inside(starts[rows], ends[rows], low, high)
    return done


def matched_keys(closing: Closing, keys: Sequence[pa.ChunkedArray | None], rows: int) -> Mask:
    """Which groups some pattern speaks of; a key that no pattern tests may be None."""
    everywhere = Closing(tuple((tests, ((None, None),)) for tests, _ in closing.tests), START - 1)
    zero = np.zeros(rows, np.int64)
    return closed(everywhere, keys, zero, zero, zero)


def _inside(starts: Ints, ends: Ints, low: Any, high: Any) -> Mask:
    mask = np.ones(len(starts), bool)
    if low is not None:
        mask &= starts >= low
    if high is not None:
        mask &= ends <= high
    return mask


class _Cells:
    """A column cut into the cells of some tests: a code per row, null having one of its own."""

    def __init__(self, column: pa.ChunkedArray, tests: Sequence[Test]):
        ends = {v for t in tests for span in t.spans for v in span if v is not None}
        self.ends: list[Any] = sorted(ends)
        self._places = {v: i + 1 for i, v in enumerate(self.ends)}
        values, null = _plain(column)
        text = values.dtype == object
        self._masks: dict[Test, Mask] = {}
        if text:
            edges = np.empty(len(self.ends), object)
            edges[:] = self.ends
            encoded = flat(column).cast(pa.string()).dictionary_encode()
            words = np.empty(len(encoded.dictionary), object)
            words[:] = encoded.dictionary.to_pylist()
            places = (
                np.searchsorted(edges, words, side="right")
                if len(edges)
                else np.zeros(len(words), int)
            )
            indices = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
            codes = places[indices] if len(words) else np.zeros(len(null), int)
        else:
            codes = np.searchsorted(np.array(self.ends, np.int64), values, side="right")
        self.codes: Ints = np.where(null, len(self.ends) + 1, codes).astype(np.int64)

    def passing(self, test: Test) -> Mask:
        """By cell, whether its values pass."""
        if test not in self._masks:
            # Cell 0 lies below all ends, cell i + 1 begins at end i, the last one is null's.
            edges = np.zeros(len(self.ends) + 2, np.int64)
            np.add.at(edges, [0 if s[0] is None else self._places[s[0]] for s in test.spans], 1)
            closing = [self._places[s[1]] for s in test.spans if s[1] is not None]
            np.add.at(edges, closing, -1)
            cells = np.cumsum(edges) > 0
            cells[-1] = test.null
            self._masks[test] = cells
        return self._masks[test]


def _plain(column: pa.ChunkedArray) -> tuple[NDArray[Any], Mask]:
    """Values as patterns hold them, and which are null."""
    null = column.is_null().to_numpy(zero_copy_only=False)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind)):
        return np.empty(0, object), null
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    return column.cast(pa.int64()).fill_null(0).to_numpy(), null


def _distinct(codes: Sequence[Ints], rows: int) -> tuple[Ints, Ints]:
    """A number per row, equal for rows of equal codes, and the codes of each number (one row each)."""
    if not codes:
        return np.zeros(rows, np.int64), np.zeros((1, 0), np.int64)
    sizes = [int(c.max()) + 1 if rows else 1 for c in codes]
    if prod(sizes) >= 1 << 62:
        unique, inverse = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
        return inverse.reshape(-1), unique
    whole = codes[0]
    for code, size in zip(codes[1:], sizes[1:], strict=True):
        whole = whole * size + code
    if prod(sizes) <= max(1 << 16, 4 * rows):  # a table of all combinations is cheaper than sorting
        seen = np.bincount(whole, minlength=prod(sizes)) > 0
        distinct, inverse = np.flatnonzero(seen), (np.cumsum(seen) - 1)[whole]
    else:
        distinct, inverse = np.unique(whole, return_inverse=True)
    parts = []
    for size in reversed(sizes):
        parts.append(distinct % size)
        distinct = distinct // size
    return inverse.reshape(-1), np.stack(parts[::-1], axis=1)
