"""Quality-driven slack for one windowed sum, tuple by tuple: plain loops from the definitions, for comparison.

Nothing here is shared with ``semantics/quality``: the statistics window is kept as a list of values, the coverage
threshold is found by bisection, the model adds up basic windows one by one, the smallest slack is searched from 0.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple


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


@dataclass
class Stretch:
    """Late rows with times in the latest stretch, as (time, delay); the beginning moves by blocks."""

    enough: int
    rows: list[tuple[int, int]] = field(default_factory=list)
    begun: int | None = None
    times: int = 1
    length: int = 0
    block: int = 1

    def add(self, time: int, delay: int) -> None:
        """One more row."""
        if self.begun is not None and time >= self.begun:
            self.rows.append((time, delay))

    def keep(self, clock: int, span: int) -> None:
        """Forget rows before the last ``span``, or twice as long if there are too few."""
        if self.begun is None:
            self.begun, self.length, self.block = clock, span, max(1, span // 8)
            return
        half = (clock - self.times * span // 2) // self.block * self.block
        if self.times > 1 and len([t for t, _ in self.rows if t >= half]) >= 2 * self.enough:
            self.times //= 2
        self.length = self.times * span
        first = (clock - self.length) // self.block * self.block
        if first > self.begun:
            if len([t for t, _ in self.rows if t >= first]) < self.enough:
                self.times *= 2
                self.length *= 2
            else:
                self.begun = first
                self.rows = [(t, d) for t, d in self.rows if t >= first]
        while 16 * self.block <= self.length:
            self.block *= 2

    def delays(self, half: bool = False) -> list[int]:
        """All delays, to an eighth of an octave, or those of the second half of the blocks."""
        blocks = [t // self.block for t, _ in self.rows]  # rows that are not late as well
        middle = (min(blocks) + max(blocks)) / 2 if blocks and half else -math.inf
        kept = [d for (_, d), b in zip(self.rows, blocks, strict=True) if b >= middle and d]
        return [math.floor(2 ** (math.ceil(8 * math.log2(d)) / 8)) for d in kept]


def simulate(
    rows: list[tuple[int, float]],
    *,
    width: int,
    slide: int,
    error: float,
    confidence: float = 0.95,
    granule: int = 1,
    warm_rows: int = 500,
    stretch_rows: int = 2_000,
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
    late_delays: list[int] = []  # of rows with times from `forgotten` on, once there was a change
    forgotten: int | None = None
    seen = 0
    stretch = Stretch(stretch_rows)
    calm: int | None = None
    pieces: list[tuple[int, list[float]]] = []
    latest: list[float] = []
    past = _Past(confidence, error, granule, max(1.0, width / slide))
    for number, (time, value) in enumerate(rows):
        before = time if clock is None else clock
        clock = time if clock is None else max(clock, time)
        delay = clock - time
        largest = max(largest, delay)
        begins.append(before)
        adwin.add(delay, largest)
        if forgotten is None or time >= forgotten:
            seen += 1
            if delay:
                late_delays.append(delay)
        stretch.add(time, delay)
        latest.append(value)
        wid = time // slide
        while (wid + 1) * slide - width <= time:
            closed = bound is not None and bound >= (wid + 1) * slide
            out.true[wid] = out.true.get(wid, 0.0) + value
            past.add(
                wid, before - (wid + 1) * slide + 1 if number else 0, value, wid == time // slide
            )
            if closed:
                missed[wid] = missed.get(wid, 0) + 1
            else:
                received[wid] = received.get(wid, 0) + 1
                out.sums[wid] = out.sums.get(wid, 0.0) + value
            wid += 1
        after = clock - slack if bound is None else max(bound, clock - slack)
        some = bound is None or after // slide > bound // slide
        if not past.known:  # the slack may be far too large, so that nothing closes
            some = some or clock // slide > before // slide
        if some and bound is not None:
            for wid in range(bound // slide, after // slide):
                if wid in received or wid in missed:
                    past.reach[wid] = clock - (wid + 1) * slide
        bound = after
        if not some:
            continue
        # A window was constructed: measure, then find the slack for what comes next.
        pieces.append((clock, latest))
        pieces = [p for p in pieces if p[0] > clock - width]
        latest = []
        if first is None:
            first = clock
        whole = -(-(first + width) // slide) - 1
        # Are delays much shorter than they were, and since when?
        stretch.keep(clock, max(2 * width, _quantile(late_delays, 0.99)))
        usual = _quantile(stretch.delays())
        later = sum(_place(d) > _place(usual) for d in late_delays)
        if (
            stretch.begun is None
            or clock - stretch.begun < stretch.length
            or len(stretch.rows) < stretch_rows
            or later < 0.05 * len(late_delays)
            or not late_delays
            or later / seen * len(stretch.rows) < 0.05 * stretch_rows
            or usual > 1.5 * _quantile(stretch.delays(half=True))
        ):
            calm = None
        elif calm is None:
            calm = stretch.begun
        values = adwin.values
        span = clock - begins[len(begins) - len(values)]
        rate = len(values) / span if span > 0 else 0.0
        # Where one row spoils a window, hardly any may come after it was judged.
        few = rate * width * error < 2
        seldom = min(0.001, (1 - confidence) * 0.2 / max(1.0, rate * width)) if few else 0.001
        settled = _quantile(late_delays, 1 - seldom)
        known = (clock - settled) // slide - 1
        if forgotten is None or clock - forgotten >= 2 * settled:
            past.judge(known, whole)
        if past.rose() or (
            calm is not None
            and past.fell(-(-(calm + width) // slide) - 1, (clock - usual) // slide - 1)
        ):
            late_delays, forgotten, seen = stretch.delays(), stretch.begun, len(stretch.rows)
            stretch = Stretch(stretch_rows)
        delays = [int(d) for d in values]
        values = [v for _, piece in pieces for v in piece]
        mean = sum(values) / len(values)
        variance = max(0.0, sum(v * v for v in values) / len(values) - mean * mean)
        spread = math.sqrt(variance) / abs(mean) if mean else math.inf
        needed = needed_coverage(error, confidence, rate * width, spread)
        reach = min(largest, 4_096 * granule)
        more = _margin(max(0, clock - first - reach) / width, confidence)
        longest = math.ceil(reach * more / granule) * granule
        if number + 1 >= warm_rows and clock - first >= width:
            least, enough = past.slack(whole, known)
            if least is None or (few and not enough):
                new = longest
            else:
                modelled = smallest_slack(delays, width, granule, needed)
                new = least if enough else max(least, modelled)
        else:
            new = longest
        if new != slack:
            out.changes.append((number, new))
        slack = new
    out.bound = bound
    return out


class _Past:
    """What windows needed, and whether that has changed."""

    def __init__(self, confidence: float, error: float, granule: int, overlap: float) -> None:
        self.confidence, self.error, self.granule, self.overlap = (
            confidence,
            error,
            granule,
            overlap,
        )
        # how long after its end each row came, its value, and whether no earlier window has it
        self.members: dict[int, list[tuple[int, float, bool]]] = {}
        self.reach: dict[int, int] = {}
        self.needs: list[tuple[int, int]] = []  # by window
        self.judged = -(10**18)
        self.level = confidence + 0.4 * (1 - confidence)
        self.since: int | None = None
        self.closed_before = -(10**18)
        self.signs: list[_Sign] = []  # judged windows that tell of a change
        self.counted: list[
            int
        ] = []  # how many rows each window had that was judged since the change
        self.after = 0.0
        self.usual = 0.0
        self.start: int | None = None

    def add(self, wid: int, after_end: int, value: float, is_first: bool) -> None:
        """A row of a window."""
        if wid > self.judged:
            self.members.setdefault(wid, []).append((after_end, value, is_first))
        elif self.start is not None and wid >= self.start:
            self.after += 1

    @property
    def left(self) -> float:
        """The error without what comes after windows are judged, once there was a change at least what came before it."""
        share = self.share if self.since is None else max(self.share, self.usual)
        return self.error - min(share, self.error / 2)

    @property
    def share(self) -> float:
        """Rows that came after windows were judged, of all; older windows count less."""
        fade = 1 - 1 / 600
        rows = 0.0
        for n in self.counted:
            rows = rows * fade + n
        return self.after / rows if rows else 0.0

    @property
    def known(self) -> bool:
        """Whether slack follows needs."""
        return self.since is not None or len(self.needs) >= 40

    def judge(self, last: int, whole: int) -> None:
        """All windows up to ``last`` that are closed."""
        ready = sorted(w for w in self.reach if w <= last)
        for wid in ready:
            mine = self.members.pop(wid)
            need = _need(mine, self.left, self.granule)
            reach = self.reach.pop(wid)
            self.judged = wid
            if wid < whole or (self.since is not None and wid <= self.since):
                continue
            self.needs.append((wid, need))
            self.start = wid if self.start is None else self.start
            self.counted.append(len(mine))
            self.after *= 1 - 1 / 600
            if wid > self.closed_before:
                sign = _Sign(wid, need, reach, self.known, self._first_rows(mine))
                evidence, first, _ = self._changed(self.signs)
                rows = sign.rows(sign.above(first) if evidence else reach)
                if need <= reach or rows:
                    step = 0.005 * ((need > reach) - (1 - self.confidence)) / self.alike
                    least = self.confidence + 0.3 * (1 - self.confidence)
                    self.level = min(0.9995, max(least, self.level + step))
                self.signs.append(sign)
        if ready and self.since is None and not self._changed(self.signs)[0]:
            self.usual = self.share
        # A window all of whose rows came after it had closed is passed over with those around it.
        self.members = {w: rows for w, rows in self.members.items() if w > self.judged}
        if len(self.needs) >= 600:
            self.since = None
        self.needs = self.needs[-max(600, math.ceil(300 * self.overlap)) :]

    def rose(self) -> bool:
        """Whether some stretch of windows up to now has misses that only a change explains."""
        signs = list(self.signs)
        for wid in [None, *sorted(w for w in self.reach if w > self.closed_before)]:
            if wid is not None:
                so_far = _need(self.members[wid], self.left, self.granule)
                rows = self._first_rows(self.members[wid])
                signs.append(_Sign(wid, so_far, self.reach[wid], self.known, rows))
            evidence, first, by_rows = self._changed(signs)
            if evidence >= 11.5 and by_rows >= 7.5:
                self._forget(first.wid - 1)
                return True
        return False

    @property
    def alike(self) -> float:
        """How many windows tell as much as one that shares no rows."""
        return max(1.0, (4 + self.overlap) / 5)

    def _first_rows(self, mine: list[tuple[int, float, bool]]) -> list[int]:
        """How late the rows are that no earlier window has, up to the granule."""
        return [math.ceil(after / self.granule) * self.granule for after, _, new in mine if new]

    def _changed(self, signs: list[_Sign]) -> tuple[float, _Sign, float]:
        """The evidence of windows one after the other, the first of those that make it, and the evidence of their rows.

        Each is judged by its own reach, and by that of this first one, if slack followed needs then.
        """
        seldom = 1 - self.confidence
        often = (1 + seldom) / 2
        evidence, by_rows, first = 0.0, 0.0, _Sign(0, 0, 0, False, [])
        for sign in signs:
            above = sign.above(first) if evidence else sign.reach
            first = sign if evidence == 0 else first
            ratio = often / seldom if sign.need > above else (1 - often) / (1 - seldom)
            evidence = max(0.0, evidence + math.log(ratio) / self.alike)
            rows = sign.rows(above)
            kept = math.log((1 - often) / (1 - seldom)) / self.overlap
            by_rows += rows * math.log(often / seldom) if rows else kept
            by_rows = min(15.0, max(0.0, by_rows))
        return evidence, first, by_rows

    def fell(self, first: int, last: int) -> bool:
        """Whether all windows from ``first`` on needed much less."""
        if not self.needs:
            return False
        judged = [n for w, n in self.needs if w >= first]
        mine = [w for w in self.members if first <= w <= last]
        if len(judged) + len(mine) < 8:
            return False
        needs = [*judged, *(_need(self.members[w], self.left, self.granule) for w in mine)]
        if max(needs) >= self._quantile(self.level) / 2:
            return False
        every = sorted([*(w for w, _ in self.needs if w >= first), *mine])
        self._forget(every[len(every) - max(8, len(every) // 2)] - 1)
        self.usual = 0.0
        return True

    def _forget(self, since: int) -> None:
        self.since = since
        self.closed_before = max(self.reach, default=self.judged)
        self.needs = [(w, n) for w, n in self.needs if w > since]
        self.level = self.confidence + 0.4 * (1 - self.confidence)
        self.signs, self.counted, self.after, self.start = [], [], 0.0, None

    def _quantile(self, level: float) -> int:
        ranked = sorted(n for _, n in self.needs)
        return ranked[min(math.ceil((len(ranked) + 1) * level), len(ranked)) - 1]

    def slack(self, whole: int, known: int) -> tuple[int | None, bool]:
        """The next slack, and whether it is more than a lower bound; None if too little is known.

        All rows of windows up to ``known`` have come.
        """
        after = whole - 1 if self.since is None else self.since
        open_ = {w: _need(m, self.left, self.granule) for w, m in self.members.items() if w > after}
        if not self.known:
            count = len(self.needs) + sum(w <= known for w in open_)
            if count < 10 or count / self.overlap < 3:
                return None, False
            largest = max([*open_.values(), *(n for _, n in self.needs)], default=0)
            more = max(1.05, _margin(count / self.overlap, self.confidence))
            return math.ceil(largest * more / self.granule) * self.granule, False
        needs = self._usual_needs()
        apart = (len(needs) + 1) / self.overlap
        bound = self._bound(needs, apart)
        if self.since is None or apart * (1 - self.level) >= 1:
            level = self.level + (1 - self.level) * min(1.0, 10 / apart)
            quantile = sorted(needs)[min(math.ceil((len(needs) + 1) * level), len(needs)) - 1]
            more = _margin(apart - 1, self.confidence)
            largest = math.ceil(max(needs) * more / self.granule) * self.granule
            return max(quantile, bound, largest if more > 1 else 0), True
        largest = max([*open_.values(), *needs], default=0)
        margin = 1 + max(0.05, 0.2 * (1 - apart / 30))
        return max(math.ceil(largest * margin / self.granule) * self.granule, bound), True

    def _usual_needs(self) -> list[int]:
        """All needs but those that one row alone has made half as large again as all others, once enough are known."""
        needs = [n for _, n in self.needs]
        near = math.ceil(self.overlap)
        if (len(needs) - near) * (1 - self.confidence) < self.overlap:
            return needs
        top = needs.index(max(needs))
        usual = 1.5 * max((n for i, n in enumerate(needs) if abs(i - top) >= near), default=0)
        if max(needs) <= max(usual, self.granule):
            return needs
        return [n for i, n in enumerate(needs) if n <= usual or abs(i - top) >= near]

    def _bound(self, values: list[int], apart: float) -> int:
        """After a change: a normal distribution with these needs has its quantile below this with probability 0.95.

        Of 59 windows at a confidence of 0.95 the largest need is such a bound, of whatever distribution.
        """
        if self.since is None or len(values) < 2 or 1 - self.confidence**apart >= 0.95:
            return 0
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
        bound = math.inf
        z, sure = NormalDist().inv_cdf(self.confidence), NormalDist().inv_cdf(0.95)
        part = 1 - sure * sure / (2 * (apart - 1)) if apart > 1 else 0.0
        if part > 0:
            root = math.sqrt(z * z - part * (z * z - sure * sure / apart))
            bound = mean + (z + root) / part * deviation
        return math.ceil(min(bound, 1.2 * max(values)) / self.granule) * self.granule


class _Sign(NamedTuple):
    """A closed window: its need as far as it is known, how long it waited, and whether slack followed needs then."""

    wid: int
    need: int
    reach: int
    known: bool
    late: list[int]

    def above(self, first: _Sign) -> int:
        """The wait by which it is judged in a run that began with ``first``."""
        return min(self.reach, first.reach) if first.known else self.reach

    def rows(self, above: int) -> int:
        """How many of its own rows came later than that."""
        return sum(late > above for late in self.late)


def _margin(windows: float, confidence: float) -> float:
    """By how much the largest of so many is to be exceeded so that the next one is above it as seldom as promised."""
    return math.sqrt(max(1.0, 1 / ((windows + 1) * (1 - confidence))))


def _need(rows: list[tuple[int, float, bool]], error: float, granule: int) -> int:
    """The least multiple of the granule with which the sum would have been good enough."""
    total = sum(v for _, v, _ in rows)
    slack = 0
    while abs(sum(v for after, v, _ in rows if after > slack)) > (error + 1e-12) * abs(total):
        slack += granule
    return slack


_BASE = math.log((1 + 0.01) / (1 - 0.01))


def _place(delay: int) -> int:
    return math.ceil(math.log(delay) / _BASE) if delay else -1


def _quantile(delays: list[int], q: float = 0.999) -> int:
    """A quantile of late rows' delays, to one per cent, as a logarithmic histogram gives it."""
    if not delays:
        return 0
    at = sorted(map(_place, delays))[math.floor(q * (len(delays) - 1))]
    return math.ceil(2 * math.exp(_BASE * at) / (1 + math.exp(_BASE)))
