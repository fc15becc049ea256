"""Buffers are changed while rows are in them: every row reaches every consumer once, and in its time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulations.placements import greedy, naive
from benchmarks.simulations.slack_chain import Chain, Reuse
from benchmarks.simulations.slack_subplan import Subplan
from slackwater.semantics.limits import END
from slackwater.semantics.slack.placement import Placement, memory, optimal, unshared
from slackwater.semantics.slack.tree import Consumer, Stage, stages, with_slack
from tests.examples import examples
from tests.semantics.test_slack_placement import random_tree, two_branches

WAYS: list[Callable[[Stage], Placement]] = [optimal, greedy, naive, unshared]


def passes(name: str, rows: np.ndarray) -> np.ndarray:
    """Some rows pass a filter, by a rule that every process computes alike."""
    salt = sum(name.encode()) * 37
    return (rows * 2654435761 + salt) % 97 < 60


def reached_by(tree: Stage, rows: int) -> dict[str, set[int]]:
    """Which rows a consumer must get, from the filters above it."""
    found: dict[str, set[int]] = {}

    def visit(stage: Stage, left: np.ndarray) -> None:
        if stage.selectivity is not None:
            left = left[passes(stage.name, left)]
        for c in stage.children:
            if isinstance(c, Consumer):
                found[c.name] = set(left.tolist())
            else:
                visit(c, left)

    visit(tree, np.arange(rows))
    return found


class Watch:
    """Feeds a subplan and notes for each consumer what came when, and what the slack was then."""

    def __init__(self, tree: Stage, way: Callable[[Stage], Placement]):
        self.tree = tree
        self.plan = Subplan(tree, way(tree), passes)
        self.got: dict[str, list[int]] = {c.name: [] for c in tree.consumers}

    def take(self, deliveries: dict[str, np.ndarray], early: bool = False) -> None:
        slack = {c.name: c.slack for c in self.plan.tree.consumers}
        for name, rows in deliveries.items():
            self.got[name] += rows.tolist()
            times = self.plan.times[rows]
            assert (np.diff(times) >= 0).all()
            if not early:
                assert (times + slack[name] <= self.plan.clock).all(), "before its time"

    def arrive(self, time: int) -> None:
        rises = time > self.plan.clock
        self.take(self.plan.arrive(time))
        if rises:
            # Nothing that is old enough stays behind when the clock has advanced.
            slack = {c.name: c.slack for c in self.plan.tree.consumers}
            must = reached_by(self.plan.tree, len(self.plan.times))
            for name, rows in must.items():
                due = {r for r in rows if self.plan.times[r] + slack[name] <= self.plan.clock}
                assert due <= set(self.got[name]), "too late"

    def change(self, slack: dict[str, int], way: Callable[[Stage], Placement], reuse: Reuse | None):
        tree = with_slack(self.plan.tree, slack)
        deliveries, _ = self.plan.change(tree, way(tree), reuse)
        self.take(deliveries)

    def finish(self) -> None:
        self.take(self.plan.arrive(END // 2), early=True)
        must = reached_by(self.plan.tree, len(self.plan.times) - 1)
        last = len(self.plan.times) - 1
        for name, rows in self.got.items():
            counted = Counter(r for r in rows if r != last)
            assert counted == Counter(must[name]), name


EVENTS = st.lists(
    st.one_of(
        st.integers(0, 40),
        st.tuples(st.lists(st.integers(0, 6), max_size=3), st.sampled_from(range(4)),
                  st.sampled_from(["smart", "tail", None])),
    ),
    max_size=40,
)  # fmt: skip


@examples(75)
@given(st.integers(0, 10_000), EVENTS)
def test_each_row_reaches_each_consumer_once_over_any_changes(seed: int, events: list) -> None:
    rng = random.Random(seed)
    watch = Watch(random_tree(rng, rng.randint(0, 4)), rng.choice(WAYS))
    names = [c.name for c in watch.tree.consumers]
    for event in events:
        if isinstance(event, int):
            watch.arrive(event)
        else:
            sizes, way, reuse = event
            chosen = rng.sample(names, min(len(names), len(sizes)))
            watch.change(dict(zip(chosen, sizes, strict=False)), WAYS[way], reuse)
    watch.finish()


@examples(30)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 40), max_size=40))
def test_a_placement_does_not_show_in_what_a_consumer_gets(seed: int, times: list[int]) -> None:
    """All placements deliver the same rows at the same moments: those of one buffer per consumer."""
    rng = random.Random(seed)
    tree = random_tree(rng, rng.randint(0, 4))
    plans = [Subplan(tree, way(tree), passes) for way in WAYS]
    for t in times:
        first, *others = [
            {name: rows.tolist() for name, rows in p.arrive(t).items()} for p in plans
        ]
        assert all(o == first for o in others)


def fig() -> tuple[Chain, dict[str, list[int]]]:
    """Rows 1..4 have gone in; two buffers, of 2 for v2 and v3 and of one more for v4."""
    chain = Chain({"v2": 2, "v3": 2, "v4": 3})
    got: dict[str, list[int]] = {c: [] for c in chain.slack}
    for t in (1, 2, 3, 4):
        note(got, chain.insert(np.array([t]), np.array([t])))
        note(got, chain.advance(t))
    return chain, got


def note(got: dict[str, list[int]], deliveries: dict[str, np.ndarray]) -> None:
    for name, rows in deliveries.items():
        got[name] += rows.tolist()


def test_two_children_change_places() -> None:
    chain, got = fig()
    assert got == {"v2": [1, 2], "v3": [1, 2], "v4": [1]}
    assert sorted(zip(chain.rows.tolist(), chain.place.tolist(), strict=True)) == [
        (2, 1), (3, 0), (4, 0),
    ]  # fmt: skip
    done = chain.change({"v2": 2, "v3": 3, "v4": 2}, 0, 4)
    assert done.reuse == "smart"
    assert {c: r.tolist() for c, r in done.deliveries.items()} == {"v4": [2]}
    assert (done.copied, done.moved) == (1, 0)
    note(got, done.deliveries)
    # A new row of an old time: equal to one that v3 has, and yet another.
    note(got, chain.insert(np.array([2]), np.array([5])))
    for t in (5, 6, 7):
        note(got, chain.insert(np.array([t]), np.array([t + 1])))
        note(got, chain.advance(t))
    assert got == {"v2": [1, 2, 5, 3, 4, 6], "v3": [1, 2, 5, 3, 4], "v4": [1, 2, 5, 3, 4, 6]}


def test_a_child_that_moves_up_the_chain_to_wait_longer_needs_new_buffers() -> None:
    chain = Chain({"a": 1, "b": 3})
    for t in (1, 2, 3):
        chain.insert(np.array([t]), np.array([t]))
        chain.advance(t)
    # b now reads the first buffer, and waits for 4 instead of 3.
    done = chain.change({"a": 5, "b": 4}, 0, 3)
    assert done.reuse == "tail" and done.moved > 0 and done.copied == 0
    given = [chain.advance(t) for t in (4, 5, 6, 7, 8)]
    assert [d["b"].tolist() if "b" in d else [] for d in given] == [[], [1], [2], [3], []]
    # Rows 1 and 2 had reached a before it was told to wait.
    assert [d["a"].tolist() if "a" in d else [] for d in given] == [[], [], [], [], [3]]


def test_a_row_that_waits_overdue_is_not_taken_for_delivered() -> None:
    """Its time is older than what the child has, and still the child has not seen it."""
    chain = Chain({"a": 1, "b": 5})
    got: dict[str, list[int]] = {"a": [], "b": []}
    for row, t in enumerate((1, 9, 2)):
        note(got, chain.insert(np.array([t]), np.array([row])))
        if t != 2:
            note(got, chain.advance(t))
    assert got == {"a": [0], "b": [0]}
    note(got, chain.change({"a": 2, "b": 4}, 0, 9).deliveries)
    note(got, chain.advance(20))
    assert got == {"a": [0, 2, 1], "b": [0, 2, 1]}


def test_queries_come_and_go() -> None:
    chain, got = fig()
    got["new"] = []
    note(got, chain.change({"v2": 2, "new": 4}, 0, 4).deliveries)
    for t in (5, 6, 7, 8, 9):
        note(got, chain.insert(np.array([t]), np.array([t])))
        note(got, chain.advance(t))
    # The one that is gone gets no more, the new one what came after it was added.
    assert got["v4"] == [1] and got["v2"] == [1, 2, 3, 4, 5, 6, 7] and got["new"] == [5]
    chain.change({}, 0, 9)
    assert chain.held == 0 or chain.advance(100) == {}


@pytest.mark.parametrize("way", WAYS)
def test_the_memory_model_and_rows_counted_agree(way: Callable[[Stage], Placement]) -> None:
    """One row a tick, some late; the mean of what is held against rate times size."""
    rng = random.Random(7)
    size = 25
    tree = two_branches(0.5, 0.7, 0.6, 0.5)
    tree = with_slack(tree, {"Q3": 2 * size, "Q4": 4 * size, "Q5": size})
    shares = {"F6": 0.5, "F7": 0.7, "F8": 0.6, "F9": 0.5}
    drawn = {n: np.array([rng.random() < s for _ in range(2000)]) for n, s in shares.items()}
    plan = Subplan(tree, way(tree), lambda name, rows: drawn[name][rows])
    held = []
    for t in range(1200):
        plan.arrive(t)
        if t >= 300:
            held.append(plan.held)
    seen = {s.name: drawn[s.name][200:1200].mean() for s, _ in stages(tree) if s.selectivity}

    def measured(stage: Stage) -> Stage:
        children = tuple(measured(c) if isinstance(c, Stage) else c for c in stage.children)
        return Stage(stage.name, children, seen.get(stage.name))

    model = memory(measured(tree), way(tree))
    assert np.mean(held) == pytest.approx(model, rel=0.06)
