from __future__ import annotations

from slackwater.model.window import TimeWindow
from slackwater.semantics.cost import Constants, choose_plan, panes_cost, wids_cost

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
