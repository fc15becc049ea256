"""A promise across changes: sums under an error target where delays become several times as long, or as short again.

``python -m benchmarks.quality_changes`` judges every row in order of arrival, without Spark, as `quality_aggregates` does. A stream has 333 rows
a second for 1,200 s. Delays are exponential with a mean of 0.3 s times the factor of the regime; in the whole run 0.05 % of the rows
come 60 s later still. A delay is drawn when a row is made (``at="event"``: rows of the old regime are still under way after a
change) or when it comes (``at="arrival"``, as in the streams of `quality_data`).

Counted are windows after the first minute that end further from the start and from every change than 15 slides and than three ranges.
*Hindsight* is, by regime, the least fixed slack with which 95 % of its counted windows keep the target.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_aggregates import WANTED
from benchmarks.quality_data import GENERATORS, Rows
from benchmarks.quality_fixed import TRAINING, needs
from benchmarks.quality_join_data import SECOND, Floats, Ints
from benchmarks.quality_kept import Kept
from benchmarks.record import say
from benchmarks.tables import Table, plain
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.adwin import CONFIDENCE, LEAST, Adwin
from slackwater.semantics.quality.delays import delays
from slackwater.semantics.quality.strict import Feed, judge
from slackwater.semantics.quality.target import Consumer, Target
from slackwater.semantics.quality.threshold import Asked
from slackwater.semantics.window_ids import wid_range

RATE = 333
SECONDS = 1_200
TAIL = 180
"""The stream goes on for so long, so that every counted window closes and has its rows."""
MEAN = 0.3
RARE, RARELY = 60.0, 0.0005
RANGE = 10
ERROR = 0.01
SLIDES = (10.0, 2.0, 0.5, 5.0, 0.1)
"""What takes longest comes last."""
NOT_COUNTED = (15, 3)
"""Slides, and ranges, around a change within which a window's end is not counted."""
SPAN = (40, 200)
"""Ranges, and windows, of a span at least."""
WORSE, LONGER = 0.02, 1.3
"""How far the worst span may be below that of hindsight, and how many times as long results may wait."""

At = Literal["event", "arrival"]
AT: tuple[At, ...] = ("event", "arrival")
Regimes = tuple[tuple[int, float], ...]
"""From which second on delays are how many times as long."""

CHANGES: dict[str, Regimes] = {
    "x5": ((0, 1), (600, 5)),
    "x20": ((0, 1), (600, 20)),
    "back from x5": ((0, 5), (600, 1)),
    "back from x20": ((0, 20), (600, 1)),
    "x20 for 120 s": ((0, 1), (600, 20), (720, 1)),
    "x5 then x20": ((0, 1), (600, 5), (720, 20)),
    "back for 120 s": ((0, 20), (600, 1), (720, 5)),
}


def stream(seed: int, regimes: Regimes, at: At) -> Rows:
    """The rows of one run in order of arrival."""
    rng = np.random.default_rng([seed, len(regimes), round(regimes[-1][1])])
    count = RATE * (SECONDS + TAIL)
    clock = np.arange(count) / RATE
    factor = np.array([f for _, f in regimes])[regime_of(clock, regimes)]
    delay = rng.exponential(MEAN, count) * factor
    delay += np.where(rng.random(count) < RARELY, RARE, 0.0)
    values = np.abs(5 + rng.normal(0, 2.0, count))
    if at == "arrival":
        return Rows("change", ((clock - delay) * SECOND).astype(np.int64), values, RATE)
    order = np.argsort(clock + delay, kind="stable")
    return Rows("change", (clock[order] * SECOND).astype(np.int64), values[order], RATE)


def regime_of(seconds: Floats, regimes: Regimes) -> Ints:
    """The number of the regime at each time."""
    begins = [begin for begin, _ in regimes]
    return np.searchsorted(begins, seconds, side="right") - 1


