"""Slack buffers against a heap, row by row; chains against one buffer."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulations.slack_buffer import delays, release, residual
from benchmarks.simulations.slack_chain import Chain
from slackwater.semantics.limits import START

TIMES = st.lists(st.integers(-20, 60), max_size=30)


class Heap:
    """The definition: look when the clock advances, let go what is old enough, in order of time."""

    def __init__(self, slack: int):
        self.slack = slack
        self.clock = START
        self.heap: list[tuple[int, int]] = []

    def arrive(self, time: int, row: int) -> list[int]:
        heapq.heappush(self.heap, (time, row))
        if time <= self.clock:
            return []
        self.clock = time
        out = []
        while self.heap and self.heap[0][0] + self.slack <= self.clock:
            out.append(heapq.heappop(self.heap)[1])
        return out


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


def test_the_example_of_seven_rows() -> None:
    heap, times = Heap(1), [1, 4, 3, 5, 7, 8, 6]
    steps = [heap.arrive(t, i) for i, t in enumerate(times)]
    assert steps == [[], [0], [], [2, 1], [3], [4], []]
    found = release(ints([]), ints(times), 1)
    assert [np.flatnonzero(found.at == i).tolist() for i in range(7)] == [
        [], [0], [], [1, 2], [3], [4], [],
    ]  # fmt: skip
    assert found.order.tolist() == [0, 2, 1, 3, 4]
    assert found.stays.tolist() == [5, 6]
    late = delays(ints(times))
    assert late.tolist() == [0, 0, 1, 0, 0, 0, 2]
    assert residual(late, 1).tolist() == [0, 0, 0, 0, 0, 0, 1]


@given(TIMES, st.integers(0, 25), st.lists(st.integers(0, 30), max_size=3))
def test_batches_of_any_cut_give_what_a_heap_gives(
    times: list[int], slack: int, cuts: list[int]
) -> None:
    heap = Heap(slack)
    expected = [r for i, t in enumerate(times) for r in heap.arrive(t, i)]
    held, numbers, clock = ints([]), ints([]), START
    out: list[int] = []
    edges = sorted({0, len(times), *(c for c in cuts if c < len(times))})
    for low, high in pairwise(edges):
        rows = np.concatenate([numbers, np.arange(low, high)])
        all_times = np.concatenate([held, ints(times[low:high])])
        found = release(held, ints(times[low:high]), slack, clock)
        out += rows[found.order].tolist()
        held, numbers, clock = all_times[found.stays], rows[found.stays], found.clock
    assert out == expected
    assert sorted(numbers.tolist()) == sorted(r for _, r in heap.heap)


@given(TIMES, st.integers(0, 25))
def test_what_slack_repairs(times: list[int], slack: int) -> None:
    ts, late = ints(times), delays(ints(times))
    found = release(ints([]), ts, slack)
    rows = found.order
    # Behind the buffer a row is out of order by no more than its delay exceeds the slack.
    assert (delays(ts[rows]) <= residual(late, slack)[rows]).all()
    if slack >= (late.max() if len(late) else 0):
        assert ts[rows].tolist() == sorted(ts[rows].tolist())
    if slack == 0 and len(times):
        # Only what came since the clock last advanced is still there.
        assert (found.stays > found.at.max()).all()


@given(st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=8), st.integers(0, 12))
def test_what_is_left_of_a_delay_where_the_clock_has_no_gaps(
    late_rows: list[tuple[int, int]], slack: int
) -> None:
    times = list(range(-45, 0))
    for now in range(30):
        times.append(now)
        times += [now - by for at, by in late_rows if at == now]
    times += range(30, 45)
    ts = ints(times)
    found = release(ints([]), ts, slack)
    left = residual(delays(ts), slack)
    assert delays(ts[found.order]).tolist() == left[found.order].tolist()


@given(TIMES, st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_a_chain_is_one_buffer_of_the_sum(times: list[int], sizes: list[int]) -> None:
    """One chain after the other, each in front of the next, by the stream's clock."""
    levels = np.cumsum(sizes).tolist()
    chains = [
        Chain({"next": level}, above) for level, above in zip(levels, [0, *levels], strict=False)
    ]
    heap, clock = Heap(levels[-1]), START
    for row, t in enumerate(times):
        advance = t > clock
        clock = max(clock, t)
        rows = ints([row])
        for chain in chains:
            stamps = ints([times[r] for r in rows])
            parts = [chain.insert(stamps, rows)] + ([chain.advance(clock)] if advance else [])
            moved = [r for p in parts for r in p.get("next", [])]
            rows = ints(sorted(moved, key=lambda r: (times[r], r)))
        expected = heap.arrive(t, row) if levels[-1] else [row]
        assert rows.tolist() == expected
    assert sum(c.held for c in chains) == (len(heap.heap) if levels[-1] else 0)


@given(TIMES, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), max_size=4))
def test_slack_changes_without_loss_or_repeat(
    times: list[int], changes: list[tuple[int, int]]
) -> None:
    at, slack = dict(changes), 5
    held, numbers, clock = ints([]), ints([]), START
    out: list[int] = []
    for row, t in enumerate(times):
        slack = at.get(row, slack)
        rows, stamps = np.append(numbers, row), np.append(held, t)
        found = release(held, ints([t]), slack, clock)
        out += rows[found.order].tolist()
        rose = found.clock > clock
        held, numbers, clock = stamps[found.stays], rows[found.stays], found.clock
        assert not rose or (held + slack > clock).all()
    assert sorted(out + numbers.tolist()) == list(range(len(times)))
