"""The harness for joins under quality targets: it counts what single rows would do, and keeps its promises on small data."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.quality_join_data import GENERATORS, SECOND, JoinData, statistics
from benchmarks.quality_join_immediate import run as run_at_once
from benchmarks.quality_join_immediate import two
from benchmarks.quality_join_lateness import sampled, shares, slowest
from benchmarks.quality_join_run import Counting, recall_at, truth
from benchmarks.quality_joins import (  # fmt: skip
    GRAIN,
    INTERVAL,
    by_lateness,
    largest_delay,
    prepared,
    run,
)
from benchmarks.simulations.join_order import SlackOrder
from slackwater.semantics.quality.join_slack import RecallTarget
from slackwater.semantics.quality.recall_lateness import EDGES
from slackwater.testing.oracle.slack import Arrived, Condition, SlackJoin, true_results


def condition(data: JoinData) -> Condition:
    """The join condition of a data set, from its description."""

    def holds(one: Sequence[Arrived]) -> bool:
        rows = [r.number for r in one]
        if data.kind == "same":
            return len({int(data.keys[0][r]) for r in rows}) == 1
        if data.kind == "star":
            return all(
                data.keys[k][rows[0]] == data.keys[0][rows[k + 1]] for k in range(len(rows) - 1)
            )
        apart = sum((int(axis[rows[0]]) - int(axis[rows[1]])) ** 2 for axis in data.keys)
        return apart < data.reach**2

    return holds


def small(seed: int) -> JoinData:
    rng = random.Random(seed)
    kind = rng.choice(["same", "star", "near"])
    streams = {"same": rng.choice([2, 3]), "star": rng.choice([3, 4]), "near": 2}[kind]
    n = rng.randint(1, 24 if streams == 4 else 36)
    column = lambda most: np.array([rng.randrange(most) for _ in range(n)])  # noqa: E731
    times = np.array([max(0, i // 2 - rng.choice([0, 0, 0, 1, 3, 9])) for i in range(n)])
    attributes = {"same": 1, "star": streams - 1, "near": 2}[kind]
    return JoinData(
        "small",
        kind,  # type: ignore[arg-type]
        tuple(rng.randint(0, 6) for _ in range(streams)),
        column(streams),
        times,
        np.arange(n),
        tuple(column(3 if kind == "near" else 2) for _ in range(attributes)),
        reach=2,
    )


@pytest.mark.parametrize("seed", range(40))
def test_counts_equal_those_of_single_rows(seed: int) -> None:
    data, rng = small(seed), random.Random(seed)
    streams = data.streams
    oracle = SlackJoin(data.windows, condition(data))
    order, join = SlackOrder(streams), Counting(data)
    cuts = sorted({0, len(data), *(rng.randrange(len(data) + 1) for _ in range(4))})
    got, want = [], []
    for low, high in pairwise(cuts):
        slack = rng.randint(0, 6)
        oracle.set_slack(slack)
        for at in range(low, high):
            want += oracle.feed(int(data.stream[at]), int(data.time[at]))
        part = slice(low, high)
        rows = order.advance(data.stream[part], data.time[part], np.arange(low, high), [slack] * streams)  # fmt: skip
        got.append(join.receive(rows))
    want += oracle.flush()
    got.append(join.receive(order.flush()))
    assert [
        row
        for g in got
        for row in zip(
            g.rows.number.tolist(), g.in_order.tolist(), g.cross.tolist(), g.joined.tolist(), strict=True
        )
    ] == [(d.row.number, d.in_order, d.cross, len(d.results)) for d in want]  # fmt: skip
    arrived = [Arrived(int(s), int(t), n) for n, (s, t) in enumerate(zip(data.stream, data.time, strict=True))]  # fmt: skip
    assert truth(data, 7).sum() == len(true_results(arrived, data.windows, condition(data)))


@pytest.mark.spec("QD-H1")
def test_the_generators_have_the_disorder_they_are_known_for() -> None:
    x3 = statistics(GENERATORS["x3"](2, 200))
    assert [round(s["late"], 1) for s in x3] == [0.4, 0.2, 0.2]
    # Zipf exponents 3, 3, 3 and 4: the share of delays above zero is 1 - 1/zeta.
    x4 = statistics(GENERATORS["x4"](2, 200))
    assert [s["late"] for s in x4] == pytest.approx([0.168, 0.168, 0.168, 0.076], abs=0.01)
    x2 = statistics(GENERATORS["x2"](2, 200))
    assert all(0.5 < s["late"] < 0.6 and s["correlated"] > 0.8 for s in x2)


@pytest.mark.parametrize("name", ["x2", "x3", "x4"])
def test_lateness_foretells_the_recall_of_a_fixed_slack(name: str) -> None:
    data = GENERATORS[name](3, {"x2": 15, "x3": 60, "x4": 30}[name])
    share = shares(sampled(data, INTERVAL, GRAIN, 0.1, 0))
    true = truth(data).sum()
    for slack in (SECOND // 5, SECOND):
        order, join = SlackOrder(data.streams), Counting(data)
        made = 0
        # Pieces, so that counts by probe and value stay small.
        for low in range(0, len(data), 1000):
            part = slice(low, low + 1000)
            numbers = np.arange(len(data))[part]
            rows = order.advance(data.stream[part], data.time[part], numbers, [slack] * data.streams)  # fmt: skip
            made += join.receive(rows).joined.sum()
        made += join.receive(order.flush()).joined.sum()
        at = int(np.searchsorted(EDGES * GRAIN, slack, side="right")) - 1
        assert share[at] == pytest.approx(made / true, abs=0.03)


@pytest.mark.spec("QD-H2", "QD-H7")
def test_recall_is_that_of_the_period_up_to_each_sample() -> None:
    found = recall_at(
        np.array([5, 15, 25]), np.array([1, 2, 3]), np.array([5, 15, 25]), np.array([2, 2, 4]),
        np.array([4, 15, 25]), 10,
    )  # fmt: skip
    assert np.isnan(found[0])
    assert found[1:].tolist() == [1.0, 0.75]


@pytest.mark.spec("QD-H5")
def test_measured_slack_keeps_its_promise_at_a_fraction_of_the_largest_delay() -> None:
    case = prepared(GENERATORS["x3"](5, 130), 1.0)
    micros: list[float] = []
    target = RecallTarget(0.95, 60 * SECOND, INTERVAL, GRAIN)
    outcome = run(case, by_lateness(case, target, micros))
    # One adaptation a second, the first ones before a row has come.
    assert 120 < len(micros) <= len(case.ticks) and 0 < np.mean(micros) < 1e6
    most = run(case, largest_delay(case))
    assert outcome.kept(0.99 * 0.95) >= 0.97
    assert outcome.latency < 0.5 * most.latency
    assert most.kept(0.99) == 1.0


def test_the_slowest_stream_sets_the_clock() -> None:
    data = JoinData("t", "same", (5, 5), np.array([0, 1, 0, 1]), np.array([3, 1, 9, 4]), np.arange(4), (np.zeros(4, np.int64),))  # fmt: skip
    assert slowest(data)[1:].tolist() == [1, 1, 4]
    table = sampled(data, 1, 1, 1.0, 0)
    assert table.counts.sum() == 3  # (3, 1), (3, 4), and (9, 4)


@pytest.mark.parametrize("seed", range(12))
def test_results_that_leave_at_once_are_counted_as_row_by_row(seed: int) -> None:
    rng = random.Random(seed)
    data = two(next(d for d in map(small, range(seed * 50, 10_000)) if d.kind != "star" and len(d) > 15))  # fmt: skip
    n = len(data)
    cuts = np.array(sorted({0, n, *(rng.randrange(n + 1) for _ in range(3))}))
    slacks = [rng.randint(0, 4) for _ in cuts]
    holds, slack, found = condition(data), 0, Counter[int]()
    held: list[list[int]] = [[], []]
    clock = [-100, -100]
    for tick, (low, high) in enumerate(pairwise(cuts.tolist())):
        for row in range(low, high):
            i, time = int(data.stream[row]), int(data.time[row])
            clock[i] = max(clock[i], time)
            held[1 - i] = [
                q for q in held[1 - i] if data.time[q] + data.windows[1 - i] >= clock[i] - slack
            ]
            for other in held[1 - i]:
                after = time - int(data.time[other])
                pair = sorted([(i, row), (1 - i, other)])
                if -data.windows[i] <= after <= data.windows[1 - i] and holds(
                    [Arrived(s, 0, r) for s, r in pair]
                ):
                    found[max(time, int(data.time[other]))] += 1
            held[i].append(row)
        # A tick's end, too, is a moment to give rows up.
        for i in (0, 1):
            held[i] = [q for q in held[i] if data.time[q] + data.windows[i] >= clock[1 - i] - slack]
        slack = slacks[tick]
    done = run_at_once(data, cuts, lambda tick: slacks[tick])
    counted = Counter[int]()
    for time, count in zip(done.times.tolist(), done.counts.tolist(), strict=True):
        counted[time] += count
    assert +counted == +found
