"""Every operator and type of window on Spark, over split sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.transcripts_on_spark import SPLITS, path_of, run_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("stem", SPLITS)
def test_splits(stem: str, spark: SparkSession) -> None:
    run_on_spark(path_of(stem), spark, splits=True)
