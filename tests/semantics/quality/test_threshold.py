"""The coverage that an error target asks for, by aggregate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.semantics.quality.threshold import (
    Asked,
    complete_threshold,
    count_threshold,
    mean_threshold,
    quantile_threshold,
    sum_threshold,
    threshold,
)
from slackwater.testing.oracle.quality import needed_coverage


@pytest.mark.spec("QD-D3", "QD-D4")
def test_the_coverage_that_the_digest_gives_for_a_sum() -> None:
    for error, wanted in (
        (0.001, [0.999989, 0.999905, 0.999673, 0.999986]),
        (0.01, [0.999059, 0.995925, 0.993084, 0.998872]),
        (0.05, [0.985419, 0.966691, 0.957505, 0.983583]),
        (0.1, [0.958756, 0.924565, 0.910615, 0.954865]),
    ):
        cases = [(55, 0.5), (555, 0.5), (5550, 1.0), (55, 0.0)]
        found = [sum_threshold(error, 0.95, n, spread) for n, spread in cases]
        assert found == pytest.approx(wanted, abs=5e-7)
        assert count_threshold(error, 0.95, 55) == pytest.approx(wanted[3], abs=5e-7)


@pytest.mark.spec("QD-D3")
@given(st.floats(0.001, 0.9), st.floats(0.5, 0.999), st.floats(1, 1e5), st.floats(0, 5))
def test_the_closed_form_is_the_least_coverage_that_solves_the_inequality(
    error: float, confidence: float, rows: float, spread: float
) -> None:
    wanted = needed_coverage(error, confidence, rows, spread)
    assert sum_threshold(error, confidence, rows, spread) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.spec("QD-D4", "QD-D13")
def test_averages_and_quantiles_need_less_and_keep_their_error_in_a_simulation() -> None:
    rng = np.random.default_rng(5)
    values = rng.gamma(4.0, 2.0, 400)
    spread = float(values.std() / values.mean())
    for error, need in (
        (0.01, mean_threshold(0.01, 0.95, 400, spread)),
        (0.02, quantile_threshold(0.02, 0.95, 400, 0.5)),
    ):
        assert need < sum_threshold(error, 0.95, 400, spread)
        kept = 0
        for _ in range(800):
            there = values[rng.random(400) < need]
            if error == 0.01:
                kept += abs(there.mean() - values.mean()) <= error * values.mean()
            else:
                rank = (values <= np.median(there)).mean()
                kept += abs(rank - 0.5) <= error + 1 / 400
        assert kept / 800 > 0.93


def test_the_worst_aggregate_counts_and_others_want_complete_windows() -> None:
    asked = [Asked("count"), Asked("avg", 0), Asked("other")]
    assert threshold(asked, 0.1, 0.95, 100, [0.5]) == complete_threshold(0.95, 100)
    assert complete_threshold(0.95, 100) ** 100 == pytest.approx(0.95)
    assert threshold(asked[:2], 0.1, 0.95, 100, [0.5]) == count_threshold(0.1, 0.95, 100)
    # Nothing is known, or the mean is 0: every row is needed. An error of everything: none is.
    assert sum_threshold(0.1, 0.95, 0, 1.0) == 1 == sum_threshold(0.1, 0.95, 50, math.inf)
    assert sum_threshold(1.0, 0.95, 50, 1.0) == 0
