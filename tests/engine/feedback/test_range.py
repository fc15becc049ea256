"""With feedback, the engine gives what it gives without, less some of the rows that were given up."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.store.failpoints import FEEDBACK_POINTS, POINTS
from slackwater.testing.local.run import scratch_folder
from slackwater.testing.transcripts.query import aggregate
from tests.engine.feedback.running import check, play
from tests.examples import examples
from tests.semantics.feedback import cases
from tests.semantics.feedback.guarded import Case

SEEDS = st.integers(0, 2**32 - 1)


def two_views(rng: random.Random) -> Case:
    """Two aggregates over the rows of one stream, each with a view of its own: a row group may go if both let it."""
    stream = cases.source("a", rng)
    outputs = {
        name: aggregate(
            stream, {"window": cases.window(rng), "by": ["k"], "agg": {"n": "count(*)"}}
        )
        for name in "xy"
    }
    return cases.dense(rng, outputs, {name: cases.tested(rng, "k") for name in "xy"})


FAMILIES = {**cases.FAMILIES, "two_views": two_views}
CRASHES = [None, None, *POINTS, *FEEDBACK_POINTS]


def one(family: str, seed: int, crash: str | None = None) -> None:
    rng = random.Random(seed)
    case = FAMILIES[family](rng)
    splits = rng.choice([(True,), (False,), (True, False)])
    share = rng.random() < 0.7
    runs = []
    for feedback in (False, True):
        with scratch_folder() as folder:
            runs.append(
                play(case, folder, rng, feedback=feedback, splits=splits, share=share,
                     crash=crash if feedback else None)
            )  # fmt: skip
    check(case, runs[1], runs[0])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.spec("FC-F7", "FC-F17", "FC-F83")
def test_results_are_in_range(family: str) -> None:
    @examples(3)
    @given(SEEDS, st.sampled_from(CRASHES))
    def in_range(seed: int, crash: str | None) -> None:
        one(family, seed, crash)

    in_range()
