"""``stream.preview``: a quick look at results, and why there are none."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING

from slackwater.engine.clock import monotonic, sleep
from slackwater.surface import start
from slackwater.surface.waiting import why_nothing

if TYPE_CHECKING:
    from pyspark.sql import Row

    from slackwater.engine.driver.handle import StreamingQuery
    from slackwater.surface.stream import Stream


def preview(stream: Stream, n: int, seconds: float) -> list[Row]:
    """Run ``stream`` on a temporary checkpoint until ``n`` rows are there or time is up."""
    if start.instead:
        stream.writeStream.format("noop").start()
        return []
    folder = tempfile.mkdtemp(prefix="slackwater-preview-")
    rows: list[Row] = []

    def take(frame, batch: int) -> None:  # type: ignore[no-untyped-def]
        if len(rows) < n:
            rows.extend(frame.limit(n - len(rows)).collect())

    query = (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", folder)
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        # Until its first batch is done a query starts: Spark plans it, Python workers import what they need.
        while query.isActive and not query._has_begun:
            sleep(0.02)
        until = monotonic() + seconds
        while len(rows) < n and query.isActive and monotonic() < until:
            sleep(0.05)
    finally:
        _end(query)
        shutil.rmtree(folder, ignore_errors=True)
    error = query.exception()
    if error is not None and not rows:
        raise error
    if not rows:
        print(why_nothing(query, seconds))
    return rows


def _end(query: StreamingQuery) -> None:
    """Stop between two batches: one that is interrupted leaves stack traces of Spark and of its workers on the screen."""
    query._abandon()
    query.stop()
