"""Streams that wait for a slower one are put in order by that wait, and the statistics say by how much."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.simulations.join_order import SlackOrder
from slackwater.semantics.quality.statistics import StreamStatistics, relative_sync

AHEAD, N = 30, 400


def two(most: int) -> tuple[np.ndarray, np.ndarray]:
    """A stream that is ahead by `AHEAD`, with rows up to ``most`` late, and a slower one in order, in turns."""
    rng = np.random.default_rng(3)
    clock = np.arange(N) + 100
    late = rng.integers(0, most + 1, N) * (rng.random(N) < 0.4)
    return np.tile([0, 1], N), np.stack([clock + AHEAD - late, clock], axis=1).ravel()


def test_a_stream_that_is_ahead_has_that_much_slack_for_nothing() -> None:
    for most in (AHEAD - 2, 2 * AHEAD):
        streams, times = two(most)
        order = SlackOrder(2)
        out = order.advance(streams, times, np.arange(2 * N), [0, 0])
        mine = out.time[out.stream == 0]
        late = (np.maximum.accumulate(mine) > mine).sum()
        came = times[streams == 0]
        assert (np.maximum.accumulate(came) > came).sum() > 100
        # No slack at all, and yet what is late by less than the lead leaves in order.
        assert (late == 0) == (most < AHEAD)
        seen = [StreamStatistics.fresh(1) for _ in range(2)]
        clocks = [np.maximum.accumulate(times[streams == i]) for i in range(2)]
        slowest = np.minimum(*clocks)
        for i, statistics in enumerate(seen):
            statistics.observe(times[streams == i], clocks[i] - slowest)
        found = relative_sync({str(i): s.sync for i, s in enumerate(seen)})
        assert found["1"] == 0 and found["0"] == pytest.approx(AHEAD, abs=1)
