"""Recall models of joins: printed values, limits, and speed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.semantics.quality.model import smallest
from slackwater.semantics.quality.recall import (
    StreamDelays,
    immediate_recall,
    instant_requirement,
    kept_share,
    ordered_recall,
)
from tests.examples import examples

COUNTS = np.array([6, 2, 1, 1])
KS = np.arange(4)


def same(streams: int) -> list[StreamDelays]:
    return [StreamDelays(COUNTS, 1, 4)] * streams


def test_recall_of_two_and_three_equal_streams() -> None:
    assert ordered_recall(same(2), KS) == pytest.approx([0.495, 0.74, 0.8775, 1.0])
    assert ordered_recall(same(3), KS) == pytest.approx([0.408375, 0.6845, 0.8555625, 1.0])
    assert smallest(ordered_recall(same(2), KS), KS, 0.85) == 2


@pytest.mark.spec("QD-E10")
def test_the_next_target_makes_up_for_the_past_within_what_is_possible() -> None:
    needed = [instant_requirement(0.95, n, 1000, 50) for n in (940, 970, 1000)]
    assert needed == pytest.approx([1.0, 0.55, 0.0])
    assert instant_requirement(0.95, 10, 20, 0) == 0.95


def brute_recall(streams: list[StreamDelays], slack: int) -> float:
    """The model's sums as they are written down: piece by piece, delay by delay."""

    def reached(s: StreamDelays, limit: int) -> float:
        return sum(int(n) for d, n in enumerate(s.counts) if d <= limit) / int(s.counts.sum())

    def mass(s: StreamDelays) -> float:
        shift, total, age = (slack + s.sync) // s.granularity, 0.0, 0
        while age < s.window:
            length = min(s.granularity, s.window - age)
            total += length * reached(s, shift + age // s.granularity)
            age += length
        return total

    made = true = 0.0
    for i, s in enumerate(streams):
        others = [o for j, o in enumerate(streams) if j != i]
        first = reached(s, (slack + s.sync) // s.granularity)
        made += first * float(np.prod([mass(o) for o in others]))
        true += float(np.prod([o.window for o in others]))
    return made / true


known = st.builds(
    lambda counts, window, sync: StreamDelays(np.array(counts), 3, window, sync),
    st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any),
    st.integers(1, 20),
    st.integers(0, 8),
)


@pytest.mark.spec("QD-C5", "QD-C6")
@given(st.lists(known, min_size=2, max_size=4), st.lists(st.integers(0, 40), max_size=6))
@examples(30)
def test_all_candidates_at_once_are_those_one_by_one(streams: list[StreamDelays], slacks: list[int]) -> None:  # fmt: skip
    curve = ordered_recall(streams, np.array(sorted(slacks), np.int64))
    assert curve == pytest.approx([brute_recall(streams, k) for k in sorted(slacks)])
    assert (np.diff(curve) >= -1e-12).all()
    assert ordered_recall(streams, np.array([40]))[0] == pytest.approx(1.0)


@given(st.lists(known, min_size=2, max_size=3))
@examples(25)
def test_results_that_leave_at_once_need_less_slack(streams: list[StreamDelays]) -> None:
    slacks = np.arange(0, 40, 3)
    at_once = immediate_recall(streams, slacks)
    assert (np.diff(at_once) >= -1e-9).all()
    assert at_once[-1] == 1.0
    for i, s in enumerate(streams):
        # A row in order misses nothing, whatever the windows.
        assert kept_share(tuple(x.window for x in streams), i, 3, len(s.counts))[
            0
        ] == pytest.approx(1)


def test_what_a_late_row_still_finds_by_drawing_results_at_random() -> None:
    windows, rng = (40, 25, 10), np.random.default_rng(5)
    draws = 200_000
    times = rng.uniform(-60, 0, (draws, 3))
    newest = times.max(axis=1)
    inside = (times >= newest[:, None] - np.array(windows)).all(axis=1)
    times = times[inside & (newest > -10)]
    for i in range(3):
        model = kept_share(windows, i, 5, 8)
        others = [j for j in range(3) if j != i]
        # The row of stream i comes r after its slack: others must be joinable until its time plus r.
        end = np.min([times[:, j] + windows[j] for j in others], axis=0)
        drawn = [(end >= times[:, i] + 5 * r).mean() for r in range(8)]
        assert model == pytest.approx(drawn, abs=0.02)


def brute_immediate(seed: int, slack: int) -> tuple[float, float]:
    """Two streams row by row: the share of pairs found, and the model's word for it."""
    rng = np.random.default_rng(seed)
    n, windows = 600, (8, 8)
    sides = []
    for i in (0, 1):
        born = np.arange(n) * 1.0
        late = np.where(rng.random(n) < 0.3, rng.integers(1, 25, n), 0)
        order = np.argsort(born + late + rng.random(n) * 0.5 + i * 0.25, kind="stable")
        arrival = np.sort(born + late + rng.random(n) * 0.5 + i * 0.25)
        sides.append((born[order].astype(int), arrival))
    events = sorted(
        [(float(a), i, int(t)) for i, (times, at) in enumerate(sides) for t, a in zip(times, at, strict=True)]
    )  # fmt: skip
    clock: list[int] = [-100, -100]
    held: list[list[int]] = [[], []]
    found, delays = 0, [[], []]  # type: ignore[var-annotated]
    for _, i, t in events:
        clock[i] = max(clock[i], t)
        delays[i].append(clock[i] - t)
        other = held[1 - i]
        other[:] = [u for u in other if u + windows[1 - i] >= clock[i] - slack]
        found += sum(-windows[i] <= t - u <= windows[1 - i] for u in other)
        held[i].append(t)
    every = [t for t in sides[0][0] for u in sides[1][0] if -windows[0] <= t - u <= windows[1]]
    streams = [StreamDelays(np.bincount(d), 1, w) for d, w in zip(delays, windows, strict=True)]
    return found / len(every), float(immediate_recall(streams, np.array([slack]))[0])


@pytest.mark.parametrize("slack", [0, 3, 8, 16])
def test_the_model_of_immediate_joins_is_close_and_on_the_safe_side(slack: int) -> None:
    measured, model = brute_immediate(slack + 1, slack)
    assert model <= measured + 0.01
    assert model >= measured - 0.08
