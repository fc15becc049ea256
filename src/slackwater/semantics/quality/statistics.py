"""What is known of a stream's disorder: current time, delays over the adaptive window, rate.

Two ways in, with one result for what they share. Rows in order of arrival come by `StreamStatistics.observe`, which
is exact to the row. A batch whose inner order is unknown or of no account comes as a `Bag`: its delays are behind the
current times after earlier batches, which is what decides whether a row of a batch is late. Bags of tasks add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slackwater.semantics.limits import START
from slackwater.semantics.quality import recent_delays
from slackwater.semantics.quality.adwin import Adwin, Block, binned
from slackwater.semantics.quality.delays import (
    Delays,
    Disorder,
    Floats,
    Ints,
    bins,
    delays,
    disorder,
)
from slackwater.semantics.quality.model import coverages, edge_coverages, shares
from slackwater.semantics.quality.recent_delays import RecentDelays
from slackwater.semantics.quality.sketch import DelaySketch

SHORTER = 0.05
"""Share of late rows that came later than nearly all do now, from which on delays count as much shorter."""
EVEN = 1.5
"""How many times as long nearly all rows of a stretch may take as those of its second half."""
KNOWN = 2
"""Right after a change only short delays can be known. A quantile of them is taken for known once so many times as much time has passed."""


@dataclass(frozen=True)
class Bag:
    """Rows of a batch in no known order, judged by the *edges*: the newest times after each earlier batch.

    A window that closed at an edge misses the rows that come after it. So ``counts`` has, by bin of ``granularity``,
    how far rows are behind each edge that they came after; a row behind three edges counts three times. ``delays`` and
    ``squares`` are sums over the ``late`` rows of their bin behind the last edge, ``largest`` is the largest such
    delay. ``sync`` is the sum over rows of what the lag of other streams adds to their slack. ``last`` counts late rows
    by their bin behind the last edge alone.
    """

    granularity: int
    rows: int = 0
    late: int = 0
    delays: int = 0
    squares: int = 0
    counts: Mapping[int, int] = field(default_factory=dict)
    largest: int = 0
    newest: int | None = None
    sync: int = 0
    last: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, times: Ints, edges: Sequence[int], granularity: int, sync: int = 0) -> Bag:
        """The bag of a batch's rows; ``edges`` rise, and there is none before the second batch.

        >>> Bag.of(np.array([9, 14, 21]), [10, 20], 5).counts
        {1: 1, 2: 1, 3: 1}
        """
        if len(times) == 0:
            return cls(granularity)
        newest = int(times.max())
        behind = times[times < edges[-1]] if len(edges) else times[:0]
        if len(behind) == 0:
            return cls(granularity, len(times), newest=newest, sync=sync)
        last = bins(edges[-1] - behind, granularity)
        every = [bins(edge - behind[behind < edge], granularity) for edge in edges]
        return cls(
            granularity,
            len(times),
            len(behind),
            int(last.sum()),
            sum(int(b) * int(b) for b in last) if int(last.max()) > 1 << 20 else int(last @ last),
            _counted(np.concatenate(every)),
            int(edges[-1] - behind.min()),
            newest,
            sync,
            _counted(last),
        )

    def to_json(self) -> list[Any]:
        """Plain lists."""
        own = [self.rows, self.late, self.delays, self.squares]
        rest = [self.largest, self.newest, self.sync]
        return [self.granularity, *own, *_pairs(self.counts), *rest, *_pairs(self.last)]

    @classmethod
    def from_json(cls, json: list[Any]) -> Bag:
        """The inverse of `to_json`."""
        counts, last = (dict(zip(json[i], json[i + 1], strict=True)) for i in (5, 10))
        return cls(*json[:5], counts, *json[7:10], last)  # type: ignore[call-arg]


def _counted(bins: Ints) -> dict[int, int]:
    at, counts = np.unique(bins, return_counts=True)
    return dict(zip(at.tolist(), counts.tolist(), strict=True))


def _pairs(counts: Mapping[int, int]) -> list[list[int]]:
    """Bins in order, and their counts."""
    at = sorted(counts)
    return [at, [counts[b] for b in at]]


def _added(parts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    out: dict[int, int] = {}
    for part in parts:
        for at, n in part.items():
            out[at] = out.get(at, 0) + n
    return dict(sorted(out.items()))


def merged_bags(parts: Iterable[Bag]) -> Bag | None:
    """One bag of several tasks' bags; their order does not matter. None if there is none."""
    parts = list(parts)
    if not parts:
        return None
    newest = [p.newest for p in parts if p.newest is not None]
    return Bag(
        parts[0].granularity,
        sum(p.rows for p in parts),
        sum(p.late for p in parts),
        sum(p.delays for p in parts),
        sum(p.squares for p in parts),
        _added(p.counts for p in parts),
        max(p.largest for p in parts),
        max(newest, default=None),
        sum(p.sync for p in parts),
        _added(p.last for p in parts),
    )


