"""The join in little memory: batches that are repeated, and other numbers of groups."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from slackwater.kernels import join_ledger, join_probe
from slackwater.kernels.join import JoinSpec
from slackwater.kernels.join_blocks import LocalBlockStore
from slackwater.kernels.join_ledger import Ledger, narrowed, united
from slackwater.kernels.join_spill import Batch, spill_step
from slackwater.model.join import Band
from slackwater.semantics.join_memory import Policy
from tests.kernels.join_traces import (
    COLUMNS,
    SCHEMA,
    make_trace,
    quick_files,  # noqa: F401
    slow_join,
    table,
)


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
