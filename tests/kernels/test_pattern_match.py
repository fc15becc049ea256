"""Matching in columns, against matching row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.windows.pattern_match import closed, matching
from slackwater.model.node import Aggregate, Source
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.semantics.pattern_rules import closing
from slackwater.semantics.patterns import Pattern, Test
from slackwater.semantics.window_ids import extent
from tests.examples import examples
from tests.semantics.test_patterns import NUMBER_TESTS, WORD_TESTS, WORDS

ROW = st.fixed_dictionaries(
    {
        "k": st.none() | st.sampled_from([*WORDS, "zz"]),
        "n": st.none() | st.integers(-1, 8),
        "t": st.integers(-5, 20),
    }
)
TIME_TESTS = st.integers(0, 18).map(Test.below) | NUMBER_TESTS
PATTERN = st.builds(
    lambda k, n, t: Pattern.of({c: v for c, v in (("k", k), ("n", n), ("t", t)) if v is not None}),
    st.none() | WORD_TESTS,
    st.none() | NUMBER_TESTS,
    st.none() | TIME_TESTS,
).filter(lambda p: bool(p.tests))
KINDS = {"k": pa.string(), "n": pa.int32(), "t": pa.timestamp("us")}


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({c: pa.array([r[c] for r in rows]).cast(kind) for c, kind in KINDS.items()})


@given(
    st.lists(ROW, max_size=8),
    st.lists(PATTERN, min_size=1, max_size=4),
    st.sampled_from([START, END]),
)
@examples(75)
def test_matching_is_that_of_each_row(
    rows: list[dict[str, Any]], patterns: list[Pattern], untested: int
) -> None:
    mask, limit = matching(tuple(patterns), table(rows), "t", untested)
    assert mask.tolist() == [any(p.matches(r) for p in patterns) for r in rows]
    for row, found in zip(rows, limit, strict=True):
        ends = [
            untested if (t := p.test("t")) is None else START if t.limit is None else t.limit
            for p in patterns
            if p.matches(row)
        ]
        assert found == max(ends, default=START)


FIELDS = (Field("k", "string"), Field("n", "int"), Field("t", "bigint"))
SOURCE = Source(FIELDS, (TimeColumn("t", "long", None),), name="s")


@given(
    st.lists(ROW, max_size=6),
    st.lists(PATTERN, min_size=1, max_size=4),
    st.sampled_from([("k",), ("k", "n"), ("n",), ()]),
    st.sampled_from([TimeWindow(4, 2, 1, "t"), TimeWindow(3, 3, 0, "t"), TimeWindow(5, 2, 0, "t")]),
    st.sampled_from([START, 3, 10, END]),
)
@examples(75)
def test_a_window_is_closed_when_no_row_can_enter_it(
    rows: list[dict[str, Any]],
    patterns: list[Pattern],
    by: tuple[str, ...],
    window: TimeWindow,
    bound: int,
) -> None:
    """By definition: every row of the group, at every time of the window, whatever its other columns, is excluded."""
    keys = tuple(Named(c, column(c, "string")) for c in by)
    node = Aggregate((), (TimeColumn("window", "window", None, True),), SOURCE, keys, window)
    found = closing(node, tuple(patterns), bound)
    wids = np.array([r["t"] // 3 for r in rows], np.int64)
    starts, ends = extent(wids, window)
    data = table(rows)
    got = closed(found, [data[c] for c in by], starts, ends, wids)

    def excluded(row: dict[str, Any], t: int) -> bool:
        if t < bound:
            return True
        return any(set(p.columns) <= {*by, "t"} and p.matches({**row, "t": t}) for p in patterns)

    wanted = [
        all(excluded(r, t) for t in range(*map(int, extent(int(w), window))))
        for r, w in zip(rows, wids, strict=True)
    ]
    if found:
        assert got.tolist() == wanted
