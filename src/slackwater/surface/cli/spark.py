"""The Spark session of a command: the one that is there, or a new quiet one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.surface.cli.terminal import stderr_to
from slackwater.surface.session import check_java, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def quiet_session(
    app: str, log: Path, conf: dict[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session whose JVM writes its log to a file; stopped at the end if it was made here."""
    check_java()
    spark = active_session()
    if spark is not None:
        yield spark
        return
    with stderr_to(log):
        spark = session(app, conf=conf)
    try:
        yield spark
    finally:
        spark.stop()


def active_session() -> SparkSession | None:
    """The session of this process, if it has one."""
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    if SparkContext._active_spark_context is None:
        return None
    return SparkSession.builder.getOrCreate()
