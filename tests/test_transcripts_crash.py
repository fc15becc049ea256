"""Every transcript on Spark, through a failure and a restart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.transcripts_on_spark import PARAMS, crash_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("path", PARAMS)
def test_crash(path: Path, spark: SparkSession) -> None:
    crash_on_spark(path, spark)
