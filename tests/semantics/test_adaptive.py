"""When a group is kept as rows, and when as partial aggregates: the model, and the rule by counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.semantics.adaptive import (
    Rules,
    Sizes,
    eager_bytes,
    next_modes,
    rows_held,
    threshold,
    worth_it,
)

SIZES = Sizes(row=10, item=40, mark=0)


def modes(
    eager=(), kept=(), becoming=(), reduced=(), items=(), *, sizes=SIZES, moved=True, **rules
):
    n = len(eager)

    def whole(values):
        return np.array(values or [0] * n, np.int64)

    found = next_modes(
        np.array(eager, bool), whole(kept), whole(becoming), whole(reduced), whole(items), sizes,
        bound_moved=moved, rules=Rules(**{"share": 0, **rules}),
    )  # fmt: skip
    return found.tolist()


@pytest.mark.spec("WQ-F51")
def test_the_third_row_makes_five_partials_worth_it():
    sizes = Sizes(row=32, item=16, mark=0)
    assert eager_bytes(16, 300, 60) == 80
    assert threshold(sizes, 300, 60) == 2.5
    assert sizes.row * 2 < 80 < sizes.row * 3


@pytest.mark.spec("WQ-F51")
def test_sources_that_lag_have_fewer_rows_to_keep():
    assert rows_held([10, 5, 1], 60, [0, 10, 20]) == 890 == 10 * 60 + 5 * 50 + 1 * 40
    assert threshold(SIZES, 60, 5, [10, 5, 1], [0, 10, 20]) == 48 + 70


@pytest.mark.spec("WQ-F51")
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_above_the_threshold_partials_are_smaller(data):
    whole = st.integers(1, 50)
    sizes = Sizes(data.draw(whole), data.draw(whole), 0)
    slide, extent = data.draw(whole), data.draw(st.integers(50, 200))
    rates = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    behind = [0, *(data.draw(st.integers(0, 50)) for _ in rates[1:])]
    lazy = sizes.row * rows_held(rates, extent, behind)
    volume = sum(rates) * extent
    over = volume > threshold(sizes, extent, slide, rates, behind) + 1e-9
    assert over == (lazy > eager_bytes(sizes.item, extent, slide) + 1e-7) or abs(
        lazy - eager_bytes(sizes.item, extent, slide)
    ) < 1e-6 * max(1, lazy)


@pytest.mark.spec("WQ-F49")
def test_a_group_becomes_eager_when_its_rows_need_more_than_their_partials():
    assert modes([False, False], [4, 5], [1, 1]) == [False, True]
    assert modes([False], [5], [2]) == [False]
    assert modes([False], [5], [1], sizes=Sizes(10, 40, 16)) == [False]


@pytest.mark.spec("WQ-F52")
def test_only_a_bound_makes_a_group_lazy():
    few = {"reduced": [3], "items": [1]}
    assert modes([True], moved=False, **few) == [True]
    assert modes([True], moved=True, **few) == [False]


@pytest.mark.spec("WQ-F53")
def test_between_the_thresholds_a_group_stays_as_it_is():
    # 40 bytes of a partial: four rows are the same, and 3.2 are four fifths.
    for rows in (33, 36, 40):
        assert modes([False], [rows], [10]) == [False]
        assert modes([True], reduced=[rows], items=[10]) == [True]
    assert modes([False], [41], [10]) == [True]
    assert modes([True], reduced=[31], items=[10]) == [False]
    assert modes([True], reduced=[33], items=[10], down=1.0) == [False]


@pytest.mark.spec("WQ-F54")
def test_a_group_without_rows_disappears():
    assert modes([True, True], reduced=[0, 9], items=[0, 1]) == [False, True]


def test_few_rows_wait_before_all_others_are_written_anew():
    kept, becoming = [5, 100], [1, 100]
    assert modes([False, False], kept, becoming) == [True, False]
    assert modes([False, False], kept, becoming, share=0.125) == [False, False]
    assert modes([False, False], [15, 100], becoming, share=0.125) == [True, False]


def test_large_partials_of_few_rows_are_worth_adapting():
    assert worth_it(Sizes(26, 106), 2) and not worth_it(Sizes(26, 106), 3)
    assert not worth_it(Sizes(18, 26), 1)
