"""Every transcript on Spark, over split sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.transcripts_on_spark import PARAMS, run_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("path", PARAMS)
def test_splits(path: Path, spark: SparkSession) -> None:
    run_on_spark(path, spark, splits=True)
