from __future__ import annotations

from fractions import Fraction
from math import gcd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.window import ByTuple, TimeWindow
from slackwater.semantics.cost import Constants, Measured, choose_plan, panes_cost, wids_cost
from slackwater.semantics.windows import plan_of

SLIDING = TimeWindow(60, 10, 0, "ts")
UNIT = Constants(row=1, pane_out=1, pane_in=1, row_window=1)


def test_the_four_costs() -> None:
    # 600 rows and 6 panes a window, 10 groups a pane, one pane a slide.
    assert panes_cost(SLIDING, 600, 10, UNIT) == 600 / 6 + 10 + 6 * 10
    assert wids_cost(SLIDING, 600, UNIT) == 600
    differential = Constants(1, 1, 1, 1, differential=True)
    assert panes_cost(SLIDING, 600, 10, differential) == 600 / 6 + 10 + 2 * 10
    assert wids_cost(SLIDING, 600, differential) == 2 * 600 / 6


def test_several_panes_a_slide() -> None:
    # 9 by 6: panes of 3, three a window, two new ones a slide.
    w = TimeWindow(9, 6, 0, "ts")
    assert panes_cost(w, 90, 5, UNIT) == 90 * 6 / 9 + 5 * 2 + 3 * 5


def test_many_groups_per_pane_turn_the_choice() -> None:
    assert choose_plan(SLIDING, 600, 10, UNIT).plan == "panes"
    turned = choose_plan(SLIDING, 600, 100, UNIT)
    assert turned.plan == "wids"
    assert turned.panes > turned.wids == 600
    assert "600" in turned.why


def test_one_pane_per_window() -> None:
    assert choose_plan(TimeWindow(5, 10, 0, "ts"), 1e6, 1, UNIT).plan == "wids"
    assert choose_plan(TimeWindow(10, 10, 0, "ts"), 10, 10, UNIT).plan == "panes"


def test_without_statistics() -> None:
    assert choose_plan(SLIDING).plan == "panes"
    assert choose_plan(TimeWindow(5, 10, 0, "ts")).plan == "wids"


@pytest.mark.spec("WQ-F47")
def test_measurements_turn_the_choice() -> None:
    half = TimeWindow(60, 30, 0, "ts")
    # Two panes a window. Each row a group of its own: panes hide nothing. Ten rows a group: they do.
    assert choose_plan(half, measured=Measured(1000, 1000)).plan == "wids"
    assert choose_plan(half, measured=Measured(10_000, 1000)).plan == "panes"
    # Only the ratio counts, and the same rows counted per window tell the same.
    for scale in (1, 7, 1000):
        assert choose_plan(half, measured=Measured(3 * scale, scale)).plan == "panes"
    assert Measured(1000, 1000).per_window(half) == (2, 1)
    assert Measured(1000, 2000, "wids").per_window(half) == (1, 0.5)
    assert choose_plan(half, measured=Measured(1000, 2000, "wids")).plan == "wids"
    assert choose_plan(half, measured=Measured(10_000, 2000, "wids")).plan == "panes"
    # Much overlap: panes even where each row is its own group.
    assert choose_plan(SLIDING, measured=Measured(5, 5)).plan == "panes"


@pytest.mark.spec("WQ-F47")
@given(
    w=st.builds(TimeWindow, st.integers(1, 40), st.integers(1, 40), st.just(0), st.just("ts")),
    rows=st.integers(1, 500),
    groups=st.integers(1, 500),
    k=st.builds(Constants, *[st.floats(0.1, 5)] * 4, st.booleans()),
)
def test_the_choice_is_the_cheaper_plan_by_the_formulas(
    w: TimeWindow, rows: int, groups: int, k: Constants
) -> None:
    """The four costs written out; T rows a window, P panes, G groups a pane, S panes a slide."""
    g = gcd(w.range, w.slide)
    p, s = w.range // g, w.slide // g
    t, share = rows, Fraction(w.slide, w.range)
    new = k.row * t * share + k.pane_out * groups * s
    panes = new + (2 * k.pane_in * groups * s if k.differential else k.pane_in * p * groups)
    wids = 2 * k.row_window * t * share if k.differential else k.row_window * t
    found = choose_plan(w, rows, groups, k)
    assert (found.panes, found.wids) == (pytest.approx(float(panes)), pytest.approx(float(wids)))
    if p > 1 and abs(panes - wids) > 1e-9 * wids:
        assert found.plan == ("panes" if panes < wids else "wids")


@pytest.mark.spec("WQ-F47")
def test_windows_that_end_at_rows_have_no_panes() -> None:
    """A pane of such a window would hold one row; even one who asks for panes does not get them."""
    assert plan_of(ByTuple(10, 1, "arrival", "ts"), "panes") != "panes"
    assert plan_of(SLIDING, "panes") == "panes"
