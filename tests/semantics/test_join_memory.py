"""The decisions of a join in little memory, one at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulations.disk import disk_time, scan_cost
from slackwater.errors import AnalysisError
from slackwater.model.join import Band
from slackwater.semantics.join_memory import (
    Block,
    BlockRules,
    Debt,
    JoinPolicy,
    areas,
    displaced,
    faded,
    giver,
    in_reach,
    owes,
    pass_group,
    pass_reason,
    reach,
    weight,
)
from slackwater.semantics.limits import END


def block(number=0, low=0, high=0, size=100, **more):
    return Block(number, low, high, 10, size, **more)


def debt(first=0, end=1, low=0, high=0, rows=10, size=100, upto=5, **more):
    return Debt(first, end, low, high, rows, size, upto, **more)


@pytest.mark.spec("XJ-F11", "XJ-F12")
def test_a_debt_needs_just_the_blocks_that_were_not_resident_on_arrival():
    rules = BlockRules()
    places = ["disk", "productive", "disk", "recent", "recent"]
    others = [block(n, place=p) for n, p in enumerate(places)]
    upto = rules.met_upto(others)
    owed = debt(upto=upto, skip=rules.met_below(others, upto))
    assert [b.number for b in others if rules.needs(owed, b)] == [0, 2]
    # What happens to the blocks afterwards changes nothing, nor do blocks that come later.
    for b in others:
        b.place = "disk" if b.place != "disk" else "productive"
    assert [b.number for b in [*others, block(5, place="disk")] if rules.needs(owed, b)] == [0, 2]


def test_with_nothing_resident_only_blocks_that_are_there_are_owed():
    rules = BlockRules()
    assert rules.met_upto([]) == 0
    assert rules.met_upto([block(7, place="disk")]) == 8


def test_a_pass_that_stops_goes_on_where_it_stopped():
    rules = BlockRules()
    owed = rules.advanced(debt(upto=5), 3)
    assert [n for n in range(9) if rules.needs(owed, block(n))] == [3, 4]
    assert rules.advanced(owed, 1).done == 3


def test_rows_in_debt_count_as_not_yet_arrived():
    rules = BlockRules()
    debts = [[debt(low=40), debt(low=12)], []]
    assert rules.held((50, 60), debts) == (12, 60)
    assert rules.held((END, END), debts) == (12, END)
    assert rules.held((5, 60), debts) == (5, 60)
    # The right side is kept for them, the left one is not.
    band = Band(before=2, after=3)
    assert rules.dead_below(band, 1, rules.held((50, 60), debts)) == 10
    assert rules.dead_below(band, 0, rules.held((50, 60), debts)) == 57


def test_only_debts_that_need_the_same_become_one():
    rules = BlockRules()
    a = debt(0, 1, low=5, high=9, upto=4, skip=[2])
    joined = rules.join_debts(a, debt(1, 3, low=3, high=7, upto=4, skip=[2]))
    assert joined is not None
    assert (joined.first, joined.end, joined.low, joined.high, joined.rows) == (0, 3, 3, 9, 20)
    for other in [debt(1, 2, upto=5, skip=[2]), debt(1, 2, upto=4), debt(2, 3, upto=4, skip=[2])]:
        assert rules.join_debts(a, other) is None


def test_a_debt_is_split_between_blocks_into_two_that_need_the_same():
    rules = BlockRules()
    own = [block(n, low=10 - n, high=20 + n, size=30) for n in (3, 4, 5)]
    owed = debt(3, 6, low=5, high=25, rows=30, size=90, upto=7, skip=[1], since=9)
    each = weight(debt(size=30))
    parts = rules.split_debt(owed, own, 2 * each)
    assert parts is not None
    head, tail = parts
    assert (head.first, head.end, head.low, head.high, head.rows) == (3, 5, 6, 24, 20)
    assert (tail.first, tail.end, tail.low, tail.high, tail.bytes) == (5, 6, 5, 25, 30)
    # What was one debt is it again.
    assert rules.join_debts(head, tail) == owed
    assert rules.split_debt(owed, own, 2 * each - 1) == rules.split_debt(owed, own, each)
    # Nothing fits, or everything does.
    assert rules.split_debt(owed, own, each - 1) is None
    assert rules.split_debt(owed, own, 3 * each) is None


def test_only_blocks_that_all_debts_treat_alike_are_merged():
    rules = BlockRules()
    owed = debt(upto=3, skip=[1])
    assert rules.alike([block(0), block(2)], [owed])
    assert rules.alike([block(1), block(4)], [owed])
    assert not rules.alike([block(0), block(1)], [owed])
    assert not rules.alike([block(2), block(3)], [owed])
    assert not rules.alike([block(1), block(4, place="disk")], [])


@given(st.integers(0, 30), st.integers(0, 30), st.lists(st.integers(0, 60), min_size=1, max_size=4))
def test_blocks_are_left_out_only_if_no_row_of_them_can_pair(before, after, times):
    band = Band(before, after)
    low, high = min(times), max(times)
    for side in (0, 1):
        for t in range(0, 70, 3):
            pairs = any(
                (x - before <= t <= x + after) if side == 0 else (t - before <= x <= t + after)
                for x in range(low, high + 1)
            )
            assert in_reach(reach(band, side, low, high), block(low=t, high=t)) == pairs


# --- when the disk is probed


def reason(policy, debts, now=0, last_pass=0, arrived=None, final=False):
    return pass_reason(policy, debts, now=now, last_pass=last_pass, arrived=arrived, final=final)


@pytest.mark.spec("XJ-F17")
def test_a_backlog_starts_a_pass():
    policy = JoinPolicy(1_000, backlog=0.5, idle_share=0.0)
    room = areas(1_000).debts
    small, large = debt(rows=0, size=room // 2 - 1), debt(rows=0, size=room // 2)
    assert reason(policy, [small]) is None
    assert reason(policy, [large]) == "backlog"
    assert reason(policy, [small, small]) == "backlog"
    assert reason(policy, []) is None


def test_a_policy_may_ask_for_probing_at_once():
    assert reason(JoinPolicy(1_000, backlog=0), [debt()], arrived=10**9) == "backlog"


def test_a_deadline_starts_a_pass():
    policy = JoinPolicy(10**9, deadline=100, idle_share=0.0)
    assert reason(policy, [debt(since=50), debt(since=90)], now=149, arrived=0) is None
    assert reason(policy, [debt(since=50), debt(since=90)], now=150, arrived=0) == "deadline"


@pytest.mark.spec("XJ-F36")
def test_an_idle_batch_starts_a_pass_but_not_too_often():
    policy = JoinPolicy(1_000, idle_share=0.1, idle_pause=15)
    busy = areas(1_000).debts // 10 + 1
    assert reason(policy, [debt(rows=1, size=1)], now=20, last_pass=5, arrived=0) == "idle"
    assert reason(policy, [debt(rows=1, size=1)], now=20, last_pass=6, arrived=0) is None
    assert reason(policy, [debt(rows=1, size=1)], now=20, last_pass=5, arrived=busy) is None
    assert reason(policy, [debt(rows=1, size=1)], now=20, last_pass=5, arrived=None) is None


def test_the_end_starts_a_pass():
    assert reason(JoinPolicy(10**9, idle_share=0.0), [debt()], arrived=10**9, final=True) == "end"


def test_a_pass_pays_the_oldest_debts_that_fit():
    debts = [debt(first=n, end=n + 1, rows=0, size=40) for n in range(4)]
    assert [d.first for d in pass_group(debts, 100)] == [0, 1]
    assert [d.first for d in pass_group(debts, 1)] == [0]
    assert weight(debt(rows=10, size=40)) > 40


# --- what stays in memory


@pytest.mark.spec("XJ-F31")
def test_the_faster_side_gives_memory_to_the_slower_one_down_to_a_minimum():
    assert giver(0, (1, 10), (40, 60), 30, 0.4) == 1
    assert giver(1, (1, 10), (40, 60), 30, 0.4) == 1
    assert giver(0, (1, 10), (70, 30), 30, 0.4) == 0  # at the minimum
    assert giver(0, (10, 13), (40, 60), 30, 0.4) == 0  # not fast enough for it
    assert giver(0, (0, 0), (0, 60), 30, 0.4) == 1  # nothing of its own to give


@pytest.mark.spec("XJ-F14")
def test_a_block_replaces_another_only_if_it_is_clearly_better():
    old = block(1, size=100, worth=10.0, place="productive")
    assert displaced(block(2, worth=14.0), [old], 100, 0.4, 0.0) is None
    assert displaced(block(2, worth=14.1), [old], 100, 0.4, 0.0) == [old]
    assert displaced(block(2, worth=14.1), [old], 100, 0.4, 5.0) is None
    assert displaced(block(2, worth=19.1), [old], 100, 0.4, 5.0) == [old]
    assert displaced(block(2, worth=0.1), [old], 200, 0.4, 5.0) == []  # room enough
    assert displaced(block(2, worth=0.0), [], 200, 0.4, 0.0) is None  # of no use
    assert displaced(block(2, size=300, worth=1e9), [old], 200, 0.4, 0.0) is None  # too large


def test_size_counts_when_blocks_compete():
    small = block(1, size=50, worth=10.0)
    assert displaced(block(2, size=100, worth=25.0), [small], 100, 0.4, 0.0) is None
    assert displaced(block(2, size=100, worth=29.0), [small], 100, 0.4, 0.0) == [small]
    worse = block(3, size=50, worth=1.0)
    assert displaced(block(2, size=50, worth=9.0), [small, worse], 100, 0.4, 0.0) == [worse]


@pytest.mark.spec("XJ-F15", "XJ-F35")
def test_measures_fade_by_stages():
    value = 0.0
    for news in (5, 0, 3):
        value = faded(value + news, 0.4)
    assert value == pytest.approx(5 * 0.4**3 + 3 * 0.4)
    assert faded(1e-7, 1.0) == 0.0


def test_the_areas_share_the_memory():
    for memory in (1, 1_000, 1 << 30):
        a = areas(memory)
        # Residents make way for a pass; a chunk waits on each side while one is at work.
        assert max(a.recent + a.productive, a.debts) + 2 * a.cluster + 5 * a.chunk <= memory + 8
        assert a.block <= a.chunk <= a.cluster


@pytest.mark.spec("XJ-F21")
def test_a_scan_costs_a_seek_per_file_and_gap():
    one = [block(n, run="a", offset=8 * n, length=8) for n in range(4)]
    two = [block(n, run="b", offset=8 * n, length=8) for n in range(2)]
    assert scan_cost([*one, *two]) == (2, 48)
    assert scan_cost([one[0], one[2], one[3]]) == (2, 24)
    assert scan_cost([]) == (0, 0)
    assert disk_time(2, 48, seek=0.5, bandwidth=24) == pytest.approx(3.0)


def test_owing_is_by_number():
    assert owes([debt(2, 4)], 3) and not owes([debt(2, 4)], 4) and not owes([], 0)


@pytest.mark.parametrize(
    "wrong", [{"memory": 0}, {"memory": 9, "least_share": 0.6}, {"memory": 9, "decay": 2.0}]
)
def test_a_policy_out_of_range_is_refused(wrong):
    with pytest.raises(AnalysisError, match="JOIN_MEMORY"):
        JoinPolicy(**wrong)
