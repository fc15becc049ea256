"""The slack that each recent window turned out to need, and the slack that most of them needed at the most.

A row is missing from a window if the current time had passed the window's end by the slack or more when the row came.
So once the late rows of a window are there, the least slack that would have kept its promise is known exactly, whatever
the delays have to do with each other. Late rows that come in bursts spoil few windows, but those badly: the mean
coverage of windows does not show that, their needs do.

The slack for what comes next is a quantile of these needs. Its level begins a little above the confidence asked for and
follows what becomes of it: it rises when a window misses its target, and sinks slowly otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.delays import Floats, Ints, bins
from slackwater.semantics.quality.measure import spread, stride
from slackwater.semantics.quality.threshold import Asked
from slackwater.semantics.window_ids import wid_range

FEWEST = 40
"""Windows that must have been judged before their needs count."""
MOST = 600
STEP = 0.005
"""How fast the level of the quantile follows missed targets."""
HIGHEST = 0.9995
PAIRS = 1 << 22
"""Pairs of row and window that are looked at in one go."""

Sums = list[float]
"""Rows, then the sum of each column of values."""


@dataclass(frozen=True)
class LateSums:
    """What a piece of a stream adds to windows: sums of all rows by window, and of rows that came after a window's end by
    window and by bin of how long after.
    """

    totals: Mapping[int, Sums] = field(default_factory=dict)
    late: Mapping[tuple[int, int], Sums] = field(default_factory=dict)

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
                _plus(late, (code // many + low, place), one)
        return cls(totals, late)

    def to_json(self) -> list[Any]:
        """Plain lists."""
        totals = [[w, s] for w, s in sorted(self.totals.items())]
        return [totals, [[w, b, s] for (w, b), s in sorted(self.late.items())]]

    @classmethod
    def from_json(cls, json: Sequence[Any]) -> LateSums:
        """The inverse of `to_json`."""
        return cls(dict(json[0]), {(w, b): s for w, b, s in json[1]})


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
        _plus(out, key, one)


def _plus(out: dict[Any, Sums], key: Any, sums: Sums) -> None:
    known = out.get(key)
    out[key] = sums if known is None else [a + b for a, b in zip(known, sums, strict=True)]


def merged(parts: Iterable[LateSums]) -> LateSums:
    """The sum of several tasks' parts, the same in whatever order they come."""
    totals: dict[int, list[Sums]] = {}
    late: dict[tuple[int, int], list[Sums]] = {}
    for part in parts:
        for wid, sums in part.totals.items():
            totals.setdefault(wid, []).append(sums)
        for key, sums in part.late.items():
            late.setdefault(key, []).append(sums)
    return LateSums(
        {w: [math.fsum(c) for c in zip(*s, strict=True)] for w, s in totals.items()},
        {k: [math.fsum(c) for c in zip(*s, strict=True)] for k, s in late.items()},
    )


def error_of(asked: Asked, total: Sums, missing: Sums) -> float:
    """The relative error of an aggregate without the missing rows; of a quantile, of its rank at the most."""
    if not missing[0]:
        return 0.0
    if asked.rule in ("count", "quantile"):
        return missing[0] / total[0]
    if asked.rule not in ("sum", "avg") or asked.column is None:
        return math.inf
    whole, part = total[1 + asked.column], missing[1 + asked.column]
    if asked.rule == "sum":
        return abs(part / whole) if whole else math.inf
    if total[0] == missing[0] or not whole:
        return math.inf
    mean = whole / total[0]
    return abs((whole - part) / (total[0] - missing[0]) - mean) / abs(mean)


def needed_slack(
    total: Sums, late: Mapping[int, Sums], asked: Sequence[Asked], most: float, granularity: int
) -> int:
    """The least slack with which every error of a window stays within ``most``.

    ``late`` is by bin: rows of bin ``b`` are there if the slack is at least ``b`` granules.
    """
    missing = [0.0] * len(total)
    for b in sorted(late, reverse=True):
        missing = [m + x for m, x in zip(missing, late[b], strict=True)]
        if any(error_of(a, total, missing) > most + 1e-12 for a in asked):
            return b * granularity
    return 0


