"""Buckets stay where they are: the golden numbers below are a storage format."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.buckets import BUCKETS, bucket_of, bucket_range, group_of, hash_of


def one(value, t) -> int:
    return int(hash_of([pa.array([value], t)])[0])


GOLDEN = [
    (0, pa.int64(), 0x0F8179EC7EC54551),
    (-1, pa.int64(), 0xA84EEACFE06431A0),
    (2**63 - 1, pa.int64(), 0x63926EE52BE01BED),
    (None, pa.int64(), 0x369832F284C1F7A2),
    (True, pa.bool_(), 0x0104155B50DF165B),
    (1.5, pa.float64(), 0xAE41D3E8540DF949),
    (float("nan"), pa.float64(), 0x5D911E6D03BCFD6B),
    (Decimal("-12.34"), pa.decimal128(10, 2), 0x9F5AF72BA8A67718),
    (Decimal("9" * 38), pa.decimal128(38, 0), 0xDEA315C901D12C25),
    ("", pa.string(), 0x0F8179EC7EC54551),
    ("slackwater", pa.string(), 0x1799D9EEF05AD3F8),
    ("é" * 20, pa.string(), 0xDA418D5CE2D46B08),
    (b"\x00\xff", pa.binary(), 0x749CB2024DD35B43),
    (dt.date(2026, 1, 31), pa.date32(), 0x4C05E8D731F6ADFF),
    (
        dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone.utc),
        pa.timestamp("us", "UTC"),
        0x417D210443479128,
    ),
    ([1, None, 3], pa.list_(pa.int64()), 0xAC17A209DB6ED314),
    ({"a": 1, "b": "x"}, pa.struct([("a", pa.int64()), ("b", pa.string())]), 0xF03C9FF5A4F55377),
    ([("k", 1)], pa.map_(pa.string(), pa.int64()), 0xA310934CB9E938BB),
]


@pytest.mark.parametrize(("value", "t", "expected"), GOLDEN)
def test_golden_hashes(value, t, expected):
    assert one(value, t) == expected


def test_golden_hash_of_several_columns():
    columns = [pa.array([1, None]), pa.array(["a", "b"])]
    assert hash_of(columns).tolist() == SEVERAL
    assert bucket_of(columns).tolist() == [h >> 56 for h in SEVERAL]


SEVERAL = [0x5B30FE85E632E1C3, 0x77E1E8DCF7F52DF4]


def test_width_and_chunks_and_dictionaries_do_not_matter():
    for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        assert one(-5, t) == one(-5, pa.int64())
    assert one(1.5, pa.float32()) == one(1.5, pa.float64())
    chunked = pa.chunked_array([["a"], [], ["b", None]], pa.string())
    whole = pa.array(["a", "b", None])
    assert (hash_of([chunked]) == hash_of([whole])).all()
    assert (hash_of([whole.dictionary_encode()]) == hash_of([whole])).all()
    assert (hash_of([whole.cast(pa.large_string())]) == hash_of([whole])).all()
    assert (hash_of([whole.slice(1)]) == hash_of([whole])[1:]).all()


def test_equal_keys_share_a_bucket():
    assert one(0.0, pa.float64()) == one(-0.0, pa.float64())
    other = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0]
    assert one(math.nan, pa.float64()) == one(other, pa.float64())
    t = pa.map_(pa.string(), pa.int64())
    assert one([("a", 1), ("b", 2)], t) == one([("b", 2), ("a", 1)], t)


@pytest.mark.parametrize(
    ("t", "values"),
    [
        (pa.int64(), [None, 0, 1, -1, 2**62]),
        (pa.string(), [None, "", "\x00", "\x00\x00", "a" * 8, "a" * 9, "ab", "ba", "\x00" * 8]),
        (pa.list_(pa.string()), [None, [], [""], ["", ""], ["a", "b"], ["b", "a"], [None]]),
        (pa.struct([("a", pa.int64())]), [None, {"a": None}, {"a": 1}]),
        (pa.map_(pa.int64(), pa.int64()), [None, [], [(1, 2)], [(2, 1)], [(1, None)]]),
        (pa.decimal128(38, 0), [None, Decimal(0), Decimal(2**64), Decimal(-1), Decimal(1)]),
    ],
)
def test_unlike_keys_differ(t, values):
    assert len({one(v, t) for v in values}) == len(values)


@given(st.lists(st.text(max_size=30), max_size=20))
def test_the_hash_of_a_value_does_not_depend_on_its_neighbours(values):
    together = hash_of([pa.array(values, pa.string())])
    assert together.tolist() == [one(v, pa.string()) for v in values]


def test_buckets_are_even():
    for keys in (np.arange(100_000), np.arange(100_000) * 1_000_000):
        counts = np.bincount(bucket_of([pa.array(keys)]), minlength=BUCKETS)
        assert counts.min() > 280 and counts.max() < 520  # 390 expected, sigma 20
    texts = pa.array([f"user-{i}" for i in range(50_000)])
    assert np.bincount(bucket_of([texts]), minlength=BUCKETS).min() > 120  # 195 expected


def test_no_columns_one_bucket():
    assert len(set(bucket_of([], rows=5).tolist())) == 1
    assert bucket_of([], rows=5).dtype == np.int16


@pytest.mark.spec("XJ-F63")
@pytest.mark.parametrize("groups", [1, 2, 3, 7, 16, 100, 255, 256])
def test_groups_cut_the_buckets_into_ranges(groups):
    covered = []
    for g in range(groups):
        first, end = bucket_range(g, groups)
        assert (group_of(np.arange(first, end), groups) == g).all() and first < end
        covered += range(first, end)
    assert covered == list(range(BUCKETS))
