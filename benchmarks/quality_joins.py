"""Joins under targets for recall: what is kept of the promise, and what it costs in latency.

``python -m benchmarks.quality_joins`` runs whole streams through the join behind slack buffers, without Spark and row
for row (see ``quality_join_run``). Latency is in stream time: the clock when a result leaves, less its time. Recall is
sampled right before each adaptation, over the last minute of what the join has reached; the first minute is left out.

Whatever the methods' constants are, they were chosen on seed 11; the seeds here are others.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality_join_data import GENERATORS, MS, SECOND, Floats, Ints, JoinData, statistics
from benchmarks.quality_join_immediate import Kept, two
from benchmarks.quality_join_immediate import run as run_at_once
from benchmarks.quality_join_lateness import Lateness, sampled, slowest
from benchmarks.quality_join_run import Counting, Probed, recall_at, truth
from benchmarks.tables import Table, markdown, plain
from slackwater.kernels.quality.join_order import SlackOrder
from slackwater.semantics.limits import START
from slackwater.semantics.quality.join_measured import MeasuredSlack
from slackwater.semantics.quality.join_profile import Profile
from slackwater.semantics.quality.join_slack import JoinSlack, Method, RecallTarget, modelled_slack
from slackwater.semantics.quality.recall import StreamDelays
from slackwater.semantics.quality.statistics import StreamStatistics

PERIOD, INTERVAL, GRAIN = 60 * SECOND, SECOND, 10 * MS
TARGETS = (0.9, 0.95, 0.99)
SHARES = {"x2": 1.0, "x3": 1.0, "x4": 0.25, "shift": 1.0}
"""Sampled rows per data set: those of x4 are dear."""

SECONDS = {"x2": 600, "x3": 1800, "x4": 1800, "shift": 1800}
SOURCE = {
    ("x2", 0.99): "1.08 s of 20.8 s (-94 %)",
    ("x2", "none"): "recall about 0.5, 0.31 s",
    ("x2", "max"): "recall 1.0, 20.86 s",
    ("x3", "none"): "1.4 s",
    ("x3", "max"): "recall 0.999, 21.43 s",
    ("x4", "none"): "recall about 0.8, 1.18 s",
    ("x4", "max"): "recall 0.999, 15.1 s",
    ("x3", 0.95): "model: Phi(.99) at least 97 %; controller 45.4 %",
    ("x4", 0.95): "model: Phi(.99) at least 97 %; controller 54.3 %",
    ("x3", 0.99): "model: Phi(.99) at least 97 %",
    ("x4", 0.99): "model: Phi(.99) at least 97 %",
}
"""What the source prints of the same case; the data of x2 are others."""


@dataclass(eq=False)
class Prepared:
    """A data set with all that does not depend on slack: the truth, delays, statistics at each tick."""

    data: JoinData
    true: Ints
    clock: Ints
    ticks: Ints
    cuts: Ints
    known: list[list[StreamDelays]]
    largest: list[tuple[int, int]]
    lateness: Lateness


def prepared(data: JoinData, share: float, seed: int = 0) -> Prepared:
    """Everything that the methods share."""
    clock = slowest(data)
    own = np.empty(len(data), np.int64)
    for i in range(data.streams):
        mine = data.stream == i
        own[mine] = np.maximum.accumulate(data.time[mine])
    ahead = np.where(clock > START, own - clock, 0)
    ticks = np.arange(data.arrival[0] + INTERVAL, data.arrival[-1], INTERVAL)
    cuts = np.concatenate([[0], np.searchsorted(data.arrival, ticks)])
    streams = [StreamStatistics.fresh(GRAIN) for _ in data.windows]
    known, largest = [], []
    for low, high in pairwise(cuts):
        for i, stream in enumerate(streams):
            rows = low + np.flatnonzero(data.stream[low:high] == i)
            stream.observe(data.time[rows], ahead[rows])
        least = min(s.sync for s in streams)
        known.append(
            [
                StreamDelays(
                    s.window.counts.astype(np.int32), s.granularity, w, int(s.sync - least)
                )
                for s, w in zip(streams, data.windows, strict=True)
            ]
        )
        largest.append((max(s.window_largest for s in streams), max(s.largest for s in streams)))
    lateness = sampled(data, INTERVAL, GRAIN, share, seed)
    return Prepared(data, truth(data), clock, ticks, cuts, known, largest, lateness)


@dataclass
class Outcome:
    """One run of one method: what it measured."""

    latency: float
    slack: float
    recall: Floats
    buffered: float
    micros: list[float] = field(default_factory=list)

    def kept(self, target: float) -> float:
        """The share of samples with at least this recall."""
        return float(np.mean(self.recall >= target)) if len(self.recall) else float("nan")


Policy = Callable[[int, int, Probed, int], int]
"""From the tick, the slack in force, what reached the join, and the join's time: the next slack."""


