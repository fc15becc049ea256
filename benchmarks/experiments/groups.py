"""Groups of unequal size: rows kept, rows reduced, or each group as it is smaller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.adaptive import LARGE, SKEWS, V, measure, peaks
from benchmarks.experiments.common import Finding, mb, yes
from benchmarks.simulations.adaptive_model import threshold
from slackwater.kernels.windows.adaptive import sizes_of
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import Field
from slackwater.model.window import TimeWindow
from slackwater.semantics.adaptive import worth_it

Ints = npt.NDArray[np.int64]
SMALL_SUM = (Primitive("_a0", "sum", (V,), "bigint"),)
SHARES = ((1, 39, 51, 10), (3, 66, 28, 6), (5, 77, 19, 4), (7, 82, 15, 3), (9, 87, 11, 2))
"""The source's data sets: percent of the data in small groups, percent of groups that are small, medium, large."""
VOLUMES = (0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


def group_sizes(rows: int, percent: int, rng: np.random.Generator) -> Ints:
    """Rows of each group: 1 in small ones, 15 in medium ones (20% of the data), 300 in large ones, about."""
    small = np.ones(rows * percent // 100, np.int64)
    medium = rng.integers(10, 21, rows * 20 // 100 // 15)
    large = rng.integers(200, 401, max(1, rows * (80 - percent) // 100 // 300))
    return np.concatenate([small, medium, large])


def shares_of(sizes: Ints) -> list[float]:
    """Share of groups that are small, medium, large."""
    return [float(np.mean((sizes > low) & (sizes <= high))) for low, high in ((0, 1), (1, 100), (100, 1 << 30))]  # fmt: skip


def seconds_of_data(sizes: Ints, count: int, seed: int) -> list[pa.Table]:
    """So many seconds (of 1000 ticks), each with all groups in random order."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        key = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        times = np.sort(i * 1000 + rng.integers(0, 1000, len(key)))
        made.append(pa.table({"k": key, "t": times, "v": rng.integers(40, 1500, len(key))}))
    return made


def tumbling(*, quick: bool = False) -> Finding:
    """X5: the five data sets, windows of a second."""
    rows, count = (3_000, 4) if quick else (30_000, 8)
    window = TimeWindow(1000, 1000, 0, "ts")
    lines, points = [], []
    for number, (percent, *theirs) in list(enumerate(SHARES, 1))[:: 4 if quick else 1]:
        sizes = group_sizes(rows, percent, np.random.default_rng(number))
        data = seconds_of_data(sizes, count, number)
        # Half a second late, so that a part of two windows is open at a time.
        bounds = [(i + 1) * 1000 - 500 for i in range(count)]
        ours = [round(100 * s) for s in shares_of(sizes)]
        found = {n: peaks(data, bounds, window, p) for n, p in (("sum", SMALL_SUM), ("large", LARGE))}  # fmt: skip
        ratios = {n: f["adaptive"] / f["eager"] for n, f in found.items()}
        time = found["sum"]["seconds"]["adaptive"] / found["sum"]["seconds"]["eager"]
        points.append({"set": number, "shares": ours, "ratios": ratios, "time": time, **found})
        lines.append(
            [
                f"DS{number}", f"{percent}%",
                *(f"{o}% ({t}%)" for o, t in zip(ours, theirs, strict=True)),
                f"{ratios['sum']:.2f}", f"{ratios['large']:.2f}", f"{time:.2f}",
            ]
        )  # fmt: skip
    first, last = points[0]["ratios"], points[-1]["ratios"]
    return Finding(
        "X5",
        "Adaptive against eager, tumbling windows",
        f"Windows of 1 s, {rows:,} rows a second, {count} seconds; groups small (1 row), medium (15) and large (300 on average) as in the source's table 6-2, "
        "in brackets what is printed there. Adaptive over eager: the most bytes of state, for a sum and for sum, mean and deviation together; and the processor's time for the sum.",
        ("data", "of the data in small groups", "small groups", "medium", "large", "bytes, sum", "bytes, three", "time, sum"),
        lines,
        "adaptive better in memory, latency and time, the more groups are small (no figures in the text)",
        f"bytes for the sum {first['sum']:.2f} on DS1 and {last['sum']:.2f} on DS5; for the three {first['large']:.2f} and {last['large']:.2f}",
        "in part" if last["sum"] <= 1.0 and last["large"] < first["large"] else "no",
        "Memory agrees from DS2 on, time does not. A partial of a sum is hardly larger than a row in our columns, so there is little to save where a group has one window at a time; with larger partials there is. "
        "Time is worse, for rows of two kinds have to be told apart and kept; the planner takes this plan only where it saves half of the bytes, which is not so here for the sum.",
        points=points,
    )  # fmt: skip


def sliding(*, quick: bool = False) -> Finding:
    """X6: windows of ten seconds every second over three links, one of them late."""
    rows, count = (400, 14) if quick else (4_000, 24)
    window = TimeWindow(10_000, 1_000, 0, "ts")
    count_all = (Primitive("_a0", "count", (), "bigint"),)
    rng = np.random.default_rng(8)
    sizes = group_sizes(rows * 10, 5, rng)
    whole = np.repeat(np.arange(len(sizes)), sizes)
    lines, points = [], []
    for delay in (0, 10) if quick else (0, 2, 5, 10):
        batches, bounds = [], []
        draw = np.random.default_rng(9)
        for i in range(count):
            parts = []
            for link in range(2):
                key = draw.choice(whole, rows)
                parts.append((i * 1000 + draw.integers(0, 1000, rows), key, link))
            if i >= delay:
                parts.append((np.array([(i - delay) * 1000 + 500]), draw.choice(whole, 1), 2))
            times, keys = (np.concatenate([p[j] for p in parts]) for j in (0, 1))
            batches.append(pa.table({"k": keys, "t": times, "v": keys % 100}))
            bounds.append((i - delay) * 1000)
        found = peaks(batches, bounds, window, count_all)
        points.append({"delay": delay, **found})
        best = found["adaptive"] / min(found["eager"], found["lazy"])
        lines.append(
            [
                f"{delay} s", mb(found["eager"]), mb(found["lazy"]), mb(found["adaptive"]),
                f"{found['adaptive'] / found['eager']:.2f}", f"{best:.2f}",
            ]
        )  # fmt: skip
    return Finding(
        "X6",
        "Adaptive against both, sliding windows over three links",
        f"Count by group over 10 s every second, two links of {rows:,} rows a second and one of a row a second that is late; groups as in DS3 over the extent.",
        ("delay of the third link", "eager, MB", "lazy, MB", "adaptive, MB", "over eager", "over the better"),
        lines,
        "adaptive better than eager and than lazy in memory (no figures in the text)",
        f"adaptive over eager {points[0]['adaptive'] / points[0]['eager']:.2f}, over the better of the two "
        f"{points[0]['adaptive'] / min(points[0]['eager'], points[0]['lazy']):.2f} without delay",
        yes(all(p["adaptive"] <= 1.05 * min(p["eager"], p["lazy"]) for p in points)),
        "Our eager side in the adaptive plan is panes, of which there are as many as windows; what is compared is the size of columns.",
        points=points,
    )  # fmt: skip


def zipf(*, quick: bool = False) -> Finding:
    """Memory of the three ways as the skew of groups grows."""
    rows, keys = (10_000, 1_000) if quick else (300_000, 30_000)
    points = [measure(rows, keys, skew) for skew in (SKEWS[::6] if quick else SKEWS)]
    lines = []
    for p in points:
        best = min(p["eager"], p["lazy"])
        groups = ", ".join(f"{n} {name}" for name, n in p["groups"].items())
        lines.append(
            [f"{p['skew']}", *(mb(p[n]) for n in ("eager", "lazy", "adaptive")), f"{p['adaptive'] / best:.2f}", groups]
        )  # fmt: skip
    worst = max(p["adaptive"] / min(p["eager"], p["lazy"]) for p in points)
    return Finding(
        "Zipf",
        "Memory of adaptive state on groups by Zipf's law",
        f"Sum, mean and deviation over 300 s every 60 s, {rows:,} rows of {keys:,} groups, drawn by Zipf's law.",
        ("exponent", "eager, MB", "lazy, MB", "adaptive, MB", "over the better", "groups at the end"),
        lines,
        "adaptive never needs more than eager on skewed data",
        f"at most {worst:.2f} times the better of eager and lazy, whichever that is",
        yes(worst <= 1.05),
        plot="experiments-zipf.svg",
        points=points,
    )  # fmt: skip


def crossover(*, quick: bool = False) -> Finding:
    """Keep rows or reduce them: where one becomes smaller than the other, and what the rules say."""
    groups, count = (300, 12) if quick else (2_000, 20)
    window = TimeWindow(300, 60, 0, "ts")
    spec = AggregateSpec((Field("k", "bigint"),), window, LARGE, "adaptive", True)
    sizes = sizes_of(spec)
    predicted = threshold(sizes, window.range, window.slide)
    lines, points = [], []
    for volume in VOLUMES[3::4] if quick else VOLUMES:
        rng = np.random.default_rng(10)
        each = int(groups * volume * 30 / 300)
        batches = [
            pa.table(
                {
                    "k": rng.integers(0, groups, each),
                    "t": i * 30 + rng.integers(0, 30, each),
                    "v": rng.integers(0, 1000, each),
                }
            )
            for i in range(count)
        ]
        found = peaks(batches, [(i + 1) * 30 for i in range(count)], window, LARGE)
        some = found["groups"]
        eager = some["eager"] / max(1, some["eager"] + some["lazy"])
        smaller = "rows" if found["lazy"] < found["eager"] else "partials"
        points.append({"volume": volume, "share": eager, "smaller": smaller, **found})
        lines.append(
            [
                f"{volume:g}", mb(found["lazy"]), mb(found["eager"]), mb(found["adaptive"]), smaller, f"{eager:.0%}",
                "adaptive" if worth_it(sizes, volume / window.range * window.slide) else "reduce",
            ]
        )  # fmt: skip
    at = next((p["volume"] for p in points if p["smaller"] == "partials"), None)
    half = next((p["volume"] for p in points if p["share"] >= 0.5), None)
    worst = max(p["adaptive"] / min(p["eager"], p["lazy"]) for p in points)
    return Finding(
        "crossover",
        "Reduce rows or keep them",
        f"Sum, mean and deviation over 300 s every 60 s of {groups:,} groups that are all alike; the rows that a group has in a window vary. A row takes "
        f"{sizes.row:g} bytes, a partial {sizes.item:g}. The last columns: what the running operator has decided, and what the planner would from these statistics.",
        ("rows per group and window", "rows, MB", "partials, MB", "adaptive, MB", "smaller", "groups reduced", "plan"),
        lines,
        "rows are cheaper where few are in a window and partials are large; an optimiser can choose (no figures in the text)",
        f"rows are smaller up to {at} per window, the model (6.9) says {predicted:.1f}; from {half} on most groups are reduced; adaptive state is at most {worst:.2f} times the smaller of the two",
        yes(at is not None and at / 2 < predicted < 2 * at and worst < 1.2),
        "The model takes every window for full; where a group has no row in some windows, it has no partial there either, so rows stay smaller a little longer. Where all groups are reduced, adaptive state "
        "is larger than partials alone by a list of the groups and a count in each partial; the planner does not take it there.",
        plot="experiments-crossover.svg",
        points=points,
    )  # fmt: skip


def plot_zipf(found: Finding, target: Path) -> None:
    """MB of state over the exponent."""
    _plot(found, target, "skew", "skew (exponent of Zipf's law)", log=False)


def plot_crossover(found: Finding, target: Path) -> None:
    """MB of state over rows per group and window."""
    _plot(found, target, "volume", "rows per group and window", log=True)


def _plot(found: Finding, target: Path, by: str, label: str, *, log: bool) -> None:
    from benchmarks.pictures import axes_of

    names: dict[str, Any] = {"eager": "reduced (eager)", "lazy": "rows (lazy)", "adaptive": "adaptive"}  # fmt: skip
    with axes_of(target) as axes:
        for name, text in names.items():
            axes.plot([p[by] for p in found.points], [p[name] / 1e6 for p in found.points], "o-", label=text)  # fmt: skip
        axes.set(xlabel=label, ylabel="MB of state, at most")
        axes.set(**({"xscale": "log", "yscale": "log"} if log else {"ylim": (0, None)}))
        axes.legend(frameon=False)
