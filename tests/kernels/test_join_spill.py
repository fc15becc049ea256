"""The join in little memory against its definition, at all sizes of memory."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import CheckpointError
from slackwater.kernels import join_ledger, join_probe, join_spill
from slackwater.kernels.join import JoinSpec
from slackwater.kernels.join_blocks import LocalBlockStore
from slackwater.kernels.join_ledger import Ledger, narrowed, place_of, united
from slackwater.kernels.join_spill import Batch, spill_step
from slackwater.model.join import Band, Tumbling
from slackwater.model.window import TimeWindow
from slackwater.semantics.join_memory import Block, Policy, areas, scan_cost
from slackwater.semantics.limits import END, START
from tests.kernels.join_traces import (
    COLUMNS,
    SCHEMA,
    Trace,
    make_trace,
    replay,
    slow_join,
    table,
    traces,
)

MEMORY = [1, 400, 1_500, 6_000, 30_000, 10_000_000]
BANDS = st.builds(Band, before=st.sampled_from([0, 5, 40]), after=st.sampled_from([0, 5, 40, 200]))


@st.composite
def policies(draw):
    return Policy(
        memory=draw(st.sampled_from(MEMORY)),
        backlog=draw(st.sampled_from([0.0, 0.3, 1.0, 5.0])),
        deadline=draw(st.sampled_from([None, 0, 2_000_000])),
        idle_share=draw(st.sampled_from([0.0, 0.5])),
        idle_pause=draw(st.sampled_from([0, 3_000_000])),
        read_limit=draw(st.sampled_from([None, 1, 3_000])),
        stage_share=draw(st.sampled_from([0.0, 1.0])),
        merge_runs=draw(st.sampled_from([1, 3, 16])),
    )


@pytest.fixture(autouse=True, scope="module")
def _quick_files():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slackwater.kernels.join_blocks.os.fsync", lambda fd: None)
        yield


# --- exactness


@pytest.mark.spec("XJ-F01", "XJ-F02", "XJ-F03", "XJ-F87")
@given(traces(most=40), BANDS, policies(), st.sampled_from([None, 1, 7]))
@settings(max_examples=40, deadline=None)
def test_every_pair_comes_once_whatever_the_memory(trace, band, policy, cut):
    run = replay(trace, band, policy, cut=cut)
    assert run.out == slow_join(trace, band)
    assert run.broken == []
    assert run.ledger.blocks == [[], []] and run.ledger.debts == [[], []]


@given(
    traces(most=30), BANDS, policies(), st.sampled_from(["left", "right", "full"]), st.booleans()
)
@settings(max_examples=30, deadline=None)
def test_outer_rows_leave_once_and_not_before_their_partners_could_come(
    trace, band, policy, how, picky
):
    where = (lambda i, j: (i + j) % 3 > 0) if picky else None
    run = replay(trace, band, policy, how=how, where=where)
    assert run.out == slow_join(trace, band, how, where)
    assert run.broken == []


@given(traces(late=True, most=30), BANDS, policies(), st.sampled_from(["inner", "full"]))
@settings(max_examples=25, deadline=None)
def test_late_rows_meet_what_was_not_given_up_whatever_the_memory(trace, band, policy, how):
    assert replay(trace, band, policy, how=how).out == slow_join(trace, band, how)


@pytest.mark.spec("XJ-F01")
@pytest.mark.parametrize("memory", [1, 10_000_000])
def test_the_ends_of_the_band_belong_to_it_in_both_directions(memory):
    lefts = [(100, 0, 1), (100, 0, 1_001)]
    rights = [(t, 0, 20_000 + t) for t in (89, 90, 100, 120, 121)]
    band = Band(before=10, after=20)
    expected = Counter((i, 20_000 + t) for i in (1, 1_001) for t in (90, 100, 120))
    for first, second in [([lefts, []], [[], rights]), ([[], rights], [lefts, []])]:
        trace = Trace([first, second], [(0, 0), (END, END)])
        assert replay(trace, band, Policy(memory)).out == expected


def test_the_hold_is_what_keeps_the_promises():
    """Without it, an aggregate over the join would close before the owed pairs come."""
    broken = 0
    for seed in range(4):
        trace = make_trace(np.random.default_rng(seed), 7, 90, 4, 10, 0, [1.0, 1.0], 0.01)
        run = replay(trace, Band(40, 60), Policy(2_500, backlog=3.0, idle_share=0.0), max_pairs=99)
        assert run.broken == []
        broken += len(run.unheld)
    assert broken > 0


# --- memory, backlog, triggers


def steady(batches=10, rows=40, keys=5, gap=1, quiet=0):
    """Both sides in order at an even rate; then some batches without rows."""
    out, bounds = [], []
    for b in range(batches + quiet):
        sides = []
        for side in (0, 1):
            start = b * rows
            sides.append(
                [
                    ((start + n) * gap, (start + n) % keys, side * 100_000 + start + n)
                    for n in range(rows if b < batches else 0)
                ]
            )
        out.append(sides)
        now = min(b + 1, batches) * rows * gap
        bounds.append((now, now))
    bounds[-1] = (END, END)
    return Trace(out, bounds)


@pytest.mark.spec("XJ-F07", "XJ-F23", "XJ-F24")
def test_overload_shows_as_a_backlog_and_drains():
    trace = steady(batches=6, quiet=25)
    policy = Policy(8_000, backlog=0.2, read_limit=10_000, idle_share=0.3, idle_pause=0)
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


def test_each_trigger_works_alone():
    band, trace = Band(60, 60), steady(batches=5, rows=30, quiet=3)
    tight = {"memory": 4_000, "idle_share": 0.0, "backlog": 1e9}
    seen = {}
    for name, policy in {
        "backlog": Policy(**{**tight, "backlog": 0.5}),
        "at once": Policy(**{**tight, "backlog": 0.0}),
        "deadline": Policy(**tight, deadline=2_000_000),
        "idle": Policy(**{**tight, "idle_share": 0.5, "idle_pause": 0}),
        "end": Policy(**tight),
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
    ample = replay(trace, band, Policy(10_000_000), max_pairs=1_000)
    assert all(not s.passes and sum(s.owed_rows) == 0 and not s.evicted for s in ample.stats)
    assert all(s.delayed_results == 0 for s in ample.stats)
    tight = replay(trace, band, Policy(6_000), max_pairs=1_000)
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

    policy = Policy(8_000)
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
    policy = Policy(8_000, backlog=0.0, stage_share=stage_share)
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
        order.append((pa.compute.min(rows["_time"]).as_py(), side, rows["id"].to_pylist()))
        real(self, side, rows)

    monkeypatch.setattr(join_spill._Work, "_arrive", arrive)
    lefts = [(t, 0, t) for t in range(60)]
    rights = [(t, 0, 1_000 + t) for t in range(30, 90)]
    replay(Trace([[lefts, rights]], [(END, END)]), Band(5, 5), Policy(4_000), max_pairs=999)
    assert [o[:2] for o in order] == sorted(o[:2] for o in order)
    for side, rows in ((0, lefts), (1, rights)):  # and each side in the order it came
        assert [i for _, s, ids in order if s == side for i in ids] == [i for _, _, i in rows]
    assert len({side for _, side, _ in order[:8]}) == 2


# --- the disk


@pytest.mark.spec("XJ-F16", "XJ-F17", "XJ-F26")
def test_a_pass_reads_each_file_in_sequence_and_only_what_it_needs():
    trace, band = steady(batches=9, rows=80, quiet=2), Band(2_000, 0)
    state = {}

    def look(n, done):
        state[n] = Ledger.from_json(done.ledger.to_json())

    policy = Policy(20_000, backlog=1e9, idle_pause=0, merge_runs=1_000)
    run = replay(trace, band, policy, max_pairs=1_000, hook=look)
    before, stats = state[8], run.stats[9]
    assert stats.passes.keys() == {"idle"} and sum(stats.owed_rows) == 0
    files = len({b.run for bs in before.blocks for b in bs})
    owing = sum(before.owing(s, b.number) for s in (0, 1) for b in before.blocks[s])
    passes = sum(stats.passes.values())
    assert stats.seeks <= (passes + 1) * files, "a pass goes through each file once"
    # Results change what is known of blocks, not the blocks; and a batch wrote one file per side.
    assert stats.written_bytes == 0 and stats.results > 0
    assert files <= 2 * 9
    assert stats.reads <= owing + passes * max(len(bs) for bs in before.blocks)


@pytest.mark.spec("XJ-F21")
def test_the_model_of_a_scan_is_what_is_counted(tmp_path):
    blocks = []
    for run in range(3):
        store = LocalBlockStore(tmp_path)
        for n in range(5):
            at = store.append("side0", table([(t, t, t) for t in range(n + 1)]))
            blocks.append(Block(5 * run + n, 0, n, n + 1, 1, "disk", 0.0, 0, *at))
        store.finish()
    for chosen in (blocks, blocks[2:4] + blocks[5:], blocks[::2]):
        reader = LocalBlockStore(tmp_path)
        for b in chosen:
            assert reader.read(place_of(b), SCHEMA).num_rows == b.rows
        reader.close()
        counted = (reader.counts.seeks, reader.counts.read_bytes)
        assert counted == scan_cost(chosen)
        assert reader.counts.reads == len(chosen)
    assert scan_cost(blocks)[0] == 3


@pytest.mark.spec("XJ-F20")
def test_small_files_are_merged_and_the_disk_holds_the_window_only():
    trace, band = steady(batches=40, rows=6), Band(40, 40)
    files, sizes = [], []

    def look(n, done):
        files.append(len({b.run for b in done.ledger.blocks[0]}))
        sizes.append(sum(b.rows for bs in done.ledger.blocks for b in bs))

    policy = Policy(8_000, backlog=0.0, merge_runs=4)
    run = replay(trace, band, policy, max_pairs=1_000, hook=look)
    assert run.out == slow_join(trace, band)
    assert max(files) <= 10
    assert sum(s.merged_blocks for s in run.stats) > 0
    assert max(sizes) <= 2 * (40 + 4 * 6)
    merged = replay(trace, band, Policy(8_000, backlog=1.0, merge_runs=2), how="full", max_pairs=99)
    assert merged.out == slow_join(trace, band, "full")


def test_expiry_is_by_times_and_reads_nothing():
    sides = [[(t, t % 5, side * 1_000 + t) for t in range(200)] for side in (0, 1)]
    empty: list = [[], []]
    trace = Trace(
        [sides, empty, empty, empty], [(150, 150), (180, 180), (2_000, 2_000), (END, END)]
    )
    blocks = []
    policy = Policy(6_000, backlog=0.0)
    run = replay(
        trace,
        Band(50, 50),
        policy,
        max_pairs=1_000,
        hook=lambda n, done: blocks.append(sum(len(b) for b in done.ledger.blocks)),
    )
    assert run.out == slow_join(trace, Band(50, 50))
    assert run.stats[0].read_bytes > 0, "the window is far larger than the memory"
    assert blocks[0] > blocks[1] > blocks[2] == 0
    for stats in run.stats[1:]:
        assert stats.reads == stats.read_bytes == stats.written_bytes == 0
    assert sum(s.expired_blocks for s in run.stats[1:]) == blocks[0]


def test_rows_meet_on_arrival_whatever_the_size_of_their_block():
    """A row that comes alone meets what is in memory at once: there is no block that is still to be filled."""
    trace = Trace(
        [[[(n, 0, n)], [(n, 0, 1_000 + n)]] for n in range(6)], [(n, n) for n in range(6)]
    )
    run = replay(trace, Band(9, 9), Policy(10_000_000), max_pairs=99)
    assert [s.results for s in run.stats] == [2 * n + 1 for n in range(6)]
    assert all(s.delayed_results == 0 for s in run.stats)


def test_rows_that_no_later_row_can_match_are_not_stored():
    lefts, rights = [(t, 0, t) for t in range(100)], [(t, 0, 1_000 + t) for t in range(100)]
    trace = Trace([[lefts, rights], [[], []]], [(100, 100), (END, END)])
    kept = []
    replay(
        trace,
        Band(0, 5),
        Policy(10_000_000),
        max_pairs=9_999,
        hook=lambda n, done: kept.append([sum(b.rows for b in bs) for bs in done.ledger.blocks]),
    )
    assert kept[0] == [5, 0]


def test_a_damaged_block_is_noticed(tmp_path):
    store = LocalBlockStore(tmp_path)
    at = store.append("side0", table([(1, 2, 3)]))
    (file,) = store.finish()
    data = bytearray((tmp_path / file.name).read_bytes())
    assert len(data) == file.bytes and pa.ipc.open_file(bytes(data)).num_record_batches == 1
    data[at.offset + at.length - 1] ^= 1
    (tmp_path / file.name).write_bytes(bytes(data))
    damaged = LocalBlockStore(tmp_path)
    with pytest.raises(CheckpointError, match=file.name):
        damaged.read(at, SCHEMA)
    damaged.close()
    (tmp_path / file.name).unlink()
    with pytest.raises(CheckpointError, match=file.name):
        LocalBlockStore(tmp_path).read(at, SCHEMA)


# --- restarts, repetition, other numbers of groups


def run_batch(folder: Path, ledger: Ledger, trace, n, policy, how="inner", buckets=None):
    spec = JoinSpec(Band(40, 60), 1, COLUMNS, how=how)
    out: Counter = Counter()

    def emit(chunk, delayed):
        out.update(zip(chunk["_0.id"].to_pylist(), chunk["_1.id"].to_pylist(), strict=True))

    inputs = []
    for rows in trace.rows[n]:
        first, end = buckets or (0, 256)
        inputs.append([table([r for r in rows if first <= ((r[1] or 0) % 256) < end])])
    final = n == len(trace.rows) - 1
    batch = Batch(trace.before(n), trace.bounds[n], now=n, final=final)
    store = LocalBlockStore(folder)
    done = spill_step(spec, ledger, store, inputs, [SCHEMA] * 2, batch, policy, emit)
    return done, out


def test_a_batch_that_is_repeated_does_the_same(tmp_path):
    trace = make_trace(np.random.default_rng(5), 5, 80, 4, 10, 0, [1.0, 1.0], 0.0)
    text = json.dumps(Ledger().to_json())
    for n in range(5):
        results = []
        for _ in range(2):
            done, out = run_batch(
                tmp_path, Ledger.from_json(json.loads(text)), trace, n, Policy(3_000), "full"
            )
            state = done.ledger.to_json()
            for blocks in state["blocks"]:
                for b in blocks:
                    b[8] = bool(b[8])  # names of files differ
                    b[12] = bool(b[12])
            results.append((state, out, done.held))
        assert results[0] == results[1]
        text = json.dumps(done.ledger.to_json())


@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize("seed", [1, 2])
def test_groups_split_and_merge_between_batches(how, seed, tmp_path):
    rng = np.random.default_rng(seed)
    trace = make_trace(rng, 9, 90, 12, 10, 0, [1.0, 1.0], 0.0)
    policy = Policy(3_000, backlog=2.0, idle_share=0.0, merge_runs=3)
    out: Counter = Counter()
    groups = [((0, 256), Ledger())]
    for n in range(9):
        if n in (2, 6):
            groups = [
                (part, narrowed(ledger, part))
                for _, ledger in groups
                for part in ((0, 3), (3, 256))
            ]
        if n in (4, 8):
            groups = [((0, 256), united(groups[0][1], groups[1][1]))]
        after = []
        for buckets, ledger in groups:
            done, found = run_batch(tmp_path, ledger, trace, n, policy, how, buckets)
            out.update(found)
            after.append((buckets, Ledger.from_json(json.loads(json.dumps(done.ledger.to_json())))))
        groups = after
    assert out == slow_join(trace, Band(40, 60), how)


def test_a_group_may_own_no_row_of_a_block_in_debt():
    spec = JoinSpec(Band(5, 5), 1, COLUMNS)
    joiner = join_probe.Joiner(spec, [SCHEMA, SCHEMA], None)
    rows = join_probe.with_codes(spec, 0, table([(1, 2, 3), (2, 2, 4)]))
    nothing = join_probe.narrowed_rows(rows, (100, 200)).table
    assert nothing.num_rows == 0
    for own, other, pairs in ((nothing, rows, 0), (rows, nothing, 0), (rows, rows, 4)):
        for side in (0, 1):
            probe = join_probe.Probe(joiner, side, [own, nothing])
            found = list(probe.meet([nothing, other]))
            assert sum(p.output.num_rows for p in found) == pairs


@pytest.mark.parametrize("most", [1, 3, 4, 50])
def test_a_column_in_pieces_gives_the_same_values(most):
    parts = [pa.array([f"v{i}{j}" for j in range(i)], pa.string()) for i in (3, 0, 5, 1, 9)]
    whole = pa.concat_arrays(parts)
    pieces = join_probe.Pieces(list(parts), most)
    rng = np.random.default_rng(most)
    for rows in (rng.integers(0, len(whole), 40), np.arange(len(whole)), np.empty(0, np.int64)):
        assert pieces.take(rows).equals(whole.take(pa.array(rows)))


def test_uniting_groups_without_renumbering_is_noticed(monkeypatch, tmp_path):
    real = join_ledger.replace
    monkeypatch.setattr(join_ledger, "replace", lambda x, **changes: real(x))
    wrong = 0
    for seed in (1, 2, 3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            test_groups_split_and_merge_between_batches("inner", seed, folder)
        except AssertionError:
            wrong += 1
    assert wrong > 0


# --- keys


def small_join(keys_left, keys_right, kind, within=None, memory=1):
    """Pairs of row numbers, all rows at time 0."""
    schema = pa.schema(
        [("_time", pa.int64()), ("_bucket", pa.int16())]
        + [(f"_k{i}", t) for i, t in enumerate(kind)]
        + [("id", pa.int64())]
    )

    def rows(keys):
        n = len(keys)
        columns = [pa.array([k[i] for k in keys], t) for i, t in enumerate(kind)]
        zeros = [pa.array([0] * n), pa.array([0] * n, pa.int16())]
        return pa.table([*zeros, *columns, pa.array(range(n))], schema=schema)

    out: Counter = Counter()

    def emit(chunk, delayed):
        out.update(zip(chunk["_0.id"].to_pylist(), chunk["_1.id"].to_pylist(), strict=True))

    with tempfile.TemporaryDirectory() as folder:
        spec = JoinSpec(within or Band(0, 0), len(kind), COLUMNS)
        spill_step(
            spec,
            Ledger(),
            LocalBlockStore(Path(folder)),
            [[rows(keys_left)], [rows(keys_right)]],
            [schema] * 2,
            Batch((START, START), (END, END), final=True),
            Policy(memory),
            emit,
        )
    return out


@pytest.mark.parametrize("memory", [1, 10_000_000])
def test_keys_of_all_kinds_are_equal_as_in_sql(memory):
    nan = float("nan")
    floats = [(0.0,), (-0.0,), (nan,), (None,), (1.5,)]
    found = small_join(floats, floats, [pa.float64()], memory=memory)
    assert set(found) == {(0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (4, 4)}
    pairs = [("a", 1), ("a", 2), ("b", 1), (None, 1), ("a", None)]
    found = small_join(pairs, pairs, [pa.string(), pa.int32()], memory=memory)
    assert set(found) == {(0, 0), (1, 1), (2, 2)}
    words = pa.dictionary(pa.int32(), pa.string())
    assert set(small_join([("x",), ("y",)], [("y",)], [words], memory=memory)) == {(1, 0)}
    times = [(0,), (5,), (None,)]
    found = small_join(times, times, [pa.timestamp("us", "UTC")], memory=memory)
    assert set(found) == {(0, 0), (1, 1)}


def test_keys_are_compared_and_not_only_their_hashes(monkeypatch):
    monkeypatch.setattr(
        join_probe, "hash_of", lambda columns, rows: np.zeros(rows, dtype=np.uint64)
    )
    keys = [(1,), (2,), (3,)]
    assert set(small_join(keys, keys, [pa.int64()])) == {(0, 0), (1, 1), (2, 2)}
    names = [("a",), ("b",)]
    assert set(small_join(names, names, [pa.string()])) == {(0, 0), (1, 1)}


def test_tumbling_windows_and_joins_without_a_key_work_too():
    rows = [(t, 0, t) for t in range(20)]
    trace = Trace([[rows, []], [[], [(t, 0, 100 + t) for t in range(20)]]], [(20, 0), (END, END)])
    for within, key in [(Tumbling(TimeWindow("_time", 5, 5, 0)), 1), (Band(1, 1), 0)]:
        spec = JoinSpec(within, key, COLUMNS)
        out: Counter = Counter()

        def emit(chunk, delayed, out=out):
            out.update(zip(chunk["_0.id"].to_pylist(), chunk["_1.id"].to_pylist(), strict=True))

        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger()
            for n in range(2):
                spill_step(
                    spec,
                    ledger,
                    LocalBlockStore(Path(folder)),
                    [[table(side)] for side in trace.rows[n]],
                    [SCHEMA] * 2,
                    Batch(trace.before(n), trace.bounds[n], final=n == 1),
                    Policy(1_000),
                    emit,
                )
        near = (lambda a, b: a // 5 == b // 5) if key else (lambda a, b: abs(a - b) <= 1)
        assert out == Counter((a, 100 + b) for a in range(20) for b in range(20) if near(a, b))
