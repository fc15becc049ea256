"""A stream that has no rows, for what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "k string, ts timestamp, v bigint, n timestamp_ntz, offset bigint, wid int"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("empty")
    (made / "in").mkdir()
    return made


@pytest.fixture
def df(spark: SparkSession, folder: Path) -> Any:
    return sw.readStream(spark).schema(SCHEMA).parquet(str(folder / "in"))


@pytest.fixture
def s(df: Any) -> Any:
    return sw.stream(df, time="ts", progress=sw.Ordered())
