"""Sorted rows cut into segments as they come, against the rule; and which segment a key is in."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.key_search import KeySearch
from slackwater.kernels.order import group_codes
from slackwater.kernels.sorted_copy import Cutter, ValueTooLarge, row_sizes, span
from slackwater.semantics.copies import cut
from tests.examples import examples

NAN = float("nan")
OTHER_NAN = float(np.array([0xFFF8000000000001], np.uint64).view(np.float64)[0])


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 30)), max_size=30),
    st.integers(1, 120),
    st.lists(st.integers(1, 20), min_size=1, max_size=10),
)
@examples(50)
@pytest.mark.spec("XJ-F47")
def test_rows_are_cut_as_the_rule_says_however_they_come(
    values: list[tuple[int, int]], theta: int, lengths: list[int]
) -> None:
    keys = [n for n, (count, _) in enumerate(values) for _ in range(count)]
    texts = ["x" * size for count, size in values for _ in range(count)]
    table = pa.table({"k": pa.array(keys, pa.int64()), "t": pa.array(texts, pa.string())})
    sizes = row_sizes(table)
    by_value = [int(sizes[np.array(keys) == n].sum()) for n in range(len(values))]
    cutter, at, number, pieces = Cutter(["k"], ["k", "t"], theta), 0, 0, []
    while at < len(keys):
        length = lengths[number % len(lengths)]
        pieces += cutter.add(table.slice(at, length))
        at, number = at + length, number + 1
    pieces += cutter.end()
    last = [p.rows["k"][-1].as_py() + 1 for p in pieces]
    assert last == cut(by_value, theta)
    assert [k for p in pieces for k in p.rows["k"].to_pylist()] == keys
    assert [p.size for p in pieces] == [int(row_sizes(p.rows).sum()) for p in pieces]


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 20))
@examples(50)
@pytest.mark.spec("XJ-F47")
def test_segments_have_theta_to_twice_theta_where_values_allow_it(
    sizes: list[int], theta: int
) -> None:
    ends = cut(sizes, theta)
    starts = [0, *ends[:-1]]
    parts = [sizes[a:b] for a, b in zip(starts, ends, strict=True)] if sizes else []
    assert list(chain.from_iterable(parts)) == sizes and all(parts)
    for n, part in enumerate(parts):
        assert sum(part) <= 2 * theta or len([s for s in part if s]) == 1
        if sum(part) < theta:
            # It is the last one, or in front of a value that it could not take in; and the one before it could not take it in.
            after = next((s for s in chain.from_iterable(parts[n + 1 :]) if s), None)
            assert after is None or sum(part) + parts[n + 1][0] > 2 * theta
            assert n == 0 or sum(parts[n - 1]) + sum(part) > 2 * theta


def test_rows_that_are_not_sorted_are_no_copy() -> None:
    cutter = Cutter(["k"], ["k"], 8)
    list(cutter.add(pa.table({"k": [1, 2]})))
    with pytest.raises(RuntimeError, match="order"):
        list(cutter.add(pa.table({"k": [1]})))


def test_a_key_whose_rows_take_too_much_is_named() -> None:
    cutter = Cutter(["k"], ["k"], 16, most=100)
    list(cutter.add(pa.table({"k": [1, 2] + [3] * 5})))
    with pytest.raises(ValueTooLarge) as caught:
        list(cutter.add(pa.table({"k": [3] * 50})))
    assert caught.value.key == {"k": 3} and caught.value.size > 100
    # Rows without a key are in nobody's way: no key asks for them.
    free = Cutter(["k"], ["k"], 16, most=100)
    rows = pa.table({"k": pa.array([None] * 100, pa.int64())})
    assert sum(p.rows.num_rows for p in [*free.add(rows), *free.end()]) == 100


TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.sampled_from([-(2**63), -5, 0, 1, 2, 7, 2**63 - 1])),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.sampled_from([-0.0, 0.0, 1.5, -1.5, NAN, OTHER_NAN, float("inf"), -float("inf"), 5e-324])),
    (pa.float32(), st.sampled_from([-0.0, 0.0, 1.5, NAN, float("inf")])),
    (pa.string(), st.text("ab\0é", max_size=3)),
    (pa.binary(), st.binary(max_size=2)),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(38, 2), st.decimals(-5, 5, places=2)),
    (pa.timestamp("us", "UTC"), st.integers(-10, 10)),
    (pa.timestamp("us"), st.integers(-10, 10)),
    (pa.date32(), st.integers(-10, 10)),
]  # fmt: skip


@st.composite
def keyed(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    """Keys of a table with nulls, and keys to look for."""
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2))
    made = []
    for nulls in (True, False):
        count = draw(st.integers(0, 25))
        columns = []
        for kind, values in kinds:
            one = st.one_of(st.none(), values) if nulls else values
            columns.append(pa.array(draw(st.lists(one, min_size=count, max_size=count)), kind))
        made.append(pa.table(columns, [f"k{i}" for i in range(len(kinds))]))
    return made[0], made[1]


@given(keyed(), st.integers(1, 60))
@examples(50)
@pytest.mark.spec("XJ-F47")
def test_a_key_is_in_the_one_segment_that_has_it(
    tables: tuple[pa.Table, pa.Table], theta: int
) -> None:
    table, wanted = tables
    codes = group_codes(table.columns, table.num_rows).codes
    table = table.take(pa.array(np.argsort(codes, kind="stable")))
    cutter = Cutter(table.column_names, table.column_names, theta)
    spans = [span(p.rows) for p in [*cutter.add(table), *cutter.end()]]
    kept = [s for s in spans if s is not None]
    empty = table.slice(0, 0)
    search = KeySearch(
        pa.concat_tables([empty, *(s[0] for s in kept)]),
        pa.concat_tables([empty, *(s[1] for s in kept)]),
    )

    def same(a: Any, b: Any) -> bool:
        return bool(a == b or (a != a and b != b))

    found = search.segment_of(wanted)
    pieces = [p.rows for p in _pieces(table, theta)]
    with_keys = [p for p, s in zip(pieces, spans, strict=True) if s is not None]
    for key, number in zip(wanted.to_pylist(), found, strict=True):
        having = [
            n
            for n, rows in enumerate(with_keys)
            if any(
                all(r[c] is not None and same(r[c], key[c]) for c in key) for r in rows.to_pylist()
            )
        ]
        assert len(having) <= 1
        if having:
            assert having == [number]


def _pieces(table: pa.Table, theta: int) -> list[Any]:
    cutter = Cutter(table.column_names, table.column_names, theta)
    return [*cutter.add(table), *cutter.end()]


@given(st.lists(st.integers(0, 2**62), min_size=2, max_size=60, unique=True), st.integers(0, 61))
@examples(30)
def test_slots_find_what_a_search_finds(bounds: list[int], shift: int) -> None:
    """Also where many segments begin in one slot."""
    bounds = sorted({b >> shift if n % 3 else b for n, b in enumerate(bounds)})
    bounds = bounds[: len(bounds) // 2 * 2]
    first, last = np.array(bounds[0::2], np.int64), np.array(bounds[1::2], np.int64)
    keys = np.unique(np.concatenate([first, last, first - 1, last + 1]))
    search = KeySearch(pa.table({"k": first}), pa.table({"k": last}))
    wanted = [
        next((n for n, (a, b) in enumerate(zip(first, last)) if a <= k <= b), -1) for k in keys
    ]
    assert search.segment_of(pa.table({"k": keys})).tolist() == wanted
