"""When a group is kept as rows, and when as partial aggregates: the model, and the rule by counts."""

from __future__ import annotations

import numpy as np
import pytest

from slackwater.semantics.adaptive import ModeRules, Sizes, next_modes, worth_it

SIZES = Sizes(row=10, item=40, mark=0)


def modes(
    eager=(), kept=(), becoming=(), reduced=(), items=(), *, sizes=SIZES, moved=True, **rules
):
    n = len(eager)

    def whole(values):
        return np.array(values or [0] * n, np.int64)

    found = next_modes(
        np.array(eager, bool), whole(kept), whole(becoming), whole(reduced), whole(items), sizes,
        bound_moved=moved, rules=ModeRules(**{"share": 0, **rules}),
    )  # fmt: skip
    return found.tolist()


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
