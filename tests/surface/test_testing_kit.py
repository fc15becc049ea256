"""The testing kit that users get: their own job over given micro-batches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from slackwater import testing
from slackwater.testing import KAFKA_COLUMNS, ManualClock, kafka_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000


def counts(df: Any) -> sw.Stream:
    s = sw.stream(df, time="t", progress=sw.Ordered())
    return s.groupBy(sw.window(10)).agg("count(*) AS n")


@pytest.mark.spark
def test_a_job_gives_rows(spark: SparkSession):
    batches = [[(1,), (5,)], [(12,)]]
    for splits in (False, True):
        rows = testing.run(counts, batches, "t long", spark=spark, splits=splits)
        assert [(r.wid, r.window.end, r.n) for r in rows] == [(0, 10, 2), (1, 20, 1)]
    open_end = testing.run(counts, batches, "t long", spark=spark, end=False)
    assert [(r.wid, r.n) for r in open_end] == [(0, 2)]


@pytest.mark.spark
def test_partitions_offsets_and_a_clock(spark: SparkSession):
    def job(df: Any) -> dict[str, sw.Stream]:
        s = sw.stream(
            df,
            time="t",
            timeUnit="second",
            progress=sw.Ordered().idleAfter("30 seconds"),
            partition="partition",
            partitions=2,
        )
        return {"counts": s.groupBy(sw.window(10)).agg("count(*) AS n"), "late": s.late}

    batches = kafka_batches(
        [[(3, "a"), (4, "b")], [(50, "a")], [(60, "a")]], lambda row: int(row[1] == "b")
    )
    clock = ManualClock(100 * SECOND)
    clock.script({2: 200 * SECOND})
    schema = f"t long, k string, {KAFKA_COLUMNS}"
    found = testing.run(job, batches, schema, spark=spark, clock=clock, end=False)
    # Partition 1 holds the bound at 4 until it is idle, in the last batch.
    assert [(r.wid, r.n) for r in found["counts"]] == [(0, 2), (5, 1)]
    assert found["late"] == []
    still = ManualClock(100 * SECOND)
    assert testing.run(job, batches, schema, spark=spark, clock=still, end=False)["counts"] == []


def test_kafka_batches_counts_offsets_per_partition():
    batches = kafka_batches([[("a",), ("b",), ("c",)], [], [("d",)]], 2)
    assert batches == [[("a", 0, 0), ("b", 1, 0), ("c", 0, 1)], [], [("d", 1, 1)]]


@pytest.mark.spark
def test_an_error_of_the_job_comes_out_as_itself(spark: SparkSession):
    def job(df: Any) -> sw.Stream:
        return sw.stream(df, time="t", progress=sw.Ordered(), late="raise").where("t > 0")

    with pytest.raises(sw.LateRowError):
        testing.run(job, [[(9,)], [(3,)]], "t long", spark=spark)


@pytest.mark.spark
def test_the_example_of_the_document_runs(spark: SparkSession):
    text = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
    found = re.search(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(compile(found.group(1), "testing.md", "exec"), names)
    names["test_a_straggler_is_late"](spark)
