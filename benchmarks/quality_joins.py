"""Joins under targets for recall: what is kept of the promise, and what it costs in latency.

``python -m benchmarks.quality_joins`` runs whole streams through the join behind slack buffers, without Spark and row
for row (see ``quality_join_run``). Latency is in stream time: the clock when a result leaves, less its time. Recall is
sampled right before each adaptation, over the last minute of what the join has reached; the first minute is left out.

Whatever the methods' constants are, they were chosen on seed 11; the seeds here are others.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

import numpy as np

from benchmarks.quality_fixed import CHOICES, TRAINING, careful, native_join
from benchmarks.quality_join_data import GENERATORS, MS, SECOND, Floats, Ints, JoinData, statistics
from benchmarks.quality_join_immediate import at_once
from benchmarks.quality_join_lateness import Lateness, sampled, slowest
from benchmarks.quality_join_run import Counting, Probed, recall_at, truth
from benchmarks.quality_kept import Kept
from benchmarks.record import say
from benchmarks.simulations.join_order import SlackOrder
from benchmarks.simulations.join_profile import Profile
from benchmarks.simulations.join_slack import JoinSlack
from benchmarks.tables import Table, plain
from slackwater.semantics.limits import START
from slackwater.semantics.quality.join_measured import MeasuredSlack
from slackwater.semantics.quality.join_slack import Method, RecallTarget
from slackwater.semantics.quality.recall import StreamDelays
from slackwater.semantics.quality.statistics import StreamStatistics

PERIOD, INTERVAL, GRAIN = 60 * SECOND, SECOND, 10 * MS
TARGETS = (0.9, 0.95, 0.99)
SHARES = {"x2": 1.0, "x3": 1.0, "x4": 0.25, "shift": 1.0}
"""Sampled rows per data set: those of x4 are dear."""

SECONDS = {"x2": 300, "x3": 600, "x4": 600, "shift": 900}
QUICK = 200
WANTED = 0.97
SOURCE: dict[tuple[str, str, float | None], str] = {
    ("x2", "model", 0.99): "Phi(.99) at least 0.97, 1.08 s of 20.8 s",
    ("x2", "none", None): "recall about 0.5, 0.31 s",
    ("x2", "max delay", None): "recall 1.0, 20.86 s",
    ("x3", "none", None): "1.4 s",
    ("x3", "max delay", None): "recall 0.999, 21.43 s",
    ("x4", "none", None): "recall about 0.8, 1.18 s",
    ("x4", "max delay", None): "recall 0.999, 15.1 s",
    ("x3", "controller", 0.95): "Phi(.99) 0.454",
    ("x4", "controller", 0.95): "Phi(.99) 0.543",
    **{(x, "model", t): "Phi(.99) at least 0.97" for x in ("x3", "x4") for t in (0.95, 0.99)},
}
"""What the source prints of the same case, by data set, method and target; the data of x2 are others."""


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
    buffered: float | None = None
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
            if key in state.lateness.by_bin:
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


def training(case: Prepared) -> dict[str, list[int]]:
    """Delays by stream that a careful user would choose after the first minute."""
    data = case.data
    first = data.arrival < data.arrival[0] + TRAINING
    own = []
    for i in range(data.streams):
        times = data.time[first & (data.stream == i)]
        own.append(careful(np.maximum.accumulate(times) - times))
    return {choice: [d[choice] for d in own] for choice in CHOICES}


def native(case: Prepared, delay: list[int]) -> Outcome:
    """Spark's watermark as it is, at the same samples."""
    data = case.data
    found = native_join(data, delay)
    count = found.joined.astype(np.float64)
    late = float(((found.leaves - data.time) * count).sum())
    # What has left by each sample: up to the watermark of the last batch before it.
    at = np.searchsorted(data.arrival[found.starts[1:] - 1], case.ticks) - 1
    marks = found.reached[np.maximum(at, 0)] - 1
    recall = recall_at(data.time, found.joined, data.time, case.true, marks, PERIOD)
    judged = ~np.isnan(recall) & (case.ticks > data.arrival[0] + PERIOD)
    return Outcome(late / max(1.0, count.sum()) / SECOND, max(delay) / SECOND, recall[judged])


