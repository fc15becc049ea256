"""What a query says itself: a filter above an aggregate is feedback, and changes no result."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.driver.feedback import guard_lines
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store.failpoints import POINTS
from slackwater.engine.store.feedback_log import state_of
from slackwater.model.node import Aggregate, Filter, Node
from slackwater.testing.feedback import frozen
from slackwater.testing.local.run import scratch_folder
from slackwater.testing.transcripts.query import aggregate, expression
from tests.engine.feedback.running import Ran, play
from tests.engine.feedback.viewport import Viewed, rows, source
from tests.examples import examples
from tests.semantics.feedback.cases import FAMILIES

SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as made:
        yield made


# --- nothing changes --------------------------------------------------------------------------------------


def results(ran: Ran) -> dict[str, Counter[Any]]:
    return {
        name: Counter(frozen(r) for rows in by_batch.values() for r in rows)
        for name, by_batch in ran.rows.items()
    }


def check_equal(family: str, seed: int, crash: str | None = None) -> None:
    rng = random.Random(seed)
    case = FAMILIES[family](rng)
    splits = rng.choice([(True,), (False,), (True, False)])
    share = rng.random() < 0.7
    runs = []
    for reach in ("off", "source"):
        with scratch_folder() as made:
            runs.append(
                play(case, made, rng, feedback=False, splits=splits, share=share, reach=reach,
                     crash=crash if reach == "source" else None)
            )  # fmt: skip
    assert results(runs[0]) == results(runs[1])
    for batch, progress in runs[0].streams.items():
        assert runs[1].streams.get(batch, progress) == progress


@pytest.mark.spec("FC-F16", "FC-F34")
@pytest.mark.parametrize("family", ["said", "case", "shared", "nested"])
def test_results_are_the_same_with_and_without(family: str) -> None:
    @examples(12 if family == "said" else 2)
    @given(SEEDS, st.sampled_from([None, None, *POINTS]))
    def same(seed: int, crash: str | None) -> None:
        check_equal(family, seed, crash)

    same()
