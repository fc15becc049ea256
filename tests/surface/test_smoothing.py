"""The end of a window spread over several batches, on Spark, with a consumer that relies on the bound."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from tests.surface.helpers import at, canonical, feed, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def batches() -> list[list[tuple[Any, ...]]]:
    """Forty groups in each of three windows; a batch that closes each, and some in between."""
    made: list[list[tuple[Any, ...]]] = []
    for n in range(3):
        made.append([(f"k{i}", at(10 * n + i % 10), i) for i in range(40)])
        made += [[(f"k{i}", at(10 * n + 12 + i), 100)] for i in range(3)]
    return made


def results(spark: SparkSession, folder: Path) -> dict[str, Any]:
    reader = sw.readStream(spark).schema("k string, ts timestamp, v long")
    df = reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
    s = sw.stream(df, time="ts", name="s", progress=sw.BoundedDelay("2 seconds"))
    small = s.groupBy("k", sw.window("10 seconds")).agg("count(*) AS n", "sum(v) AS total")
    large = small.groupBy(sw.window("20 seconds")).agg("count(*) AS groups", "sum(n) AS n")
    return {"small": small, "large": large}


@pytest.mark.spec("OO-F15", "OO-F16")
def test_a_window_leaves_a_part_at_a_time(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    options = {"smooth": 8, "smoothWindows": 2}
    feed(folder, batches(), 0, 6)
    first = run(
        results(spark, folder), tmp_path / "ck", end=False,
        options={**options, "partitionGroups": 2},
    )  # fmt: skip
    ops = [r["operators"] for r in first.records]
    smooth = [next(o for o in op.values() if "held" in o) for op in ops]
    assert max(o["rowsOut"] for o in smooth) <= 16 and any(o["held"] for o in smooth)
    # While results wait, nothing is promised beyond them.
    for o, after in pairwise(smooth):
        if o["held"]:
            assert (
                o["bounds"]["window"] is None
                or "00:00:00" <= o["bounds"]["window"][11:19] < "00:00:20"
            )
            assert after["rowsOut"] > 0
    # A restart with other tasks goes on where the first run stopped; the end lets all out.
    feed(folder, batches(), 6, 12)
    second = run(
        results(spark, folder), tmp_path / "ck",
        options={**options, "partitionGroups": 3},
    )  # fmt: skip
    plain = run(results(spark, folder), tmp_path / "plain")
    assert max(len(rows) for rows in plain.batches["small"].values()) >= 40
    for name, columns in (("small", ["k", "wid", "n", "total"]), ("large", ["wid", "groups", "n"])):
        found = first.rows(name) + second.rows(name)
        assert canonical(found, columns) == canonical(plain.rows(name), columns)
    last = next(o for o in second.last["operators"].values() if "held" in o)
    assert last["held"] == 0 and last["bounds"]["window"] == "end"
