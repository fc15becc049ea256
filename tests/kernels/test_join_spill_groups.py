"""The join in little memory: batches that are repeated, and other numbers of groups."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.operators.bounded_join import regroup as engine_regroup
from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.storage import Folder
from slackwater.kernels.buckets import bucket_range
from slackwater.kernels.joins.bounded import probe as join_probe
from slackwater.kernels.joins.bounded import regroup as join_regroup
from slackwater.kernels.joins.bounded.blocks import FileBlockStore
from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.kernels.joins.bounded.step import BatchBounds, BoundedJoin, bounded_step
from slackwater.kernels.joins.step import JoinSpec
from slackwater.model.join import Band
from slackwater.semantics.join_memory import JoinPolicy
from slackwater.semantics.limits import END, START
from tests.examples import examples
from tests.kernels.join_traces import (
    COLUMNS,
    SCHEMA,
    Trace,
    make_trace,
    quick_files,  # noqa: F401
    slow_join,
    table,
    traces,
)

BAND = Band(200, 300)
"""Wide beside the times of a trace, so that blocks live through several batches."""


def run_batch(folder: Path, ledger: Ledger, trace, n, policy, how="inner", buckets=None):
    spec = JoinSpec(BAND, 1, COLUMNS, how=how)
    out: Counter = Counter()

    def emit(chunk, delayed):
        out.update(zip(chunk["_0.id"].to_pylist(), chunk["_1.id"].to_pylist(), strict=True))

    inputs = []
    for rows in trace.rows[n]:
        first, end = buckets or (0, 256)
        inputs.append([table([r for r in rows if first <= ((r[1] or 0) % 256) < end])])
    final = n == len(trace.rows) - 1
    batch = BatchBounds(trace.before(n), trace.bounds[n], now=n, final=final)
    store = FileBlockStore(Folder(PRIVATE, folder))
    done = bounded_step(BoundedJoin(spec, [SCHEMA] * 2, policy), ledger, store, inputs, batch, emit)
    return done, out


def test_a_batch_that_is_repeated_does_the_same(tmp_path):
    trace = make_trace(np.random.default_rng(5), 5, 80, 4, 10, 0, [1.0, 1.0], 0.0)
    text = json.dumps(Ledger().to_json())
    for n in range(5):
        results = []
        for _ in range(2):
            done, out = run_batch(
                tmp_path, Ledger.from_json(json.loads(text)), trace, n, JoinPolicy(3_000), "full"
            )
            state = done.ledger.to_json()
            for blocks in state["blocks"]:
                for b in blocks:
                    b[8] = bool(b[8])  # names of files differ
                    b[12] = bool(b[12])
            results.append((state, out, done.held))
        assert results[0] == results[1]
        text = json.dumps(done.ledger.to_json())


def regroup(groups, count):
    """The groups as that many others, as the engine makes them; whatever is not JSON is lost on the way."""
    done = json.loads(json.dumps(engine_regroup([ledger.to_json() for _, ledger in groups], count)))
    return [(bucket_range(g, count), Ledger.from_json(d)) for g, d in enumerate(done)]


def run_regrouped(folder, trace, counts, policy, how="inner"):
    """A join whose batch n runs in ``counts[n]`` groups, and the ledgers after each batch."""
    out: Counter = Counter()
    groups = [(bucket_range(g, counts[0]), Ledger()) for g in range(counts[0])]
    for n, count in enumerate(counts):
        if count != len(groups):
            groups = regroup(groups, count)
        after = []
        for buckets, ledger in groups:
            done, found = run_batch(folder, ledger, trace, n, policy, how, buckets)
            out.update(found)
            after.append((buckets, Ledger.from_json(json.loads(json.dumps(done.ledger.to_json())))))
        groups = after
    return out


def uneven(seed, late=False) -> Trace:
    """Batches that bring much for some keys and nothing for others: groups come to owe different things."""
    rng = np.random.default_rng(seed)
    rows, number = [], 0
    for n in range(8):
        batch = []
        for _ in (0, 1):
            keys = rng.choice(16, rng.integers(1, 9), replace=False) * 83  # far from each other
            count = int(rng.choice([0, 15, 60, 120]))
            times = n * 30 + rng.integers(-90 if late else 0, 60, count)
            made = zip(times.tolist(), rng.choice(keys, count).tolist())
            batch.append([(t, k, number + i) for i, (t, k) in enumerate(made)])
            number += count
        rows.append(batch)
    bounds = [((n + 1) * 30,) * 2 for n in range(7)]
    return Trace(rows, [*bounds, (END, END)])


POLICIES = [
    JoinPolicy(20_000, backlog=0.5, idle_share=0.0),
    JoinPolicy(20_000, backlog=4.0, idle_share=0.0, merge_runs=3),
    JoinPolicy(12_000, backlog=0.3, idle_share=0.0, read_limit=2_000),
    JoinPolicy(1_000, backlog=2.0, idle_share=0.0, merge_runs=3),
]
"""Blocks of some rows each, so that they have rows in several groups; in the last one, of single rows."""


def differs(folder, seed) -> bool:
    """Whether a random join in random groups differs from the definition."""
    trace, rng = uneven(seed, late=seed % 3 == 0), np.random.default_rng(seed)
    counts = rng.choice([1, 2, 3, 5], len(trace.rows)).tolist()
    how = ("inner", "full", "left", "full")[rng.integers(4)]
    out = run_regrouped(folder, trace, counts, POLICIES[seed % len(POLICIES)], how)
    return out != slow_join(trace, BAND, how)


SEEDS = [28, 22, 29, 10]
"""Each has a wrong rule for which it differs."""


@pytest.mark.spec("XJ-F63")
def test_groups_that_change_at_random_make_each_pair_once(tmp_path):
    assert [seed for seed in SEEDS if differs(tmp_path, seed)] == []


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(200))
def test_groups_that_change_at_random_make_each_pair_once_at_length(seed, tmp_path):
    assert not differs(tmp_path, seed)


@examples(15)
@given(
    traces(late=True),
    st.sampled_from(["inner", "left", "right", "full"]),
    st.randoms(use_true_random=False),
)
def test_late_rows_in_groups_that_change_make_each_pair_once(trace, how, random):
    counts = [random.choice([1, 2, 3, 256]) for _ in trace.rows]
    with tempfile.TemporaryDirectory() as folder:
        out = run_regrouped(Path(folder), trace, counts, POLICIES[3], how)
    assert out == slow_join(trace, BAND, how)


BREAKS = {
    "one that has met a block is taken for one that has not": (
        "_keep_apart", lambda wholes, owed: None,
    ),
    "rows that have left come back": (
        "_wholes", lambda pieces: [
            sorted(g, key=lambda p: p.span)
            for g in {
                (p.block.run, p.block.offset): [
                    q for q in pieces if (q.block.run, q.block.offset) == (p.block.run, p.block.offset)
                ]
                for p in pieces
            }.values()
        ],
    ),
    "the marks of one piece are forgotten": (
        "_marks", lambda whole: iter(whole[0].block.marks),
    ),
    "nothing is owed any more": ("_debts", lambda order, others, owed: []),
    "all is owed again": (
        "_by_floor", lambda needed: [dict.fromkeys(range(max(needed, default=-1) + 1), START)]
        if needed else [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_a_wrong_rule_of_regrouping_is_noticed(name, monkeypatch, tmp_path):
    monkeypatch.setattr(join_regroup, *BREAKS[name])
    assert any(differs(tmp_path, seed) for seed in SEEDS)


def test_a_group_may_own_no_row_of_a_block_in_debt():
    spec = JoinSpec(Band(5, 5), 1, COLUMNS)
    joiner = join_probe.Joiner(spec, [SCHEMA, SCHEMA], None)
    rows = join_probe.with_codes(spec, 0, table([(1, 2, 3), (2, 2, 4)]))
    nothing = join_probe.narrowed_rows(rows, (100, 200)).table
    assert nothing.num_rows == 0
    for own, other, pairs in ((nothing, rows, 0), (rows, nothing, 0), (rows, rows, 4)):
        for side in (0, 1):
            probe = join_probe.Probe(joiner, side, [own, nothing])
            hits = probe.no_hits()
            probe.look_up([nothing, other], hits)
            chunks = probe.pairs(hits, 8.0, lambda own, hits, times: None)
            assert sum(chunk.output.num_rows for chunk in chunks) == pairs
