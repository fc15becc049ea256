"""With feedback, every operator gives what it gives without, less some of the rows that were given up."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.semantics.feedback.cases import FAMILIES
from tests.semantics.feedback.guarded import check

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.spec("FC-F7", "FC-F13")
def test_results_are_in_range(family: str) -> None:
    @examples(25)
    @given(SEEDS, st.sampled_from([0.0, 0.0, 0.5]))
    def in_range(seed: int, lazy: float) -> None:
        rng = random.Random(seed)
        check(FAMILIES[family](rng), rng, lazy)

    in_range()
