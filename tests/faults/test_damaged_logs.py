"""Spark's own logs of a query, damaged one file at a time: the output is right, or the query ends with an error that names
the file before it publishes anything more.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.errors import CheckpointError
from tests.engine.test_damage import KINDS, damage
from tests.faults.killing import finish, visible
from tests.faults.scenarios import Scenario, scenarios
from tests.faults.test_damage import Place, stopped_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FOLDERS = ("offsets", "commits", "sources")
NAMES = ("tumbling", "union, rows and splits")
STOPS = ("intent.before=raise@8", "intent.after=raise@8", "published.after=raise@8")
COMPACT = {
    "spark.sql.streaming.fileSource.log.compactInterval": "3",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
}
Stopped = dict[tuple[str, str, bool], Place]


@contextmanager
def settings(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in conf:
            spark.conf.unset(key)


@pytest.fixture(scope="module")
def stopped() -> Stopped:
    """Filled when a case needs it."""
    return {}


def place_of(
    made: Stopped, spark: SparkSession, root: Path, name: str, stop: str, compact: bool
) -> Place:
    key = (name, stop, compact)
    if key not in made:
        made[key] = stopped_at(spark, root / str(len(made)), stop, scenarios()[name])
    return made[key]


def logs(place: Place) -> list[Path]:
    location = place.state / "checkpoint"
    return sorted(
        p.relative_to(place.state)
        for folder in FOLDERS
        for p in (location / folder).rglob("*")
        if p.is_file()
    )


def check_case(
    rng: random.Random,
    made: Stopped,
    spark: SparkSession,
    root: Path,
    tmp_path: Path,
    key: tuple[str, str, bool],
) -> None:
    """Damage a file that is drawn, start the query, and look what came of it."""
    name, stop, compact = key
    scenario = scenarios()[name]
    with settings(spark, COMPACT if compact else {}):
        place = place_of(made, spark, root, *key).copy(tmp_path / "state")
        path, kind, names = damaged(place, rng)
        shown = f"{name}, {stop}, {compact=}: {kind} {path.relative_to(place.state)}"
        before = visible(place.state)
        error = refusal(scenario, spark, place)
    if error is None:
        assert scenario.compare(place.state) == (0, 0), shown
        return
    below = path.parent.relative_to(place.state / "checkpoint")
    # A checksum file is named without its folder, beside the file it is of.
    named = [n if n.endswith(".crc") else str(below / n) for n in names]
    assert any(n in str(error) for n in named), f"{shown}: {error}"
    assert visible(place.state) == before, shown


def damaged(place: Place, rng: random.Random) -> tuple[Path, str, set[str]]:
    """Damage one file: which, how, and the names of the files that are not what they were."""
    while True:
        path, kind = place.state / rng.choice(logs(place)), rng.choice(KINDS)
        if rng.random() < 0.5:  # as on a file system that keeps no checksums
            for sums in path.parent.glob(".*.crc"):
                if sums != path:
                    sums.unlink()
        names = damage(kind, path, path, rng)
        if names is not None:
            return path, kind, names


def refusal(scenario: Scenario, spark: SparkSession, place: Place) -> CheckpointError | None:
    """Run to the end; the error that says why not."""
    try:
        finish(scenario, spark, place.inputs, place.state, groups=2)
    except CheckpointError as error:
        return error
    return None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.mark.parametrize("number", range(12))
def test_a_damaged_log_of_spark_is_named_or_does_no_harm(
    number: int, stopped: Stopped, spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    key = (NAMES[-1], STOPS[1], True)
    check_case(random.Random(number), stopped, spark, root, tmp_path, key)


@pytest.mark.faults
@pytest.mark.parametrize("number", range(12, 212))
def test_any_damaged_log_of_spark_is_named_or_does_no_harm(
    number: int, stopped: Stopped, spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    rng = random.Random(number)
    key = (rng.choice(NAMES), rng.choice(STOPS), rng.random() < 0.5)
    check_case(rng, stopped, spark, root, tmp_path, key)
