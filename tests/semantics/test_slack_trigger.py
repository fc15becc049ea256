"""When buffers are changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.semantics.slack.trigger import Penalty, Reports, Trigger, worthwhile


def is_due(reports: Reports, trigger: Trigger) -> bool:
    """Whether enough queries have reported, and something would change."""
    return reports.enough(trigger) and reports.followed(trigger) != dict(reports.current)


EAGER, HALF, LAZY = (Trigger(share, band=0) for share in (0.0, 0.5, 1.0))


@pytest.mark.spec("QD-F11")
def test_eager_half_lazy_and_lazy() -> None:
    reports = Reports({"a": 10, "b": 10, "c": 10, "d": 10})
    assert not is_due(reports, EAGER)
    # A report that says nothing new changes nothing, however many are needed.
    same = reports.heard("a", 10)
    assert not is_due(same, EAGER)
    one = reports.heard("a", 12)
    assert [is_due(one, t) for t in (EAGER, HALF, LAZY)] == [True, False, False]
    two = one.heard("b", 10)
    assert [is_due(two, t) for t in (EAGER, HALF, LAZY)] == [True, True, False]
    # The newest word of a query counts, and each query counts once.
    four = two.heard("c", 9).heard("c", 8).heard("d", 10)
    assert is_due(four, LAZY)
    assert four.followed(LAZY) == {"a": 12, "b": 10, "c": 8, "d": 10}
    after = four.done(four.followed(LAZY))
    assert not is_due(after.heard("a", 1), HALF)


@pytest.mark.spec("QD-F11")
def test_a_query_over_another_stream_does_not_concern_this_one() -> None:
    reports = Reports({"a": 10})
    assert reports.heard("elsewhere", 3) == reports
    assert not is_due(reports.heard("elsewhere", 3), EAGER)


def test_a_slack_that_shrinks_a_little_is_left() -> None:
    reports = Reports({"a": 100, "b": 100})
    lazy = Trigger(1, band=0.2)
    swaying = reports.heard("a", 85).heard("b", 99)
    assert not is_due(swaying, lazy)
    assert swaying.heard("b", 101).followed(lazy) == {"a": 100, "b": 101}
    assert swaying.heard("a", 80).followed(lazy) == {"a": 80, "b": 100}


@given(st.lists(st.integers(95, 105), min_size=1, max_size=50))
def test_what_sways_within_the_band_changes_at_most_upwards(wanted: list[int]) -> None:
    reports, trigger, changes = Reports({"a": 100}), Trigger(0, band=0.15), 0
    for k in wanted:
        reports = reports.heard("a", k)
        if is_due(reports, trigger):
            before = reports.current["a"]
            reports = reports.done(reports.followed(trigger))
            assert reports.current["a"] > before
            changes += 1
        assert reports.current["a"] >= k
    assert changes <= 5


def test_members_and_json() -> None:
    reports = Reports({"a": 10, "b": 20}).heard("b", 5)
    assert Reports.from_json(reports.to_json()) == reports
    assert reports.members(["a", "c"], {"c": 7}) == Reports({"a": 10, "c": 7})


@pytest.mark.spec("QD-F16")
def test_a_change_that_costs_more_than_it_gains_is_not_made() -> None:
    penalty = Penalty().seen(100, 30).seen(300, 70)
    assert penalty.of(0) == pytest.approx(10)
    assert penalty.of(500) == pytest.approx(110)
    now = {"a": 200, "b": 50}
    assert worthwhile(penalty, 500, now, {"a": 80, "b": 50})
    assert not worthwhile(penalty, 500, now, {"a": 100, "b": 50})
    # More slack is a promise, whatever it costs.
    assert worthwhile(penalty, 500, now, {"a": 100, "b": 51})
    assert worthwhile(penalty, 500, now, now)


def test_a_penalty_from_changes_of_one_size() -> None:
    assert Penalty().of(1000) == 0
    assert Penalty().seen(10, 20).seen(10, 40).of(20) == pytest.approx(60)
    assert Penalty().seen(0, 5).of(10) == 0
    assert Penalty().seen(100, 0).seen(0, 50).of(1000) == 0


@pytest.mark.parametrize("settings", [{"share": -0.1}, {"share": 1.1}, {"band": 1.0}])
def test_a_trigger_out_of_range_is_an_error(settings: dict[str, float]) -> None:
    with pytest.raises(AnalysisError, match="of a trigger"):
        Trigger(**settings)
