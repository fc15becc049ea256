"""The promise holds from the tenth window on: slack is the largest delay or need, and a margin, until enough windows are known."""

from __future__ import annotations

import numpy as np
import pytest

from slackwater.model.window import TimeWindow
from slackwater.semantics.quality.adapt import WarmUp
from slackwater.semantics.quality.evidence import margin
from slackwater.semantics.quality.late_sums import LateSums
from slackwater.semantics.quality.needs import FEWEST, Needs
from slackwater.semantics.quality.threshold import Asked
from tests.semantics.quality.streams import Ints, arrivals, count_target, course, days, kept

WANTED = 0.95
FIRST, LAST = 10, 50


def first_windows(times: Ints, window: TimeWindow, granularity: int) -> float:
    """The share of the windows from the tenth to the fiftieth that keep the target."""
    found = course(count_target(window, coverage=0.99, granularity=granularity), times)
    whole = -(-(int(times.min()) + window.range) // window.slide) * window.slide
    ends = whole + window.slide * np.arange(FIRST, LAST)
    return float(kept(found, window, ends.tolist(), 0.01).mean())


@pytest.mark.spec("QD-C2", "QD-D1")
@pytest.mark.parametrize("slide", [500, 50])
@pytest.mark.parametrize("delays", ["exponential", "uniform", "Pareto", "bimodal", "days"])
def test_the_first_windows_keep_the_target(delays: str, slide: int) -> None:
    shares = []
    for seed in range(8 if slide == 500 else 5):
        if delays == "days":
            hour = 3_600
            window = TimeWindow(hour, hour * slide // 500, 0, "t")
            times = days(seed, 4 if slide == 500 else 2, 800)
            shares.append(first_windows(times, window, 60))
        else:
            window = TimeWindow(500, slide, 0, "t")
            rows = (LAST * slide + 500 + 12_000) // 10
            shares.append(first_windows(arrivals(seed, rows, 100, delays), window, 10))
    # Windows of one stream go together: streams are what is drawn.
    error = np.std(shares, ddof=1) / len(shares) ** 0.5
    assert np.mean(shares) >= WANTED - 2 * max(error, 0.005)


def test_the_margin_falls_as_windows_come_in() -> None:
    margins = [margin(n, WANTED) for n in range(40)]
    assert margins == sorted(margins, reverse=True)
    assert margins[9] == pytest.approx(2**0.5) and margins[19] == margins[39] == 1
    rng = np.random.default_rng(1)
    # Of any tail that falls with the square of the delay or faster.
    for number in (4, 9, 15):
        drawn = rng.pareto(2, (40_000, number + 1)) + 1
        wait = margins[number] * drawn[:, :number].max(axis=1)
        assert np.mean(drawn[:, number] <= wait) >= WANTED - 0.003


def test_needs_of_windows_that_are_open_but_have_their_rows_count() -> None:
    """A slack that is far too large must not be waited for, only to learn that it is too large."""
    needs, asked = Needs(1, 0.97), ([Asked("count")], 0.01, WANTED)
    for wid in range(9):
        needs.add(LateSums({wid: [100.0]}, {(wid, 10 + wid): [2.0]}), 1)
    assert needs.slack(*asked, 1.0, 0, 20) == (None, False)
    needs.add(LateSums({9: [100.0]}), 1)
    # Ten are known: the largest of them, and what makes up for their number.
    assert needs.slack(*asked, 1.0, 0, 20) == (int(np.ceil(18 * margin(10, WANTED))), False)
    assert needs.slack(*asked, 1.0, 0, 8) == (None, False)
    assert needs.slack(*asked, 5.0, 0, 20) == (None, False)
    assert not needs.known and FEWEST == 40
    assert WarmUp(10, FEWEST, 10).expected == pytest.approx(10 / 11)