@dataclass
class Needs:
    """Windows whose late rows may still come, and the needs of the latest that were judged.

    ``reach`` is how far the current time was past the end of a window when it closed; ``until`` the last window
    judged.
    """

    granularity: int
    level: float
    totals: dict[int, Sums] = field(default_factory=dict)
    late: dict[int, dict[int, Sums]] = field(default_factory=dict)
    reach: dict[int, int] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)
    until: int | None = None

    def add(self, late: LateSums, granularity: int) -> None:
        """More rows; what they are is binned by ``granularity``, which may have grown."""
        self.coarsen(granularity)
        for wid, sums in late.totals.items():
            if self.until is None or wid > self.until:
                _plus(self.totals, wid, sums)
        for (wid, b), sums in late.late.items():
            if self.until is None or wid > self.until:
                _plus(self.late.setdefault(wid, {}), b, sums)

    def coarsen(self, granularity: int) -> None:
        """Wider bins from now on."""
        factor = granularity // self.granularity
        if factor > 1:
            for wid, by in self.late.items():
                wide: dict[int, Sums] = {}
                for b, sums in by.items():
                    _plus(wide, -(-b // factor), sums)
                self.late[wid] = wide
            self.granularity = granularity

    def close(self, first: int, last: int, clock: int, w: TimeWindow) -> None:
        """Windows ``first`` to ``last`` have closed at the current time ``clock``."""
        step = stride(w)
        for wid in range(-(-first // step) * step, last + 1, step):
            if wid in self.totals:
                self.reach[wid] = clock - (w.origin + (wid + 1) * w.slide)

    def judge(self, last: int, asked: Sequence[Asked], most: float, confidence: float) -> None:
        """Find the needs of closed windows up to ``last``, all but the latest of whose rows have come."""
        ready = sorted(w for w in self.reach if w <= last)
        if not ready:
            return
        for wid in ready:
            total, late = self.totals.pop(wid), self.late.pop(wid, {})
            need = needed_slack(total, late, asked, most, self.granularity)
            missed = need > self.reach.pop(wid)
            share = float(missed) - (1 - confidence)
            self.level = min(HIGHEST, max(least_level(confidence), self.level + STEP * share))
            self.done.append(need)
            self.until = wid
        self.done = self.done[-MOST:]
        if self.until is not None:
            for old in [w for w in self.totals if w <= self.until]:
                del self.totals[old]
            for old in [w for w in self.late if w <= self.until]:
                del self.late[old]

    @property
    def slack(self) -> int | None:
        """What most windows needed at the most; None as long as there are too few."""
        if len(self.done) < FEWEST:
            return None
        at = math.ceil((len(self.done) + 1) * self.level) - 1
        return sorted(self.done)[min(at, len(self.done) - 1)]

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        return {
            "granularity": self.granularity,
            "level": self.level,
            "totals": [[w, s] for w, s in sorted(self.totals.items())],
            "late": [
                [w, [[b, s] for b, s in sorted(v.items())]] for w, v in sorted(self.late.items())
            ],
            "reach": [[w, r] for w, r in sorted(self.reach.items())],
            "done": list(self.done),
            "until": self.until,
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Needs:
        """The inverse of `to_json`."""
        return cls(
            json["granularity"],
            json["level"],
            dict(json["totals"]),
            {w: dict(v) for w, v in json["late"]},
            dict(json["reach"]),
            list(json["done"]),
            json["until"],
        )


def least_level(confidence: float) -> float:
    """The lowest level of the quantile: windows to come are no copies of past ones, so somewhat above what is asked."""
    return confidence + 0.2 * (1 - confidence)


def first_level(confidence: float) -> float:
    """Where the level of the quantile begins."""
    return confidence + 0.4 * (1 - confidence)
