"""Every option of a quality target changes the slack in its own way; the policy is what a user writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slackwater.errors import AnalysisError
from slackwater.model.policy import Quality
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.strict import Feed, judge
from slackwater.semantics.quality.target import Consumer
from slackwater.semantics.quality.threshold import Asked
from slackwater.semantics.settings import quality_target

TIME = TimeColumn("ts", "long", None)
ROWS = 3_000


def adapted(**options: Any) -> tuple[Adaptation, list[int]]:
    """A stream of which 30 % are some 10 ticks late and 1 % far more, and the slacks it went through."""
    rng = np.random.default_rng(4)
    late = np.where(rng.random(ROWS) < 0.3, rng.exponential(10, ROWS), 0)
    late += np.where(rng.random(ROWS) < 0.01, rng.integers(50, 400, ROWS), 0)
    times = np.arange(ROWS) - late.astype(np.int64)
    target = quality_target(Quality(**{"error": 0.05, "granularity": 1, **options}), TIME)
    consumer = Consumer(TimeWindow(100, 20, 0, "ts"), (Asked("count"),), 0)
    found = Adaptation.fresh(target, [consumer])
    judged = judge(found, times, [Feed(np.ones(ROWS, bool), [])], START)
    return found, [slack for _, slack in judged.changes]


def test_a_limit_is_never_exceeded() -> None:
    _, free = adapted()
    assert max(free) > 30  # while it warms up, the largest delay seen
    found, slacks = adapted(limit=6)
    assert max(slacks) == 6 == found.slack


def test_slack_is_the_largest_delay_until_the_warm_up_is_over() -> None:
    found, _ = adapted(warmup=ROWS)
    assert not found.warm and found.slack == found.statistics.largest > 100
    usual, _ = adapted()
    assert usual.warm and usual.slack < 100


def test_slack_is_chosen_in_steps_of_the_granularity() -> None:
    found, slacks = adapted(granularity=7, warmup=1)
    assert found.statistics.granularity == 7
    warm = slacks[len(slacks) // 2 :]
    assert all(s % 7 == 0 for s in warm) and any(s % 7 for s in adapted()[1])


def test_without_a_granularity_it_is_ten_milliseconds_or_a_tick() -> None:
    micros, millis = TimeColumn("ts", "timestamp", 1), TimeColumn("ts", "long", 1000)
    for time, wanted in ((micros, 10_000), (millis, 10), (TIME, 1)):
        assert quality_target(Quality(error=0.1), time).granularity == wanted
    assert (
        quality_target(Quality(error=0.1, granularity="2 seconds"), micros).granularity == 2_000_000
    )


def test_more_confidence_needs_more_of_each_window() -> None:
    needed = [adapted(confidence=c)[0].states[0].needed for c in (0.5, 0.95, 0.999)]
    assert needed == sorted(set(needed))
    slacks = [adapted(confidence=c)[0].slack for c in (0.5, 0.999)]
    assert slacks[0] < slacks[1]


@pytest.mark.parametrize("name", ["limit", "warmup", "granularity"])
def test_spans_that_make_no_sense_are_refused_by_name(name: str) -> None:
    for bad in (0, -3, "ten seconds"):
        with pytest.raises(AnalysisError, match=name):
            quality_target(Quality(error=0.1, **{name: bad}), TIME)
