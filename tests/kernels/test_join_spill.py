"""The join in little memory against its definition, at all sizes of memory and for keys of all kinds."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.storage import Folder
from slackwater.kernels.joins.bounded import probe as join_probe
from slackwater.kernels.joins.bounded.blocks import FileBlockStore
from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.kernels.joins.bounded.step import BatchBounds, BoundedJoin, bounded_step
from slackwater.kernels.joins.step import JoinSpec
from slackwater.model.join import Band, Tumbling
from slackwater.model.window import TimeWindow
from slackwater.semantics.join_memory import JoinPolicy
from slackwater.semantics.limits import END, START
from tests.examples import examples
from tests.kernels.join_traces import (
    COLUMNS,
    SCHEMA,
    Trace,
    make_trace,
    quick_files,  # noqa: F401
    replay,
    slow_join,
    table,
    traces,
)

MEMORY = [1, 400, 1_500, 6_000, 30_000, 10_000_000]
BANDS = st.builds(Band, before=st.sampled_from([0, 5, 40]), after=st.sampled_from([0, 5, 40, 200]))


@st.composite
def policies(draw):
    return JoinPolicy(
        memory=draw(st.sampled_from(MEMORY)),
        backlog=draw(st.sampled_from([0.0, 0.3, 1.0, 5.0])),
        deadline=draw(st.sampled_from([None, 0, 2_000_000])),
        idle_share=draw(st.sampled_from([0.0, 0.5])),
        idle_pause=draw(st.sampled_from([0, 3_000_000])),
        read_limit=draw(st.sampled_from([None, 1, 3_000])),
        stage_share=draw(st.sampled_from([0.0, 1.0])),
        merge_runs=draw(st.sampled_from([1, 3, 16])),
    )


# --- exactness


@pytest.mark.spec("XJ-F01", "XJ-F02", "XJ-F03", "XJ-F87")
@given(traces(most=40), BANDS, policies(), st.sampled_from([None, 1, 7]))
@examples(25)
def test_every_pair_comes_once_whatever_the_memory(trace, band, policy, cut):
    run = replay(trace, band, policy, cut=cut)
    assert run.out == slow_join(trace, band)
    assert run.broken == []
    assert run.ledger.blocks == [[], []] and run.ledger.debts == [[], []]


@given(
    traces(most=30), BANDS, policies(), st.sampled_from(["left", "right", "full"]), st.booleans()
)
@examples(25)
def test_outer_rows_leave_once_and_not_before_their_partners_could_come(
    trace, band, policy, how, picky
):
    where = (lambda i, j: (i + j) % 3 > 0) if picky else None
    run = replay(trace, band, policy, how=how, where=where)
    assert run.out == slow_join(trace, band, how, where)
    assert run.broken == []


@given(traces(late=True, most=30), BANDS, policies(), st.sampled_from(["inner", "full"]))
@examples(25)
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
        assert replay(trace, band, JoinPolicy(memory)).out == expected


def test_the_hold_is_what_keeps_the_promises():
    """Without it, an aggregate over the join would close before the owed pairs come."""
    broken = 0
    for seed in range(4):
        trace = make_trace(np.random.default_rng(seed), 7, 90, 4, 10, 0, [1.0, 1.0], 0.01)
        run = replay(
            trace, Band(40, 60), JoinPolicy(2_500, backlog=3.0, idle_share=0.0), max_pairs=99
        )
        assert run.broken == []
        broken += len(run.unheld)
    assert broken > 0


def small_join(keys_left, keys_right, kind, within=None, memory=1):
    """Pairs of row numbers, all rows at time 0."""
    schema = pa.schema(
        [("__sw_time", pa.int64()), ("__sw_bucket", pa.int16())]
        + [(f"__sw_k{i}", t) for i, t in enumerate(kind)]
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
        bounded_step(
            BoundedJoin(spec, [schema] * 2, JoinPolicy(memory)),
            Ledger(),
            FileBlockStore(Folder(PRIVATE, Path(folder))),
            [[rows(keys_left)], [rows(keys_right)]],
            BatchBounds((START, START), (END, END), final=True),
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
    for within, key in [(Tumbling(TimeWindow("__sw_time", 5, 5, 0)), 1), (Band(1, 1), 0)]:
        spec = JoinSpec(within, key, COLUMNS)
        out: Counter = Counter()

        def emit(chunk, delayed, out=out):
            out.update(zip(chunk["_0.id"].to_pylist(), chunk["_1.id"].to_pylist(), strict=True))

        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger()
            for n in range(2):
                bounded_step(
                    BoundedJoin(spec, [SCHEMA] * 2, JoinPolicy(1_000)),
                    ledger,
                    FileBlockStore(Folder(PRIVATE, Path(folder))),
                    [[table(side)] for side in trace.rows[n]],
                    BatchBounds(trace.before(n), trace.bounds[n], final=n == 1),
                    emit,
                )
        near = (lambda a, b: a // 5 == b // 5) if key else (lambda a, b: abs(a - b) <= 1)
        assert out == Counter((a, 100 + b) for a in range(20) for b in range(20) if near(a, b))
