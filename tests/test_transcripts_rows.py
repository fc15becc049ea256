"""All that transcripts ask of Spark, over row sources; with `make faults` every one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.transcripts_on_spark import ROW_PARAMS, run_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("path", ROW_PARAMS)
def test_rows(path: Path, spark: SparkSession) -> None:
    run_on_spark(path, spark, splits=False)
