"""When rows that wait for segments are served: the rule alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.semantics.waiting import (
    AWAITED,
    FREED,
    Backlog,
    WaitPolicy,
    comes_to_hand,
    is_due,
    known_awaited,
    to_read,
)
from tests.examples import examples

NAMES = st.text("abcdef", min_size=1, max_size=2)
BACKLOGS = st.dictionaries(
    NAMES, st.builds(Backlog, st.integers(1, 9), st.integers(1, 90), st.integers(0, 20)), max_size=8
)
POLICIES = st.builds(
    WaitPolicy, st.integers(1, 30), st.integers(0, 300), st.integers(1, 9), st.booleans()
)


@pytest.mark.spec("XJ-F53", "XJ-F54")
@given(BACKLOGS, POLICIES, st.integers(20, 40), st.booleans())
@examples(200)
def test_segments_are_read_for_a_reason_and_never_without_one(
    backlogs: dict[str, Backlog], policy: WaitPolicy, now: int, idle: bool
) -> None:
    begun = to_read(backlogs, policy, now=now, idle=idle)
    for name, waiting in backlogs.items():
        late = now - waiting.oldest >= policy.deadline
        many = waiting.rows >= policy.backlog and (idle or policy.always)
        if late or many:
            assert begun[name] == ("deadline" if late else "backlog")
        else:
            assert begun.get(name, "full") == "full"
    others = {n: b for n, b in backlogs.items() if begun.get(n, "full") == "full"}
    left = {n: b for n, b in others.items() if n not in begun}
    full = [others[n] for n in begun if n in others]
    if sum(b.size for b in others.values()) <= policy.room:
        assert not full
    else:
        assert sum(b.size for b in left.values()) < (1 - FREED) * policy.room or not left
        sizes = [b.size for b in full]
        assert sizes == sorted(sizes, reverse=True)
        assert all(sizes[-1] >= b.size for b in left.values())
        # Without the last of them too little would be free.
        kept = sum(b.size for b in left.values()) + sizes[-1]
        assert policy.room - kept <= FREED * policy.room


@pytest.mark.spec("XJ-F54")
@given(BACKLOGS, POLICIES, st.integers(20, 40))
@examples(100)
def test_a_batch_is_due_if_it_would_read_something(
    backlogs: dict[str, Backlog], policy: WaitPolicy, now: int
) -> None:
    rows = sum(b.rows for b in backlogs.values())
    most = max((b.rows for b in backlogs.values()), default=0)
    oldest = min((b.oldest for b in backlogs.values()), default=0)
    roomy = WaitPolicy(policy.deadline, 10_000, policy.backlog, policy.always)
    reads = bool(to_read(backlogs, roomy, now=now, idle=True))
    assert is_due(rows, most, oldest, policy, now) == reads


@pytest.mark.spec("XJ-F56")
@given(st.sets(NAMES), st.sets(NAMES), st.integers(1, 3 * AWAITED))
@examples(100)
def test_a_batch_runs_if_an_awaited_segment_is_fresh_however_few_are_named(
    awaited: set[str], fresh: set[str], groups: int
) -> None:
    named = known_awaited(awaited, groups)
    if named is None:
        assert len(awaited) * groups > AWAITED
        assert comes_to_hand(named, fresh) == bool(fresh)
    else:
        assert set(named) == awaited and len(named) <= max(1, AWAITED // groups)
        assert comes_to_hand(named, fresh) == bool(awaited & fresh)


def test_a_cold_segment_is_read_at_its_deadline_however_many_wait_for_others() -> None:
    """In a trace where one row waits alone, and others come for one segment again and again."""
    policy, lone = WaitPolicy(deadline=50, room=1000, backlog=10), 7
    served = None
    hot = 0
    for now in range(200):
        hot += 3
        backlogs = {"hot": Backlog(hot, hot * 10, now), "cold": Backlog(1, 10, lone)}
        if now < lone:
            del backlogs["cold"]
        begun = to_read(backlogs, policy, now=now, idle=now % 3 == 0)
        if "hot" in begun:
            hot = 0
        if "cold" in begun:
            served = now
            break
    assert served == lone + 50


def test_all_is_read_at_the_end() -> None:
    waiting = {"a": Backlog(1, 1, 0), "b": Backlog(2, 2, 0)}
    assert to_read(waiting, WaitPolicy(100, 100), now=0, ended=True) == {"a": "end", "b": "end"}
