"""Which partition is to blame for how far a bound is behind."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.model.policy import BoundedDelay, Ordered
from slackwater.semantics.apart import Apart, apart
from tests.semantics.helpers import MICROS, Feed

HOUR = 3_600


def middle(times: list[int]) -> set[int]:
    """The times that at least half have not passed, and at least half have reached."""
    spread = range(min(times), max(times) + 1)
    return {
        m
        for m in spread
        if 2 * sum(t <= m for t in times) >= len(times) <= 2 * sum(t >= m for t in times)
    }


def blamed(newest: dict[str, int], bound: int) -> Apart | None:
    """By the definition: try each partition against the middle of all the others."""
    best: Apart | None = None
    for name in sorted(newest):
        others = [t for n, t in newest.items() if n != name]
        if not others:
            return None
        ahead = min((newest[name] - m for m in middle(others)), key=abs)
        if best is None or (abs(ahead), ahead) > (abs(best.ahead), best.ahead):
            best = Apart(name, ahead)
    behind = max(newest.values(), default=0) - bound
    # More than half of how far the bound is behind comes from it.
    return best if best is not None and behind > 0 and abs(best.ahead) > behind / 2 else None


@example(newest={"a": 3, "b": 9}, lag=0)
@example(newest={"a": 3, "b": 4, "c": 9}, lag=-1)
@example(newest={"a": 3, "b": 9, "c": 9, "d": 3}, lag=0)
@example(newest={"a": 0, "b": 9, "c": 9, "d": 8}, lag=2)
@given(newest=st.dictionaries(st.sampled_from("abcde"), st.integers(0, 9)), lag=st.integers(-3, 9))
def test_the_one_far_from_the_middle_of_the_others_is_named(newest: dict[str, int], lag: int):
    bound = min(newest.values(), default=0) - lag
    assert apart(newest, bound) == blamed(newest, bound)


def test_one_clock_an_hour_ahead_is_named_and_not_the_one_that_waits():
    feed = Feed(BoundedDelay(delay=5), partition="p")
    feed.batch(*({"p": p, "ts": t} for p, t in [("a", 100), ("b", 102 + HOUR), ("c", 101)]))
    assert (feed.bound, feed.holder) == (95, "a")
    assert feed.state.columns["ts"].apart == Apart("b", HOUR + 1)


def test_one_clock_an_hour_behind_is_the_holder_itself():
    feed = Feed(Ordered(), partition="p")
    feed.batch(*({"p": p, "ts": t} for p, t in [("a", HOUR), ("b", 1), ("c", HOUR + 1)]))
    assert (feed.bound, feed.holder) == (1, "b")
    assert feed.state.columns["ts"].apart == Apart("b", 1 - HOUR)


@pytest.mark.parametrize("times", [(100, 101, 102), (100, 104, 108)])
def test_nobody_is_named_where_the_policy_itself_waits(times: tuple[int, ...]):
    feed = Feed(BoundedDelay(delay=50), partition="p")
    feed.batch(*({"p": p, "ts": t} for p, t in zip("abc", times, strict=True)))
    assert feed.state.columns["ts"].apart is None


def test_before_the_first_bound_and_after_the_end_nobody_is_named():
    feed = Feed(Ordered(), partition="p", partitions=3)
    feed.batch({"p": "a", "ts": 1}, {"p": "b", "ts": HOUR})
    assert feed.state.columns["ts"].apart is None
    feed.batch({"p": "c", "ts": 1})
    assert feed.state.columns["ts"].apart == Apart("b", HOUR - 1)
    feed.batch(ended=True)
    assert feed.state.columns["ts"].apart is None


def test_a_partition_that_is_idle_is_not_to_blame():
    feed = Feed(Ordered().idleAfter("10 seconds").futureGuard(None), MICROS, partition="p")
    second = 1_000_000
    feed.batch(
        *({"p": p, "ts": t * second} for p, t in [("a", 1), ("b", HOUR), ("c", HOUR)]), now=0
    )
    assert feed.state.columns["ts"].apart == Apart("a", (1 - HOUR) * second)
    rows = [{"p": p, "ts": t * second} for p, t in [("b", HOUR + 1), ("c", HOUR + 2)]]
    feed.batch(*rows, now=60 * second)
    assert feed.state.columns["ts"].apart == Apart("c", second)
