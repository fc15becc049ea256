"""The query of the demonstration: who sends most, over ten seconds, every second."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import slackwater as sw
from slackwater.surface.demo.packets import ROUTERS, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW_SECONDS, SLIDE_SECONDS = 10, 1


EVERY_SECOND = {"processingTime": "1 second"}


def start(
    spark: SparkSession, folder: Path, trigger: Mapping[str, Any] = EVERY_SECOND
) -> sw.StreamingQuery:
    """Start it: reads ``folder/packets``, writes ``folder/talkers`` and ``folder/late``."""
    files = sw.readStream(spark).schema(SCHEMA).parquet(str(folder / "packets"))
    packets = sw.stream(
        files,
        time="ts",
        name="packets",
        partition="router",
        partitions=list(ROUTERS),
        progress=sw.BoundedDelay("2 seconds")
        .idleAfter("4 seconds")
        .futureGuard("1 minute", future="side"),
    )
    talkers = packets.groupBy(
        "srcIP", sw.window(f"{WINDOW_SECONDS} seconds", f"{SLIDE_SECONDS} second")
    ).agg("count(*) AS packets", "sum(len) AS bytes")
    return sw.start(
        [
            talkers.writeStream.queryName("talkers").option("path", str(folder / "talkers")),
            packets.late.writeStream.queryName("late").option("path", str(folder / "late")),
        ],
        checkpointLocation=str(folder / "checkpoint"),
        trigger=trigger,
    )
