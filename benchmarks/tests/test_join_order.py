"""Rows behind slack buffers: whole batches must do what one row after the other does."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulations.join_order import SlackOrder
from benchmarks.simulations.join_slack import common_slack
from slackwater.testing.oracle.slack import (
    Arrived,
    SlackBuffer,
    SlackJoin,
    SyncBuffer,
    true_results,
)
from tests.examples import examples

Events = list[tuple[int, int]]


@st.composite
def events(draw: st.DrawFn, most: int = 40) -> tuple[int, Events]:
    """Streams, and (stream, time) in order of arrival: time goes on, some rows are late."""
    streams = draw(st.integers(2, 4))
    step = st.tuples(
        st.integers(0, streams - 1), st.integers(0, 2), st.sampled_from([0, 0, 0, 1, 2, 5, 11])
    )
    now, out = 0, []
    for stream, ahead, late in draw(st.lists(step, max_size=most)):
        now += ahead
        out.append((stream, now - late))
    return streams, out


def arrays(rows: Events, low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    part = np.array(rows[low:high], np.int64).reshape(-1, 2)
    return part[:, 0], part[:, 1], np.arange(low, high)


def test_the_trace_of_one_buffer() -> None:
    buffer = SlackBuffer(1)
    out = [
        [r.number + 1 for r in buffer.arrive(Arrived(0, t, n))]
        for n, t in enumerate([1, 4, 3, 5, 7, 8, 6])
    ]
    assert out == [[], [1], [], [3, 2], [4], [5], []]
    assert [(r.number + 1, r.delay) for r in buffer.flush()] == [(7, 2), (6, 0)]


def test_the_trace_of_the_synchronising_buffer() -> None:
    rows = [(1, 3), (0, 5), (1, 7), (0, 4), (0, 9), (1, 6)]
    want = [[], [(1, 3)], [(0, 5)], [(0, 4)], [(1, 7)], [(1, 6)]]
    sync, order = SyncBuffer(2), SlackOrder(2)
    for n, ((stream, time), expected) in enumerate(zip(rows, want, strict=True)):
        out = sync.arrive(Arrived(stream, time, n))
        assert [(r.stream, r.time) for r in out] == expected
    assert sync.time == 7
    # The kernel's buffer behind no slack; each row reaches it when its own stream's time rises, or at the end.
    got = order.advance(*arrays(rows, 0, 6), [0, 0])
    assert list(zip(got.stream.tolist(), got.time.tolist(), strict=True)) == [(1, 3), (0, 5), (0, 4), (1, 7)]  # fmt: skip


@given(events(), st.data())
@examples(40)
def test_batches_equal_single_rows_while_slack_changes(case: tuple[int, Events], data: st.DataObject) -> None:  # fmt: skip
    streams, rows = case
    oracle, kernel = SlackJoin([5] * streams, lambda rows: True), SlackOrder(streams)
    cuts = sorted({0, len(rows), *data.draw(st.lists(st.integers(0, len(rows)), max_size=6))})
    got, want = [], []
    for low, high in pairwise(cuts):
        slack = data.draw(st.lists(st.integers(0, 8), min_size=streams, max_size=streams))
        oracle.set_slack(*slack)
        for stream, time in rows[low:high]:
            want += [(d.row.number, d.row.time, d.row.delay) for d in oracle.feed(stream, time)]
        out = kernel.advance(*arrays(rows, low, high), slack)
        got += list(zip(out.number.tolist(), out.time.tolist(), out.delay.tolist(), strict=True))
        assert got == want
        assert len(got) + kernel.buffered == high
    want += [(d.row.number, d.row.time, d.row.delay) for d in oracle.flush()]
    out = kernel.flush()
    got += list(zip(out.number.tolist(), out.time.tolist(), out.delay.tolist(), strict=True))
    assert got == want
    assert sorted(n for n, _, _ in got) == list(range(len(rows)))


@given(events(most=24), st.integers(0, 12), st.lists(st.integers(0, 6), min_size=4, max_size=4))
@examples(25)
def test_enough_slack_gives_all_results_in_order(case: tuple[int, Events], slack: int, windows: list[int]) -> None:  # fmt: skip
    streams, rows = case
    within = windows[:streams]
    condition = lambda one: sum(r.number for r in one) % 3 != 0  # noqa: E731
    join = SlackJoin(within, condition, slack)
    done = [d for stream, time in rows for d in join.feed(stream, time)] + join.flush()
    found = [tuple(r.number for r in one) for d in done for one in d.results]
    times = [max(r.time for r in one) for d in done for one in d.results]
    arrived = [Arrived(s, t, n) for n, (s, t) in enumerate(rows)]
    true = true_results(arrived, within, condition)
    assert times == sorted(times)
    assert len(set(found)) == len(found)
    assert set(found) <= true
    largest = max((d.row.delay for d in done), default=0)
    if slack >= largest:
        assert all(d.in_order for d in done)
        assert set(found) == true


@given(events(), st.lists(st.integers(0, 8), min_size=4, max_size=4))
@examples(40)
def test_one_slack_does_what_one_per_stream_does(case: tuple[int, Events], given_slacks: list[int]) -> None:  # fmt: skip
    """By the clocks: what each stream waits in all, for its slack and for the slowest, is the same either way."""
    streams, rows = case
    slacks = given_slacks[:streams]
    clocks: list[int | None] = [None] * streams
    for stream, time in rows:
        clocks[stream] = time if clocks[stream] is None else max(clocks[stream], time)  # type: ignore[type-var]
        if any(c is None for c in clocks):
            continue
        now = [c for c in clocks if c is not None]
        each = [c - min(t - k for t, k in zip(now, slacks, strict=True)) for c in now]
        k = common_slack(now, slacks)
        one = [c - min(t - k for t in now) for c in now]
        assert each == one


def test_a_late_row_does_not_probe_but_is_found() -> None:
    join = SlackJoin([5, 5], lambda rows: True)
    done = [d for s, t in [(0, 10), (1, 12), (0, 14), (1, 9), (1, 15)] for d in join.feed(s, t)]
    done += join.flush()
    late = next(d for d in done if d.row.number == 3)
    assert not late.in_order and late.results == ()
    last = next(d for d in done if d.row.number == 2)
    # It came in before the row at 14 left the synchronising buffer.
    assert {r[1].time for r in last.results} == {9, 12}
