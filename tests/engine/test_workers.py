"""What tasks do for the worker that runs them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slackwater.engine.driver import workers
from slackwater.testing import run
from tests.surface.test_local_job import SCHEMA, grouped, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_modules_are_hidden_once_and_again_when_there_are_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[None] = []
    monkeypatch.setattr(workers.gc, "freeze", lambda: calls.append(None))
    monkeypatch.setattr(workers, "_modules", 0)
    batch, task = pa.record_batch({"a": [1]}), workers.in_worker(iter)
    assert list(task(iter([batch, batch]))) == [batch, batch]
    assert list(task(iter([]))) == []
    assert len(calls) == 1
    monkeypatch.setitem(sys.modules, "a_module_more", ModuleType("a_module_more"))
    assert list(task(iter([batch]))) == [batch]
    assert len(calls) == 2


@pytest.mark.spark
def test_workers_of_a_query_have_little_left_to_look_at(spark: SparkSession) -> None:
    run(grouped, rows_of(1), SCHEMA, spark=spark)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        yield pa.record_batch({"hidden": [gc.get_freeze_count()], "seen": [len(gc.get_objects())]})

    frame = spark.range(0, 2, 1, 1).selectExpr("id AS hidden", "id AS seen")
    hidden, seen = frame.mapInArrow(count, "hidden long, seen long").collect()[0]
    assert hidden > 10 * seen, "modules are nearly all that a worker holds"
