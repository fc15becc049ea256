"""``stream.preview``: a quick look at results."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING

from slackwater.engine.clock import monotonic, sleep

if TYPE_CHECKING:
    from pyspark.sql import Row

    from slackwater.surface.stream import Stream


def preview(stream: Stream, n: int, seconds: float) -> list[Row]:
    """Run ``stream`` on a temporary checkpoint until ``n`` rows are there or time is up."""
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
        until = monotonic() + seconds
        while len(rows) < n and query.isActive and monotonic() < until:
            sleep(0.05)
        error = query.exception()
        if error is not None:
            raise error
    finally:
        query.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return rows
