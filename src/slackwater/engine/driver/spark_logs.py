"""How Spark writes its own logs of a query: offsets, commits, files it has seen.

Spark's default way of writing them on a local disk starts a process for each file, to set its permissions: several a
batch, tens of milliseconds each. Its other way, also by a temporary file and a rename, starts none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "spark.sql.streaming.checkpointFileManagerClass"
MANAGER = "FileSystemBasedCheckpointFileManager"


@contextmanager
def quick_logs(spark: SparkSession) -> Iterator[None]:
    """A query that starts in this context writes its logs the quick way, unless the user has chosen one.

    A query takes a copy of the session's settings when it starts, so others are not affected.
    """
    found = None if spark.conf.get(KEY, None) else _manager(spark)
    if found is None:
        yield
        return
    spark.conf.set(KEY, found)
    try:
        yield
    finally:
        spark.conf.unset(KEY)


def _manager(spark: SparkSession) -> str | None:
    """The class's name, which differs between versions of Spark."""
    from py4j.java_gateway import JavaClass

    jvm: Any = spark._jvm
    streaming = jvm.org.apache.spark.sql.execution.streaming
    for package in (streaming.checkpointing, streaming):
        found = getattr(package, MANAGER)
        if isinstance(found, JavaClass):
            return str(found._fqn)
    return None
