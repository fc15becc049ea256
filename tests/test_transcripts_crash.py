"""A failure at every step of a batch on Spark, and a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.transcripts_on_spark import CRASHES, crash_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize(
    "point", [pytest.param(p, id=f"{stem}-{p}") for p, stem in CRASHES.items()]
)
def test_crash(point: str, spark: SparkSession) -> None:
    crash_on_spark(point, spark)
