"""One row is not a change, however late it is; delays that are longer from some time on are one."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, example, given
from hypothesis import strategies as st

from slackwater.model.window import TimeWindow
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.evidence import CERTAIN, Evidence
from slackwater.semantics.quality.needs import OUTLIER, Needs
from tests.examples import examples
from tests.semantics.quality.streams import (
    DELAYS,
    Ints,
    arrivals,
    count_target,
    course,
    kept,
    resumed,
)

APART = 320
"""Windows that share no row before the one row comes."""
SHAPES = {"tumbling": (110, 110), "11 overlap": (110, 10), "60 overlap": (600, 10)}
TARGETS: dict[str, dict[str, float]] = {"coverage": {"coverage": 0.99}, "error": {"error": 0.2}}
CASES = (
    ("11 overlap", "coverage", "Pareto"), ("tumbling", "coverage", "Pareto"), ("60 overlap", "coverage", "exponential"),
    ("tumbling", "error", "exponential"),
)  # fmt: skip


@cache
def begun(shape: str, target: str, delays: str) -> tuple[str, Adaptation, int, int, Ints, Ints]:
    """What is known of a stationary stream when the row comes, and the slacks afterwards without it."""
    width, slide = SHAPES[shape]
    window = TimeWindow(width, slide, 0, "t")
    # Of overlapping windows every seventh is looked at where there are sixty.
    now = APART * (width if width < 600 else 110)
    after = max(100 * slide, 24 * width) + 100 * slide
    times = arrivals(1, (now + after + 40 * width) // 10, 100, delays)
    first = int(np.searchsorted(np.maximum.accumulate(times), now))
    adaptation = count_target(window, granularity=1, **TARGETS[target])
    bound = int(course(adaptation, times[:first]).bounds[-1])
    state = json.dumps(adaptation.kept.to_json())
    rest = times[first:]
    return state, adaptation, now, bound, rest, slacks(state, adaptation, bound, rest, now, shape)


def slacks(state: str, like: Adaptation, bound: int, rows: Ints, now: int, shape: str) -> Ints:
    """The slack at the end of each window after ``now``."""
    width, slide = SHAPES[shape]
    found = course(resumed(state, like), rows, bound)
    return found.at(now + slide * np.arange(1, max(100, 24 * width // slide) + 100))


@pytest.mark.spec("QD-C2", "QD-D2")
@examples(6, phases=(Phase.explicit, Phase.generate))
@given(st.sampled_from(CASES), st.floats(1, 40) | st.sampled_from([1e3, 1e9]))
@example(CASES[0], 1.5)
@example(CASES[0], 3.0)
@example(CASES[1], 2.0)
@example(CASES[2], 3.0)
@example(CASES[3], 3.0)
def test_one_row_of_any_lateness_changes_slack_by_at_most_a_tenth(
    case: tuple[str, str, str], times: float
) -> None:
    shape, target, delays = case
    state, adaptation, now, bound, rest, wanted = begun(shape, target, delays)
    width, slide = SHAPES[shape]
    late = now - width - int(adaptation.slack * times)
    found = slacks(state, adaptation, bound, np.concatenate([[late], rest]), now, shape)
    assert found[:100].mean() == pytest.approx(wanted[:100].mean(), rel=0.1)
    back = max(100, 24 * width // slide)
    assert found[back:].mean() == pytest.approx(wanted[back:].mean(), rel=0.1)


def missed_by_one_row(overlap: int) -> Needs:
    """Windows that need 10, then as many as share a row that need more, one row less late than the other."""
    done = (
        [10, 9, 8, 7] * max(10, 6 * overlap) + [40 + i for i in range(overlap)][::-1] + [10, 9, 8]
    )
    return Needs(1, 0.97, done=done, until=len(done))


@pytest.mark.parametrize("overlap", [1, 8])
def test_windows_that_one_row_has_spoilt_count_no_more(overlap: int) -> None:
    needs = missed_by_one_row(overlap)
    asked: Any = ([], 0.01, 0.95, float(overlap))
    assert needs.slack(*asked) == (10, True)
    # Two rows are no accident.
    needs.done = [*needs.done, 40]
    assert (needs.slack(*asked)[0] or 0) >= 40
    # Nor is a need that is like others.
    assert OUTLIER == 1.5
    needs.done = [15 if n >= 40 else n for n in needs.done[:-1]]
    assert max(needs._without_outlier(0.95, overlap)) == 15
    # Of few windows it is not known which is usual.
    needs.done = [10] * (20 * overlap - 1) + [40] * overlap
    assert max(needs._without_outlier(0.95, overlap)) == 40


def test_a_row_is_one_sign_however_many_windows_it_belongs_to() -> None:
    one = four = Evidence()
    for i in range(70):
        one = one.after(True, float(i == 0), 0.95, 60.0)
        four = four.after(True, float(i % 20 == 0), 0.95, 60.0)
    assert one.windows == four.windows >= CERTAIN
    assert four.certain and not one.certain
    # Without overlap each window that misses has a row of its own.
    apart = Evidence()
    for i in range(5):
        assert not apart.certain, i
        apart = apart.after(True, 1, 0.95, 1.0)
    assert apart.certain


BEFORE = {
    ("tumbling", "exponential", 3): 15, ("tumbling", "exponential", 10): 15,
    ("10 overlap", "exponential", 3): 32, ("10 overlap", "exponential", 10): 30,
    ("10 overlap", "Pareto", 3): 40, ("10 overlap", "Pareto", 10): 66,
}  # fmt: skip
"""Windows until the target was kept again while windows that share a row counted as evidence each, as `windows_until_kept` counts them."""


def windows_until_kept(window: TimeWindow, delays: str, factor: int, seed: int) -> int:
    """Windows after delays have become longer from which on 95 % of those of the next two ranges, or twenty, keep the target."""
    width, slide = window.range, window.slide
    before, after = max(120 * slide, 60 * width), max(60 * slide, 30 * width)
    rng = np.random.default_rng(seed)
    made = 10 * np.arange((before + after + 10 * width + 1_200 * factor) // 10)
    late = 30 * DELAYS[delays](rng, len(made))
    times = made[np.argsort(made + np.where(made >= before, factor * late, late), kind="stable")]
    found = course(count_target(window, coverage=0.99), times)
    ok = kept(found, window, range(before + slide, before + after, slide), 0.01)
    span = max(20, 2 * width // slide)
    good = np.flatnonzero(np.convolve(ok, np.ones(span) / span, "valid") >= 0.95)
    return int(good[0]) if len(good) else len(ok)


@pytest.mark.spec("QD-C2")
@pytest.mark.parametrize("case", sorted(BEFORE))
def test_longer_delays_are_followed_as_fast_as_ever(case: tuple[str, str, int]) -> None:
    shape, delays, factor = case
    window = TimeWindow(110, 110, 0, "t") if shape == "tumbling" else TimeWindow(500, 50, 0, "t")
    seeds = 4 if shape == "tumbling" else 2
    windows = [windows_until_kept(window, delays, factor, seed) for seed in range(seeds)]
    assert np.median(windows) <= 1.2 * BEFORE[case]
