"""Fixtures that all tests share."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark session for the whole run, in UTC."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    sql = pytest.importorskip("pyspark.sql")
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("slackwater-tests")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        # Batches of a few rows: what a second compiler saves is less than it costs.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        # Nor is a batch worth compiling. Children of tests, `sw.session` and `compiled_code` do compile.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        # As `sw.session` has it.
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def compiled_code(spark: SparkSession) -> Iterator[None]:
    """Spark compiles expressions and stages in this test, as it does for users."""
    settings = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    before = {key: str(spark.conf.get(key)) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


@lru_cache(maxsize=1)
def _progress_validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    path = Path(__file__).parent.parent / "docs" / "progress.schema.json"
    return jsonschema.Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


def check_progress(record: dict[str, Any]) -> None:
    """Fail unless a progress record is what ``docs/progress.schema.json`` says."""
    record = json.loads(json.dumps(record))  # as a program that reads it from a file sees it
    errors = [f"{e.json_path}: {e.message}" for e in _progress_validator().iter_errors(record)]
    assert not errors, "\n".join(errors)
