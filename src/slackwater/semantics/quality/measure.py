"""How complete closed windows turned out to be, measured once most late rows must have come.

For each window rows are counted as received while it is open and as missed once it is closed. Coverage is 1 when a
window closes and can only fall; it is read off a window that closed long enough ago for all but the latest of its late
rows to have shown up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slackwater.model.window import TimeWindow
from slackwater.semantics.quality.delays import Ints
from slackwater.semantics.window_ids import last_complete, wid_range

PIECES = 8
"""Of windows that overlap more often than this, only every few are counted."""
MOST = 1024
"""Windows with counters at the most; the oldest go first."""
SPARSE = 1 << 16
"""Places without a row that are worth no thought; a row that is years late would make billions of them."""

Tally = Mapping[int, tuple[int, int]]
"""Rows received and missed by window id."""


def stride(window: TimeWindow) -> int:
    """Windows whose id is a multiple of this are counted."""
    return max(1, window.range // window.slide // PIECES)


def tally(times: Ints, closed: Ints | int, window: TimeWindow) -> dict[int, tuple[int, int]]:
    """Rows received and missed by window, of the windows that are counted.

    ``closed`` is the last window that was closed when a row came, by row or for all.
    """
    step = stride(window)
    if len(times) == 0:
        return {}
    begin, stop = wid_range(times, window)
    first, last = -(-begin // step), (stop - 1) // step
    base, top = int(first.min()), int(last.max())
    if top < base:
        return {}
    split = np.clip(np.asarray(closed) // step + 1, first, last + 1)
    size = top - base + 2
    some = last >= first
    if size > SPARSE + 4 * int((last - first + 1)[some].sum()):
        at, places = spread(first, last + 1)
        wids, of = np.unique(places, return_inverse=True)
        missing = np.bincount(of, places < split[at]).astype(np.int64).tolist()
        every = np.bincount(of).tolist()
        pairs = zip((wids * step).tolist(), every, missing, strict=True)
        return {wid: (n - m, m) for wid, n, m in pairs}
    received = _cover(split[some] - base, last[some] + 1 - base, size)
    missed = _cover(first[some] - base, split[some] - base, size)
    windows = np.flatnonzero(received + missed)
    return {int((at + base) * step): (int(received[at]), int(missed[at])) for at in windows}


def spread(starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """All numbers in [start, stop) of each pair, and the pair that each is of."""
    sizes = np.maximum(stops - starts, 0)
    at = np.repeat(np.arange(len(sizes)), sizes)
    return at, np.arange(len(at)) - np.repeat(np.cumsum(sizes) - sizes - starts, sizes)


def _cover(starts: Ints, stops: Ints, size: int) -> Ints:
    """How many intervals [start, stop) hold each place."""
    change = np.bincount(starts, minlength=size + 1) - np.bincount(stops, minlength=size + 1)
    return np.asarray(np.cumsum(change)[:size])


def merged(parts: Iterable[Tally]) -> dict[int, tuple[int, int]]:
    """The sum of several tallies."""
    out: dict[int, tuple[int, int]] = {}
    for part in parts:
        for wid, (received, missed) in part.items():
            r, m = out.get(wid, (0, 0))
            out[wid] = (r + received, m + missed)
    return dict(sorted(out.items()))


@dataclass
class Coverage:
    """Counters of windows, and what was estimated for each when it closed."""

    counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    estimates: dict[int, float] = field(default_factory=dict)

    def add(self, counts: Tally) -> None:
        """More rows."""
        for wid, (received, missed) in counts.items():
            r, m = self.counts.get(wid, (0, 0))
            self.counts[wid] = (r + received, m + missed)

    def close(self, first: int, last: int, estimate: float, window: TimeWindow) -> None:
        """Windows ``first`` to ``last`` closed, with the coverage that the model gave them."""
        step = stride(window)
        for wid in range(-(-first // step) * step, last + 1, step):
            if wid in self.counts:
                self.estimates[wid] = estimate

    def measure(self, before: int, window: TimeWindow) -> tuple[int, float] | None:
        """The window that ends last before ``before`` among those that closed, and its coverage."""
        limit = last_complete(before, window)
        wid = max((w for w in self.estimates if w <= limit and w in self.counts), default=None)
        if wid is None:
            return None
        received, missed = self.counts[wid]
        return wid, received / (received + missed)

    def purge(self, before: int, window: TimeWindow) -> None:
        """Forget windows that ended before ``before``, and the oldest where there are too many."""
        limit = last_complete(before, window)
        old = [w for w in self.counts if w < limit]
        if len(self.counts) - len(old) > MOST:
            old = sorted(self.counts)[:-MOST]
        for wid in old:
            del self.counts[wid]
            self.estimates.pop(wid, None)

    def to_json(self) -> list[Any]:
        """Plain lists."""
        counts = [[w, *n] for w, n in sorted(self.counts.items())]
        return [counts, [[w, e] for w, e in sorted(self.estimates.items())]]

    @classmethod
    def from_json(cls, json: list[Any]) -> Coverage:
        """The inverse of `to_json`."""
        return cls({w: (r, m) for w, r, m in json[0]}, dict(json[1]))
