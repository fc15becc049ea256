"""Rules of joins: exhaustive on small times, and what they promise is never broken."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.model.join import Band, Reach, Tumbling
from slackwater.model.window import TimeWindow
from slackwater.semantics import join
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.join import JoinOracle, JoinRow, pairs
from tests.examples import examples
from tests.kernels.join_runs import bands, histories, reaches, tumblings

MANY = examples(75)
HOWS = st.sampled_from(["inner", "left", "right", "full"])
BINARY = st.one_of(bands(), tumblings(), reaches(2))
NEAR = range(-40, 41)


@pytest.mark.spec("WQ-F57", "WQ-F58")
@MANY
@given(BINARY, st.integers(-12, 12))
def test_partners_are_the_span_of_times_that_pair(within, t):
    for i, j in ((0, 1), (1, 0)):
        low, high = join.partners(within, i, j, t)
        assert [x for x in NEAR if low <= x <= high] == [
            x for x in NEAR if pairs(within, i, j, t, x)
        ]
        many = join.partners(within, i, j, np.array([t, t + 1]))
        assert [int(many[0][0]), int(many[1][0])] == [low, high]
    empty = not any(pairs(within, 0, 1, t, x) for x in NEAR)
    assert join.is_empty(within) == empty


@pytest.mark.spec("WQ-F59", "WQ-F60")
@MANY
@given(BINARY, st.integers(-12, 12), st.one_of(st.sampled_from([START, END]), st.integers(-12, 12)))
def test_a_row_is_needed_just_as_long_as_a_partner_can_come(within, t, bound):
    # Tight on both sides: one tick less would keep what nobody can meet, one tick more would lose pairs.
    for i in (0, 1):
        can_come = any(x >= bound and pairs(within, i, 1 - i, t, x) for x in NEAR)
        for own in (START, -100, 0, 100, END):
            bounds = (own, bound) if i == 0 else (bound, own)
            assert (t >= join.needed_from(within, i, bounds)) == (can_come and bound < END)


@MANY
@given(BINARY, st.integers(-12, 12), st.one_of(st.sampled_from([START, END]), st.integers(-12, 12)))
@example(Tumbling(TimeWindow(10, 10, 0, "t")), 3, 5)
@example(Band(-1, -1), 0, 5)
def test_a_row_misses_none_just_if_all_its_partners_had_a_place(within, t, bound):
    for i in (0, 1):
        bounds = (bound, 0) if i == 0 else (0, bound)
        place = join.needed_from(within, 1 - i, bounds)
        misses = any(x < place for x in NEAR if pairs(within, i, 1 - i, t, x))
        assert (t < join.met_from(within, i, bounds)) == misses


@MANY
@given(
    BINARY, st.integers(-12, 12), st.integers(-12, 12), st.integers(-12, 12), st.integers(-12, 12)
)
def test_of_rows_on_time_all_partners_have_a_place(within, left, right, t, u):
    # So the rule for late rows takes nothing from the others.
    bounds, times = (left, right), (t, u)
    if not pairs(within, 0, 1, t, u) or (t < left and u < right):
        return
    gone = [np.array([x < join.needed_from(within, i, bounds)]) for i, x in enumerate(times)]
    assert join.is_met(gone).tolist() == [True]


@MANY
@given(reaches(3), st.lists(st.integers(-8, 8), min_size=3, max_size=3), st.integers(-10, 10))
def test_with_three_inputs_the_slowest_other_one_decides(within, bounds, t):
    if join.is_empty(within):
        return
    for i in range(3):
        can_come = any(
            x >= bounds[j] and pairs(within, i, j, t, x) for j in range(3) if j != i for x in NEAR
        )
        assert (t >= join.needed_from(within, i, bounds)) == can_come


@pytest.mark.spec("WQ-F62", "OO-F21")
@examples(125)
@given(BINARY, HOWS, histories())
def test_no_result_breaks_a_promise(within, how, history):
    # Seeded faults that this catches: a bound without the other side's part, min from either side alone,
    # the corners after an outer join, result time of unmatched rows by the inner rule.
    oracle = JoinOracle(within, how)
    promised: list[tuple[int, ...]] = [(START,) * 4]
    points: list[tuple[tuple[int, ...], ...]] = []
    for sides, bounds in history:
        for a, b in oracle.step(sides, bounds):
            # What is out after a step may still belong to it; promises hold for later steps.
            times = [r.time for r in (a, b) if r is not None]
            left, right, least, most = promised[-1]
            assert a is None or a.time >= left
            assert b is None or b.time >= right
            assert min(times) >= least
            assert max(times) >= most
            if a is not None and b is not None:
                assert all(
                    any(a.time >= p[0] and b.time >= p[1] for p in corner) for corner in points
                )
        single = join.time_bounds(within, bounds)
        now = (*single, join.min_bound(within, bounds), join.max_bound(within, bounds, how))
        assert all(n >= p for n, p in zip(now, promised[-1], strict=True)), "a bound went back"
        promised.append(now)
        points.append(join.corners(within, bounds, how))
    assert promised[-1] == (END,) * 4


@pytest.mark.spec("OO-F21")
@MANY
@given(BINARY, st.integers(-9, 9), st.integers(-9, 9), HOWS)
def test_bounds_are_as_high_as_can_be(within, b0, b1, how):
    # Some result that may still come, given any rows so far, has just these times.
    bounds = (b0, b1)
    later = [
        (x, y) for x, y in product(NEAR, NEAR) if pairs(within, 0, 1, x, y) and (x >= b0 or y >= b1)
    ]
    if not later:
        assert join.max_bound(within, bounds) == END
        return
    single = join.time_bounds(within, bounds)
    assert single == (min(x for x, _ in later), min(y for _, y in later))
    assert join.min_bound(within, bounds) == min(min(p) for p in later)
    assert join.max_bound(within, bounds) == min(max(p) for p in later)
    capped = [join.max_bound(within, bounds), *(single[i] for i in join.outer_inputs(how))]
    assert join.max_bound(within, bounds, how) == min(capped)


@pytest.mark.spec("WQ-F62")
def test_promises_of_the_trace():
    within = Band(before=2, after=3)
    trace = [
        ((START, 9), (START, START)),
        ((13, 9), (6, 9)),
        ((13, 14), (11, 11)),
        ((18, 14), (11, 14)),
    ]
    for bounds, single in trace:
        assert join.time_bounds(within, bounds) == single


def is_closed(points, ends):
    """Whether no later result has each of its times below the respective end."""
    return all(any(p >= e for p, e in zip(point, ends, strict=True)) for point in points)


def test_a_group_on_both_times_closes_earlier_by_the_corners():
    # Band of 2: the group below (2, 1) is complete with bounds (2, 1), by single bounds only with (4, 3).
    within, ends = Band(2, 2), (2, 1)
    assert is_closed(join.corners(within, (2, 1)), ends)
    assert not is_closed(join.corners(within, (1, 1)), ends)
    first = [
        n
        for n in range(10)
        if any(p >= e for p, e in zip(join.time_bounds(within, (n + 1, n)), ends, strict=True))
    ]
    assert first[0] > 1
    # After an outer join an unmatched row may still come out old.
    assert not is_closed(join.corners(within, (2, 1), "left"), ends)


def test_least_and_largest_time_need_both_or_either():
    # Left has ended but for one side's lag: min waits for both, max goes with the joint bound.
    within = Band(10, 10)
    assert join.time_bounds(within, (100, 60)) == (50, 60)
    assert join.min_bound(within, (100, 60)) == 50
    assert join.max_bound(within, (100, 60)) == 60
    assert join.max_bound(within, (100, 60), "left") == 50
    assert join.max_bound(within, (100, 60), "right") == 60


def test_rows_that_are_owed_hold_everything_back():
    within = Band(2, 3)
    held = join.effective((50, 60), (None, 40))
    assert held == (50, 40)
    assert join.needed_from(within, 0, held) == 37 < join.needed_from(within, 0, (50, 60))
    assert join.max_bound(within, held) == 40 < join.max_bound(within, (50, 60))
    assert join.effective((50, 60), (70, None)) == (50, 60)


def test_a_lag_costs_its_own_side_nothing():
    # Band of 2 minutes, S0 up to 5 minutes late: 2 minutes of S0 and 7 of S1 are kept.
    now, within = 100, Band(2, 2)
    bounds = (now - 5, now)
    assert now - join.needed_from(within, 0, bounds) == 2
    assert now - join.needed_from(within, 1, bounds) == 7


def test_ends_of_streams_and_spans_beyond_all_times():
    within = Band(1 << 62, 1 << 62)
    assert join.needed_from(within, 0, (0, 5)) < -(1 << 60)
    assert join.needed_from(within, 0, (0, END)) == END
    assert join.needed_from(Band(2, 3), 0, (END, START)) == START
    assert join.time_bounds(Band(2, 3), (7, END)) == (7, 5)
    assert join.max_bound(Band(2, 3), (7, END)) == 7
    tumbling = Tumbling(TimeWindow(10, 10, 3, "t"))
    assert join.time_bounds(tumbling, (27, 40)) == (27, 23)


def test_a_reach_per_input_is_asked_for():
    with pytest.raises(AnalysisError, match="3 inputs"):
        join.needed_from(Reach((1, 2, 3)), 0, (0, 0))
    with pytest.raises(AnalysisError, match="2 inputs"):
        join.time_bounds(Band(1, 2), (0, 0, 0))


@pytest.mark.parametrize(
    "within",
    [Band(2, 3), Band(2, 3, "left"), Band(0, 4, "neither"), Tumbling(TimeWindow(5, 5, 2, "ts")),
     Reach((4, 0)), Reach((4, 2, 0)), Tumbling(TimeWindow(3, 3, 0, "ts"))],
)  # fmt: skip
@examples(30)
@given(data=st.data())
def test_a_row_counts_as_late_if_a_partner_may_have_been_given_up(within, data):
    inputs = len(within.ticks) if isinstance(within, Reach) else 2
    bounds = tuple(data.draw(st.integers(-10, 10)) for _ in range(inputs))
    i = data.draw(st.integers(0, inputs - 1))
    oracle = JoinOracle(within, inputs=inputs)
    oracle.bounds = bounds

    def finds_all(t):
        others = [j for j in range(inputs) if j != i]
        return all(
            oracle.needed(j, JoinRow(u))
            for j in others for u in range(t - 30, t + 31) if pairs(within, i, j, t, u)
        )  # fmt: skip

    first = join.met_from(within, i, bounds)
    for t in range(first - 12, first + 12):
        assert finds_all(t) == (t >= first), (t, first)
