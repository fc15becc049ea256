"""Aggregates that keep small groups as rows and large ones as partials, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from tests.surface.helpers import at, canonical, feed, run
from tests.surface.local import run_locally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "k string, ts timestamp, v long"


def batches() -> list[list[tuple[Any, ...]]]:
    """Key a has most of the rows until second 30, then none; the others have one now and then."""
    made = []
    for n in range(6):
        start = 10 * n
        rows = [("a", at(start + i % 10), i) for i in range(60 if n < 3 else 1)]
        rows += [(f"b{(n * 7 + i) % 11}", at(start + 3 + i), i) for i in range(4)]
        rows += [("a", at(start - 6), 1000)] if n else []  # late, but not too late
        made.append(rows)
    return made


def sums(spark: SparkSession, folder: Path) -> Any:
    df = sw.readStream(spark).schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    s = sw.stream(df, time="ts", name="s", progress=sw.BoundedDelay("4 seconds"))
    return (
        s.where("v >= 0")
        .groupBy("k", sw.window("20 seconds", "5 seconds"))
        .agg("count(*) AS n", "sum(v) AS total", "avg(v) AS mean", "stddev_pop(v) AS spread")
    )


@pytest.mark.spec("WQ-F49", "WQ-F55")
def test_groups_of_both_kinds_in_one_job(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    adapting = {"windowPlan": "adaptive", "partitionGroups": 2}
    feed(folder, batches(), 0, 3)
    first = run(sums(spark, folder), tmp_path / "ck", end=False, options=adapting)
    seen = [next(iter(r["operators"].values())) for r in first.records]
    assert all(op["plan"] == "adaptive" for op in seen)
    groups = [op["groups"] for op in seen]
    assert any(g["eager"] and g["lazy"] for g in groups), groups
    last = manifests.last(Checkpoint(tmp_path / "ck"))
    assert last is not None
    kinds = {r.part for found in last.runs.values() for runs in found for r in runs}
    assert kinds == {"", "rows", "eager"}
    # Another number of tasks finds rows, partials and the list of eager groups again.
    feed(folder, batches(), 3, 6)
    options = {**adapting, "partitionGroups": 3}
    second = run(sums(spark, folder), tmp_path / "ck", options=options)
    later = [next(iter(r["operators"].values()))["groups"] for r in second.records]
    assert any(g["transition"] for g in later), later
    assert later[-1] == {"eager": 0, "lazy": 0, "transition": 0}
    by_panes = run_locally(sums(spark, folder), tmp_path / "panes", options={"windowPlan": "panes"})
    columns = ["k", "wid", "n", "total", "mean", "spread"]
    found = canonical(first.rows() + second.rows(), columns)
    assert found == canonical(by_panes.rows(), columns) and len(found) > 20
    assert "by adaptive" in first.query._explain(False)
