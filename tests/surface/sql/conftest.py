"""Streams without rows, for texts of SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKETS = "srcIP string, destIP string, len int, ts timestamp, router string, flag boolean"


@pytest.fixture(scope="session")
def streams(spark: SparkSession) -> dict[str, Any]:
    def made(name: str, schema: str, time: Any, **more: Any) -> Any:
        return sw.stream(sw.replay(spark, [], schema), time=time, name=name, **more)

    return {
        "packets": made("packets", PACKETS, "ts"),
        "other": made("other", PACKETS, "ts"),
        "ticks": made("ticks", "k string, t bigint, v int", "t", timeUnit="second"),
        "logs": made(
            "logs", "k string, begun timestamp, done timestamp", None,
            progress={"begun": sw.MaxDelay(), "done": sw.MaxDelay()},
        ),
        "events": made("events", "srcIP string, len int, ts timestamp, n bigint", "ts", order="n"),
        "locals": made("locals", "k string, lt timestamp_ntz, v int", "lt"),
    }  # fmt: skip
