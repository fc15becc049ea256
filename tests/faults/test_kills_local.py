"""Kill a process that runs the engine without Spark, at every durable step; a restart on other groups loses nothing.

`test_kills.py` does it on Spark, for the steps at which Spark stands differently; ``make faults`` at all of them.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.engine.store.failpoints import POINTS
from slackwater.testing.local.run import scratch_folder
from tests.faults.killing import HITS, has_ended, visible
from tests.faults.local import finish, kill_at
from tests.faults.scenarios import scenarios

SCENARIO = scenarios()["sliding"]
ORDERS = scenarios()["closed orders"]
PACE = scenarios()["pace"]


@pytest.fixture
def state() -> Iterator[Path]:
    """A folder in memory: what a killed process wrote is there, as it would be on a disk."""
    with scratch_folder() as folder:
        yield folder


@pytest.mark.parametrize("point", list(POINTS))
def test_killed_at_any_step_nothing_is_lost_or_repeated(point: str, state: Path) -> None:
    assert kill_at(SCENARIO, state, point, HITS[point]) == -signal.SIGKILL
    assert not has_ended(state)

    finish(SCENARIO, state, groups=3)
    assert has_ended(state)
    assert SCENARIO.compare(state) == (0, 0)

    before = visible(state)
    finish(SCENARIO, state, groups=2)
    assert visible(state) == before


@pytest.mark.spec("FC-F25")
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(
            p, marks=[] if p in ("task.run.after", "manifest.after") else pytest.mark.faults
        )
        for p in POINTS
    ],
)
def test_orders_that_punctuation_closes_are_neither_lost_nor_repeated(point: str, state: Path) -> None:  # fmt: skip
    assert kill_at(ORDERS, state, point, HITS[point]) == -signal.SIGKILL
    assert not has_ended(state)
    finish(ORDERS, state, groups=3)
    assert ORDERS.compare(state) == (0, 0)
    before = visible(state)
    finish(ORDERS, state, groups=2)
    assert visible(state) == before


@pytest.mark.spec("FC-F41")
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(p, marks=[] if p in ("intent.after", "job.after") else pytest.mark.faults)
        for p in POINTS
    ],
)
def test_a_pace_judges_a_repeated_batch_as_it_did_before(point: str, state: Path) -> None:
    assert kill_at(PACE, state, point, HITS[point]) == -signal.SIGKILL
    assert not has_ended(state)
    finish(PACE, state, groups=3)
    assert PACE.compare(state) == (0, 0)


def test_the_scenario_can_show_a_loss() -> None:
    """Every output has rows, some rows are late, and rows repeat: else the comparison proves little."""
    wanted = SCENARIO.expected
    assert all(sum(c.values()) > 20 for c in wanted.values())
    assert len(HITS) == len(POINTS) and set(HITS) == set(POINTS)
