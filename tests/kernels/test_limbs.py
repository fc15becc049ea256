"""Exact sums in limbs, against Python's integers."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.aggregates import limbs as lb
from tests.examples import examples

WIDE = st.integers(-(10**38) + 1, 10**38 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
MANY = examples(100)
EXACT = Context(prec=120)


def decimals(values: list[int]) -> pa.Array:
    return pa.array([Decimal(v) for v in values], pa.decimal128(38, 0))


def value(limbs, i: int = 0) -> int:
    return sum(int(limb[i]) << (32 * k) for k, limb in enumerate(limbs))


def total(limbs) -> list[np.ndarray]:
    return [np.array([limb.sum()]) for limb in limbs]


@MANY
@given(st.lists(WIDE, min_size=1, max_size=20))
def test_sums_of_wide_decimals_are_exact(values):
    limbs = lb.from_decimals(decimals(values), 4)
    assert [value(limbs, i) for i in range(len(values))] == values
    summed = lb.carry(total(limbs))
    assert value(summed) == sum(values)
    result, bad = lb.to_decimal(summed, 38, 0, np.array([True]))
    assert bad.tolist() == [abs(sum(values)) >= 10**38]
    assert result.to_pylist() == [None if bad[0] else Decimal(sum(values))]


@MANY
@given(st.lists(LONG, min_size=1, max_size=20), st.sampled_from([2, 4]))
def test_sums_of_bigints_are_exact(values, count):
    limbs = lb.from_ints(np.array(values, dtype=np.int64), count)
    summed = total(limbs)
    wrapped, bad = lb.to_int64(summed)
    assert bad.tolist() == [not -(2**63) <= sum(values) < 2**63]
    assert int(wrapped[0]) == (sum(values) + 2**63) % 2**64 - 2**63
    double = lb.to_double(summed)[0]
    assert abs(double - float(sum(values))) <= abs(float(sum(values))) * 2**-52
    if not bad[0]:
        assert double == float(sum(values))


@MANY
@given(WIDE, st.integers(1, 37))
def test_the_range_of_a_precision_is_open_at_both_ends(number, digits):
    for n in (number, 10**digits, 10**digits - 1, -(10**digits), 1 - 10**digits):
        words, _ = lb.to_words(lb.from_decimals(decimals([n]), 4))
        assert bool(lb.below(words, digits)[0]) == (abs(n) < 10**digits)


@MANY
@given(st.one_of(WIDE, st.integers(-(10**6), 10**6)), st.integers(1, 10**6), st.integers(0, 4))
def test_division_rounds_to_38_digits_and_then_to_its_scale(number, count, digits):
    # Catches: rounding once, which differs when a quotient has about 37 digits.
    got = value(lb.divide(lb.from_decimals(decimals([number]), 4), np.array([count]), digits))
    first = Context(prec=38, rounding=ROUND_HALF_UP).divide(Decimal(number), Decimal(count))
    moved = first.scaleb(digits, EXACT).quantize(Decimal(1), ROUND_HALF_UP, context=EXACT)
    if moved.copy_abs() < 10**38:
        assert got == int(moved)
    else:
        assert abs(got) >= 10**38


def test_double_rounding_is_seen():
    # 10**36 + 0.4...: thirty-seven digits before the point, one behind it survives the first rounding.
    number, count = 3 * 10**36 + 1, 7
    number = number * 7 // 3
    for n in range(number, number + 50):
        got = value(lb.divide(lb.from_decimals(decimals([n]), 4), np.array([count]), 0))
        first = Context(prec=38, rounding=ROUND_HALF_UP).divide(Decimal(n), Decimal(count))
        assert got == int(first.quantize(Decimal(1), ROUND_HALF_UP, context=EXACT))


def test_differences_of_prefix_sums_are_exact_when_the_prefixes_wrap():
    top = np.full(5, 2**63 - 1, dtype=np.int64)
    limbs = [np.cumsum(limb) for limb in lb.from_ints(top, 1)]
    assert int(limbs[0][4] - limbs[0][3]) == 2**63 - 1
