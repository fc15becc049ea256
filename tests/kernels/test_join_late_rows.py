"""Late rows of joins: what no run may say of them, whatever the rule, and how far batches do not matter."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from slackwater.kernels.joins.batch import may_miss
from slackwater.model.join import Band, Tumbling
from slackwater.model.window import TimeWindow
from slackwater.semantics.closing import Closing
from slackwater.semantics.join import is_empty, needed_from, outer_inputs
from slackwater.semantics.limits import END, START
from slackwater.semantics.patterns import Test
from slackwater.testing.oracle.join import JoinRow, equal, pairs
from tests.examples import examples
from tests.kernels.join_runs import (
    Runs,
    bands,
    condition,
    histories,
    predicate,
    reaches,
    spec_of,
    tumblings,
)

WITHIN = st.one_of(bands(), tumblings(), reaches(2))
OUTER = st.sampled_from(["left", "right", "full", "left_anti"])
TEN = Tumbling(TimeWindow(10, 10, 0, "t"))


def played(within: Any, how: str, history: Any, where: bool = False) -> list[list[Any]]:
    """The results of each batch, as ids."""
    runs = Runs(spec_of(within, how))
    return [runs.step(rows, bounds, predicate if where else None) for rows, bounds in history]


def partners_of(within: Any, i: int, row: JoinRow, others: list[JoinRow], where: bool) -> list[Any]:
    """All rows of the other input that pair with a row, whatever became of them."""
    return [
        o
        for o in others
        if equal(row.key, o.key)
        and pairs(within, i, 1 - i, row.time, o.time)
        and (not where or condition([row, o] if i == 0 else [o, row]))
    ]


def alone_in(how: str, results: list[Any]) -> list[tuple[int, int]]:
    """Input and id of the rows that came out as ones without a partner."""
    if how == "left_anti":
        return [(0, r[0]) for r in results]
    return [
        (i, r[i])
        for r in results
        for i in (0, 1)
        if r[i] is not None and r[1 - i] is None
    ]  # fmt: skip


def row(time: int, id: int, key: float | None = 1.0) -> JoinRow:
    return JoinRow(time, (key,), (id, 0))


CLOSED = [
    ([[row(3, 1)], [row(5, 2)]], (20, 20)),
    ([[row(6, 3), row(7, 4, None)], [row(8, 5)]], (20, 20)),
    ([[], []], (END, END)),
]
"""A pair, and when its window has gone a row on either side that pairs with it."""

HALF = [
    ([[], [row(5, 1)]], (20, 0)),
    ([[row(6, 2)], []], (20, 0)),
    ([[], []], (20, 20)),
    ([[], []], (END, END)),
]
"""A row of b that nobody waits for, then a late row of a that is kept for others."""


@pytest.mark.spec("OO-F36")
@examples(60)
@given(WITHIN, OUTER, st.booleans(), histories(late=True))
@example(TEN, "full", False, CLOSED)
@example(TEN, "left_anti", False, CLOSED)
@example(TEN, "left", False, HALF)
@example(TEN, "left_anti", False, HALF)
@example(Band(9, 9), "full", False, CLOSED)
@example(Band(9, 9), "left", False, HALF)
def test_no_row_that_had_a_partner_comes_out_as_one_without(within, how, where, history):
    # By all rows that ever came, those that were freed too: no rule of any kind is asked.
    seen: list[list[JoinRow]] = [[], []]
    for (rows, _), results in zip(history, played(within, how, history, where), strict=True):
        for mine, new in zip(seen, rows, strict=True):
            mine.extend(new)
        known = [{r.value[0]: r for r in side} for side in seen]
        for i, id in alone_in(how, results):
            assert not partners_of(within, i, known[i][id], seen[1 - i], where)


@pytest.mark.spec("OO-F36")
@examples(40)
@given(WITHIN, OUTER, histories(late=True))
@example(TEN, "left", CLOSED)
@example(TEN, "left", [([[row(13, 1)], []], (15, 30)), ([[row(12, 2)], []], (15, 30))])
def test_every_row_is_in_the_results_or_came_late(within, how, history):
    results = [r for batch in played(within, how, history) for r in batch]
    before = (START, START)
    for rows, bounds in history:
        for i in outer_inputs(how):
            shown = {r[i] for r in results}
            for r in rows[i]:
                # An anti join has no result of a row that has a partner.
                others = [o for side, _ in history for o in side[1 - i]]
                met = how == "left_anti" and partners_of(within, i, r, others, False)
                is_late = r.time < before[i] and None not in r.key
                # In a window that its own stream has not closed a late row misses nothing.
                if isinstance(within, Tumbling):
                    is_late &= not pairs(within, 0, 1, r.time, before[i])
                assert r.value[0] in shown or met or is_late
        before = bounds


@examples(30)
@given(WITHIN, st.booleans(), histories(late=True))
def test_semi_and_anti_joins_say_what_a_left_join_says(within, where, history):
    found = {how: played(within, how, history, where) for how in ("left", "left_semi", "left_anti")}
    met: set[int] = set()
    for left, semi, anti in zip(*found.values(), strict=True):
        assert [r[0] for r in anti] == [a for a, b in left if b is None]
        first = {a for a, b in left if b is not None} - met
        assert sorted(r[0] for r in semi) == sorted(first)
        met |= first


def cut(within: Any, history: Any, first: Any) -> list[Any]:
    """Each batch as two: the rows for which ``first`` is true, then the others; bounds rise at the end of the second.

    ``first`` is given the row, and whether its place is kept.
    """
    out, before = [], (START, START)
    for rows, after in history:
        kept = [
            [r.time >= needed_from(within, i, before) for r in side] for i, side in enumerate(rows)
        ]
        go = [[first(r, k) for r, k in zip(*s, strict=True)] for s in zip(rows, kept, strict=True)]
        for now in (True, False):
            part = [
                [r for r, g in zip(*s, strict=True) if g == now] for s in zip(rows, go, strict=True)
            ]
            out.append((part, before if now else after))
        before = after
    return out


def totals(batches: list[list[Any]]) -> Counter[Any]:
    return Counter(r for batch in batches for r in batch)


ALL_HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti")
HOWS = st.sampled_from(ALL_HOWS)
BOTH_GONE = [
    ([[], []], (20, 20)),
    ([[row(6, 1)], [row(8, 2)]], (20, 20)),
    ([[], []], (END, END)),
]
ONE_KEPT = [
    ([[], []], (20, 0)),
    ([[row(6, 1)], [row(5, 2)]], (20, 0)),
    ([[], []], (END, END)),
]


@examples(40)
@given(WITHIN, HOWS, histories(late=True))
@example(TEN, "full", BOTH_GONE)
@example(TEN, "full", ONE_KEPT)
def test_a_batch_is_as_its_rows_with_a_place_that_is_kept_and_then_the_others(within, how, history):
    parts = cut(within, history, lambda row, is_kept: is_kept)
    assert totals(played(within, how, parts)) == totals(played(within, how, history))


@examples(40)
@given(
    WITHIN,
    st.sampled_from(["inner", "full"]),
    histories(late=True),
    st.randoms(use_true_random=False),
)
@example(TEN, "full", BOTH_GONE, np.random.RandomState(0))
def test_how_a_batch_is_cut_matters_only_to_pairs_with_one_row_in_no_place(
    within, how, history, random
):
    gone: set[tuple[int, int]] = set()

    def first(row: JoinRow, is_kept: bool) -> bool:
        if not is_kept:
            gone.add(row.value[0])
        return bool(random.random() < 0.5)

    parts = totals(played(within, how, cut(within, history, first)))
    whole = totals(played(within, how, history))
    made = {r for r in whole if None not in r}
    assert {r for r in parts if None not in r} <= made, "a whole batch makes all pairs of its parts"
    for pair in made:
        places = [id not in gone for id in pair]
        assert any(places) and (pair in parts or not all(places))
    # Whoever comes out alone of the whole does so of the parts, too.
    assert {r for r in whole if None in r} <= {r for r in parts if None in r}


@pytest.mark.parametrize("where", [False, True])
def test_of_two_late_rows_it_is_enough_that_one_has_a_place(where):
    # Rows from 11 on have one: 1 and 5. Rows 2 and 4 pair as well, and neither could have waited for the other.
    sides = [[row(12, 1), row(6, 2), row(40, 3)], [row(8, 4), row(14, 5), row(50, 6)]]
    sides = [[JoinRow(r.time, r.key, (r.value[0], i)) for r in s] for i, s in enumerate(sides)]
    history = [([[], []], (20, 20)), (sides, (60, 60)), ([[], []], (END, END))]
    shown = {how: totals(played(Band(9, 9), how, history, where)) for how in ALL_HOWS}
    met = {(1, 4), (1, 5), (2, 5)}
    assert set(shown["inner"]) == met
    assert set(shown["full"]) == {*met, (3, None), (None, 6)}
    assert set(shown["left_semi"]) == {(1,), (2,)}
    assert set(shown["left_anti"]) == {(3,)}


SPANS = st.lists(
    st.tuples(st.none() | st.integers(-12, 12), st.none() | st.integers(-12, 12)), min_size=1, max_size=3
)  # fmt: skip


@examples(100)
@given(
    st.one_of(bands(), tumblings()), SPANS, st.sampled_from([START, -3, 0, 4]), st.integers(-9, 9)
)
@example(Band(5, 5), [(0, 5), (5, 9)], START, 4)
@example(Band(2, 2), [(0, 5)], START, 4)
@example(Band(2, 2), [(0, 3), (3, 5)], START, 4)
def test_a_row_may_miss_what_patterns_of_its_own_stream_let_go(within, spans, bound, t):
    assume(not is_empty(within))  # such a join asks for no patterns
    # The definition: some time of the other stream all of whose partners are closed, by bound and patterns together.
    spans = [s for s in spans if None in s or s[0] < s[1]]
    near = range(-60, 60)
    tests = [Test.of([s]) for s in spans]
    for i in (0, 1):
        expected = any(
            all(
                x < bound or any(test.matches(x) for test in tests)
                for x in near
                if pairs(within, i, 1 - i, x, u)
            )
            for u in range(-30, 30)
            if pairs(within, i, 1 - i, t, u)
        )
        own = tuple(((None,), Test.of([*test.spans, (None, bound)]).spans) for test in tests)
        closing = Closing(own, bound - 1 if bound > START else START)
        bounds = (bound, 0) if i == 0 else (0, bound)
        keys = [pa.chunked_array([pa.array([1])])]
        got = may_miss(within, i, np.array([t]), bounds, closing, keys)
        assert bool(got[0]) == expected
