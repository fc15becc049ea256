"""The first segment that a row must wait for, against a definition that looks at each segment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.cold_keys import first_in
from slackwater.kernels.segments import KeyRange
from tests.examples import examples

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bigint": (pa.int64(), st.integers(0, 12)),
    "string": (pa.string(), st.sampled_from(["", "a", "b", "ba", "c"])),
}


@st.composite
def cases(
    draw: st.DrawFn,
) -> tuple[list[list[Any]], list[list[tuple[Any, Any]]], list[bool], list[str]]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=2))
    rows, segments = draw(st.integers(0, 12)), draw(st.integers(0, 5))
    keys, ranges = [], []
    for kind in kinds:
        values = VALUES[kind][1]
        keys.append([draw(values) for _ in range(rows)])
        bounds: list[tuple[Any, Any]] = []
        for _ in range(segments):
            low, high = sorted((draw(values), draw(values)))
            bounds.append((None, None) if draw(st.integers(0, 5)) == 0 else (low, high))
        ranges.append(bounds)
    return keys, ranges, [draw(st.booleans()) for _ in range(segments)], kinds


@given(cases())
@examples(150)
def test_the_first_marked_segment_that_may_have_a_key_is_found(
    case: tuple[list[list[Any]], list[list[tuple[Any, Any]]], list[bool], list[str]],
) -> None:
    keys, ranges, which, kinds = case
    types = [VALUES[k][0] for k in kinds]
    table = pa.table(
        [pa.array(c, t) for c, t in zip(keys, types, strict=True)],
        [f"k{i}" for i in range(len(keys))],
    )
    made = [
        KeyRange(pa.array([low for low, _ in bounds], t), pa.array([high for _, high in bounds], t))
        for bounds, t in zip(ranges, types, strict=True)
    ]
    wanted = []
    for key in zip(*keys, strict=True):
        may = [
            i for i, marked in enumerate(which)
            if marked and all(
                b[i][0] is None or b[i][0] <= part <= b[i][1] for part, b in zip(key, ranges, strict=True)
            )
        ]  # fmt: skip
        wanted.append(may[0] if may else -1)
    assert first_in(table, made, np.array(which, bool)).tolist() == wanted
