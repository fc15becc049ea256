"""What is known of a stream's disorder: current time, delays over the adaptive window, rate.

Two ways in, with one result for what they share. Rows in order of arrival come by `StreamStatistics.observe`, which
is exact to the row. A batch whose inner order is unknown or of no account comes as a `Bag`: its delays are behind the
current time before the batch, which is what decides whether a row of a batch is late. Bags of tasks add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slackwater.semantics.limits import START
from slackwater.semantics.quality.adwin import Adwin, Block
from slackwater.semantics.quality.delays import (
    Delays,
    Disorder,
    Floats,
    Ints,
    bins,
    coarser,
    delays,
    disorder,
)
from slackwater.semantics.quality.model import shares
from slackwater.semantics.quality.sketch import DelaySketch


@dataclass(frozen=True)
class Bag:
    """Delays of rows in no known order: rows by bin of ``granularity``, the largest delay, the newest time.

    ``sync`` is the sum over rows of what the lag of other streams adds to their slack.
    """

    granularity: int
    counts: Mapping[int, int] = field(default_factory=dict)
    largest: int = 0
    newest: int | None = None
    sync: int = 0

    @classmethod
    def of(cls, times: Ints, clock: int | None, granularity: int, sync: int = 0) -> Bag:
        """The bag of a batch's rows behind the current time ``clock`` (None before the first row)."""
        if len(times) == 0:
            return cls(granularity)
        newest = int(times.max())
        if clock is None:
            return cls(granularity, {0: len(times)}, 0, newest, sync)
        late = np.maximum(clock - times, 0)
        at, counts = np.unique(bins(late, granularity), return_counts=True)
        found = dict(zip(at.tolist(), counts.tolist(), strict=True))
        return cls(granularity, found, int(late.max()), newest, sync)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(self.counts.values())

    def to_json(self) -> list[Any]:
        """Plain lists."""
        at = sorted(self.counts)
        counts = [self.counts[b] for b in at]
        return [self.granularity, at, counts, self.largest, self.newest, self.sync]

    @classmethod
    def from_json(cls, json: list[Any]) -> Bag:
        """The inverse of `to_json`."""
        return cls(json[0], dict(zip(json[1], json[2], strict=True)), *json[3:])


def merged_bags(parts: Iterable[Bag]) -> Bag | None:
    """One bag of several tasks' bags; their order does not matter. None if there is none."""
    parts = list(parts)
    if not parts:
        return None
    counts: dict[int, int] = {}
    for part in parts:
        for at, n in part.counts.items():
            counts[at] = counts.get(at, 0) + n
    newest = [p.newest for p in parts if p.newest is not None]
    return Bag(
        parts[0].granularity,
        dict(sorted(counts.items())),
        max(p.largest for p in parts),
        max(newest, default=None),
        sum(p.sync for p in parts),
    )


@dataclass
class StreamStatistics:
    """All statistics of one stream on one time column.

    ``window`` is the adaptive window over its delays, ``sketch`` the delays of all late rows ever.
    """

    window: Adwin
    newest: int | None = None
    disorder: Disorder = field(default_factory=lambda: Disorder(0, 0, 0))
    after_late: bool = False
    sketch: DelaySketch = field(default_factory=DelaySketch)

    @classmethod
    def fresh(cls, granularity: int) -> StreamStatistics:
        """Before the first row."""
        return cls(Adwin(granularity))

    # ---- rows in ----
    def observe(self, times: Ints, sync: Ints | None = None) -> Delays:
        """Rows in order of arrival; returns their delays, and the current time at each."""
        if len(times) == 0:
            return Delays(times, times)
        before = START if self.newest is None else self.newest
        found = delays(times, before)
        first = int(times[0]) if self.newest is None else before
        self.window.add(found.delays, np.concatenate([[first], found.clocks[:-1]]), sync)
        self.disorder = self.disorder.plus(disorder(found.delays, self.after_late))
        self.after_late = bool(found.delays[-1] > 0)
        self.sketch.add(found.delays)
        self.newest = int(found.clocks[-1])
        return found

    def observe_bag(self, bag: Bag) -> None:
        """The rows of a batch, whatever their order in it."""
        if bag.newest is None:
            return
        at = np.array(sorted(bag.counts), np.int64)
        counts = np.array([bag.counts[b] for b in at.tolist()], np.int64)
        values = at * bag.granularity
        rows, total = int(counts.sum()), int((counts * values).sum())
        centred = values - total / rows
        self.window.note(bag.largest)
        dense = np.zeros(int(at[-1]) + 1, np.int64)
        dense[at] = counts
        block = Block(
            rows,
            total,
            float((counts * centred * centred).sum()),
            coarser(dense, self.window.granularity // bag.granularity),
            bag.newest if self.newest is None else self.newest,
            bag.sync,
        )
        self.window.add_block(block, bag.largest)
        late = rows - bag.counts.get(0, 0)
        self.disorder = self.disorder.plus(Disorder(rows, late, 0))
        self.sketch.add_counts(values, counts)
        self.newest = max(bag.newest, bag.newest if self.newest is None else self.newest)

    # ---- what is known ----
    @property
    def granularity(self) -> int:
        """The width of a bin; it doubles when delays grow too large for the histogram."""
        return self.window.granularity

    @property
    def shares(self) -> Floats:
        """The share of rows per bin of delay, over the adaptive window."""
        return shares(self.window.counts)

    @property
    def largest(self) -> int:
        """The largest delay ever seen."""
        return self.window.largest

    @property
    def window_largest(self) -> int:
        """The largest delay in the adaptive window, rounded up to the granularity."""
        return (len(self.window.counts) - 1) * self.granularity

    @property
    def rate(self) -> float:
        """Rows per tick over the adaptive window; 0 as long as time has not moved."""
        begin = self.window.begin
        if begin is None or self.newest is None or self.newest <= begin:
            return 0.0
        return self.window.width / (self.newest - begin)

    @property
    def sync(self) -> float:
        """The mean of what other streams' lag adds to the slack."""
        return self.window.sync

    def quantile(self, q: float) -> int:
        """A quantile of the delays of late rows, to one per cent."""
        return self.sketch.quantile(q)

    # ---- durable ----
    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        return {
            "window": self.window.to_json(),
            "newest": self.newest,
            "disorder": list(self.disorder),
            "after_late": self.after_late,
            "sketch": self.sketch.to_json(),
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> StreamStatistics:
        """The inverse of `to_json`."""
        return cls(
            Adwin.from_json(json["window"]),
            json["newest"],
            Disorder(*json["disorder"]),
            json["after_late"],
            DelaySketch.from_json(json["sketch"]),
        )


def relative_sync(means: Mapping[str, float]) -> dict[str, float]:
    """What synchronising adds to the slack of each stream, the least of them taken as none."""
    least = min(means.values(), default=0.0)
    return {name: mean - least for name, mean in means.items()}
