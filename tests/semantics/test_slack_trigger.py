"""When buffers are changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.codec import from_json, to_json
from slackwater.semantics.slack.trigger import Penalty, Reports, worthwhile


def is_due(reports: Reports) -> bool:
    """Whether enough queries have reported, and something would change."""
    return reports.enough() and reports.followed() != dict(reports.current)


def test_a_change_waits_for_half_of_the_queries() -> None:
    reports = Reports({"a": 10, "b": 10, "c": 10, "d": 10})
    assert not is_due(reports)
    one = reports.heard("a", 12)
    assert not is_due(one)
    # A report that says nothing new counts, too, and each query counts once.
    assert not is_due(one.heard("a", 13))
    two = one.heard("b", 10)
    assert is_due(two)
    # The newest word of a query counts.
    four = two.heard("c", 9).heard("c", 8).heard("d", 10)
    assert four.followed() == {"a": 12, "b": 10, "c": 8, "d": 10}
    after = four.done(four.followed())
    assert not is_due(after.heard("a", 1))
    # Reports that all say what is in use change nothing.
    assert not is_due(reports.heard("a", 10).heard("b", 10))


def test_a_query_over_another_stream_does_not_concern_this_one() -> None:
    reports = Reports({"a": 10})
    assert reports.heard("elsewhere", 3) == reports
    assert not is_due(reports.heard("elsewhere", 3))


def test_a_slack_that_shrinks_a_little_is_left() -> None:
    reports = Reports({"a": 100, "b": 100})
    swaying = reports.heard("a", 91).heard("b", 99)
    assert not is_due(swaying)
    assert swaying.heard("b", 101).followed() == {"a": 100, "b": 101}
    assert swaying.heard("a", 90).followed() == {"a": 90, "b": 100}


@given(st.lists(st.integers(96, 105), min_size=1, max_size=50))
def test_what_sways_within_the_band_changes_at_most_upwards(wanted: list[int]) -> None:
    reports, changes = Reports({"a": 100}), 0
    for k in wanted:
        reports = reports.heard("a", k)
        if is_due(reports):
            before = reports.current["a"]
            reports = reports.done(reports.followed())
            assert reports.current["a"] > before
            changes += 1
        assert reports.current["a"] >= k
    assert changes <= 5


def test_members_and_json() -> None:
    reports = Reports({"a": 10, "b": 20}).heard("b", 5)
    assert from_json(Reports, to_json(reports)) == reports
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
