"""Which partition is to blame for how far a bound is behind."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.model.policy import BoundedDelay, Ordered
from slackwater.semantics.apart import Apart, apart
from slackwater.semantics.bounds import START
from slackwater.semantics.progress import ColumnState, PartitionState
from tests.semantics.helpers import MICROS, Feed

HOUR = 3_600


def behind(partitions: dict[str, PartitionState], before: int, unseen: bool) -> float:
    """How far the bound is behind, of these partitions; the bound was at ``before``, and never goes back. No end if none is waited for."""
    waited = [p.bound for p in partitions.values() if not p.idle and not p.excluded]
    if not waited:
        return math.inf
    bound = before if unseen else max(before, min(waited))
    return max(p.hi for p in partitions.values() if p.hi is not None) - bound


def blamed(column: ColumnState, unseen: bool) -> str | None:
    """By the definition: leave out each partition, and see who makes the difference."""
    parts, held = column.partitions, column.bound
    named = [n for n, p in parts.items() if p.hi is not None and not p.excluded]
    now = behind(dict(parts), held, unseen) if len(named) > 1 else 0
    if now <= 0 or now == math.inf:
        return None
    rests = {n: {m: p for m, p in parts.items() if m != n} for n in named}
    apart = [n for n in named if 2 * behind(rests[n], held, unseen) <= now]
    if len(apart) == 2 and set(apart) == {n for n in named if not parts[n].idle}:
        return max(apart, key=lambda n: parts[n].hi or 0)
    return apart[0] if len(apart) == 1 else None


def column(*partitions: PartitionState, bound: int, unseen: bool = False) -> ColumnState:
    named = dict(zip("abcdef", partitions, strict=False))
    waited = {n: p.bound for n, p in named.items() if not p.idle and not p.excluded}
    if unseen:
        return ColumnState(named, bound, "<1 not seen>")
    holder = min(waited, key=lambda n: waited[n], default=None)
    return ColumnState(named, max([bound, *([min(waited.values())] if waited else [])]), holder)


def of(hi: int | None, bound: int | None = None, **how: bool) -> PartitionState:
    return PartitionState(hi, (START if hi is None else hi) if bound is None else bound, **how)


STATES = st.builds(
    PartitionState,
    hi=st.none() | st.integers(0, 12),
    bound=st.just(START) | st.integers(-3, 12),
    idle=st.booleans(),
    excluded=st.booleans(),
)


@example([of(0), of(30), of(60)], 0, False)  # either end takes just half
@example([of(0), of(29), of(60)], 0, False)
@example([of(0), of(31), of(60)], 0, False)
@example([of(0), of(60)], 0, False)
@example([of(0), of(0), of(60)], 0, False)
@example([of(0), of(60), of(60)], 0, False)
@example([of(0), of(60), of(61)], 0, False)
@example([of(0), of(0), of(60)], 0, True)
@example([of(0), of(60), of(60)], 0, True)
@example([of(0), of(1), of(60, idle=True)], 0, False)
@example([of(0, idle=True), of(30), of(60)], 30, False)
@example([of(30, idle=True), of(0), of(60)], 0, False)
@example([of(0, excluded=True), of(30), of(60)], 30, False)
@example([of(60, excluded=True), of(0), of(1)], 0, False)
@example([of(60, 0), of(59, 58)], 0, False)  # the newest one holds the bound back, too
@example([of(60, 0), of(60, 58), of(60, 57)], 0, False)
@example([of(0), of(60), of(60), of(-50, idle=True)], 0, False)
@example([of(0), of(60), of(60), of(-50, excluded=True)], 0, False)
@example([of(0, idle=True), of(60, 50)], 0, False)  # none but the other goes on
@example([of(None), of(0), of(60)], 0, False)
@example([of(0), of(10), of(11)], 9, False)  # the bound in force is above the least
@example([of(0), of(0), of(60)], 70, False)
@given(st.lists(STATES, max_size=5), st.integers(0, 12), st.booleans())
def test_the_one_without_which_most_of_behind_goes_is_named(
    partitions: list[PartitionState], bound: int, unseen: bool
):
    state = column(*partitions, bound=bound, unseen=unseen)
    one = apart(state)
    assert (one and one.partition) == blamed(state, unseen)
    if one is None:
        return
    left = {n: p for n, p in state.partitions.items() if n != one.partition}
    whole = behind(dict(state.partitions), state.bound, unseen)
    less = whole - behind(left, state.bound, unseen)
    # The greater part of what would go, by its direction: all of it, where only one end moves.
    assert less / 2 <= abs(one.ahead) <= less
    newest = max((p.hi for p in left.values() if p.hi is not None), default=0)
    ahead = whole + state.bound - newest
    assert one.ahead in (ahead, ahead - less)


HOURS = {"a": 0, "b": 10, "c": -20}


@pytest.mark.parametrize(
    ("times", "named"),
    [
        ({**HOURS, "d": 3_600_000}, Apart("d", 3_599_990)),
        ({**HOURS, "d": -3_600_000}, Apart("d", 20 - 3_600_000)),
        ({**HOURS, "d": 3_600_000, "e": 3_600_007}, None),
        ({**HOURS, "d": 3_600_000, "e": -3_600_000}, None),
        ({"a": 0, "b": 20_000, "c": 40_000, "d": 60_000}, None),
        ({"a": 0, "b": 3_600_000}, Apart("b", 3_600_000)),
    ],
)
def test_who_is_named(times: dict[str, int], named: Apart | None):
    feed = Feed(BoundedDelay(delay=1_000), partition="p")
    feed.batch(*({"p": p, "ts": t} for p, t in times.items()))
    assert apart(feed.state.columns["ts"]) == named


def test_a_partition_that_lags_too_far_is_not_to_blame():
    feed = Feed(BoundedDelay(delay=1_000).lagLimit(60_000), partition="p")
    feed.batch(*({"p": p, "ts": t} for p, t in {**HOURS, "d": -3_600_000}.items()))
    assert feed.state.columns["ts"].behind == 1_030
    assert apart(feed.state.columns["ts"]) is None


def test_one_clock_an_hour_ahead_is_named_and_not_the_one_that_waits():
    feed = Feed(BoundedDelay(delay=5), partition="p")
    feed.batch(*({"p": p, "ts": t} for p, t in [("a", 100), ("b", 102 + HOUR), ("c", 101)]))
    assert (feed.bound, feed.holder) == (95, "a")
    assert apart(feed.state.columns["ts"]) == Apart("b", HOUR + 1)


def test_one_clock_an_hour_behind_is_the_holder_itself():
    feed = Feed(Ordered(), partition="p")
    feed.batch(*({"p": p, "ts": t} for p, t in [("a", HOUR), ("b", 1), ("c", HOUR + 1)]))
    assert (feed.bound, feed.holder) == (1, "b")
    assert apart(feed.state.columns["ts"]) == Apart("b", 1 - HOUR)


@pytest.mark.parametrize("times", [(100, 101, 102), (100, 104, 108)])
def test_nobody_is_named_where_the_policy_itself_waits(times: tuple[int, ...]):
    feed = Feed(BoundedDelay(delay=50), partition="p")
    feed.batch(*({"p": p, "ts": t} for p, t in zip("abc", times, strict=True)))
    assert apart(feed.state.columns["ts"]) is None


def test_before_the_first_bound_and_after_the_end_nobody_is_named():
    feed = Feed(Ordered(), partition="p", partitions=3)
    feed.batch({"p": "a", "ts": 1}, {"p": "b", "ts": HOUR})
    assert apart(feed.state.columns["ts"]) is None
    feed.batch({"p": "c", "ts": 1})
    assert apart(feed.state.columns["ts"]) == Apart("b", HOUR - 1)
    feed.batch(ended=True)
    assert apart(feed.state.columns["ts"]) is None


def test_a_partition_that_is_idle_is_not_to_blame():
    feed = Feed(Ordered().idleAfter("10 seconds").futureGuard(None), MICROS, partition="p")
    second = 1_000_000
    feed.batch(
        *({"p": p, "ts": t * second} for p, t in [("a", 1), ("b", HOUR), ("c", HOUR)]), now=0
    )
    assert apart(feed.state.columns["ts"]) == Apart("a", (1 - HOUR) * second)
    rows = [{"p": p, "ts": t * second} for p, t in [("b", HOUR + 1), ("c", HOUR + 2)]]
    feed.batch(*rows, now=60 * second)
    assert apart(feed.state.columns["ts"]) == Apart("c", second)
