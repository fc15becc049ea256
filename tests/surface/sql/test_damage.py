"""Damaged texts: an error of ours each time, soon, and near the damage."""

from __future__ import annotations

from tests.examples import TIMES
from tests.surface.sql.damage import damaged, outcome, quantile

COUNT = 500 * TIMES
"""`make random` has 5,000."""


def test_errors_of_damaged_texts_are_ours_and_near():
    outcomes = [outcome(damaged(seed)) for seed in range(COUNT)]
    wrong = [o.distance for o in outcomes if o.distance is not None]
    assert len(wrong) > COUNT / 3
    assert max(o.seconds for o in outcomes) < 1
    assert quantile(wrong, 0.5) <= 2
    assert quantile(wrong, 0.75) <= 10