@dataclass(frozen=True, eq=False)
class Windows:
    """All windows of a stream by number, and what they would hold."""

    data: Rows
    slide: int
    first: Ints = field(init=False)
    stop: Ints = field(init=False)
    ends: Ints = field(init=False)
    exact: Floats = field(init=False)
    clocks: Ints = field(init=False)

    def __post_init__(self) -> None:
        """What does not depend on bounds."""
        first, stop = wid_range(self.data.times, self.window)
        base, size = int(first.min()), int(stop.max() - first.min()) + 1
        known = {
            "first": first - base, "stop": stop - base, "ends": (np.arange(size) + base + 1) * self.slide,
            "clocks": np.maximum.accumulate(self.data.times),
        }  # fmt: skip
        for name, value in known.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "exact", self._sums(self.first))

    @property
    def window(self) -> TimeWindow:
        """A window of `RANGE` seconds."""
        return TimeWindow(RANGE * SECOND, self.slide, 0, "t")

    def _sums(self, opened: Ints) -> Floats:
        size = len(self.ends)
        values = self.data.values
        change = np.bincount(opened, values, size + 1) - np.bincount(self.stop, values, size + 1)
        return np.asarray(np.cumsum(change)[:size])

    def judged(self, bounds: Ints) -> tuple[NDArray[np.bool_], Floats]:
        """By window: whether its sum is within the error, and how long after its end it closed, in seconds."""
        base = int(self.ends[0]) // self.slide - 1
        reached = np.where(bounds <= START, base, bounds // self.slide) - base
        found = self._sums(np.clip(reached, self.first, self.stop))
        after = np.minimum(np.searchsorted(bounds, self.ends), len(bounds) - 1)
        waits = (self.clocks[after - 1] - self.ends) / SECOND
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.abs(self.exact - found) <= (ERROR + 1e-12) * self.exact, waits

    def fixed(self, slack: int) -> Ints:
        """The bound before each row, that far behind the newest time."""
        return np.concatenate([[START], self.clocks[:-1] - slack])

    def ours(self) -> Ints:
        """The same under a quality target."""
        consumer = Consumer(self.window, (Asked("sum", 0),), 1)
        adaptation = Adaptation.fresh(Target(error=ERROR), [consumer])
        feed = Feed(np.ones(len(self.data.times), bool), [self.data.values])
        return judge(adaptation, self.data.times, [feed], START).bounds

    def counted(self, regimes: Regimes) -> NDArray[np.bool_]:
        """Windows that are neither near a change nor near the ends of the run."""
        far = max(NOT_COUNTED[0] * self.slide, NOT_COUNTED[1] * RANGE * SECOND)
        some = (self.ends > max(far, TRAINING)) & (self.ends <= SECONDS * SECOND)
        for begin, _ in regimes[1:]:
            some &= np.abs(self.ends - begin * SECOND) > far
        return np.asarray(some)

    def hindsight(self, some: NDArray[np.bool_]) -> int:
        """The least fixed slack, to 10 ms, with which enough of these windows keep the target."""
        low, high = -1, 12_000  # of 10 ms
        while high - low > 1:
            middle = (low + high) // 2
            kept, _ = self.judged(self.fixed(middle * 10_000))
            low, high = (low, middle) if kept[some].mean() >= WANTED else (middle, high)
        return high * 10_000


def worst(kept: NDArray[np.bool_], slide: int) -> float:
    """The least share of windows within the target over a span; spans begin every tenth of their length."""
    size = max(SPAN[0] * RANGE * SECOND // slide, SPAN[1])
    if len(kept) <= size:
        return float(kept.mean())
    starts = [*range(0, len(kept) - size, max(1, size // 10)), len(kept) - size]
    return min(float(kept[s : s + size].mean()) for s in starts)


def interval(kept: NDArray[np.bool_], slide: int) -> tuple[float, float]:
    """95 % of what the share would be in other runs: blocks of ten ranges are drawn again."""
    count = max(1, len(kept) // max(1, 10 * RANGE * SECOND // slide))
    parts = np.array_split(kept, count)
    sums, sizes = np.array([p.sum() for p in parts]), np.array([len(p) for p in parts])
    drawn = np.random.default_rng(0).integers(0, count, (400, count))
    low, high = np.quantile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [0.025, 0.975])
    return float(low), float(high)


def measured(seed: int, name: str, slide: float, at: At) -> dict[str, Any]:
    """One run, and how it compares with hindsight, by regime."""
    regimes = CHANGES[name]
    windows = Windows(stream(seed, regimes, at), round(slide * SECOND))
    some = windows.counted(regimes)
    kept, waits = windows.judged(windows.ours())
    number = regime_of(windows.ends / SECOND, regimes)
    low, high = interval(kept[some], windows.slide)
    parts = []
    for i, (begin, factor) in enumerate(regimes):
        mine = some & (number == i)
        if not mine.any():
            continue
        slack = windows.hindsight(mine)
        best, least = windows.judged(windows.fixed(slack))
        parts.append(
            {
                "from": begin, "factor": factor, "windows": int(mine.sum()), "kept": float(kept[mine].mean()),
                "worst": worst(kept[mine], windows.slide), "latency": float(waits[mine].mean()),
                "hindsight_slack": slack / SECOND, "hindsight_kept": float(best[mine].mean()),
                "hindsight_worst": worst(best[mine], windows.slide),
                "hindsight_latency": float(least[mine].mean()),
            }
        )  # fmt: skip
    inside = (windows.ends > TRAINING) & (windows.ends <= SECONDS * SECOND)
    return {
        "change": name, "slide": slide, "at": at, "seed": seed, "windows": int(some.sum()),
        "all_kept": float(kept[inside].mean()),
        "kept": float(kept[some].mean()), "low": low, "high": high, "regimes": parts, "missed": missed(high, parts),
    }  # fmt: skip


def missed(high: float, parts: Sequence[dict[str, Any]]) -> list[str]:
    """Which of the goals a run misses."""
    said = [f"interval ends at {high:.3f}"] if high < WANTED else []
    ours, best = (min(p[k] for p in parts) for k in ("worst", "hindsight_worst"))
    if ours < best - WORSE - 1e-9:
        said.append(f"worst span {ours:.3f}, hindsight's {best:.3f}")
    for p in parts:
        if p["latency"] > LONGER * p["hindsight_latency"]:
            times = p["latency"] / p["hindsight_latency"]
            said.append(f"latency from {p['from']} s {times:.2f} times")
    return said


def worse_by_regime(run: dict[str, Any]) -> bool:
    """Whether in some regime the worst span is too far below that of hindsight: a stricter goal than the stated one."""
    return any(p["worst"] < p["hindsight_worst"] - WORSE - 1e-9 for p in run["regimes"])


def table(runs: Sequence[dict[str, Any]]) -> Table:
    """A row per change, slide and kind of stream, over its seeds."""
    head = (
        "change", "drawn at", "slide", "runs", "Phi", "all windows", "interval's high end", "worst span less hindsight's", "latency over hindsight's",
        "goals",
    )  # fmt: skip
    rows = []
    for key in dict.fromkeys((r["change"], r["at"], r["slide"]) for r in runs):
        mine = [r for r in runs if (r["change"], r["at"], r["slide"]) == key]
        bad = [m for r in mine for m in r["missed"]]
        rows.append(
            [
                *key[:2],
                f"{key[2]:g} s",
                len(mine),
                _range([r["kept"] for r in mine]),
                _range([r["all_kept"] for r in mine]),
                f"{min(r['high'] for r in mine):.3f}",
                f"{min(_margin(r) for r in mine):+.3f}",
                _range([q for r in mine for q in _latencies(r)], 2),
                "; ".join(bad) or "met",
            ]
        )
    return head, rows


def _range(values: Sequence[float], digits: int = 3) -> str:
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def _margin(run: dict[str, Any]) -> float:
    worst = [min(float(p[k]) for p in run["regimes"]) for k in ("worst", "hindsight_worst")]
    return worst[0] - worst[1]


def _latencies(run: dict[str, Any]) -> list[float]:
    return [p["latency"] / p["hindsight_latency"] for p in run["regimes"]]


def detectors(seed: int) -> dict[str, dict[str, float]]:
    """How soon ADWIN tells the change by delays or by needs, and how often it cuts by delays before there is one."""
    out = {}
    for name in ("x5", "x20"):
        data = stream(seed, CHANGES[name], "event")
        seen = delays(data.times)
        window, early, first = Adwin(10_000), 0, float("nan")
        for at in range(0, RATE * 660, 32):
            before = window.cuts
            window.add(seen.delays[at : at + 32], seen.clocks[at : at + 32])
            if window.cuts > before and seen.clocks[at] < 600 * SECOND:
                early += 1
            elif window.cuts > before and np.isnan(first):
                first = float(seen.clocks[at]) / SECOND - 600
        ends, (need,) = needs(data, RANGE * SECOND, 2 * SECOND, (ERROR,))
        old, new = need[ends <= 600 * SECOND], need[ends > (600 + RANGE) * SECOND]
        out[name] = {"cuts": early, "seconds": first, "windows": _windows_to_cut(old, new)}
    return out


def cuts(seed: int) -> dict[str, int]:
    """How often ADWIN cuts by delays in streams whose disorder does not change, but comes in bursts or not."""
    out = {}
    for name in ("game1", "game2", "x3", "x4"):
        seen = delays(GENERATORS[name](seed, 600).times)
        window = Adwin(10_000)
        window.add(seen.delays, seen.clocks)
        out[name] = window.cuts
    return out


def _windows_to_cut(old: Ints, new: Ints) -> int:
    """How many needs after a change ADWIN must see to cut there, if it tries after each."""
    for n in range(LEAST, len(new)):
        values = np.concatenate([old, new[:n]]) / max(old.max(), new[:n].max())
        log = np.log(2 * np.log(len(values)) / CONFIDENCE)
        inverse = 1 / (len(old) - LEAST + 1) + 1 / (n - LEAST + 1)
        allowed = np.sqrt(2 * inverse * values.var() * log) + 2 / 3 * log * inverse
        if abs(values[: len(old)].mean() - values[len(old) :].mean()) > allowed:
            return n
    return len(new)


def everything(
    seeds: Sequence[int], slides: Sequence[float], kept: Kept | None = None
) -> dict[str, Any]:
    """All changes."""
    kept, runs, by_chance = kept or Kept(), [], []
    for slide in slides:
        for seed, at, name in product(seeds, AT, CHANGES):
            case = {"change": name, "slide": slide, "at": at, "seed": seed}
            run = kept.run(case, partial(measured, seed, name, slide, at))
            runs += [] if run is None else [run]
        by_chance.append(kept.run({"chance": slide}, partial(chance, slide)))
        say(f"changes: slide of {slide:g} s")
    print(plain(*table(runs)), flush=True)
    told = kept.run({"detectors": seeds[0]}, lambda: detectors(seeds[0]))
    often = kept.run({"cuts": seeds[0]}, lambda: cuts(seeds[0]))
    return {
        "seeds": sorted({r["seed"] for r in runs}),
        "runs": runs,
        "detectors": told,
        "cuts": often,
        "chance": [part for part in by_chance if part is not None],
    }


def chance(slide: float, seeds: Sequence[int] = tuple(range(301, 309))) -> dict[str, Any]:
    """How often the goal for spans is missed by chance: by the slack that hindsight finds on another seed of the same regimes.

    Nothing changes here but the seed, so no rule could do better than such a slack without waiting longer.
    """
    pairs = missed = 0
    kept = windows = 0.0
    for name, at in product(("x5", "x20"), AT):
        regimes = CHANGES[name]
        of_seed = []
        for seed in seeds:
            data = Windows(stream(seed, regimes, at), round(slide * SECOND))
            number = regime_of(data.ends / SECOND, regimes)
            some = [data.counted(regimes) & (number == i) for i in range(len(regimes))]
            of_seed.append((data, some, [data.hindsight(part) for part in some]))
        for (data, some, own), (_, _, other) in zip(
            of_seed, of_seed[1:] + of_seed[:1], strict=True
        ):
            best = [data.judged(data.fixed(s))[0][part] for s, part in zip(own, some, strict=True)]
            found = [
                data.judged(data.fixed(s))[0][part] for s, part in zip(other, some, strict=True)
            ]
            least = min(worst(part, data.slide) for part in best)
            pairs += 1
            missed += min(worst(part, data.slide) for part in found) < least - WORSE - 1e-9
            kept += sum(float(part.sum()) for part in found)
            windows += sum(len(part) for part in found)
    return {"slide": slide, "pairs": pairs, "missed": missed, "kept": kept / windows}


def main() -> None:
    """Run what was asked for and print it; ``python -m benchmarks quality`` writes it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", default=",".join(CHANGES))
    parser.add_argument("--slides", default=",".join(map(str, SLIDES)))
    parser.add_argument("--seeds", default="11,12,13")
    parser.add_argument("--at", default="event,arrival")
    asked = parser.parse_args()
    runs = [
        measured(int(seed), name, float(slide), at)
        for at in asked.at.split(",")
        for name in asked.changes.split(",")
        for slide in asked.slides.split(",")
        for seed in asked.seeds.split(",")
    ]
    say(f"{len(runs)} runs, {sum(bool(r['missed']) for r in runs)} of them miss a goal")
    print(plain(*table(runs)), flush=True)


if __name__ == "__main__":
    main()
