"""Joins whose results leave at once: what late rows missed is known from delays, and the target makes it good."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from slackwater.semantics.quality.delays import histogram
from slackwater.semantics.quality.join_kept import KeptSlack, lost
from slackwater.semantics.quality.join_slack import RecallTarget, modelled_slack
from slackwater.semantics.quality.recall import StreamDelays
from slackwater.semantics.quality.recall_state import RecallState

WINDOWS = (40, 60)
TARGET = RecallTarget(0.95, 600, 10, 1, "equal", "immediate")


@pytest.mark.parametrize("slack", [0, 5, 30])
def test_what_rows_missed_is_what_a_join_that_gave_up_their_partners_did_not_find(
    slack: int,
) -> None:
    rng = np.random.default_rng(slack)
    n = 6_000
    late = rng.integers(1, 150, n) * (rng.random(n) < 0.3)
    # Rows of the first stream come late; of the second all come in time, one a tick.
    found = wanted = 0
    for t, d in enumerate(late.tolist()):
        partners = range(t - WINDOWS[1], t + WINDOWS[0] + 1)
        wanted += len(partners)
        # At the row's arrival its own stream is at t + d: older rows of the other stream are gone.
        found += sum(q + WINDOWS[1] >= t + d - slack for q in partners)
    counts = histogram(late, 1)
    share = lost(counts, WINDOWS, 0, 1, slack) / n
    assert share == pytest.approx(1 - found / wanted, abs=0.01)
    assert lost(counts, WINDOWS, 0, 1, int(late.max())) == 0.0


def steady(rows: int = 1_000) -> list[StreamDelays]:
    """Statistics that know small delays only."""
    counts = np.array([rows - 20, 10, 10])
    return [StreamDelays(counts, 1, w) for w in WINDOWS]


@pytest.mark.spec("QD-E10")
def test_a_lack_asks_for_more_until_it_is_made_good() -> None:
    state = KeptSlack(TARGET)
    needed = []
    for tick in range(1, 200):
        # Between 100 and 110 a fifth of what the rows are worth is missed: 0.2 of 10 of 60 intervals.
        missed = 200.0 if 100 <= tick < 110 else 10.0
        state.arrived(tick * 10, [1_000, 1_000], [missed, 0.0])
        state.adapt(steady(), 2, tick * 10)
        assert state.needed is not None
        needed.append(state.needed)
        kept = RecallState.from_json(json.loads(json.dumps(state.kept.to_json())))
        state = KeptSlack.resumed(TARGET, kept)
    assert set(needed[:98]) == {0.95}
    assert needed[108] == pytest.approx((0.95 * 60 - 40 + (10 * 0.2 + 30 * 0.01)) / 20)
    # The time that is looked at is two thirds of a period; after that the lack is of the past.
    assert max(needed[112:138]) > 0.95 and set(needed[150:]) == {0.95}


def test_the_recall_of_the_period_is_estimated_from_rows_and_losses() -> None:
    state = KeptSlack(TARGET)
    for tick in range(1, 121):
        state.arrived(tick * 10 - 5, [50, 25], [1.0, 0.0])
        state.arrived(tick * 10 - 1, [50, 25], [0.0, 1.0])
    state.adapt(steady(), 2, 1_200)
    assert state.estimated == pytest.approx(1 - 0.01 - 0.02)
    assert [p[0] for p in state.past] == list(range(61, 120))


def test_without_a_lack_slack_is_the_models() -> None:
    streams = [replace(s, counts=np.array([900, 0, 0, 0, 0, 40, 0, 60])) for s in steady()]
    state = KeptSlack(TARGET)
    for tick in range(1, 100):
        state.arrived(tick * 10, [1_000, 1_000], [0.0, 0.0])
        slack = state.adapt(streams, 7, tick * 10)
    assert slack == modelled_slack(TARGET, streams, 7, 1_000).slack
