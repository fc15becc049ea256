"""Codes of columns order and equate as Spark does."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels import order
from slackwater.kernels.types import arrow_type
from tests.examples import examples
from tests.kernels import brute
from tests.kernels.strategies import VALUES

MANY = examples(30)


@pytest.mark.parametrize("name", list(brute.COLUMNS))
@MANY
@given(data=st.data())
def test_codes_compare_as_the_values_do(name, data):
    values = data.draw(st.lists(st.one_of(st.none(), VALUES[name]), max_size=12))
    t = arrow_type(brute.COLUMNS[name])
    array = pa.array(values, type=t)
    codes, size = order.column_codes(array)
    kept = array.to_pylist()
    assert all(0 <= c < size for c in codes)

    def key(value):
        return brute.order(value.encode() if isinstance(value, str) else value)

    for a, ca in zip(kept, codes, strict=True):
        for b, cb in zip(kept, codes, strict=True):
            assert (ca < cb) == (key(a) < key(b))
            assert (ca == cb) == (key(a) == key(b))
    ranked = order.dense(order.Codes(codes, size))
    assert (np.argsort(ranked.codes, kind="stable") == np.argsort(codes, kind="stable")).all()
    rows = order.stable_order(order.Codes(codes, size))
    assert (rows == np.argsort(codes, kind="stable")).all()


@pytest.mark.parametrize(
    "name", [c for c in brute.COLUMNS if c not in ("s", "y", "d28", "d38", "w38")]
)
@MANY
@given(data=st.data())
def test_images_turn_back_into_values(name, data):
    values = data.draw(st.lists(st.one_of(st.none(), VALUES[name]), max_size=8))
    array = pa.array(values, type=arrow_type(brute.COLUMNS[name]))
    assert order.has_image(array.type)
    back = order.from_image(order.image(array), array.type, np.array(array.is_valid()))
    assert repr([0.0 if v == 0 else v for v in back.to_pylist()]) == repr(
        [0.0 if v == 0 else v for v in array.to_pylist()]
    )


NESTED = st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(-2, 2)), max_size=3))


@MANY
@given(st.lists(NESTED, max_size=10))
def test_lists_are_ordered_element_by_element(values):
    codes = order.column_codes(pa.array(values, pa.list_(pa.int32()))).codes
    keys = [(0,) if v is None else (1, [brute.order(e) for e in v]) for v in values]
    for a, ca in zip(keys, codes, strict=True):
        for b, cb in zip(keys, codes, strict=True):
            assert (ca < cb, ca == cb) == (a < b, a == b)


@MANY
@given(st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.booleans()), max_size=8))
def test_structs_are_ordered_field_by_field_and_a_null_struct_is_not_a_struct_of_nulls(pairs):
    t = pa.struct([("a", pa.int64()), ("b", pa.bool_())])
    values = [None, {"a": None, "b": None}] + [{"a": a, "b": b} for a, b in pairs]
    codes = order.column_codes(pa.array(values, t)).codes
    keys = [(0,) if v is None else (1, brute.order(v["a"]), brute.order(v["b"])) for v in values]
    for a, ca in zip(keys, codes, strict=True):
        for b, cb in zip(keys, codes, strict=True):
            assert (ca < cb, ca == cb) == (a < b, a == b)


def test_maps_are_equal_whatever_the_order_of_their_entries():
    t = pa.map_(pa.string(), pa.int64())
    values = [[("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("a", 2), ("b", 1)], [], None]
    codes = order.column_codes(pa.array(values, t)).codes.tolist()
    assert codes[0] == codes[1] and len(set(codes)) == 4


def test_columns_with_far_apart_values_still_fit_together():
    far = np.array([-(2**63), 2**63 - 1, 0, -(2**63)])
    codes, size = order.group_codes([far, far[::-1].copy(), far], 4)
    assert size < 2**62
    # Rows 0 and 3 are equal; the least first column comes first, then 0, then the greatest.
    assert codes[0] == codes[3] < codes[2] < codes[1]


def test_one_zero_and_one_nan():
    zero = pa.array([0.0, -0.0, math.nan, -math.nan])
    codes = order.column_codes(zero).codes
    assert codes[0] == codes[1] and codes[2] == codes[3]


def test_empty_columns_have_codes():
    for t in (pa.string(), pa.float64(), pa.list_(pa.int64()), pa.decimal128(38, 2), pa.null()):
        assert len(order.column_codes(pa.array([], t)).codes) == 0
    assert len(order.group_codes([], 3).codes) == 3
