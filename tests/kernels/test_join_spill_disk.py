"""The join in little memory: what is read and written, merged, given up and found damaged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.simulations.disk import scan_cost
from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.storage import Folder
from slackwater.errors import CheckpointError
from slackwater.kernels.joins.bounded import probe as join_probe
from slackwater.kernels.joins.bounded.blocks import FileBlockStore
from slackwater.kernels.joins.bounded.ledger import Ledger, place_of
from slackwater.model.join import Band
from slackwater.semantics.join_memory import Block, JoinPolicy
from slackwater.semantics.limits import END
from tests.kernels.join_traces import (
    SCHEMA,
    Trace,
    quick_files,  # noqa: F401
    replay,
    slow_join,
    steady,
    table,
)


@pytest.mark.spec("XJ-F16", "XJ-F17", "XJ-F26")
def test_a_pass_reads_each_file_in_sequence_and_only_what_it_needs():
    trace, band = steady(batches=9, rows=80, quiet=2), Band(2_000, 0)
    state = {}

    def look(n, done):
        state[n] = Ledger.from_json(done.ledger.to_json())

    policy = JoinPolicy(20_000, backlog=1e9, idle_pause=0, merge_runs=1_000)
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
    # What blocks on disk yield is counted in the ledger.
    worth = [
        sum(b.worth for bs in state[n].blocks for b in bs if b.place == "disk") for n in (8, 9)
    ]
    assert worth[1] > worth[0] > 0, "it fades, and what the passes found is more"
    assert stats.reads <= owing + passes * max(len(bs) for bs in before.blocks)


@pytest.mark.spec("XJ-F21")
def test_the_model_of_a_scan_is_what_is_counted(tmp_path):
    blocks = []
    for run in range(3):
        store = FileBlockStore(Folder(PRIVATE, tmp_path))
        for n in range(5):
            at = store.append("side0", table([(t, t, t) for t in range(n + 1)]))
            blocks.append(Block(5 * run + n, 0, n, n + 1, 1, "disk", 0.0, 0, *at))
        store.finish()
    for chosen in (blocks, blocks[2:4] + blocks[5:], blocks[::2]):
        reader = FileBlockStore(Folder(PRIVATE, tmp_path))
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

    policy = JoinPolicy(8_000, backlog=0.0, merge_runs=4)
    run = replay(trace, band, policy, max_pairs=1_000, hook=look)
    assert run.out == slow_join(trace, band)
    assert max(files) <= 10
    assert sum(s.merged_blocks for s in run.stats) > 0
    assert max(sizes) <= 2 * (40 + 4 * 6)
    merged = replay(
        trace, band, JoinPolicy(8_000, backlog=1.0, merge_runs=2), how="full", max_pairs=99
    )
    assert merged.out == slow_join(trace, band, "full")


def test_expiry_is_by_times_and_reads_nothing():
    sides = [[(t, t % 5, side * 1_000 + t) for t in range(200)] for side in (0, 1)]
    empty: list = [[], []]
    trace = Trace(
        [sides, empty, empty, empty], [(150, 150), (180, 180), (2_000, 2_000), (END, END)]
    )
    blocks = []
    policy = JoinPolicy(6_000, backlog=0.0)
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
    run = replay(trace, Band(9, 9), JoinPolicy(10_000_000), max_pairs=99)
    assert [s.results for s in run.stats] == [2 * n + 1 for n in range(6)]
    assert all(s.delayed_results == 0 for s in run.stats)


def test_rows_that_no_later_row_can_match_are_not_stored():
    lefts, rights = [(t, 0, t) for t in range(100)], [(t, 0, 1_000 + t) for t in range(100)]
    trace = Trace([[lefts, rights], [[], []]], [(100, 100), (END, END)])
    kept = []
    replay(
        trace,
        Band(0, 5),
        JoinPolicy(10_000_000),
        max_pairs=9_999,
        hook=lambda n, done: kept.append([sum(b.rows for b in bs) for bs in done.ledger.blocks]),
    )
    assert kept[0] == [5, 0]


def test_a_damaged_block_is_noticed(tmp_path):
    store = FileBlockStore(Folder(PRIVATE, tmp_path))
    at = store.append("side0", table([(1, 2, 3)]))
    (file,) = store.finish()
    data = bytearray((tmp_path / file.name).read_bytes())
    assert len(data) == file.bytes and pa.ipc.open_file(bytes(data)).num_record_batches == 1
    data[at.offset + at.length - 1] ^= 1
    (tmp_path / file.name).write_bytes(bytes(data))
    damaged = FileBlockStore(Folder(PRIVATE, tmp_path))
    with pytest.raises(CheckpointError, match=file.name):
        damaged.read(at, SCHEMA)
    damaged.close()
    (tmp_path / file.name).unlink()
    with pytest.raises(CheckpointError, match=file.name):
        FileBlockStore(Folder(PRIVATE, tmp_path)).read(at, SCHEMA)


@pytest.mark.parametrize("most", [1, 3, 4, 50])
def test_a_column_in_pieces_gives_the_same_values(most):
    parts = [pa.array([f"v{i}{j}" for j in range(i)], pa.string()) for i in (3, 0, 5, 1, 9)]
    whole = pa.concat_arrays(parts)
    pieces = join_probe.Pieces(list(parts), most)
    rng = np.random.default_rng(most)
    for rows in (rng.integers(0, len(whole), 40), np.arange(len(whole)), np.empty(0, np.int64)):
        assert pieces.take(rows).equals(whole.take(pa.array(rows)))
