"""What few windows tell: that there was a change though slack has followed it, and how much later ones may need."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from slackwater.model.window import TimeWindow
from slackwater.semantics.quality.evidence import first_level, tolerance
from slackwater.semantics.quality.late_sums import LateSums
from slackwater.semantics.quality.needs import FEWEST, Needs
from slackwater.semantics.quality.threshold import Asked

CONFIDENCE = 0.95
ASKED = ([Asked("count")], 0.01, CONFIDENCE)
WINDOW = TimeWindow(10, 10, 0, "t")


def took(needs: Needs, wid: int, need: int, reach: int, later: int = 0) -> Needs:
    """A window of 100 rows that needs so much, and had so much; then rows come that are ``later`` still."""
    late = {(wid, need): [2.0]} if need else {}
    needs.add(LateSums({wid: [100.0]}, late), 1)
    needs.close(wid, wid, 10 * (wid + 1) + reach, WINDOW)
    needs.judge(wid, *ASKED)
    if later:
        needs.add(LateSums({wid: [float(later)]}), 1)
    return Needs.from_json(json.loads(json.dumps(needs.to_json())))


def after(windows: int, later: int = 0) -> Needs:
    """So many windows that needed 1, and had it."""
    needs = Needs(1, first_level(CONFIDENCE))
    for wid in range(windows):
        needs = took(needs, wid, 1, 1, later)
        assert not needs.rose(*ASKED)
    return needs


def believed(needs: Needs, reaches: Sequence[int], begin: int = 100) -> int | None:
    """After how many windows that need 50, and had these, a change is believed."""
    for i, reach in enumerate(reaches):
        needs = took(needs, begin + i, 50, reach)
        if needs.rose(*ASKED):
            return i + 1
    return None


@pytest.mark.spec("QD-C2")
def test_a_change_is_believed_though_slack_has_risen_with_the_first_windows() -> None:
    assert believed(after(60), [1] * 8) == 5
    # With the third window slack is enough, since the largest need counts by then.
    assert believed(after(60), [1, 1, 80, 80, 80, 80, 80, 80]) == 5
    # The same for windows whose rows may still come.
    needs = after(60)
    for i, reach in enumerate([1, 1, 80, 80, 80]):
        wid = 100 + i
        needs.add(LateSums({wid: [98.0]}), 1)
        needs.close(wid, wid, 10 * (wid + 1) + reach, WINDOW)
        needs.add(LateSums({wid: [2.0]}, {(wid, 50): [2.0]}), 1)
        assert needs.rose(*ASKED) == (i == 4), i
    # As long as slack does not follow needs, that it rises is no sign.
    assert believed(after(FEWEST - 10), [1, 1, 80, 80, 80, 80, 80, 80]) is None
    # Windows that need no more than the first of them had are none either.
    needs = after(60)
    for i, need in enumerate([50, 50, 1, 1, 50, 1, 1, 50]):
        needs = took(needs, 100 + i, need, 1 if i < 2 else 80)
        assert not needs.rose(*ASKED)


@pytest.mark.spec("QD-D8")
def test_right_after_a_change_as_many_rows_are_expected_after_judgement_as_before() -> None:
    """With a row of each hundred after judgement, half of the error is set aside; then one late row is too many."""

    def next_need(needs: Needs) -> int:
        needs.add(LateSums({200: [1000.0]}, {(200, 70): [6.0]}), 1)
        needs.close(200, 200, 2010 + 100, WINDOW)
        needs.judge(200, *ASKED)
        return needs.done[-1]

    def changed(later: int) -> Needs:
        needs = after(60, later)
        for wid in range(100, 105):
            needs = took(needs, wid, 50, 1)
        assert needs.rose(*ASKED) and needs.since is not None
        return needs

    assert next_need(changed(0)) == 0  # 0.6 % are missing without any slack
    assert next_need(changed(1)) == 70
    assert next_need(took(changed(1), 110, 50, 80)) == 70  # none has come after this one yet
    # Slack that falls is found by what the windows since then tell alone.
    needs = changed(1)
    for wid in range(110, 150):
        needs.add(LateSums({wid: [100.0]}), 1)
    assert needs.fell(110, 149, 1, *ASKED)
    assert next_need(needs) == 0


@pytest.mark.spec("QD-C2")
def test_slack_falls_at_once_only_if_all_windows_needed_less_than_half() -> None:
    for need, fell in ((99, True), (100, False)):
        needs = Needs(1, first_level(CONFIDENCE), done=[200] * 60, until=59)
        for wid in range(60, 70):
            needs.add(LateSums({wid: [100.0]}, {(wid, need): [2.0]}), 1)
        assert needs.fell(60, 69, 1, *ASKED) == fell


@pytest.mark.spec("QD-C2")
def test_after_a_change_slack_is_a_bound_of_the_quantile_and_not_the_largest_need() -> None:
    needs = after(60)
    values = [900, 1000, 1100, 950, 1050, *[980, 1020] * 17]
    for i, value in enumerate(values):
        needs = took(needs, 100 + i, value, 1 if i < 5 else 2000)
        assert needs.rose(*ASKED) == (i == 4)
    assert needs.done == values
    # One window in forty may need more than the largest of so few.
    apart = len(values) + 1
    wanted = np.mean(values) + tolerance(apart, CONFIDENCE) * np.std(values, ddof=1)
    assert needs.slack(*ASKED) == (max(1100, int(np.ceil(wanted))), True)
    spread = Needs(1, first_level(CONFIDENCE), done=[500, 1500] * 20, since=0)
    assert spread.slack(*ASKED) == (1800, True)  # no more than a fifth above the largest
    spread.since = None
    assert spread.slack(*ASKED) == (1500, True)
    # The largest of sixty is a bound whatever the distribution is.
    many = Needs(1, first_level(CONFIDENCE), done=[500, 1500] * 30, since=0)
    assert many.slack(*ASKED) == (1500, True)


def test_the_tolerance_factor_is_that_of_tables_and_holds() -> None:
    # Factors for one side, 95 % of a normal population with probability 0.95.
    for number, factor in ((5, 4.203), (10, 2.911), (20, 2.396), (30, 2.220), (50, 2.065)):
        assert tolerance(number, 0.95) == pytest.approx(factor, rel=0.015)
    assert tolerance(1, 0.95) == tolerance(2, 0.95) == np.inf
    rng = np.random.default_rng(4)
    drawn = rng.normal(0, 1, (20_000, 30))
    bounds = drawn.mean(axis=1) + tolerance(30, 0.95) * drawn.std(axis=1, ddof=1)
    assert np.mean(bounds >= 1.644854) == pytest.approx(0.95, abs=0.01)
