"""Kill a driver with its JVM and its workers; a restart on other groups loses nothing and repeats nothing.

Here at the steps at which Spark's own logs stand differently or its tasks run; at every step ``test_kills_local.py``
without Spark, and ``make faults`` with it, for more scenarios.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.killing import HITS, Ended, finish, has_ended, kill_each, visible
from tests.faults.scenarios import scenarios

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCENARIO = scenarios()["sliding"]
POINTS = ("task.run.after", "manifest.after", "publish.rename")
Killed = tuple[Path, Path, Ended]


@pytest.fixture(scope="module")
def killed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], Killed]]:
    """The children of all selected tests, two at a time, ahead of the tests that look at them."""

    root = tmp_path_factory.mktemp("kills")
    SCENARIO.write_inputs(spark, root / "in")
    chosen = [
        item.callspec.params["point"]
        for item in request.session.items
        if getattr(item, "module", None) is request.module and hasattr(item, "callspec")
    ]
    with ThreadPoolExecutor(2) as pool:
        ended = kill_each(pool, SCENARIO, root / "in", root, {p: HITS[p] for p in chosen})
        yield lambda point: (root / "in", root / point, ended(point))
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_step_nothing_is_lost_or_repeated(
    point: str, killed: Callable[[str], Killed], spark: SparkSession
) -> None:
    inputs, state, ended = killed(point)
    assert ended.code == -signal.SIGKILL, f"{point} was not reached: {ended.text[-3000:]}"
    if HITS[point] > 1:
        assert ended.committed > 0, "the kill was meant to come in the middle"
    assert not has_ended(state)

    finish(SCENARIO, spark, inputs, state, groups=3)
    assert has_ended(state)
    found = SCENARIO.found(state)
    for name, wanted in SCENARIO.expected.items():
        assert found[name] == wanted, (
            f"{name}: lost {wanted - found[name]}, twice {found[name] - wanted}"
        )
        shown = spark.read.parquet(str(state / "sink" / name)).count()
        assert shown == sum(wanted.values())

    before = visible(state)
    finish(SCENARIO, spark, inputs, state, groups=2)
    assert visible(state) == before
