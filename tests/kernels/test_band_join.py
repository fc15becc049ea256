"""Finding pairs, against looking at all of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.baselines.ordered import find_pairs
from slackwater.kernels.joins.band_join import NO_KEY, TimeIndex, key_codes, present
from slackwater.semantics.limits import EARLIEST, LATEST
from tests.examples import examples

MANY = examples(125)
# Codes and times far apart do not fit into one word, and take another way.
CODES = st.sampled_from([NO_KEY, 0, 1, 2, 7, 1 << 61])
TIMES = st.one_of(st.integers(-6, 6), st.sampled_from([EARLIEST, LATEST, 1 << 40]))
ROWS = st.lists(st.tuples(CODES, TIMES), max_size=12)
WIDE = st.lists(st.tuples(CODES, TIMES, st.integers(-4, 4)), max_size=12)


def column(rows, i):
    return np.array([r[i] for r in rows], dtype=np.int64)


@pytest.mark.spec("XJ-F01")
@MANY
@given(WIDE, ROWS, st.integers(-3, 5), st.sampled_from([1, 2, 7, 10_000]))
def test_pairs_are_those_of_the_definition(a, b, reach, max_pairs):
    # low > high gives nothing; rows without a key meet nobody, not even each other.
    low, high = column(a, 1) + column(a, 2) - reach, column(a, 1) + column(a, 2) + reach
    found = []
    for x, y in find_pairs(column(a, 0), column(b, 0), column(b, 1), low, high, max_pairs):
        assert 0 < len(x) == len(y) <= max_pairs
        found += zip(x.tolist(), y.tolist(), strict=True)
    expected = [
        (x, y)
        for x, (code, t, shift) in enumerate(a)
        for y, (other, u) in enumerate(b)
        if code == other != NO_KEY and t + shift - reach <= u <= t + shift + reach
    ]
    assert sorted(found) == expected


@MANY
@given(ROWS, ROWS)
def test_codes_that_occur_on_the_other_side(a, b):
    codes = {code for code, _ in a if code != NO_KEY}
    assert present(column(a, 0), column(b, 0)).tolist() == [code in codes for code, _ in b]


def test_a_key_of_all_rows_is_searched_by_time_and_comes_in_chunks():
    # All pairs of the key would be 10^10; those in the band are 3 * 10^5.
    n = 100_000
    times = np.arange(n, dtype=np.int64)
    codes = np.zeros(n, dtype=np.int64)
    total = 0
    for x, y in find_pairs(codes, codes, times, times - 1, times + 1, 1 << 14):
        assert len(x) <= 1 << 14
        assert np.abs(x - y).max() <= 1
        total += len(x)
    assert total == 3 * n - 2


def test_one_row_with_many_partners_is_split():
    times = np.arange(10, dtype=np.int64)
    zeros = np.zeros(10, dtype=np.int64)
    index = TimeIndex(zeros, times)
    spans = index.find(zeros[:1], np.array([0]), np.array([9]))
    assert spans.total == 10 and len(index) == 10
    chunks = [(x.tolist(), y.tolist()) for x, y in index.pairs(spans, 4)]
    assert chunks == [([0] * 4, [0, 1, 2, 3]), ([0] * 4, [4, 5, 6, 7]), ([0] * 2, [8, 9])]


def test_keys_of_several_columns_and_tables():
    first = [pa.array(["x", "y", None]), pa.array([0.0, float("nan"), 1.0])]
    second = [pa.chunked_array([["y"], ["x", "x"]]), pa.array([float("nan"), -0.0, None])]
    a, b = key_codes([first, second], [3, 3])
    assert a[0] == b[1] and a[1] == b[0] and a[0] != a[1]
    assert a[2] == NO_KEY and b[2] == NO_KEY
    assert [c.tolist() for c in key_codes([[], []], [2, 1])] == [[0, 0], [0]]


def test_keys_that_only_later_tables_have_may_be_left_out():
    first, second = [pa.array(["x", None, ""])], [pa.array(["z", "x", None, ""])]
    a, b = key_codes([first, second], [3, 4], leading=1)
    assert a[0] == b[1] != NO_KEY and a[2] == b[3] != NO_KEY
    assert [a[1], b[0], b[2]] == [NO_KEY] * 3
