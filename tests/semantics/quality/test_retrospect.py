"""Coverage is measured in retrospect: of the latest window for which enough of the late rows must have come."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.strict import Feed, judge
from slackwater.semantics.quality.target import Consumer, Target
from slackwater.semantics.quality.threshold import Asked
from tests.examples import examples

SHARE = 0.99
"""Of the late rows that have come so far: a window is measured once so many of its own would have come."""


@dataclass
class Retrospect:
    """The definition, row by row; ``bounds`` and the rows that close windows are what the product says."""

    range: int
    slide: int
    clock: int | None = None
    delays: list[int] = field(default_factory=list)
    received: dict[int, int] = field(default_factory=dict)
    missed: dict[int, int] = field(default_factory=dict)
    measured: tuple[int, float] | None = None

    def take(self, time: int, bound: int, after: int) -> None:
        """A row that came upon a bound, and left another."""
        self.clock = time if self.clock is None else max(self.clock, time)
        if time < self.clock:
            self.delays.append(self.clock - time)
        for wid in range(time // self.slide, (time + self.range) // self.slide):
            closed = bound > START and bound >= (wid + 1) * self.slide
            counter = self.missed if closed else self.received
            counter[wid] = counter.get(wid, 0) + 1
        if bound == START or after // self.slide > bound // self.slide:
            self.measure(after)

    def measure(self, bound: int) -> None:
        """A window has closed: look at the newest that ended before all but a few of the late rows had to come."""
        assert self.clock is not None
        before = self.clock - quantile(self.delays, SHARE)
        known = [w for w in self.received if (w + 1) * self.slide <= min(before, bound)]
        if known and (self.measured is None or max(known) > self.measured[0]):
            wid = max(known)
            here, gone = self.received[wid], self.missed.get(wid, 0)
            self.measured = (wid, here / (here + gone))


def quantile(delays: list[int], share: float) -> int:
    """To one per cent, rounded up, as a histogram with logarithmic classes gives it."""
    if not delays:
        return 0
    width = math.log(1.01 / 0.99)
    classes = sorted(math.ceil(math.log(d) / width) for d in delays)
    at = classes[math.floor(share * (len(classes) - 1))]
    return math.ceil(2 * math.exp(width * at) / (1 + math.exp(width)))


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 0, 0, 1, 3, 6, 12, 20, 25])),
    min_size=20,
    max_size=120,
)


@pytest.mark.spec("QD-D8")
@pytest.mark.parametrize("shape", [(10, 5), (8, 8), (6, 2)])
@examples(100)
@given(STEPS, st.lists(st.integers(1, 119), max_size=8))
def test_what_is_measured_is_the_newest_window_that_late_rows_have_had_time_for(
    shape: tuple[int, int], steps: list[tuple[int, int]], cuts: list[int]
) -> None:
    """A controller on few rows keeps little slack, so that windows miss rows."""
    times, now = [], 0
    for ahead, behind in steps:
        now += ahead
        times.append(now - behind)
    window = TimeWindow(*shape, 0, "t")
    target = Target(coverage=0.5, method="pd", granularity=1, limit=4, warm_rows=5)
    adaptation = Adaptation.fresh(target, [Consumer(window, (Asked("count"),), 0)])
    wanted = Retrospect(*shape)
    bound, edges = START, sorted({0, *(c for c in cuts if c < len(times)), len(times)})
    for a, b in pairwise(edges):
        piece = np.array(times[a:b], np.int64)
        judged = judge(adaptation, piece, [Feed(np.ones(b - a, bool), [])], bound)
        bounds = [*judged.bounds.tolist(), judged.bound]
        for time, before, after in zip(times[a:b], bounds[:-1], bounds[1:], strict=True):
            wanted.take(time, before, after)
        bound = judged.bound
        state = adaptation.states[0]
        found = None if state.measured_wid is None else (state.measured_wid, state.measured)
        assert found == wanted.measured


@pytest.mark.spec("QD-D8")
def test_a_window_is_measured_when_its_late_rows_have_come_not_when_it_closes() -> None:
    window = TimeWindow(10, 10, 0, "t")
    target = Target(coverage=0.5, method="pd", granularity=1, limit=0, warm_rows=1)
    adaptation = Adaptation.fresh(target, [Consumer(window, (Asked("count"),), 0)])
    bound, told = START, []
    # The third row is 8 behind. 12 closes the first window, which then misses 3; 22 closes the second.
    for time in (1, 9, 1, 12, 3, 17, 22, 32):
        piece = np.array([time], np.int64)
        bound = judge(adaptation, piece, [Feed(np.ones(1, bool), [])], bound).bound
        told.append((adaptation.states[0].measured_wid, adaptation.states[0].measured))
    assert told == [*[(None, None)] * 6, (0, 0.75), (1, 1.0)]
