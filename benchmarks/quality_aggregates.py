"""Sums over sliding windows under error targets: how often the promise is kept, and how long results wait.

``python -m benchmarks.quality_aggregates`` judges every row in order of arrival (``Quality(strict=True)``), without Spark:
on Spark the same function judges the same rows. Latency is in stream time: the current time when a window closes, less its
end. The first minute trains the fixed delays and is left out of all figures. Constants were chosen on other seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality_data import GENERATORS, Rows
from benchmarks.quality_join_data import SECOND, Floats, Ints
from benchmarks.tables import Table, plain
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.delays import delays
from slackwater.semantics.quality.strict import Feed, judge
from slackwater.semantics.quality.target import Consumer, Target
from slackwater.semantics.quality.threshold import Asked
from slackwater.semantics.window_ids import wid_range

TRAINING = 60 * SECOND
SLIDE = SECOND // 10
WIDTHS = (0.1, 0.5, 1.0, 5.0)
ERRORS = (0.005, 0.01, 0.02, 0.05)
SECONDS = {"game1": 980, "game2": 1400, "x3": 1800, "x4": 1800, "change": 900}
WANTED = 0.95
SOURCE = {
    "game1": "source: max-delay 3.05 s; its method keeps 92 % or more, 48 % to 99.98 % below max-delay",
    "game2": "source: max-delay 17.3 s; 10 % error at 0.22 s",
}


@dataclass(frozen=True, eq=False)
class Outcome:
    """Per window that has rows and closed: its relative error and latency in seconds, by end."""

    ends: Ints
    errors: Floats
    latencies: Floats

    def kept(self, error: float) -> float:
        """The share of windows within the error."""
        return float((self.errors <= error + 1e-12).mean())

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
    found = delays(data.times)
    training = found.delays[data.times < data.times.min() + TRAINING]
    p99, p999 = (int(q) for q in np.quantile(training, [0.99, 0.999]))
    return {
        "no slack": behind(data, 0),
        "watermark p99": behind(data, p99),
        "watermark p99.9": behind(data, p999),
        "watermark max": behind(data, int(training.max())),
        "max-delay": behind(data, np.maximum.accumulate(found.delays)),
    }


def adaptive(data: Rows, width: int, error: float, method: Any) -> tuple[Ints, Adaptation, float]:
    """Bounds under a target, and the seconds it took."""
    window = TimeWindow(width, SLIDE, 0, "t")
    consumer = Consumer(window, (Asked("sum", 0),), 1)
    target = Target(error=error, method=method)
    adaptation = Adaptation.fresh(target, [consumer])
    feed = Feed(np.ones(len(data.times), bool), [data.values])
    began = time.perf_counter()
    judged = judge(adaptation, data.times, [feed], START)
    return judged.bounds, adaptation, time.perf_counter() - began


def results(name: str, data: Rows, widths: Any, errors: Any) -> Iterator[dict[str, Any]]:
    """One line per window, target and way."""
    fixed = baselines(data)
    for width in widths:
        ticks = round(width * SECOND)
        block = max(100, 10 * ticks // SLIDE)
        plain_ones = {way: outcome(data, bounds, ticks) for way, bounds in fixed.items()}
        for error in errors:
            ways = dict(plain_ones)
            spent = {}
            for way, method in (("model", "model"), ("controller", "pd")):
                bounds, _, spent[way] = adaptive(data, ticks, error, method)
                ways[way] = outcome(data, bounds, ticks)
            longest = ways["max-delay"].latency
            for way, found in ways.items():
                low, high = found.interval(error, block)
                yield {
                    "data": name, "window": width, "error": error, "way": way,
                    "kept": found.kept(error), "low": low, "high": high,
                    "latency": found.latency, "saved": 1 - found.latency / longest,
                    "windows": len(found.ends), "seconds": spent.get(way),
                }  # fmt: skip


def table(lines: list[dict[str, Any]]) -> Table:
    """The lines as a table, one row per window and target."""
    ways = list(dict.fromkeys(r["way"] for r in lines))
    head = ["data", "window s", "error", *ways, "model's interval", "saved"]
    rows = []
    for key in dict.fromkeys((r["data"], r["window"], r["error"]) for r in lines):
        mine = {r["way"]: r for r in lines if (r["data"], r["window"], r["error"]) == key}
        cells = [f"{r['kept']:.3f} / {r['latency']:.3f} s" for r in (mine[w] for w in ways)]
        model = mine["model"]
        interval = f"{model['low']:.3f} to {model['high']:.3f}"
        rows.append([key[0], key[1], f"{key[2]:.1%}", *cells, interval, f"{model['saved']:.0%}"])
    return head, rows


def main(options: argparse.Namespace | None = None) -> None:
    """Run what was asked for and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three minutes of each stream")
    parser.add_argument("--data", default=",".join(GENERATORS), help="names, e.g. game1,x3")
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--errors", default=",".join(map(str, ERRORS)))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="benchmarks/results/quality_aggregates.json")
    asked = options or parser.parse_args()
    widths = [float(w) for w in asked.widths.split(",")]
    errors = [float(e) for e in asked.errors.split(",")]
    lines: list[dict[str, Any]] = []
    seen = {}
    for name in asked.data.split(","):
        data = GENERATORS[name](asked.seed, 180 if asked.quick else SECONDS[name])
        seen[name] = data.statistics()
        print(
            name, {k: round(v, 4) for k, v in seen[name].items()}, SOURCE.get(name, ""), flush=True
        )
        mine = list(results(name, data, widths, errors))
        lines += mine
        print(plain(*table(mine)), flush=True)
    if not asked.quick:
        found = {"seed": asked.seed, "data": seen, "runs": lines}
        Path(asked.out).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
