"""Rows at the very bound where lateness is judged row by row: equality is on time, one tick less is late."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.policy import Quality
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.strict import Feed, judge
from slackwater.semantics.quality.target import Consumer, Target
from slackwater.semantics.quality.threshold import Asked
from slackwater.testing.local.run import scratch_folder
from tests.engine.in_process import Engine
from tests.engine.test_quality import run, summed
from tests.examples import examples

LIMIT = 6
SLIDE = 5
RANGE = 10
CONFIDENCE = 0.95


@dataclass
class Loop:
    """The definition, row by row, while the target is not warm: slack is the largest delay with a margin, at most `LIMIT`.

    The slack is reconsidered by each row whose bound passes the end of a window, or that is the first after one. Where n windows that share no row have been seen,
    the next exceeds the largest delay with probability 1 / (n + 1), and a wait that is m times as long m ** 2 times as seldom.
    """

    bound: int | None = None
    clock: int | None = None
    slack: int = 0
    largest: int = 0
    bounds: list[int | None] = field(default_factory=list)
    times: list[int] = field(default_factory=list)

    def take(self, time: int) -> None:
        self.times.append(time)
        self.bounds.append(self.bound)
        before = self.clock
        self.clock = time if before is None else max(before, time)
        self.largest = max(self.largest, self.clock - time)
        after = self.clock - self.slack
        after = after if self.bound is None else max(self.bound, after)
        passed = self.bound is None or after // SLIDE > self.bound // SLIDE
        passed |= before is None or self.clock // SLIDE > before // SLIDE
        self.bound = after
        if passed:
            windows = max(0, self.clock - self.times[0] - self.largest) / RANGE
            margin = max(1.0, 1 / (windows + 1) / (1 - CONFIDENCE)) ** 0.5
            self.slack = min(math.ceil(self.largest * margin), LIMIT)

    @property
    def late(self) -> list[int]:
        """Numbers of rows below the bound at their moment. A row at the bound is not late."""
        return [i for i, b in enumerate(self.bounds) if b is not None and self.times[i] < b]

    @property
    def at_bound(self) -> list[int]:
        return [i for i, b in enumerate(self.bounds) if self.times[i] == b]

    def counts(self) -> dict[int, int]:
        """Rows by window: a window takes rows until the bound has reached its end."""
        out: dict[int, int] = {}
        for time, bound in zip(self.times, self.bounds, strict=True):
            for wid in range(time // SLIDE, (time + RANGE) // SLIDE):
                if bound is None or bound < (wid + 1) * SLIDE:
                    out[wid] = out.get(wid, 0) + 1
        return out


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("bound"), st.integers(-2, 2)),
        st.tuples(st.just("bound"), st.just(0)),
        st.tuples(st.just("clock"), st.integers(-8, 7)),
    ),
    min_size=1,
    # So few windows that slack does not follow their needs yet.
    max_size=25,
)


def played(moves: list[tuple[str, int]]) -> Loop:
    """Rows near the bound of their moment, or near the current time."""
    loop = Loop()
    loop.take(3)
    for what, by in moves:
        base = loop.bound if what == "bound" else loop.clock
        assert base is not None
        loop.take(base + by)
    return loop


@pytest.mark.spec("QD-A1", "QD-B8")
@examples(200)
@given(MOVES)
def test_the_bound_of_each_row_is_that_of_the_definition(moves: list[tuple[str, int]]) -> None:
    loop = played(moves)
    times = np.array(loop.times, np.int64)
    target = Target(error=0.1, granularity=1, limit=LIMIT, warm_rows=10**6)
    consumer = Consumer(TimeWindow(RANGE, SLIDE, 0, "ts"), (Asked("sum", 0),), 1)
    feed = Feed(np.ones(len(times), bool), [np.ones(len(times))])
    judged = judge(Adaptation.fresh(target, [consumer]), times, [feed], START)
    assert judged.bounds.tolist() == [START if b is None else b for b in loop.bounds]
    assert judged.bound == loop.bound


@pytest.mark.spec("QD-A1", "QD-B8")
@examples(30)
@given(MOVES, st.integers(0, 24))
def test_a_row_at_the_bound_is_on_time_on_the_engine(
    moves: list[tuple[str, int]], cut: int
) -> None:
    loop = played([*moves, ("clock", 4), ("bound", 0), ("bound", -1), ("bound", 0)])
    assert loop.at_bound and loop.late
    rows = [(i, 0, t, 1.0) for i, t in enumerate(loop.times)]
    policy = Quality(error=0.1, granularity=1, limit=LIMIT, strict=True)
    plan = summed(policy, TimeWindow(RANGE, SLIDE, 0, "ts"), order=True)
    with scratch_folder() as folder:
        made = run(lambda: Engine(folder), plan, rows, [2 + cut % (len(rows) - 3)])
    assert sorted(r["n"] for r in made.rows("late")) == loop.late
    assert {r["wid"]: r["rows"] for r in made.rows("out")} == loop.counts()
