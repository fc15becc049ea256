"""The join in little memory: what is kept there, who waits, and what starts a pass over the disk."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from slackwater.kernels.joins.bounded import step as join_spill
from slackwater.model.join import Band
from slackwater.semantics.join_delay import delay_of
from slackwater.semantics.join_memory import INDEX_BYTES, JoinPolicy, areas, weight
from slackwater.semantics.limits import END
from tests.kernels.join_traces import (
    Trace,
    make_trace,
    quick_files,  # noqa: F401
    replay,
    slow_join,
    steady,
)


@pytest.mark.spec("XJ-F07", "XJ-F23", "XJ-F24")
def test_overload_shows_as_a_backlog_and_drains():
    trace = steady(batches=6, quiet=25)
    policy = JoinPolicy(8_000, backlog=0.2, read_limit=10_000, idle_share=0.3, idle_pause=0)
    run = replay(trace, Band(100, 100), policy, max_pairs=1_000)
    owed = [sum(s.owed_rows) for s in run.stats]
    assert run.out == slow_join(trace, Band(100, 100))
    assert owed[5] > owed[1] > 0
    drained = owed.index(0, 6)
    assert drained < len(owed) - 1, "drained by idle passes, before the end of the stream"
    assert all(a >= b for a, b in pairwise(owed[5:]))
    assert max(s.owed_age for s in run.stats) > 2_000_000
    assert sum(s.overdue_rows for s in run.stats) > 0
    assert sum(s.delayed_results for s in run.stats) > 0
    # The limit is kept, but for what a single block takes, and the rows that are paid for.
    assert all(s.read_bytes < 4 * 10_000 for s in run.stats[:-1])


@pytest.mark.spec("XJ-F04")
def test_the_delay_of_each_pair_is_counted_from_the_batch_of_its_later_row():
    """By brute force: the batch in which a pair came out, against the one that brought its later row."""
    trace, band = steady(batches=8, rows=30, quiet=3), Band(100, 100)
    arrived = {i: n for n, sides in enumerate(trace.rows) for side in sides for _, _, i in side}
    for policy in (JoinPolicy(10_000_000), JoinPolicy(8_000, backlog=0.4), JoinPolicy(4_000)):
        outs = []
        run = replay(trace, band, policy, max_pairs=1_000, clock=1_000, each=outs.append)
        assert run.out == slow_join(trace, band)
        for n, (found, stats) in enumerate(zip(outs, run.stats, strict=True)):
            waited: Counter = Counter()
            for (i, j), count in found.items():
                waited[(n - max(arrived[i], arrived[j])) * 1_000] += count
            assert Counter(dict(map(tuple, stats.delays))) == waited
        assert delay_of(s.delays for s in run.stats) is not None
    assert any(d for s in run.stats for d, _ in s.delays), "some pairs must wait"


def test_each_trigger_works_alone():
    band, trace = Band(60, 60), steady(batches=5, rows=30, quiet=3)
    tight = {"memory": 4_000, "idle_share": 0.0, "backlog": 1e9}
    seen = {}
    for name, policy in {
        "backlog": JoinPolicy(**{**tight, "backlog": 0.5}),
        "at once": JoinPolicy(**{**tight, "backlog": 0.0}),
        "deadline": JoinPolicy(**tight, deadline=2_000_000),
        "idle": JoinPolicy(**{**tight, "idle_share": 0.5, "idle_pause": 0}),
        "end": JoinPolicy(**tight),
    }.items():
        run = replay(trace, band, policy, max_pairs=1_000)
        assert run.out == slow_join(trace, band)
        seen[name] = Counter()
        for s in run.stats:
            seen[name].update(s.passes)
        if name == "at once":
            assert all(sum(s.owed_rows) == 0 for s in run.stats)
        if name == "deadline":
            assert all(s.owed_age < 2_000_000 for s in run.stats)
        if name == "idle":
            assert all(not s.passes for s in run.stats[:5])
            assert sum(run.stats[5].owed_rows) == 0
    assert seen["backlog"]["backlog"] > 0
    assert set(seen["deadline"]) == {"deadline"}
    assert set(seen["idle"]) == {"idle"}
    assert set(seen["end"]) == {"end"}


@pytest.mark.spec("XJ-F09")
def test_with_memory_enough_nothing_is_owed_and_memory_is_used_to_the_full_otherwise():
    trace, band = steady(), Band(100, 100)
    ample = replay(trace, band, JoinPolicy(10_000_000), max_pairs=1_000)
    assert all(not s.passes and sum(s.owed_rows) == 0 and not s.evicted for s in ample.stats)
    assert all(s.delayed_results == 0 for s in ample.stats)
    tight = replay(trace, band, JoinPolicy(6_000), max_pairs=1_000)
    room = areas(6_000)
    for s in tight.stats[2:-1]:
        assert 0.8 * room.recent < sum(s.resident_bytes) <= room.recent + room.productive


@pytest.mark.spec("XJ-F31", "XJ-F86")
def test_memory_moves_to_the_slower_side_as_rates_change():
    rows, bounds, number = [], [], 0
    for b in range(16):
        fast = 0 if b < 8 else 1
        sides: list = [[], []]
        for n in range(30):
            for side in (0, 1):
                if side == fast or n % 3 == 0:
                    number += 1
                    sides[side].append((b * 30 + n, n % 5, number))
        rows.append(sides)
        bounds.append(((b + 1) * 30, (b + 1) * 30))
    shares = []

    def look(n, done):
        sizes = [sum(b.bytes for b in bs if b.place == "recent") for bs in done.ledger.blocks]
        shares.append(sizes)

    policy = JoinPolicy(8_000)
    trace = Trace(rows, bounds)
    run = replay(trace, Band(150, 150), policy, max_pairs=1_000, hook=look)
    missing = slow_join(trace, Band(150, 150)) - run.out  # no END here: the last debts are open
    assert sum(missing.values()) <= sum(run.stats[-1].owed_rows) * 400
    assert shares[7][1] > 1.2 * shares[7][0]
    assert shares[15][0] > 1.2 * shares[15][1]
    # What steered it can be seen: the faster side by far, and then the other.
    assert run.stats[7].frequency[0] > 2 * run.stats[7].frequency[1]
    assert run.stats[15].frequency[1] > 2 * run.stats[15].frequency[0]
    assert all(min(s.worth) > 0 for s in run.stats[3:])
    seen = [s.resident_bytes for s in run.stats]
    assert all(sum(a) >= sum(b) for a, b in zip(seen, shares, strict=True))
    largest_block = 200
    least = policy.least_share * areas(8_000).recent - largest_block
    assert all(min(s) >= least for s in shares[3:])


@pytest.mark.spec("XJ-F13", "XJ-F33")
@pytest.mark.parametrize("stage_share", [0.0, 1e9], ids=["in a pass", "when it is evicted"])
def test_an_old_block_that_yields_much_stays_in_memory(stage_share):
    hot = [(t, 7, t) for t in range(12)]
    rows, bounds, places = [], [], []
    for b in range(10):
        cold = [(20 + b * 40 + n, 100 + b * 40 + n, 1_000 + b * 40 + n) for n in range(40)]
        rows.append([[*hot, *cold] if b == 0 else cold, [(20 + b * 40, 7, 90_000 + b)] * 6])
        bounds.append((20 + b * 40, 20 + b * 40))
    bounds[-1] = (END, END)

    def look(n, done):
        old = [b for b in done.ledger.blocks[0] if b.low < 12]
        places.append({b.place for b in old})

    trace = Trace(rows, bounds)
    policy = JoinPolicy(8_000, backlog=0.0, stage_share=stage_share)
    run = replay(trace, Band(5_000, 5_000), policy, max_pairs=1_000, hook=look)
    assert run.out == slow_join(trace, Band(5_000, 5_000))
    assert all("productive" in p for p in places[2:-1])
    # Its results come at once, not in a pass.
    assert run.stats[8].results - run.stats[8].delayed_results >= 4 * 6


@pytest.mark.spec("XJ-F05")
def test_the_side_with_the_older_waiting_rows_is_served_first(monkeypatch, tmp_path):
    order = []
    real = join_spill._Work._arrive

    def arrive(self, side, rows):
        order.append((pa.compute.min(rows["__sw_time"]).as_py(), side, rows["id"].to_pylist()))
        real(self, side, rows)

    monkeypatch.setattr(join_spill._Work, "_arrive", arrive)
    lefts = [(t, 0, t) for t in range(60)]
    rights = [(t, 0, 1_000 + t) for t in range(30, 90)]
    replay(Trace([[lefts, rights]], [(END, END)]), Band(5, 5), JoinPolicy(4_000), max_pairs=999)
    assert [o[:2] for o in order] == sorted(o[:2] for o in order)
    for side, rows in ((0, lefts), (1, rights)):  # and each side in the order it came
        assert [i for _, s, ids in order if s == side for i in ids] == [i for _, _, i in rows]
    assert len({side for _, side, _ in order[:8]}) == 2


def test_a_pass_is_as_full_as_whole_blocks_allow(monkeypatch):
    """Debts that need the same become one, and such a one may be too large for what a pass has left."""
    real = join_spill._Work._chosen
    fits, left_over, large = [], 0, 0

    def watched(self, side):
        nonlocal left_over, large
        room, before = self.areas.debts, list(self.ledger.debts[side])
        chosen = real(self, side)
        used = sum(map(weight, chosen))
        assert used <= room or chosen[0].end - chosen[0].first == 1
        rest = self.ledger.debts[side][len(chosen) :]
        if rest:
            left_over += 1
            large += len(chosen) + len(rest) > len(before)
            block = next(b for b in self.ledger.blocks[side] if b.number == rest[0].first)
            fits.append(used + block.bytes + INDEX_BYTES * block.rows <= room)
        return chosen

    monkeypatch.setattr(join_spill._Work, "_chosen", watched)
    for seed in range(12):
        trace = make_trace(np.random.default_rng(seed), 7, 90, 4, 10, 0, [1.0, 1.0], 0.01)
        policy = JoinPolicy(2_000, backlog=3.0, idle_share=0.0)
        run = replay(trace, Band(40, 60), policy, max_pairs=1_000)
        assert run.out == slow_join(trace, Band(40, 60))
    assert left_over > 10 and large > 5
    assert not any(fits)
