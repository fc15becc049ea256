"""In a replay no clock tells which times are implausible: who looks at the query must see whose clock is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import slackwater as sw
from slackwater.model.time import SECOND
from slackwater.surface.cli import inspect_checkpoint
from slackwater.surface.report.page import render_report
from tests.surface.helpers import at
from tests.surface.local import run_locally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("wrong", "holder"), [(3_600, "a"), (-3_600, "b")], ids=["ahead", "behind"])  # fmt: skip
def test_record_inspect_and_report_name_the_partition_whose_clock_is_wrong(
    spark: SparkSession, tmp_path: Path, wrong: int, holder: str
):
    shift = {"a": 0, "b": wrong, "c": 1}
    batches = [[(p, at(10 * n + shift[p])) for p in "abc"] for n in range(3)]
    df = sw.replay(spark, batches, "p string, ts timestamp")
    s = sw.stream(df, time="ts", name="s", partition="p", progress=sw.BoundedDelay("5 seconds"))
    counts = s.groupBy(sw.window("10 seconds")).agg("count(*) AS n")
    done = run_locally(counts, tmp_path, end=False)
    told = done.last["streams"]["s"]["bounds"]["ts"]
    assert told["holder"] == holder
    assert told["apart"]["partition"] == "b"
    assert abs(told["apart"]["ahead"]) // SECOND in (3_599, 3_600)
    # nobody is held back by an hour where one clock is ahead
    words = "a (b is 59 minutes 59 seconds ahead of the others)" if wrong > 0 else "b"
    document = inspect_checkpoint.inspected(tmp_path / "checkpoint")
    assert document["bounds"][0]["apart"] == told["apart"]
    assert f"  {words}" in inspect_checkpoint.as_text(document)
    assert f"<td>{words}</td>" in render_report(tmp_path / "checkpoint")
