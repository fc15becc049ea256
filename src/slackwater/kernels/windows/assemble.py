"""Windows from panes in O(panes + results).

Entries are sorted by (key, pane). Which (key, window) pairs have rows is found by merging the entries'
intervals of windows: entry i adds the windows that its predecessor of the same key did not reach. The
value of a window over its entries [a, b) then comes from

* prefix sums, for what can be taken back exactly (integers modulo 2**64): ``C[b] - C[a]``;
* two scans, for everything else: panes are cut into blocks as long as a window, so that a window is the
  tail of one block and the head of the next. Inside each block the scans only ever combine forward:
  nothing is subtracted, so a NaN or a huge float leaves together with its pane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.kernels.aggregates.cells import Kind, Ranged
from slackwater.semantics.limits import clamp
from slackwater.semantics.panes import Panes

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Op = Callable[[Sequence[Array], Sequence[Array]], list[Array]]

_LOOP = 4096
"""Longest block that is scanned position by position; longer ones by doubling steps."""


@dataclass
class Frame:
    """The results to compute: result r is window ``wid[r]`` over the entries [``a[r]``, ``b[r]``)."""

    wid: Ints
    a: Ints
    b: Ints
    kept: Ints
    """Entries (of those given) that some result uses; ``a``, ``b`` count in these."""
    block: Ints
    """Block of each kept entry: panes [block * P, (block + 1) * P), P panes a window."""
    segment: Ints
    """Number of the (key, block) that each kept entry lies in, rising."""
    panes: Panes | None
    """None: a result starts where its segment does (there are no blocks)."""
    _scan: tuple[_Layout, Flags, Flags] | None = field(default=None, repr=False)

    def fold(self, kind: Kind, arrays: Sequence[Array]) -> list[Array]:
        """The arrays of a kind, per result."""
        whole = len(self.kept) == len(arrays[0])
        kept = arrays if whole else [x[self.kept] for x in arrays]
        if isinstance(kind, Ranged):
            return kind.ranges(kept, self.a, self.b)
        k = kind.additive
        out = [self._sums(x) for x in kept[:k]]
        if k < len(kept):
            out += self._scans(kept[k:], kind.op)
        return out

    def _sums(self, values: Array) -> Array:
        prefix = np.zeros(len(values) + 1, dtype=values.dtype)
        np.cumsum(values, out=prefix[1:])
        return np.asarray(prefix[self.b] - prefix[self.a])

    def _scans(self, arrays: Sequence[Array], op: Op) -> list[Array]:
        last = self.b - 1
        if self.panes is None:
            return [x[last] for x in _Layout(self.segment).prefix(arrays, op)]
        if self._scan is None:
            two = self.segment[self.a] != self.segment[last]
            # A window whose entries lie in one block is its head if it starts before the block.
            start = _first_pane(self.wid, self.panes)
            head = start <= self.block[self.a] * np.int64(self.panes.per_window)
            self._scan = _Layout(self.segment), two, head
        layout, two, head = self._scan
        if self.panes.per_window == 1:
            return [x[self.a] for x in arrays]
        tail = [x[self.a] for x in layout.suffix(arrays, op)]
        lead = [x[last] for x in layout.prefix(arrays, op)]
        both = op(tail, lead)
        return [np.where(two, x, np.where(head, y, z)) for x, y, z in zip(both, lead, tail)]


def frame(key: Ints, pane: Ints, panes: Panes, closed: int | Ints, close_to: int | Ints) -> Frame:
    """The non-empty windows in (closed, close_to], for entries sorted by (key, pane).

    ``key`` are codes that rise; no (key, pane) occurs twice. ``closed`` and ``close_to`` may differ from
    key to key: they are then given per entry.
    """
    lo = np.maximum(panes.first_window(pane), _after(closed))
    hi = np.minimum(panes.end_window(pane), _after(close_to))
    kept = np.flatnonzero(lo < hi)
    n = len(kept)
    if n < len(pane):
        key, pane, lo, hi = key[kept], pane[kept], lo[kept], hi[kept]
    fresh = np.ones(n, dtype=np.bool_)
    fresh[1:] = key[1:] != key[:-1]
    lo[1:] = np.where(fresh[1:], lo[1:], np.maximum(lo[1:], hi[:-1]))
    added = hi - lo
    ends = np.cumsum(added)
    total = int(ends[-1]) if n else 0
    wid = np.arange(total) + np.repeat(lo - (ends - added), added)
    place, base, low, high = _places(fresh, pane, panes, wid)
    base = np.repeat(base, added)
    a, b = _count_below(place, base + low), _count_below(place, base + high)
    block = pane // np.int64(panes.per_window)
    fresh[1:] |= block[1:] != block[:-1]
    return Frame(wid, a, b, kept, block, np.cumsum(fresh) - 1, panes)


def frame_at(key: Ints, pane: Ints, panes: Panes, entries: Ints) -> Frame:
    """The windows that end with the panes of ``entries`` (places that rise), for entries sorted by (key, pane).

    Panes are as long as a slide, so that a window has the number of its last pane.
    """
    n = len(pane)
    fresh = np.ones(n, dtype=np.bool_)
    fresh[1:] = key[1:] != key[:-1]
    wid = pane[entries]
    place, base, low, _ = _places(fresh, pane, panes, wid)
    a = _count_below(place, base[entries] + low) if n else entries
    block = pane // np.int64(panes.per_window)
    fresh[1:] |= block[1:] != block[:-1]
    return Frame(wid, a, entries + 1, np.arange(n), block, np.cumsum(fresh) - 1, panes)


def frame_of(wid: Ints, a: Ints, b: Ints, segment: Ints) -> Frame:
    """Results over [a, b) where each ``a`` is the start of a segment of the entries."""
    return Frame(wid, a, b, np.arange(len(segment)), segment, segment, None)


def _after(wid: int | Ints) -> np.int64 | Ints:
    return np.int64(clamp(wid + 1)) if isinstance(wid, int) else wid + 1


def _first_pane(wid: Ints, panes: Panes) -> Ints:
    end = (wid + np.int64(1)) * np.int64(panes.per_slide)
    return np.asarray(end - np.int64(panes.per_window))


def _places(fresh: Flags, pane: Ints, panes: Panes, wid: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """(key, pane) as one rising integer: of the entries; of their key alone; and what to add to the
    latter for the first and the end pane of each window.
    """
    if not len(pane):
        return pane, pane, wid, wid
    code = np.cumsum(fresh) - 1
    start = _first_pane(wid, panes)
    end = start + np.int64(panes.per_window)
    least, most = int(pane.min()), int(pane.max())
    if (most - least + 2) * (int(code[-1]) + 1) < 1 << 62:
        width = np.int64(most - least + 2)
        rank = pane - np.int64(least)
        low = np.clip(start, least, most + 1) - np.int64(least)
        high = np.clip(end, least, most + 1) - np.int64(least)
    else:
        # Panes far apart: number those that occur, so that the product stays small.
        distinct, inverse = np.unique(pane, return_inverse=True)
        width, rank = np.int64(len(distinct) + 1), inverse.astype(np.int64, copy=False)
        low, high = np.searchsorted(distinct, start), np.searchsorted(distinct, end)
    base = code * width
    return base + rank, base, low, high


def _count_below(places: Ints, queries: Ints) -> Ints:
    """For each query how many places lie below it; both rise."""
    if len(queries) <= len(places):
        return np.searchsorted(places, queries)
    after = np.searchsorted(queries, places, side="right")
    return np.asarray(np.cumsum(np.bincount(after, minlength=len(queries) + 1))[:-1])


class _Layout:
    """Segments of rows, for scans inside each segment, vectorised across segments."""

    def __init__(self, segment: Ints) -> None:
        n = len(segment)
        self.segment = segment
        starts = np.flatnonzero(np.diff(segment, prepend=np.int64(-1)))
        lengths = np.diff(np.append(starts, n))
        self.longest = int(lengths.max()) if n else 0
        if self.longest <= _LOOP:
            # Position by position, long segments first: the elements at position j of all segments
            # that have one then lie together, in the same order as at j - 1.
            order = np.argsort(-lengths, kind="stable")
            starts, lengths = starts[order], lengths[order]
            self.active = np.searchsorted(-lengths, -np.arange(self.longest), side="left")
            position = np.repeat(np.arange(self.longest), self.active)
            offset = np.concatenate([[0], np.cumsum(self.active)])
            which = np.arange(n) - offset[position]
            self.forward = starts[which] + position
            self.backward = starts[which] + lengths[which] - 1 - position
            self.offset = offset

    def prefix(self, arrays: Sequence[Array], op: Op) -> list[Array]:
        """Fold of each segment's elements up to and including each."""
        if self.longest > _LOOP:
            return _doubling(self.segment, arrays, op)
        return self._loop(arrays, op, self.forward)

    def suffix(self, arrays: Sequence[Array], op: Op) -> list[Array]:
        """Fold of each segment's elements from each on."""
        if self.longest > _LOOP:
            turned = _doubling(self.segment[::-1], [x[::-1] for x in arrays], _swapped(op))
            return [x[::-1] for x in turned]
        return self._loop(arrays, _swapped(op), self.backward)

    def _loop(self, arrays: Sequence[Array], op: Op, order: Ints) -> list[Array]:
        work = [x[order] for x in arrays]
        offset = self.offset
        for j in range(1, self.longest):
            here, end = int(offset[j]), int(offset[j + 1])
            before = int(offset[j - 1])
            m = end - here
            folded = op([x[before : before + m] for x in work], [x[here:end] for x in work])
            for x, y in zip(work, folded):
                x[here:end] = y
        out = []
        for x in work:
            back = np.empty_like(x)
            back[order] = x
            out.append(back)
        return out


def _swapped(op: Op) -> Op:
    return lambda left, right: op(right, left)


def _doubling(segment: Ints, arrays: Sequence[Array], op: Op) -> list[Array]:
    """Inclusive scan in log2(longest) steps, each one over all rows."""
    work = [x.copy() for x in arrays]
    step, n = 1, len(segment)
    while step < n:
        rows = np.flatnonzero(segment[step:] == segment[:-step]) + step
        if not len(rows):
            break
        folded = op([x[rows - step] for x in work], [x[rows] for x in work])
        for x, y in zip(work, folded):
            x[rows] = y
        step *= 2
    return work