METHODS: tuple[tuple[str, Method | None], ...] = (
    ("ours", None), ("model", "model"), ("equal", "equal"), ("controller", "controller"),
)  # fmt: skip


def results(case: Prepared, targets: tuple[float, ...] = TARGETS) -> Iterator[dict[str, Any]]:
    """A line per method and target."""
    baseline = run(case, largest_delay(case))
    yield _line(case, "none", None, run(case, fixed(0)), baseline)
    for choice, delay in training(case).items():
        yield _line(case, f"native, {choice}", None, native(case, delay), baseline)
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
        "kept_all": {str(t): outcome.kept(0.99 * t) for t in TARGETS},
        "buffered": outcome.buffered,
        "micros": float(np.mean(outcome.micros)) if outcome.micros else None,
        "source": SOURCE.get((case.data.name, method, target), ""),
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


def _point(outcome: Outcome, target: float) -> dict[str, float]:
    return {
        "latency": outcome.latency,
        "recall": float(np.mean(outcome.recall)),
        "kept": outcome.kept(target),
        "kept99": outcome.kept(0.99 * target),
    }


def measured(names: Sequence[str], seed: int, *, quick: bool) -> dict[str, Any]:
    """All runs of the named data sets, and what their streams are like."""
    asked = [RecallTarget(t, PERIOD, INTERVAL, GRAIN, "equal", "immediate") for t in TARGETS]
    runs: list[dict[str, Any]] = []
    hard: list[dict[str, Any]] = []
    immediate: list[dict[str, Any]] = []
    seen = {}
    for name in names:
        data = GENERATORS[name](seed, QUICK if quick else SECONDS[name])
        case = prepared(data, SHARES[name])
        seen[name] = statistics(data)
        mine = list(results(case))
        runs += mine
        say(f"joins over {name}")
        print(plain(*table(mine)), flush=True)
        if name == "x3":
            hard = frontier(case, 0.99)
        if data.kind != "star":
            immediate += at_once(data, case.ticks, case.known, [m for _, m in case.largest], asked)
    return {"seed": seed, "data": seen, "runs": runs, "frontier": hard, "immediate": immediate}


def again(names: Sequence[str], seed: int, kept: Kept) -> list[dict[str, Any]]:
    """Our lines alone, beside the largest delay."""
    made: dict[str, Prepared] = {}
    runs = []
    for name, target in product(names, TARGETS):

        def measure(name: str = name, target: float = target) -> dict[str, Any]:
            if name not in made:
                made[name] = prepared(GENERATORS[name](seed, SECONDS[name]), SHARES[name])
            case = made[name]
            outcome = run(
                case, by_lateness(case, RecallTarget(target, PERIOD, INTERVAL, GRAIN), [])
            )
            return _line(case, "ours", target, outcome, run(case, largest_delay(case)))

        found = kept.run({"joins": name, "target": target}, measure)
        runs += [] if found is None else [found]
    return runs


def table(lines: list[dict[str, Any]]) -> Table:
    """All runs of a data set, for the terminal."""
    head = ("data", "asked", "way", "latency", "below max delay", "recall", "least", "Phi(.99)")
    return head, [
        [
            r["data"],
            r["target"] or "-",
            r["method"],
            f"{r['latency']:.2f} s",
            f"{r['against_max']:.1%}",
            f"{r['recall']:.4f}",
            f"{r['least']:.4f}",
            "-" if r["kept99"] is None else f"{r['kept99']:.3f}",
        ]
        for r in lines
    ]


def main() -> None:
    """Run what was asked for and print it; ``python -m benchmarks quality`` writes it down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality_joins", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two minutes of each stream")
    parser.add_argument("--data", default=",".join(GENERATORS), help="names, e.g. x3,x4")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    measured(asked.data.split(","), asked.seed, quick=asked.quick)


if __name__ == "__main__":
    main()
