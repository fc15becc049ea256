"""How Spark writes its own logs of a query: offsets, commits, files it has seen.

Spark's default way of writing them on a local disk starts a process for each file, to set its permissions: several a
batch, tens of milliseconds each. Its other way, also by a temporary file and a rename, starts none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
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
    manager = None if spark.conf.get(KEY, None) else _manager(spark._jvm)
    if manager is None:
        yield
        return
    spark.conf.set(KEY, manager)
    try:
        yield
    finally:
        spark.conf.unset(KEY)


@lru_cache(maxsize=1)  # the JVM searches all its archives for each package that it is asked for
def _manager(jvm: Any) -> str | None:
    """The class's name, which differs between versions of Spark."""
    from py4j.java_gateway import JavaClass

    streaming = jvm.org.apache.spark.sql.execution.streaming
    for package in (streaming.checkpointing, streaming):
        named = getattr(package, MANAGER)
        if isinstance(named, JavaClass):
            return str(named._fqn)
    return None
