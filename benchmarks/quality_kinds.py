"""Targets on averages, quantiles and single groups: how often they are kept, and what complete windows would wait.

As in `quality_aggregates` every row is judged in order of arrival, without Spark. An aggregate without a model of errors waits for complete
windows; one with a model should wait much less. The error of a quantile is that of its rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_aggregates import WANTED, Outcome
from benchmarks.quality_data import GENERATORS, Rows
from benchmarks.quality_fixed import TRAINING
from benchmarks.quality_join_data import SECOND, Floats, Ints
from benchmarks.record import say
from benchmarks.tables import Table, plain
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.strict import Feed, judge
from slackwater.semantics.quality.target import Consumer, Target
from slackwater.semantics.quality.threshold import Asked

WINDOW = TimeWindow(5 * SECOND, SECOND // 2, 0, "t")
GROUPS = 4
MOST = 0.8
"""How long results may wait, of what complete windows do."""


@dataclass(frozen=True)
class Kind:
    """An aggregate with its target; ``grouped`` if the target is about each of `GROUPS` groups."""

    name: str
    asked: Asked
    error: float
    grouped: bool = False


KINDS = (
    Kind("average", Asked("avg", 0), 0.005),
    Kind("median", Asked("quantile", share=0.5), 0.01),
    Kind("95 % quantile", Asked("quantile", share=0.95), 0.01),
    Kind("sum by group", Asked("sum", 0), 0.02, True),
    Kind("average by group", Asked("avg", 0), 0.01, True),
)


def bounds(data: Rows, kind: Kind, asked: Asked) -> Ints:
    """The bound before each row, where the aggregate is judged as ``asked``."""
    target = Target(error=kind.error, per="group" if kind.grouped else "total")
    adaptation = Adaptation.fresh(target, [Consumer(WINDOW, (asked,), 1)])
    if kind.grouped:
        # What a batch's tasks would tell of a sample of groups: their share of the rows, and how values spread.
        spread = float(data.values.std() / data.values.mean())
        adaptation.states[0].groups = [[1 / GROUPS, spread]]
    feed = Feed(np.ones(len(data.times), bool), [data.values])
    return judge(adaptation, data.times, [feed], START).bounds


def off(kind: Kind, values: Floats, there: NDArray[np.bool_]) -> float:
    """How far the result of the rows that are there is off."""
    if not there.any():
        return 1.0
    if kind.asked.rule == "sum":
        return float(abs(values[~there].sum() / values.sum()))
    if kind.asked.rule == "avg":
        return float(abs(values[there].mean() / values.mean() - 1))
    result = np.quantile(values[there], kind.asked.share, method="inverted_cdf")
    low, high = (values < result).mean(), (values <= result).mean()
    return float(max(low - kind.asked.share, kind.asked.share - high, 0.0))


def outcome(data: Rows, before: Ints, kind: Kind) -> Outcome:
    """By window, and by group where they count: error and latency."""
    clocks = np.maximum.accumulate(data.times)
    order = np.argsort(data.times, kind="stable")
    times = data.times[order]
    group = np.arange(len(times))[order] % GROUPS if kind.grouped else np.zeros(len(times), int)
    low = int(times[0]) + TRAINING
    ends = np.arange(low // WINDOW.slide + 1, int(before[-1]) // WINDOW.slide) * WINDOW.slide
    found: list[tuple[int, float, float]] = []
    for end in ends.tolist():
        a, b = np.searchsorted(times, [end - WINDOW.range, end])
        rows = order[a:b]
        wait = (int(clocks[np.searchsorted(before, end) - 1]) - end) / SECOND
        for g in range(GROUPS if kind.grouped else 1):
            mine = rows[group[a:b] == g]
            if len(mine):
                found.append((end, off(kind, data.values[mine], before[mine] < end), wait))
    at, errors, waits = (np.array(c) for c in zip(*found, strict=True))
    return Outcome(at, errors, waits)


def results(name: str, data: Rows) -> Iterator[dict[str, Any]]:
    """All kinds on one stream."""
    for kind in KINDS:
        ours = outcome(data, bounds(data, kind, kind.asked), kind)
        complete = outcome(data, bounds(data, kind, Asked("other")), kind)
        each = GROUPS if kind.grouped else 1
        low, high = ours.interval(kind.error, each * 10 * WINDOW.range // WINDOW.slide)
        yield {
            "data": name, "kind": kind.name, "error": kind.error, "kept": ours.kept(kind.error), "low": low, "high": high,
            "latency": ours.latency, "complete": complete.latency, "windows": len(ours.ends) // each,
            "met": high >= WANTED and ours.latency <= MOST * complete.latency,
        }  # fmt: skip


def table(lines: list[dict[str, Any]]) -> Table:
    """A row per kind and stream."""
    head = (
        "data",
        "aggregate",
        "error",
        "Phi",
        "interval",
        "latency",
        "of complete windows",
        "goals",
    )
    return head, [
        [
            r["data"],
            r["kind"],
            f"{r['error']:.1%}",
            f"{r['kept']:.3f}",
            f"{r['low']:.3f} to {r['high']:.3f}",
            f"{r['latency']:.2f} s",
            f"{r['complete']:.2f} s",
            "met" if r["met"] else "missed",
        ]
        for r in lines
    ]


def measured(seed: int, *, quick: bool) -> dict[str, Any]:
    """All runs."""
    lines = []
    for name in ("x3",) if quick else ("x3", "x4"):
        lines += list(results(name, GENERATORS[name](seed, 240 if quick else 600)))
    say("averages, quantiles and groups")
    print(plain(*table(lines)), flush=True)
    return {"seed": seed, "runs": lines}
