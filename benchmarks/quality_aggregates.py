"""Sums over sliding windows under error targets: how often the promise is kept, and how long results wait.

``python -m benchmarks.quality_aggregates`` judges every row in order of arrival (``Quality(strict=True)``), without Spark:
on Spark the same function judges the same rows. Latency is in stream time: the current time when a window closes, less its
end. The first minute trains the fixed delays and is left out of all figures. Constants were chosen on other seeds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from benchmarks.quality_data import GENERATORS, Rows
from benchmarks.quality_fixed import TRAINING, careful, least, native_bounds, needs
from benchmarks.quality_join_data import SECOND, Floats, Ints
from benchmarks.quality_kept import Kept
from benchmarks.record import say
from benchmarks.tables import Table, plain
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.delays import delays
from slackwater.semantics.quality.strict import Feed, judge
from slackwater.semantics.quality.target import Consumer, Target
from slackwater.semantics.quality.threshold import Asked
from slackwater.semantics.window_ids import wid_range

SLIDE = SECOND // 10
WIDTHS = (0.1, 0.5, 1.0, 5.0)
ERRORS = (0.005, 0.01, 0.02, 0.05)
SECONDS = 600
QUICK = 240
WANTED = 0.95
METHODS: dict[str, Literal["model", "pd"]] = {"ours": "model", "controller": "pd"}


@dataclass(frozen=True, eq=False)
class Outcome:
    """Per window that has rows and closed: its relative error and latency in seconds, by end."""

    ends: Ints
    errors: Floats
    latencies: Floats

    def kept(self, error: float) -> float:
        """The share of windows within the error."""
        return float((self.errors <= error + 1e-12).mean())

    def thirds(self, error: float) -> list[float]:
        """The same for the first, second and last third of the stream, the training left out."""
        begin = self.ends[0] - TRAINING
        part = np.minimum((self.ends - begin) * 3 // (self.ends[-1] - begin + 1), 2)
        good = self.errors <= error + 1e-12
        return [float(good[part == i].mean()) for i in range(3) if (part == i).any()]

    def interval(self, error: float, block: int, seed: int = 0) -> tuple[float, float]:
        """95 % of what `kept` would be of other runs, by drawing blocks of ``block`` windows again."""
        good = self.errors <= error + 1e-12
        count = max(1, len(good) // block)
        parts = np.array_split(good, count)
        sums = np.array([p.sum() for p in parts])
        sizes = np.array([len(p) for p in parts])
        drawn = np.random.default_rng(seed).integers(0, count, (400, count))
        shares = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
        low, high = np.quantile(shares, [0.025, 0.975])
        return float(low), float(high)

    @property
    def latency(self) -> float:
        """The mean wait in seconds."""
        return float(self.latencies.mean())


def outcome(data: Rows, bounds: Ints, width: int) -> Outcome:
    """What windows hold whose rows were judged by ``bounds`` (the bound before each row)."""
    w = TimeWindow(width, SLIDE, 0, "t")
    first, stop = wid_range(data.times, w)
    base, size = int(first.min()), int(stop.max() - first.min()) + 1
    open_from = np.clip(np.where(bounds <= START, first, bounds // SLIDE), first, stop)
    exact = _sums(first - base, stop - base, data.values, size)
    found = _sums(open_from - base, stop - base, data.values, size)
    counts = _sums(first - base, stop - base, np.ones(len(data.times)), size)
    ends = (np.arange(size) + base + 1) * SLIDE
    after = np.searchsorted(bounds, ends)
    clocks = np.maximum.accumulate(data.times)
    closed = (after < len(bounds)) & (counts > 0.5) & (ends > data.times.min() + TRAINING)
    latencies = clocks[after[closed] - 1] - ends[closed]
    errors = np.abs(exact - found)[closed] / np.abs(exact[closed])
    return Outcome(ends[closed], errors, latencies / SECOND)


def _sums(starts: Ints, stops: Ints, values: Floats, size: int) -> Floats:
    change = np.bincount(starts, values, size + 1) - np.bincount(stops, values, size + 1)
    return np.asarray(np.cumsum(change)[:size])


def behind(data: Rows, slack: int | Ints) -> Ints:
    """The bound before each row where it follows the current time at a distance."""
    reach = np.maximum.accumulate(delays(data.times).clocks - slack)
    return np.concatenate([[START], reach[:-1]])


def baselines(data: Rows) -> dict[str, Ints]:
    """Bounds of the ways that do not know the target."""
    found = delays(data.times).delays
    training = found[data.times < data.times.min() + TRAINING]
    return {
        "no slack": behind(data, 0),
        **{f"native, {k}": native_bounds(data, d) for k, d in careful(training).items()},
        "max-delay": behind(data, np.maximum.accumulate(found)),
    }


def adaptive(data: Rows, width: int, error: float, method: Any) -> tuple[Ints, Adaptation, float]:
    """Bounds under a target, and the seconds of computing it took."""
    window = TimeWindow(width, SLIDE, 0, "t")
    consumer = Consumer(window, (Asked("sum", 0),), 1)
    target = Target(error=error, method=method)
    adaptation = Adaptation.fresh(target, [consumer])
    feed = Feed(np.ones(len(data.times), bool), [data.values])
    began = time.process_time()
    judged = judge(adaptation, data.times, [feed], START)
    return judged.bounds, adaptation, time.process_time() - began


def results(
    name: str, data: Rows, widths: Sequence[float], errors: Sequence[float]
) -> Iterator[dict[str, Any]]:
    """One line per window, target and way; the ways that do not know the target have the same wait under all."""
    fixed = baselines(data)
    for width in widths:
        ticks = round(width * SECOND)
        ways = {way: outcome(data, bounds, ticks) for way, bounds in fixed.items()}
        longest = ways["max-delay"].latency
        _, needed = needs(data, ticks, SLIDE, errors)
        for error, need in zip(errors, needed, strict=True):
            spent = {}
            for way, method in METHODS.items():
                bounds, _, spent[way] = adaptive(data, ticks, error, method)
                ways[way] = outcome(data, bounds, ticks)
            ways["hindsight"] = outcome(data, behind(data, least(need, WANTED)), ticks)
            for way, found in ways.items():
                yield _line(name, width, error, way, found, longest, spent.get(way))


def again(cases: Sequence[tuple[str, float, float]], seed: int, kept: Kept) -> list[dict[str, Any]]:
    """Our line alone for these data sets, windows and errors."""
    made: dict[str, Rows] = {}
    runs = []
    for name, width, error in cases:

        def measure(name: str = name, width: float = width, error: float = error) -> dict[str, Any]:
            if name not in made:
                made[name] = GENERATORS[name](seed, SECONDS)
            data = made[name]
            ticks = round(width * SECOND)
            longest = outcome(data, baselines(data)["max-delay"], ticks).latency
            bounds, _, spent = adaptive(data, ticks, error, METHODS["ours"])
            return _line(name, width, error, "ours", outcome(data, bounds, ticks), longest, spent)

        run = kept.run({"data": name, "window": width, "error": error, "seed": seed}, measure)
        runs += [] if run is None else [run]
    return runs


def _line(
    name: str,
    width: float,
    error: float,
    way: str,
    found: Outcome,
    longest: float,
    spent: float | None,
) -> dict[str, Any]:
    block = max(100, 10 * round(width * SECOND) // SLIDE)
    low, high = found.interval(error, block)
    return {
        "data": name, "window": width, "error": error, "way": way,
        "kept": found.kept(error), "low": low, "high": high, "thirds": found.thirds(error),
        "mean_error": float(found.errors.mean()), "wrong": float((found.errors > 1e-9).mean()),
        "latency": found.latency, "saved": 1 - found.latency / longest,
        "windows": len(found.ends),
        "micros": None if spent is None else 1e6 * spent / len(found.ends),
    }  # fmt: skip


def table(lines: list[dict[str, Any]]) -> Table:
    """The lines as a table for the terminal, one row per window and target."""
    ways = list(dict.fromkeys(r["way"] for r in lines))
    head = ["data", "window s", "error", *ways, "our interval", "below max"]
    rows = []
    for key in dict.fromkeys((r["data"], r["window"], r["error"]) for r in lines):
        mine = {r["way"]: r for r in lines if (r["data"], r["window"], r["error"]) == key}
        cells = [f"{r['kept']:.3f} / {r['latency']:.3f} s" for r in (mine[w] for w in ways)]
        ours = mine["ours"]
        interval = f"{ours['low']:.3f} to {ours['high']:.3f}"
        rows.append([key[0], key[1], f"{key[2]:.1%}", *cells, interval, f"{ours['saved']:.0%}"])
    return head, rows


def measured(
    names: Sequence[str],
    widths: Sequence[float],
    errors: Sequence[float],
    seed: int,
    *,
    quick: bool,
) -> dict[str, Any]:
    """All runs, and what the streams are like."""
    lines: list[dict[str, Any]] = []
    seen = {}
    seconds = QUICK if quick else SECONDS
    for name in names:
        data = GENERATORS[name](seed, seconds)
        seen[name] = data.statistics()
        mine = list(results(name, data, widths, errors))
        lines += mine
        say(f"aggregates over {name}: {seconds} s of the stream")
        print(plain(*table(mine)), flush=True)
    return {"seed": seed, "seconds": seconds, "data": seen, "runs": lines}


def main() -> None:
    """Run what was asked for and print it; ``python -m benchmarks quality`` writes it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three minutes of each stream")
    parser.add_argument("--data", default=",".join(GENERATORS), help="names, e.g. game1,x3")
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--errors", default=",".join(map(str, ERRORS)))
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    widths = [float(w) for w in asked.widths.split(",")]
    errors = [float(e) for e in asked.errors.split(",")]
    measured(asked.data.split(","), widths, errors, asked.seed, quick=asked.quick)


if __name__ == "__main__":
    main()
