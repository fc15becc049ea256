"""The transcripts, and how one of them runs on Spark.

Each way of running has a test file of its own, since a file is what the processes of a test run share out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.testing.transcripts.script import load, run
from tests.conftest import check_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = sorted((Path(__file__).parent / "transcripts").glob("*.yaml"))


def _specs(path: Path) -> list[pytest.MarkDecorator]:
    ids = load(path).spec
    return [pytest.mark.spec(*ids)] if ids else []


PARAMS = [pytest.param(f, id=f.stem, marks=_specs(f)) for f in FILES]


def run_on_spark(path: Path, spark: SparkSession, *, splits: bool) -> None:
    """Run a transcript over a row or a split source."""
    from slackwater.testing.executors.spark import spark_executor

    run(load(path), spark_executor(spark, splits=splits, groups=(2,), check=check_progress))


def crash_on_spark(path: Path, spark: SparkSession) -> None:
    """Run a transcript with a failure and a restart on another number of partition-groups.

    Where it fails, over which source and by which plan of windows goes round over the files.
    """
    from slackwater.testing.executors.spark import CRASH_POINTS, spark_executor

    number = FILES.index(path)
    executor = spark_executor(
        spark,
        splits=number % 2 == 0,
        groups=(2, 3, 1),
        plan="wids" if number % 3 == 0 else "auto",
        crash=CRASH_POINTS[number % len(CRASH_POINTS)],
        check=check_progress,
    )
    run(load(path), executor)
