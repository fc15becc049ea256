"""What rows add to windows: sums by window, and of late rows by how long after the window's end they came."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.delays import Floats, Ints, bins
from slackwater.semantics.quality.measure import spread, stride
from slackwater.semantics.window_ids import wid_range

PAIRS = 1 << 22
"""Pairs of row and window that are looked at in one go."""

Sums = list[float]
"""Rows, then the sum of each column of values."""


@dataclass(frozen=True)
class LateSums:
    """What a piece of a stream adds to windows: sums of all rows by window, and of rows that came after a window's end by
    window and by bin of how long after. ``new`` is how many of these no earlier window has, where windows share rows.
    """

    totals: Mapping[int, Sums] = field(default_factory=dict)
    late: Mapping[tuple[int, int], Sums] = field(default_factory=dict)
    new: Mapping[tuple[int, int], int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, times: Ints, clocks: Ints, values: Sequence[Floats], w: TimeWindow, granularity: int
    ) -> LateSums:
        """Rows in order; ``clocks`` is the current time before each."""
        if len(times) == 0:
            return cls()
        step = stride(w)
        begin, stop = wid_range(times, w)
        first, last = -(-begin // step), (stop - 1) // step
        columns = [np.ones(len(times)), *(np.where(np.isfinite(v), v, 0.0) for v in values)]
        # Rows that belong to the same windows are summed up first, so that only few sums go to several windows.
        room = int((last - first).max()) + 2
        alike, sums = _summed(first * room + (last - first + 1), columns)
        at, places = spread(alike // room, alike // room + alike % room)
        totals: dict[int, Sums] = {}
        _collect(totals, places * step, [c[at] for c in sums])
        # The windows of a row that had ended before it came are the first ones.
        ended = np.minimum(((clocks - w.origin) // w.slide - 1) // step, last) + 1
        ended = np.where(clocks > START, ended, first)
        behind = np.flatnonzero(ended > first)
        late: dict[tuple[int, int], Sums] = {}
        new: dict[tuple[int, int], int] = {}
        if w.range > step * w.slide:
            # The first window of a row ended before all others that miss it.
            wids = first[behind] * step
            after = bins(clocks[behind] - (w.origin + (wids + 1) * w.slide) + 1, granularity)
            new = Counter(zip(wids.tolist(), after.tolist(), strict=True))
        for some in np.array_split(behind, 1 + len(behind) * room // PAIRS):
            at, places = spread(first[some], ended[some])
            at, wids = some[at], places * step
            after = bins(clocks[at] - (w.origin + (wids + 1) * w.slide) + 1, granularity)
            # A pair of window and bin as one number, by their places where a row is too late for their product.
            many, low = int(after.max(initial=0)) + 1, int(wids.min(initial=0))
            known: Ints | None = None
            if (int(wids.max(initial=0)) - low + 1) * many >= 1 << 62:
                known, after = np.unique(after, return_inverse=True)
                many = len(known)
            by_code: dict[int, Sums] = {}
            _collect(by_code, (wids - low) * many + after, [c[at] for c in columns])
            for code, one in by_code.items():
                place = code % many if known is None else int(known[code % many])
                plus(late, (code // many + low, place), one)
        return cls(totals, late, new)

    def to_json(self) -> list[Any]:
        """Plain lists."""
        totals = [[w, s] for w, s in sorted(self.totals.items())]
        late = [[w, b, s] for (w, b), s in sorted(self.late.items())]
        return [totals, late, [[w, b, n] for (w, b), n in sorted(self.new.items())]]

    @classmethod
    def from_json(cls, json: Sequence[Any]) -> LateSums:
        """The inverse of `to_json`."""
        late, new = ({(w, b): s for w, b, s in part} for part in json[1:])
        return cls(dict(json[0]), late, new)


def _totals(places: Ints, values: Floats) -> Floats:
    return np.asarray(np.bincount(places, values), np.float64)


def _summed(keys: Ints, columns: Sequence[Floats]) -> tuple[Ints, list[Floats]]:
    """The keys there are, and the sums of each column by key, added from left to right."""
    low = int(keys.min())
    size = int(keys.max()) - low + 1
    if size <= 4 * len(keys) + 64:
        places = keys - low
        distinct = np.flatnonzero(np.bincount(places))
        return distinct + low, [_totals(places, c)[distinct] for c in columns]
    distinct, places = np.unique(keys, return_inverse=True)
    return distinct, [_totals(places, c) for c in columns]


def _collect(out: dict[int, Sums], keys: Ints, columns: Sequence[Floats]) -> None:
    if len(keys) == 0:
        return
    distinct, sums = _summed(keys, columns)
    for key, *one in zip(distinct.tolist(), *(c.tolist() for c in sums), strict=True):
        plus(out, key, one)


def plus(out: dict[Any, Sums], key: Any, sums: Sums) -> None:
    """Add sums to those of a key."""
    known = out.get(key)
    out[key] = sums if known is None else [a + b for a, b in zip(known, sums, strict=True)]


def merged(parts: Iterable[LateSums]) -> LateSums:
    """The sum of several tasks' parts, the same in whatever order they come."""
    totals: dict[int, list[Sums]] = {}
    late: dict[tuple[int, int], list[Sums]] = {}
    new: Counter[tuple[int, int]] = Counter()
    for part in parts:
        new.update(part.new)
        for wid, sums in part.totals.items():
            totals.setdefault(wid, []).append(sums)
        for key, sums in part.late.items():
            late.setdefault(key, []).append(sums)
    return LateSums(
        {w: [math.fsum(c) for c in zip(*s, strict=True)] for w, s in totals.items()},
        {k: [math.fsum(c) for c in zip(*s, strict=True)] for k, s in late.items()},
        new,
    )