def run(case: Prepared, policy: Policy, start: int = 0) -> Outcome:
    """The whole stream under a policy that sets the slack at each tick."""
    data = case.data
    order, join = SlackOrder(data.streams), Counting(data)
    slack, slacks, marks, held = start, [], [], []
    times, counts, waits = [], [], []
    for tick, (low, high) in enumerate(pairwise(case.cuts)):
        rows = order.advance(
            data.stream[low:high], data.time[low:high], np.arange(low, high), [slack] * data.streams
        )
        done = join.receive(rows)
        some = done.joined > 0
        times.append(rows.time[some])
        counts.append(done.joined[some])
        waits.append(data.arrival[rows.at[some]] - rows.time[some])
        marks.append(join.now)
        slacks.append(slack)
        held.append(order.buffered)
        slack = policy(tick, slack, done, join.now)
    count = np.concatenate(counts)
    late = float((np.concatenate(waits) * count.astype(np.float64)).sum())
    found = recall_at(np.concatenate(times), count, data.time, case.true, np.array(marks), PERIOD)
    judged = ~np.isnan(found) & (case.ticks > data.arrival[0] + PERIOD)
    return Outcome(
        late / max(1, count.sum()) / SECOND,
        float(np.mean(slacks)) / SECOND,
        found[judged],
        float(np.mean(held)),
    )


def by_model(case: Prepared, target: RecallTarget, micros: list[float]) -> Policy:
    """The source's ways: recall model with one or the other selectivity, or the controller."""
    state, profile = JoinSlack(target), Profile(GRAIN)

    def policy(tick: int, slack: int, done: Probed, now: int) -> int:
        profile.record(done.rows.delay, done.in_order, done.cross, done.joined)
        if not profile.rows:
            return slack
        recent, ever = case.largest[tick]
        largest = ever if target.method == "controller" else recent
        began = time.process_time()
        chosen = state.adapt(case.known[tick], largest, profile.close(), int(done.joined.sum()))
        micros.append((time.process_time() - began) * 1e6)
        return chosen

    return policy


