"""Bounds of semi and anti joins: those of a left join's left time, never broken, and as high as can be."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.join import HOWS, is_existence
from slackwater.semantics import join
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.join import JoinOracle, pairs
from tests.examples import examples
from tests.kernels.join_runs import bands, histories, reaches, tumblings

KINDS = st.sampled_from(["left_semi", "left_anti"])
BINARY = st.one_of(bands(), tumblings(), reaches(2))
NEAR = range(-40, 41)


def test_names_are_those_of_spark():
    found = {how: {n for n, kind in HOWS.items() if kind == how} for how in set(HOWS.values())}
    assert found["left_semi"] == {"semi", "leftsemi", "left_semi"}
    assert found["left_anti"] == {"anti", "leftanti", "left_anti"}
    assert [how for how in sorted(found) if is_existence(how)] == ["left_anti", "left_semi"]


@examples(100)
@given(BINARY, KINDS, histories())
def test_no_result_breaks_a_promise(within, how, history):
    oracle, promised = JoinOracle(within, how), START
    for sides, bounds in history:
        for (row,) in oracle.step(sides, bounds):
            assert row.time >= promised
        now = join.max_bound(within, bounds, how)
        assert now == join.max_bound(within, bounds, "left") == join.time_bounds(within, bounds)[0]
        assert join.corners(within, bounds, how) == ((now,),)
        assert now >= promised, "a bound went back"
        promised = now
    assert promised == END


@examples(60)
@given(BINARY, st.integers(-9, 9), st.integers(-9, 9))
def test_the_bound_is_as_high_as_can_be(within, b0, b1):
    # Some pair that may still come has just this left time; of an anti join some row waits until then, or is yet to come.
    times = [x for x, y in product(NEAR, NEAR) if pairs(within, 0, 1, x, y) and (x >= b0 or y >= b1)]  # fmt: skip
    for how in ("left_semi", "left_anti"):
        assert join.max_bound(within, (b0, b1), how) == min(times, default=b0)


def test_which_rows_must_be_known_to_have_met_a_partner():
    assert [join.marked_inputs(h) for h in ("inner", "left", "right", "full")] == [(), (0,), (1,), (0, 1)]  # fmt: skip
    assert join.marked_inputs("left_semi") == join.marked_inputs("left_anti") == (0,)
    assert join.outer_inputs("left_semi") == () and join.outer_inputs("left_anti") == (0,)
