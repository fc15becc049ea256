"""Queries write Spark's logs without a process for each file, unless the user has chosen a way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from slackwater.engine.driver.spark_logs import KEY, MANAGER, quick_logs
from tests.surface.helpers import at, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_manager_is_there_while_a_query_starts_and_only_then(spark: SparkSession) -> None:
    with quick_logs(spark):
        assert (spark.conf.get(KEY, None) or "").endswith(MANAGER)
    assert spark.conf.get(KEY, None) is None


def test_a_choice_of_the_user_stays(spark: SparkSession) -> None:
    spark.conf.set(KEY, "mine")
    try:
        with quick_logs(spark):
            assert spark.conf.get(KEY) == "mine"
        assert spark.conf.get(KEY) == "mine"
    finally:
        spark.conf.unset(KEY)


def test_a_query_starts_in_that_context(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    started, seen = DataStreamWriter.start, []

    def start(self: Any, *args: Any, **named: Any) -> Any:
        seen.append(spark.conf.get(KEY, None))
        return started(self, *args, **named)

    monkeypatch.setattr(DataStreamWriter, "start", start)
    rows = sw.replay(spark, [[(at(0),)]], "ts timestamp")
    run(sw.stream(rows, time="ts", progress=sw.Ordered()), tmp_path / "ck")
    assert seen and all(name is not None and name.endswith(MANAGER) for name in seen)


def test_the_sources_of_a_query_are_opened_before_the_manager_goes(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = sw.replay(spark, [[(at(0),)], [(at(1),)]], "ts timestamp")
    writer = sw.stream(rows, time="ts", progress=sw.Ordered()).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(tmp_path / "ck")).start()
    assert spark.conf.get(KEY, None) is None
    try:
        source = query._spark._jsq.streamingQuery().sources().head()
        log = source.getClass().getDeclaredField("metadataLog")
        log.setAccessible(True)
        manager = log.get(source).fileManager().getClass().getName()
    finally:
        query.stop()
    assert manager.endswith(MANAGER)


def test_a_start_after_a_kill_amid_the_first_offsets_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark starts no query without offsets where their folder has a file, whatever it is."""
    folder = tmp_path / "ck" / "offsets"
    folder.mkdir(parents=True)
    left = ".0.6bec371a-5725-4a41-812a-09781a5fa23b.tmp"
    for name in (left, f".{left}.crc"):
        (folder / name).write_bytes(b"v1")
    rows = sw.replay(spark, [[(at(0),)]], "ts timestamp")
    run(sw.stream(rows, time="ts", progress=sw.Ordered()), tmp_path / "ck")
    assert (folder / "0").exists() and not (folder / left).exists()
