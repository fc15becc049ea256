"""Duplicate elimination, batch by batch, against its definition."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.rows import dedup
from slackwater.semantics.limits import clamp
from tests.examples import examples

SCHEMA = pa.schema(
    [("a", pa.string()), ("b", pa.float64()), ("__sw_time", pa.int64()), ("id", pa.int64())]
)
STATE = pa.schema(
    [
        ("a", pa.string()),
        ("b", pa.float64()),
        ("__sw_time", pa.int64()),
        ("__sw_bucket", pa.int16()),
    ]
)
MANY = examples(125)
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "x", "y"]),
        st.sampled_from([None, 0.0, -0.0, float("nan")]),
        st.integers(-10, 25),
    ),
    max_size=14,
)


def value(x):
    return "nan" if isinstance(x, float) and x != x else x


def slow(batches, subset, within, frontiers):
    """Ids kept per batch, and how many were late."""
    memory: list[tuple] = []
    out = []
    for data, frontier in zip(batches, frontiers, strict=True):
        late = [r for r in data if r["__sw_time"] < frontier]
        kept = []
        for r in sorted(
            (r for r in data if r["__sw_time"] >= frontier), key=lambda r: r["__sw_time"]
        ):
            key = tuple(value(r[c]) for c in subset)
            near = [
                t
                for k, t in memory
                if k == key and (within is None or abs(r["__sw_time"] - t) <= within)
            ]
            if not near:
                memory.append((key, r["__sw_time"]))
                kept.append(r["id"])
        out.append((sorted(kept), len(late)))
    return out


def fast(batches, subset, within, frontiers, purge):
    state = STATE.empty_table().select(
        [*subset, *[c for c in ("__sw_time", "__sw_bucket") if c not in subset]]
    )
    out = []
    for i, (data, frontier) in enumerate(zip(batches, frontiers, strict=True)):
        new = pa.Table.from_pylist(data, schema=SCHEMA)
        result = dedup.step(new, state, subset, "__sw_time", within, frontier)
        ids = result.kept.column("id").to_pylist()
        assert ids == sorted(ids), "rows keep their order"
        assert result.kept.schema == SCHEMA
        assert set(result.state.column_names) == {*subset, "__sw_time", "__sw_bucket"}
        out.append((ids, result.late))
        state = pa.concat_tables([state, result.state.select(state.column_names)])
        if purge and i + 1 < len(frontiers):
            first = clamp(frontiers[i + 1] - (within or 0))
            state = state.filter(pa.array(np.array(state.column("__sw_time")) >= first))
    return out


@pytest.mark.spec("WQ-F70", "OO-F24")
@MANY
@given(
    st.lists(ROWS, min_size=1, max_size=4),
    st.sampled_from([None, 0, 1, 3, 8]),
    st.sampled_from([["a"], ["a", "b"], ["b"]]),
    st.booleans(),
    st.data(),
)
def test_kept_rows_are_those_of_the_definition(batches, within, subset, purge, data):
    # Catches: a dropped row that blocks later ones, an open end at `within`, a stored row that is later
    # than the new one and ignored, nulls that differ, purging one tick too much.
    if within is None:
        subset = [*subset, "__sw_time"]
    number = iter(range(10_000))
    rows = [
        [{"a": a, "b": b, "__sw_time": t, "id": next(number)} for a, b, t in x] for x in batches
    ]
    steps = data.draw(st.lists(st.integers(0, 8), min_size=len(rows), max_size=len(rows)))
    frontiers = (np.cumsum(steps) - 12).tolist()
    assert fast(rows, subset, within, frontiers, purge) == slow(rows, subset, within, frontiers)


def test_a_long_chain_in_one_batch():
    # Every third row is kept; a loop over kept rows would take a hundred thousand rounds.
    n = 300_000
    new = pa.table({"a": ["k"] * n, "__sw_time": pa.array(range(n)), "id": pa.array(range(n))})
    state = pa.table(
        {
            "a": pa.array([], pa.string()),
            "__sw_time": pa.array([], pa.int64()),
            "__sw_bucket": pa.array([], pa.int16()),
        }
    )
    kept = dedup.step(new, state, ["a"], "__sw_time", 2, -(1 << 62)).kept
    assert kept.column("id").to_pylist() == list(range(0, n, 3))


def test_times_at_the_ends_of_the_integers():
    ends = [-(2**63), 2**63 - 1]
    new = pa.table({"a": ["k", "k"], "__sw_time": pa.array(ends, pa.int64()), "id": [0, 1]})
    state = pa.table(
        {
            "a": pa.array([], pa.string()),
            "__sw_time": pa.array([], pa.int64()),
            "__sw_bucket": pa.array([], pa.int16()),
        }
    )
    assert dedup.step(new, state, ["a"], within=5, frontier=-(1 << 63)).kept.num_rows == 2


def test_a_bucket_that_the_rows_have_is_kept():
    new = pa.table({"a": ["k"], "__sw_time": [1], "__sw_bucket": pa.array([77], pa.int16())})
    state = new.slice(0, 0)
    assert dedup.step(new, state, ["a"], within=5, frontier=0).state.to_pylist() == [
        {"a": "k", "__sw_time": 1, "__sw_bucket": 77}
    ]
