"""What windows turned out to hold, the controller that follows it, and what tasks gather for it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.window import TimeWindow
from slackwater.semantics.quality.controller import Controller
from slackwater.semantics.quality.gathered import Gathered, GatheredRows, merged
from slackwater.semantics.quality.measure import Coverage, stride, tally
from slackwater.semantics.quality.moments import Moments, Recent
from slackwater.semantics.quality.statistics import (
    Bag,
)


@pytest.mark.spec("QD-D7", "QD-B8")
@given(
    st.lists(st.tuples(st.integers(-60, 60), st.integers(-80, 80)), max_size=40),
    st.sampled_from([(10, 5), (10, 10), (7, 3), (4, 9), (90, 3)]),
    st.integers(-5, 5),
)
def test_rows_are_received_by_open_windows_and_missed_by_closed_ones(
    rows: list[tuple[int, int]], shape: tuple[int, int], origin: int
) -> None:
    w = TimeWindow(*shape, origin, "t")
    wanted: dict[int, list[int]] = {}
    for t, bound in rows:
        for wid in range(-80, 80):
            end = origin + (wid + 1) * w.slide
            if end - w.range <= t < end and wid % stride(w) == 0:
                wanted.setdefault(wid, [0, 0])[bound >= end] += 1
    array = np.array(rows, np.int64).reshape(-1, 2)
    closed = (array[:, 1] - origin) // w.slide - 1
    found = tally(array[:, 0], closed, w)
    assert found == {wid: tuple(n) for wid, n in sorted(wanted.items())}


def test_a_row_that_is_years_late_needs_no_room_for_the_windows_between() -> None:
    w, now = TimeWindow(1_000_000, 500_000, 0, "t"), 1_800_000_000_000_000
    rows = np.array([now - 1, 7, now - 1_000_000, now - 1], np.int64)
    late = now // 500_000 - 3
    found = tally(rows, late + 1, w)
    assert found == {0: (0, 1), 1: (0, 1), late + 1: (0, 1), late + 2: (3, 0), late + 3: (2, 0)}


@pytest.mark.spec("QD-D7", "QD-D8", "QD-D9")
def test_coverage_is_one_when_a_window_closes_and_falls_as_late_rows_come() -> None:
    w = TimeWindow(10, 10, 0, "t")
    coverage = Coverage()
    coverage.add({0: (8, 0), 1: (4, 0)})
    coverage.close(0, 0, 0.9, w)
    assert coverage.measure(10, w) == (0, 1.0)
    assert coverage.measure(9, w) is None  # it ends later
    coverage.add({0: (0, 1)})
    coverage.add({0: (0, 1)})
    assert coverage.measure(25, w) == (0, 0.8)
    coverage.close(1, 1, 0.9, w)
    assert coverage.measure(25, w) == (1, 1.0)
    coverage = Coverage.from_json(json.loads(json.dumps(coverage.to_json())))
    coverage.purge(30, w)
    assert list(coverage.counts) == [] == list(coverage.estimates)


@pytest.mark.spec("QD-C7", "QD-D12")
def test_the_controller_grows_with_the_shortfall_and_has_no_memory_of_surplus() -> None:
    c = Controller()
    found = [c.step(0.95, measured) for measured in (1.0, 0.90, 0.95)]
    assert found == pytest.approx([0, 0.41, 0.21])
    assert c.slack(1000) == 210
    for _ in range(500):
        c.step(0.95, 1.0)
    c = Controller.from_json(json.loads(json.dumps(c.to_json())))
    c.step(0.95, 0.85)
    assert c.alpha > 0.5  # at once: surplus was not added up
    for _ in range(50):
        c.step(0.95, 0.0)
    assert c.alpha == 1


@pytest.mark.spec("QD-C3")
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.integers(0, 60))
def test_moments_do_not_depend_on_cuts_and_give_the_spread(values: list[float], cut: int) -> None:
    whole = Moments.of(np.array(values))
    assert Moments.of(np.array(values[:cut])).then(np.array(values[cut:])) == whole
    array = np.array([*values, math.nan, math.inf])
    assert Moments.of(array) == whole
    positive = np.abs(np.array(values)) + 1
    spread = Moments.of(positive).spread
    assert spread == pytest.approx(positive.std() / positive.mean(), abs=1e-4)


def test_recent_values_are_those_of_the_last_stretch() -> None:
    recent = Recent(1)
    for newest, value in ((10, 1.0), (20, 2.0), (30, 3.0)):
        recent.add(newest, [Moments.of(np.array([value]))], 15)
    assert recent.of(0).total == 5.0
    recent.add(99, [Moments()], 15)
    assert recent.of(0).total == 3.0  # better old values than none
    assert Recent.from_json(json.loads(json.dumps(recent.to_json()))) == recent


def test_what_tasks_gather_adds_up_in_any_order() -> None:
    w = TimeWindow(10, 5, 0, "t")
    rng = np.random.default_rng(2)
    parts = []
    for _ in range(4):
        rows = rng.integers(0, 100, 30)
        values = rng.random(30)
        moments = (Moments.ones(30), Moments.ones(30), Moments.of(values))
        groups = {int(h): (Moments.ones(1),) for h in rng.integers(0, 400, 20)}
        rows_of = GatheredRows(tally(rows, 5, w), moments, groups)
        parts.append(Gathered(Bag.of(rows, [40, 60], 3), (rows_of,)))
    forth, back = merged(parts), merged(parts[::-1])
    assert forth.to_json() == back.to_json()
    assert Gathered.from_json(json.loads(json.dumps(forth.to_json()))) == forth
    assert forth.bag is not None and forth.bag.rows == 120
    nested = merged([merged(parts[:2]), merged(parts[2:])])
    assert nested.to_json()["bag"] == forth.to_json()["bag"]
