"""The model of what groups cost as rows and as partial aggregates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulations.adaptive_model import eager_bytes, rows_held, threshold
from slackwater.semantics.adaptive import Sizes
from tests.examples import examples

SIZES = Sizes(row=10, item=40, mark=0)


def test_the_third_row_makes_five_partials_worth_it():
    sizes = Sizes(row=32, item=16, mark=0)
    assert eager_bytes(16, 300, 60) == 80
    assert threshold(sizes, 300, 60) == 2.5
    assert sizes.row * 2 < 80 < sizes.row * 3


def test_sources_that_lag_have_fewer_rows_to_keep():
    assert rows_held([10, 5, 1], 60, [0, 10, 20]) == 890 == 10 * 60 + 5 * 50 + 1 * 40
    assert threshold(SIZES, 60, 5, [10, 5, 1], [0, 10, 20]) == 48 + 70


@examples(100)
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
