"""Quality-driven slack for one windowed sum, tuple by tuple: plain loops from the definitions, for comparison.

Nothing here is shared with ``semantics/quality``: the statistics window is kept as a list of values, the coverage
threshold is found by bisection, the model adds up basic windows one by one, the smallest slack is searched from 0.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from statistics import NormalDist


@dataclass
class PlainAdwin:
    """ADWIN over single values: rows of buckets, at most five of each size, a test every 32 values."""

    confidence: float = 0.002
    # buckets[k] are lists of 2**k values each, oldest first
    buckets: list[list[list[float]]] = field(default_factory=lambda: [[]])
    ticks: int = 0
    cuts: int = 0

    @property
    def values(self) -> list[float]:
        """All values of the window, oldest first."""
        return [v for size in reversed(self.buckets) for bucket in size for v in bucket]

    def add(self, value: float, scale: float) -> None:
        """One more value; ``scale`` is the largest seen."""
        self.buckets[0].append([value])
        level = 0
        while len(self.buckets[level]) > 5:
            if level + 1 == len(self.buckets):
                self.buckets.append([])
            first, second = self.buckets[level][:2]
            del self.buckets[level][:2]
            self.buckets[level + 1].append(first + second)
            level += 1
        self.ticks += 1
        if self.ticks % 32 == 0:
            found = False
            while self._must_cut(scale):
                found = True
                while not self.buckets[-1]:
                    self.buckets.pop()
                self.buckets[-1].pop(0)
                while len(self.buckets) > 1 and not self.buckets[-1]:
                    self.buckets.pop()
            self.cuts += found

    def _must_cut(self, scale: float) -> bool:
        values = [v / max(1.0, scale) for v in self.values]
        n = len(values)
        if n <= 10:
            return False
        mean = sum(values) / n
        variance = sum((v - mean) ** 2 for v in values) / n
        log = math.log(2 * math.log(n) / self.confidence)
        sizes = [len(b) for size in reversed(self.buckets) for b in size]
        at, left = 0, 0.0
        total = sum(values)
        for size in sizes[:-1]:
            left += sum(values[at : at + size])
            at += size
            if at < 5 or n - at < 5:
                continue
            m = 1 / (at - 4) + 1 / (n - at - 4)
            allowed = math.sqrt(2 * m * variance * log) + 2 / 3 * log * m
            if abs(left / at - (total - left) / (n - at)) > allowed:
                return True
        return False


def needed_coverage(error: float, confidence: float, rows: float, spread: float) -> float:
    """The least coverage whose expected error plus deviation stays within ``error``, by bisection."""
    if rows < 1 or not math.isfinite(spread):
        return 1.0
    c = NormalDist().inv_cdf(1 - (1 - confidence) / 2)
    low, high = 0.0, 1.0
    # The left side falls from its greatest value to 0 as the coverage rises to 1: look in the falling part.
    for i in range(200):
        if _error(i / 200, c, rows, spread) > error:
            low = i / 200
    for _ in range(80):
        middle = (low + high) / 2
        if _error(middle, c, rows, spread) <= error:
            high = middle
        else:
            low = middle
    return high


def _error(coverage: float, c: float, rows: float, spread: float) -> float:
    part = (coverage - coverage**2) * (spread**2 + 1) / rows
    return (1 - coverage) + c * math.sqrt(part)


def window_coverage(delays: list[int], width: int, slack: int, granule: int) -> float:
    """The share of a window's rows that are there when it closes: basic window by basic window."""
    rest = sorted(max(0, math.ceil(d / granule) - slack // granule) for d in delays)
    pieces = math.ceil(width / granule)
    mass = 0.0
    for piece in range(1, pieces + 1):
        length = granule if piece < pieces else width - (pieces - 1) * granule
        mass += length * bisect_right(rest, piece - 1) / len(rest)
    return mass / width


def smallest_slack(delays: list[int], width: int, granule: int, needed: float) -> int:
    """The first multiple of the granule that is enough, at most the first that covers every delay."""
    most = math.ceil(max(delays) / granule) * granule
    slack = 0
    while slack < most:
        coverage = window_coverage(delays, width, slack, granule)
        if coverage >= needed - 1e-12:
            break
        slack += granule
    return slack


@dataclass
class Simulated:
    """What came out: (row number, slack) at each change, sums by window as emitted, the true ones, and the bound."""

    changes: list[tuple[int, int]] = field(default_factory=list)
    sums: dict[int, float] = field(default_factory=dict)
    true: dict[int, float] = field(default_factory=dict)
    bound: int | None = None


def simulate(
    rows: list[tuple[int, float]],
    *,
    width: int,
    slide: int,
    error: float,
    confidence: float = 0.95,
    granule: int = 1,
    warm_rows: int = 500,
) -> Simulated:
    """A sum over sliding windows under an error target; ``rows`` are (time, value) in order of arrival.

    Window w covers [(w + 1) * slide - width, (w + 1) * slide). It closes when the current time less the slack
    reaches its end; late rows enter the windows that are open.
    """
    out = Simulated()
    adwin = PlainAdwin()
    begins: list[int] = []
    clock: int | None = None
    first: int | None = None
    bound: int | None = None
    slack = 0
    largest = 0
    received: dict[int, int] = {}
    missed: dict[int, int] = {}
    late_delays: list[int] = []
    pieces: list[tuple[int, list[float]]] = []
    latest: list[float] = []
    members: dict[
        int, list[tuple[int, float]]
    ] = {}  # how long after the window's end each row came
    reach: dict[int, int] = {}
    needs: list[int] = []
    judged = -(10**18)
    level = confidence + 0.4 * (1 - confidence)
    for number, (time, value) in enumerate(rows):
        before = time if clock is None else clock
        clock = time if clock is None else max(clock, time)
        delay = clock - time
        largest = max(largest, delay)
        begins.append(before)
        adwin.add(delay, largest)
        if delay:
            late_delays.append(delay)
        latest.append(value)
        wid = time // slide
        while (wid + 1) * slide - width <= time:
            closed = bound is not None and bound >= (wid + 1) * slide
            out.true[wid] = out.true.get(wid, 0.0) + value
            if wid > judged:
                after_end = before - (wid + 1) * slide + 1 if number else 0
                members.setdefault(wid, []).append((after_end, value))
            if closed:
                missed[wid] = missed.get(wid, 0) + 1
            else:
                received[wid] = received.get(wid, 0) + 1
                out.sums[wid] = out.sums.get(wid, 0.0) + value
            wid += 1
        after = clock - slack if bound is None else max(bound, clock - slack)
        some = bound is None or after // slide > bound // slide
        if some and bound is not None:
            for wid in range(bound // slide, after // slide):
                if wid in received or wid in missed:
                    reach[wid] = clock - (wid + 1) * slide
        bound = after
        if not some:
            continue
        # A window was constructed: measure, then find the slack for what comes next.
        pieces.append((clock, latest))
        pieces = [p for p in pieces if p[0] > clock - width]
        latest = []
        if first is None:
            first = clock
        settled = clock - _quantile(late_delays)
        for wid in sorted(w for w in reach if (w + 1) * slide <= settled):
            need = _need(members.pop(wid), error, granule)
            level += 0.005 * ((need > reach.pop(wid)) - (1 - confidence))
            level = min(0.9995, max(confidence + 0.2 * (1 - confidence), level))
            needs.append(need)
            judged = wid
        delays = [int(d) for d in adwin.values]
        span = clock - begins[len(begins) - len(delays)]
        rate = len(delays) / span if span > 0 else 0.0
        values = [v for _, piece in pieces for v in piece]
        mean = sum(values) / len(values)
        variance = max(0.0, sum(v * v for v in values) / len(values) - mean * mean)
        spread = math.sqrt(variance) / abs(mean) if mean else math.inf
        needed = needed_coverage(error, confidence, rate * width, spread)
        if number + 1 >= warm_rows and clock - first >= width:
            if len(needs) >= 40:
                ranked = sorted(needs[-600:])
                new = ranked[min(math.ceil((len(ranked) + 1) * level), len(ranked)) - 1]
            else:
                new = smallest_slack(delays, width, granule, needed)
        else:
            new = largest
        if new != slack:
            out.changes.append((number, new))
        slack = new
    out.bound = bound
    return out


def _need(rows: list[tuple[int, float]], error: float, granule: int) -> int:
    """The least multiple of the granule with which the sum would have been good enough."""
    total = sum(v for _, v in rows)
    slack = 0
    while abs(sum(v for after, v in rows if after > slack)) > (error + 1e-12) * abs(total):
        slack += granule
    return slack


def _quantile(delays: list[int], q: float = 0.999) -> int:
    """A quantile of late rows' delays, to one per cent, as a logarithmic histogram gives it."""
    if not delays:
        return 0
    base = math.log((1 + 0.01) / (1 - 0.01))
    places = sorted(math.ceil(math.log(d) / base) for d in delays)
    at = places[math.floor(q * (len(places) - 1))]
    return math.ceil(2 * math.exp(base * at) / (1 + math.exp(base)))
