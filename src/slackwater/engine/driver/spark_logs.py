"""How Spark writes its own logs of a query: offsets, commits, files it has seen.

Spark's default way of writing them on a local disk starts six processes for each file: two set permissions, four ask
for links. Its other way, also by a temporary file and a rename, starts the first two alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

KEY = "spark.sql.streaming.checkpointFileManagerClass"
MANAGER = "FileSystemBasedCheckpointFileManager"

LONGEST_MS = 10_000
"""How long to wait for Spark to open a query's sources; after that their logs may be written the slow way."""


@contextmanager
def quick_logs(spark: SparkSession) -> Iterator[None]:
    """A query that starts in this context writes its logs the quick way, unless the user has chosen one.

    A query takes a copy of the session's settings when it starts, so others are not affected. Its sources ask the
    session itself a moment later, in the query's own thread: wait for `opened` in this context.
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


def opened(query: StreamingQuery) -> StreamingQuery:
    """The query, as soon as Spark has opened the logs of its sources or failed at it, which the query itself will say."""
    with suppress(Exception):
        query._jsq.streamingQuery().awaitInitialization(LONGEST_MS)
    return query


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
