"""Which segments may have the keys of some rows, against a search through all of their values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.segments import DENSE, KeyRange, WantedKeys, segments_per_key
from tests.examples import examples

WHEN = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
VALUES = {
    "bigint": (pa.int64(), [-(2**63), -1, 0, 1, 2, 3, 5, 2**63 - 1]),
    "string": (pa.string(), ["", "a", "aa", "b", "z", "~", "ä", "𝄞"]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [WHEN + dt.timedelta(hours=h) for h in range(-4, 4)]),
    "date": (pa.date32(), [dt.date(1960 + 10 * y, 1, 1) for y in range(8)]),
    "decimal": (pa.decimal128(9, 2), [Decimal(n) / 4 for n in range(-4, 4)]),
    "binary": (pa.binary(), [b"", b"\x00", b"\x00\x00", b"a", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]),
    "boolean": (pa.bool_(), [False, True, False, True, False, True, False, True]),
}  # fmt: skip
INDEXES = st.integers(0, 7)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, np.ndarray, list[list[tuple[Any, ...]]], list[Any]]:
    """Keys of one or two parts with their rows; the values of segments; which parts of each segment are bounded."""
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=2))
    one = st.tuples(*(st.sampled_from(VALUES[k][1]) for k in kinds))
    asked = draw(st.lists(one, max_size=8))
    segments = draw(st.lists(st.lists(one, min_size=1, max_size=4), min_size=1, max_size=6))
    known = draw(st.lists(st.booleans(), min_size=len(segments), max_size=len(segments)))
    columns = [pa.array([a[i] for a in asked], VALUES[k][0]) for i, k in enumerate(kinds)]
    ranges = []
    for i, kind in enumerate(kinds):
        # In the order of the values as they are stored, which VALUES has them in.
        place = VALUES[kind][1].index
        ends = [sorted((s[i] for s in seg), key=place) for seg in segments]
        ends = [e if k else [None] for e, k in zip(ends, known, strict=True)]
        ranges.append(
            KeyRange(
                pa.array([e[0] for e in ends], VALUES[kind][0]),
                pa.array([e[-1] for e in ends], VALUES[kind][0]),
            )
        )
    rows = np.array(
        draw(st.lists(st.integers(1, 9), min_size=len(asked), max_size=len(asked))), np.int64
    )
    names = [str(i) for i in range(len(kinds))]
    return pa.table(columns, names), rows, segments, ranges


@pytest.mark.spec("XJ-F46")
@given(tables())
@examples(200)
def test_no_segment_and_no_row_that_has_a_key_is_missed(made: Any) -> None:
    keys, rows, segments, ranges = made
    wanted = WantedKeys(keys, rows, ranges)
    asked = list(zip(*(c.to_pylist() for c in keys.columns), strict=True))
    asking = wanted.asking()
    for i, segment in enumerate(segments):
        here = [a in segment for a in asked]
        assert asking[i] >= sum(n for n, is_here in zip(rows, here, strict=True) if is_here)
        table = pa.table(
            [pa.array([s[j] for s in segment], c.type) for j, c in enumerate(keys.columns)],
            keys.column_names,
        )
        met = wanted.met(i, table, keys.column_names)
        left = list(zip(*(c.to_pylist() for c in met.columns), strict=True))
        for one in segment:
            assert left.count(one) == (segment.count(one) if one in asked else left.count(one))
        for one in left:  # and only what has each of its parts asked for
            assert all(part in [a[j] for a in asked] for j, part in enumerate(one))


@pytest.mark.spec("XJ-F46")
@given(
    st.sampled_from(["close", "far", "ends"]),
    st.lists(st.integers(0, 30), min_size=1, max_size=60),
    st.lists(st.integers(0, 30), min_size=1, max_size=4),
    st.sampled_from([pa.int64(), pa.int16(), pa.date32(), pa.timestamp("us", tz="UTC")]),
    st.booleans(),
    st.booleans(),
)
@examples(150)
def test_the_rows_of_a_segment_that_are_met_are_those_with_a_key(
    how: str, stored: list[int], asked: list[int], kind: pa.DataType, in_order: bool, holes: bool
) -> None:
    """Numbers near each other, far from each other, and at both ends of what their type can hold; in order or not."""
    bits = kind.bit_width
    places = {
        "close": lambda n: n,
        "far": lambda n: n * (2 ** (bits - 6) // 31) - 7,
        "ends": lambda n: 2 ** (bits - 1) - 1 - n if n % 2 else n - 2 ** (bits - 1),
    }[how]
    whole = pa.int16() if bits == 16 else pa.int32() if bits == 32 else pa.int64()
    values: list[int | None] = list(map(places, stored))
    values = sorted(values, key=lambda v: v or 0) if in_order else values
    values = [*values, None] if holes else values
    wanted = sorted(set(map(places, asked)))
    nothing = KeyRange(pa.nulls(1, kind), pa.nulls(1, kind))
    keys = pa.table({"k": pa.array(wanted, whole).view(kind)})
    table = pa.table({"k": pa.array(values, whole).view(kind), "n": range(len(values))})
    met = WantedKeys(keys, np.ones(len(wanted), np.int64), [nothing]).met(0, table, ["k"])
    assert met["n"].to_pylist() == [i for i, v in enumerate(values) if v in wanted]


@given(
    st.lists(st.integers(-20, 60), min_size=8, max_size=80),
    st.lists(st.integers(-30, 70), min_size=1, max_size=10, unique=True),
    st.sampled_from(["as it comes", "in order", "each once"]),
)
@examples(200)
def test_few_keys_are_searched_in_a_segment_in_order(
    stored: list[int], asked: list[int], how: str
) -> None:
    """Below, between and above the values; a key may recur."""
    values = {"in order": sorted(stored), "each once": sorted(set(stored))}.get(how, stored)
    wanted = sorted(asked)[: len(values) // DENSE]
    if not wanted:
        return
    keys = pa.table({"k": pa.array(wanted, pa.int64())})
    table = pa.table({"k": pa.array(values, pa.int64()), "n": range(len(values))})
    nothing = KeyRange(pa.nulls(1, pa.int64()), pa.nulls(1, pa.int64()))
    met = WantedKeys(keys, np.ones(len(wanted), np.int64), [nothing]).met(0, table, ["k"])
    assert met["n"].to_pylist() == [i for i, v in enumerate(values) if v in wanted]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_zeros_and_nans_are_met_whatever_their_bits(kind: pa.DataType) -> None:
    """As part of a key beside another one, of which footers tell."""
    bits = np.array([0x7FC00000, 0xFFC00001], np.uint32).view(np.float32)
    if kind == pa.float64():
        bits = np.array([0x7FF8 << 48, (0xFFF8 << 48) + 1], np.uint64).view(np.float64)
    values = pa.array([0.0, -0.0, 1.5, None], kind)
    nans = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(bits.tobytes())])
    stored = pa.table({"k": pa.concat_arrays([values, nans])})
    nothing = KeyRange(pa.nulls(1, kind), pa.nulls(1, kind))
    for asked, met in ((values[:1], 2), (values[1:2], 2), (nans[:1], 2), (nans[1:], 2), (nans, 2), (values[:3], 3)):  # fmt: skip
        wanted = WantedKeys(pa.table({"k": asked}), np.ones(len(asked), np.int64), [nothing])
        assert wanted.asking().tolist() == [len(asked)]
        assert wanted.met(0, stored, ["k"]).num_rows == met


@pytest.mark.spec("XJ-F46")
@given(st.lists(st.tuples(INDEXES, INDEXES), min_size=1, max_size=6), st.lists(INDEXES, max_size=9))
@examples(100)
def test_only_segments_whose_range_has_a_key_are_asked_for(
    ends: list[tuple[int, int]], asked: list[int]
) -> None:
    ends = [(min(e), max(e)) for e in ends]
    ranges = KeyRange(*(pa.array([e[side] for e in ends], pa.int64()) for side in (0, 1)))
    values = sorted(set(asked))
    rows = np.array([asked.count(v) for v in values], np.int64)
    wanted = WantedKeys(pa.table({"k": pa.array(values, pa.int64())}), rows, [ranges])
    assert wanted.asking().tolist() == [sum(a <= v <= b for v in asked) for a, b in ends]
    sizes = np.array([i + 1 for i in range(len(ends))], np.int64)
    inside = [sum(a <= e[0] <= b for a, b in ends) for e in ends]
    assert segments_per_key(ranges, sizes) == pytest.approx(np.average(inside, weights=sizes))