MAX_EDGES = 64


def next_edges(edges: Sequence[int], newest: int, largest: int) -> list[int]:
    """The edges after a batch: those that a row can still be behind, as far as the largest delay tells."""
    kept = [e for e in edges if e >= newest - largest and e < newest]
    return [*kept, max(newest, edges[-1] if edges else newest)][-MAX_EDGES:]


@dataclass
class StreamStatistics:
    """All statistics of one stream on one time column.

    ``window`` is the adaptive window over its delays, ``sketch`` the delays of all late rows with times from ``since`` on
    (None: of all ever), ``recent`` those of the latest stretch. Since ``calm`` delays have been much shorter than before.
    ``seen`` is how many rows the sketch is about, late or not.
    """

    window: Adwin
    newest: int | None = None
    disorder: Disorder = field(default_factory=lambda: Disorder(0, 0, 0))
    after_late: bool = False
    sketch: DelaySketch = field(default_factory=DelaySketch)
    since: int | None = None
    recent: RecentDelays = field(default_factory=RecentDelays)
    calm: int | None = None
    seen: int = 0

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
        observed = delays(times, before)
        first = int(times[0]) if self.newest is None else before
        self.window.add(observed.delays, np.concatenate([[first], observed.clocks[:-1]]), sync)
        self.disorder = self.disorder.plus(disorder(observed.delays, self.after_late))
        self.after_late = bool(observed.delays[-1] > 0)
        mine = observed.delays if self.since is None else observed.delays[times >= self.since]
        self.sketch.add(mine)
        self.seen += len(mine)
        self.recent.add(times, observed.delays)
        self.newest = int(observed.clocks[-1])
        return observed

    def observe_bag(self, bag: Bag, window: Adwin | None = None) -> None:
        """The rows of a batch, whatever their order in it; ``window`` has them already, if it is given."""
        if bag.newest is None:
            return
        if window is None:
            self._into_window(bag)
        else:
            self.window = window
        self.disorder = self.disorder.plus(Disorder(bag.rows, bag.late, 0))
        self._late_bag(bag)
        self.newest = max(bag.newest, bag.newest if self.newest is None else self.newest)

    def _into_window(self, bag: Bag) -> None:
        assert bag.newest is not None
        g = bag.granularity
        at = np.array(list(bag.counts), np.int64)
        counts = np.array(list(bag.counts.values()), np.int64)
        # One row that is years late would need billions of bins, and hide all others.
        dense, beyond = binned(at * g, self.window.granularity, counts)
        dense[0] = bag.rows - bag.late
        near = {min(b, self.window.top // g): 0 for b in bag.last}
        for b, n in bag.last.items():
            near[min(b, self.window.top // g)] += n
        delays = sum(b * n for b, n in near.items())
        squares = sum(b * b * n for b, n in near.items())
        block = Block(
            bag.rows,
            delays * g,
            max(0.0, (squares - delays * delays / bag.rows) * g * g),
            dense,
            bag.newest if self.newest is None else self.newest,
            bag.sync,
            0 if self.newest is None else 1,
            beyond,
        )
        self.window.add_block(block, bag.largest)

    def _late_bag(self, bag: Bag) -> None:
        """Delays of a batch; when its rows were made is known by how far they are behind the last edge."""
        if self.newest is None:
            return
        behind = np.array(list(bag.counts), np.int64) * bag.granularity
        counts = np.array(list(bag.counts.values()), np.int64)
        last = np.array(list(bag.last), np.int64) * bag.granularity
        rows = np.array(list(bag.last.values()), np.int64)
        self.recent.add(self.newest - last, last, rows)
        # Where in the batch the others are does not matter.
        now, timely = np.array([self.newest]), np.array([bag.rows - bag.late])
        self.recent.add(now, np.zeros(1, np.int64), timely)
        self.seen += bag.rows
        if self.since is None:
            self.sketch.add_counts(behind, counts)
        else:
            made = self.newest - last >= self.since
            self.sketch.add_counts(last[made], rows[made])

    def forget(self) -> None:
        """Delays have changed: what is known of them is what the latest stretch tells."""
        if self.recent.begun is not None:
            self.sketch, self.since = self.recent.sketch(), self.recent.begun
            self.seen = self.recent.rows
            self.recent, self.calm = RecentDelays(), None

    # ---- what is known ----
    @property
    def granularity(self) -> int:
        """The width of a bin; it doubles when delays grow too large for the histogram, and halves when they are small again."""
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
    def reach(self) -> int:
        """The largest delay that counts: one beyond the bins is as good as never."""
        return min(self.largest, self.window.top)

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

    def coverages(self, width: int, slacks: Ints) -> Floats:
        """For each slack the share of a window's rows that are there when it closes.

        Where batches decide about lateness this is about windows that end right where the slack begins: those that
        end earlier close with the same batch, and are more complete.
        """
        edges = self.window.edges
        if not edges:
            return coverages(self.shares, width, self.granularity, slacks)
        rows = edges * self.rate * width
        return edge_coverages(self.window.counts, rows, width, self.granularity, slacks)

    def quantile(self, q: float) -> int:
        """A quantile of the delays of late rows, to one per cent."""
        return self.sketch.quantile(q)

    def settled(self, q: float) -> int | None:
        """The time before which the share ``q`` of late rows have come; None if the change is too near to tell."""
        if self.newest is None:
            return None
        wait = self.quantile(q)
        if self.since is not None and self.newest - self.since < KNOWN * wait:
            return None
        return self.newest - wait

    def shorter(self, span: int, q: float) -> int | None:
        """How long the share ``q`` of late rows take now, over the last ``span`` or more, if that is much less than before."""
        if self.newest is None:
            return None
        self.recent.keep(self.newest, span)
        if not self.recent.whole(self.newest):
            return None
        wait = self.recent.sketch().quantile(q)
        before = self.sketch.beyond(wait)
        # So many rows of the stretch would have come later, were all as before.
        expected = before * int(self.sketch.counts.sum()) / max(1, self.seen) * self.recent.rows
        if before < SHORTER or expected < SHORTER * recent_delays.ROWS:
            return None
        # As long as rows of before are among the first of the stretch, it is not known since when.
        return None if wait > EVEN * self.recent.sketch(half=True).quantile(q) else wait

    # ---- durable ----
    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        return {
            "window": self.window.to_json(),
            "newest": self.newest,
            "disorder": list(self.disorder),
            "after_late": self.after_late,
            "sketch": self.sketch.to_json(),
            "since": self.since,
            "recent": self.recent.to_json(),
            "calm": self.calm,
            "seen": self.seen,
        }

    @staticmethod
    def granularity_in(json: Mapping[str, Any]) -> int:
        """The width of a bin, read from the JSON of statistics without the rest of it."""
        width: int = json["window"]["granularity"]
        return width

    def copied(self) -> StreamStatistics:
        """The same for another stream over the same rows; the window, which only rows change, stays one."""
        return replace(self, recent=self.recent.copied())

    @classmethod
    def from_json(cls, json: Mapping[str, Any], window: Adwin | None = None) -> StreamStatistics:
        """The inverse of `to_json`; ``window`` is that of its JSON, if it is known."""
        return cls(
            Adwin.from_json(json["window"]) if window is None else window,
            json["newest"],
            Disorder(*json["disorder"]),
            json["after_late"],
            DelaySketch.from_json(json["sketch"]),
            json.get("since"),
            RecentDelays.from_json(json["recent"]) if "recent" in json else RecentDelays(),
            json.get("calm"),
            json.get("seen", json["disorder"][0]),
        )


class Observations:
    """Statistics of streams after the latest rows: what streams over the same rows know is found once."""

    def __init__(self) -> None:
        self._known: list[tuple[Mapping[str, Any], Bag | None, StreamStatistics]] = []
        self._windows: list[tuple[tuple[Any, ...], Adwin]] = []

    def of(self, before: Mapping[str, Any], bag: Bag | None = None) -> StreamStatistics:
        """The statistics that had this JSON ``before`` the rows of ``bag``; they may go on by themselves."""
        for json, rows, known in self._known:
            if json == before and rows == bag:
                return known.copied()
        # A change may have been believed for one stream and not for another: then only the window is the same.
        key = (before["window"], before["newest"], bag)
        window = next((w for k, w in self._windows if k == key), None)
        after = StreamStatistics.from_json(before, window)
        if bag is not None:
            after.observe_bag(bag, window)
        if window is None:
            self._windows.append((key, after.window))
        self._known.append((before, bag, after.copied()))
        return after


def relative_sync(means: Mapping[str, float]) -> dict[str, float]:
    """What synchronising adds to the slack of each stream, the least of them taken as none."""
    least = min(means.values(), default=0.0)
    return {name: mean - least for name, mean in means.items()}