def by_lateness(case: Prepared, target: RecallTarget, micros: list[float]) -> Policy:
    """Ours: from the measured lateness of results."""
    state = MeasuredSlack.fresh(target)
    before, passed = int(case.clock[0]), case.lateness.first

    def policy(tick: int, slack: int, done: Probed, now: int) -> int:
        nonlocal before, passed
        clock = int(case.clock[case.cuts[tick + 1] - 1])
        if clock <= START // 2:
            return slack
        case.lateness.feed(state.lateness, clock, max(before, case.lateness.first * INTERVAL))
        before = clock
        for key in range(passed, now // INTERVAL):
            if key in state.lateness.found:
                state.lateness.made[key] = case.lateness.left(key, slack)
        passed = max(passed, now // INTERVAL)
        began = time.process_time()
        chosen = state.adapt(clock, now, case.largest[tick][1])
        micros.append((time.process_time() - began) * 1e6)
        return chosen

    return policy


def largest_delay(case: Prepared) -> Policy:
    """The largest delay seen so far."""
    return lambda tick, slack, done, now: case.largest[tick][1]


def fixed(slack: int) -> Policy:
    """Always the same."""
    return lambda tick, before, done, now: slack


METHODS: tuple[tuple[str, Method | None], ...] = (
    ("measured (ours)", None), ("model", "model"), ("equal", "equal"), ("controller", "controller"),
)  # fmt: skip


def results(case: Prepared, targets: tuple[float, ...] = TARGETS) -> Iterator[dict[str, Any]]:
    """A line per method and target."""
    baseline = run(case, largest_delay(case))
    yield _line(case, "none", None, run(case, fixed(0)), baseline)
    yield _line(case, "max delay", None, baseline, baseline)
    for target in targets:
        for label, method in METHODS:
            micros: list[float] = []
            asked = RecallTarget(target, PERIOD, INTERVAL, GRAIN, method or "model")
            make = by_lateness if method is None else by_model
            outcome = run(case, make(case, asked, micros))
            outcome.micros = micros
            yield _line(case, label, target, outcome, baseline)


def _line(
    case: Prepared, method: str, target: float | None, outcome: Outcome, baseline: Outcome
) -> dict[str, Any]:
    key: Any = target if target is not None else method.split()[0]
    return {
        "data": case.data.name,
        "method": method,
        "target": target,
        "latency": outcome.latency,
        "against_max": 1 - outcome.latency / baseline.latency,
        "slack": outcome.slack,
        "recall": float(np.mean(outcome.recall)),
        "least": float(np.min(outcome.recall)),
        "kept": None if target is None else outcome.kept(target),
        "kept99": None if target is None else outcome.kept(0.99 * target),
        "buffered": outcome.buffered,
        "micros": float(np.mean(outcome.micros)) if outcome.micros else None,
        "source": SOURCE.get((case.data.name, key), "") if method in ("none", "max delay", "model") else "",
    }  # fmt: skip


def frontier(case: Prepared, target: float) -> list[dict[str, Any]]:
    """The hard case: what each latency can buy, with hindsight (fixed slack) and without."""
    lines = []
    for slack in (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0):
        outcome = run(case, fixed(int(slack * SECOND)))
        lines.append({"how": f"fixed, {slack:g} s", **_point(outcome, target)})
    for aim in (0.985, 0.99, 0.993, 0.996):
        asked = RecallTarget(aim, PERIOD, INTERVAL, GRAIN)
        outcome = run(case, by_lateness(case, asked, []))
        lines.append({"how": f"measured, asked for {aim:g}", **_point(outcome, target)})
    return lines


def at_once(case: Prepared, targets: tuple[float, ...] = TARGETS) -> list[dict[str, Any]]:
    """Results that leave at once, of the first two streams: recall, and what is kept for it."""
    data = two(case.data)
    ticks = np.searchsorted(data.arrival, case.ticks)
    cuts = np.concatenate([[0], ticks])
    true = truth(data)
    most = run_at_once(data, cuts, lambda tick: case.largest[tick][1])
    lines = []

    def line(how: str, target: float, outcome: Kept) -> None:
        recall = outcome.recall(data, true, PERIOD)
        lines.append(
            {
                "data": data.name,
                "target": target,
                "method": how,
                "slack": outcome.slack,
                "held": outcome.held,
                "against_max": 1 - outcome.held / most.held,
                "latency": outcome.latency,
                "recall": float(np.mean(recall)),
                "kept": float(np.mean(recall >= target)),
                "kept99": float(np.mean(recall >= 0.99 * target)),
            }
        )

    for target in targets:
        asked = RecallTarget(target, PERIOD, INTERVAL, GRAIN, "equal", "immediate")

        def chosen(tick: int, asked: RecallTarget = asked) -> int:
            streams = [
                replace(s, sync=0, rows=int(s.counts.sum()) / max(1, tick + 1) * asked.intervals)
                for s in case.known[tick][:2]
            ]
            largest = max((len(s.counts) - 1) * s.granularity for s in streams)
            return modelled_slack(asked, streams, largest, (tick + 1) * INTERVAL).slack

        line("model", target, run_at_once(data, cuts, chosen))
        line("no slack", target, run_at_once(data, cuts, lambda tick: 0))
        line("max delay", target, most)
    return lines


def at_once_table(lines: list[dict[str, Any]]) -> Table:
    """State against recall."""
    head = ("data", "recall asked", "slack", "rows held", "below max delay", "mean slack", "recall", "Phi", "Phi(.99)", "latency")  # fmt: skip
    return head, [
        [
            r["data"],
            f"{r['target']:g}",
            r["method"],
            f"{r['held']:,.0f}",
            f"{r['against_max']:.1%}",
            f"{r['slack']:.2f} s",
            f"{r['recall']:.4f}",
            f"{r['kept']:.3f}",
            f"{r['kept99']:.3f}",
            f"{r['latency']:.2f} s",
        ]
        for r in lines
    ]


def _point(outcome: Outcome, target: float) -> dict[str, float]:
    return {
        "latency": outcome.latency,
        "recall": float(np.mean(outcome.recall)),
        "kept": outcome.kept(target),
        "kept99": outcome.kept(0.99 * target),
    }


# ---- the report ----


def table(lines: list[dict[str, Any]]) -> Table:
    """All runs."""
    head = (
        "data", "recall asked", "method", "latency", "below max delay", "slack", "recall", "least", "Phi", "Phi(.99)",
        "adaptation", "the source",
    )  # fmt: skip
    return head, [
        [
            str(r["data"]),
            "-" if r["target"] is None else f"{r['target']:g}",
            r["method"],
            f"{r['latency']:.2f} s",
            f"{r['against_max']:.1%}",
            f"{r['slack']:.2f} s",
            f"{r['recall']:.4f}",
            f"{r['least']:.4f}",
            "-" if r["kept"] is None else f"{r['kept']:.3f}",
            "-" if r["kept99"] is None else f"{r['kept99']:.3f}",
            "-" if r["micros"] is None else f"{r['micros'] / 1000:.2f} ms",
            r["source"],
        ]
        for r in lines
    ]


def frontier_table(lines: list[dict[str, Any]]) -> Table:
    """Promise against latency."""
    return ("slack", "latency", "recall", "Phi", "Phi(.99)"), [
        [r["how"], f"{r['latency']:.2f} s", f"{r['recall']:.4f}", f"{r['kept']:.3f}", f"{r['kept99']:.3f}"]
        for r in lines
    ]  # fmt: skip


def disorder_table(cases: list[JoinData]) -> Table:
    """What the streams are like."""
    head = ("stream", "rows", "rows/s", "late", "of these after a late one", "delay p99", "largest")
    return head, [
        [
            f"{data.name} {i}",
            f"{s['rows']:,.0f}",
            f"{s['rate']:.0f}",
            f"{s['late']:.1%}",
            f"{s['correlated']:.1%}",
            f"{s['p99']:.2f} s",
            f"{s['max']:.2f} s",
        ]
        for data in cases
        for i, s in enumerate(statistics(data))
    ]


def main(options: argparse.Namespace | None = None) -> None:
    """Run what was asked for and write it down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality_joins", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two minutes of each stream")
    parser.add_argument("--data", default=",".join(GENERATORS), help="names, e.g. x3,x4")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="benchmarks/results/quality_joins.json")
    asked = options or parser.parse_args()
    names = [n for n in asked.data.split(",") if n]
    lines: list[dict[str, Any]] = []
    hard: list[dict[str, Any]] = []
    immediate: list[dict[str, Any]] = []
    seen = []
    for name in names:
        data = GENERATORS[name](asked.seed, 150 if asked.quick else SECONDS[name])
        case = prepared(data, SHARES[name])
        seen.append(data)
        lines += results(case)
        print(plain(*table([r for r in lines if r["data"] == name])), flush=True)
        if name == "x3" and not asked.quick:
            hard = frontier(case, 0.99)
            print(plain(*frontier_table(hard)), flush=True)
        if name in ("x2", "x3"):
            immediate += at_once(case)
            print(plain(*at_once_table(immediate)), flush=True)
    found = {
        "seed": asked.seed,
        "quick": asked.quick,
        "runs": lines,
        "frontier": hard,
        "immediate": immediate,
    }
    if not asked.quick:
        Path(asked.out).write_text(json.dumps(found, indent=1) + "\n")
    print(markdown(*disorder_table(seen)))


if __name__ == "__main__":
    main()
