"""The end of a window spread over several batches, on Spark, with a consumer that relies on the bound."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from tests.surface.helpers import at, canonical, feed, run, seconds
from tests.surface.local import run_locally

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
    first = run_locally(
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
    second = run_locally(
        results(spark, folder), tmp_path / "ck",
        options={**options, "partitionGroups": 3},
    )  # fmt: skip
    plain = run_locally(results(spark, folder), tmp_path / "plain")
    assert max(len(rows) for rows in plain.batches["small"].values()) >= 40
    for name, columns in (("small", ["k", "wid", "n", "total"]), ("large", ["wid", "groups", "n"])):
        found = first.rows(name) + second.rows(name)
        assert canonical(found, columns) == canonical(plain.rows(name), columns)
    last = next(o for o in second.last["operators"].values() if "held" in o)
    assert last["held"] == 0 and last["bounds"]["window"] == "end"


@pytest.mark.spec("WQ-F84", "WQ-F86", "OO-F14", "OO-F16")
def test_low_level_tables_last_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that Spark reduces inside the JVM; what they come to is added up here, row by row."""
    folder = tmp_path / "in"
    rng = random.Random(3)
    made = [
        [
            (f"k{rng.randrange(30)}", at(4 * n + 6 * rng.random()), rng.randrange(9))
            for _ in range(60)
        ]
        for n in range(5)
    ]
    made[0].append(("once", at(1), 1))

    def result() -> sw.Stream:
        reader = spark.readStream.schema("k string, ts timestamp, v long")
        df = reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
        s = sw.stream(df, time="ts", name="s", progress=sw.BoundedDelay("2 seconds"))
        return s.groupBy("k", sw.window("10 seconds")).agg("count(*) AS n", "sum(v) AS total")

    feed(folder, made, 0, 3)
    first = run(
        result(), tmp_path / "ck", end=False,
        options={"lowTable": 4096, "partitionGroups": 2},
    )  # fmt: skip
    tables = [next(iter(r["operators"].values()))["lowTable"] for r in first.records]
    assert sum(t["arrived"] for t in tables) > sum(t["sent"] for t in tables) + 30
    assert tables[-1]["entries"] > 20
    # The bound has passed the end of the first window, but nobody has needed the slot of the group that came once.
    last = first.last
    assert last["streams"]["s"]["bounds"]["ts"]["bound"][11:19] >= "00:00:10"
    assert next(iter(last["operators"].values()))["bounds"]["window"][11:19] == "00:00:09"
    feed(folder, made, 3, 5)
    second = run(
        result(), tmp_path / "ck",
        options={"lowTable": 32, "lowFlush": 2, "lowProbe": True, "partitionGroups": 3},
    )  # fmt: skip
    found = first.rows() + second.rows()
    expected: dict[tuple[str, int], list[int]] = {}
    for key, time, value in (row for rows in made for row in rows):
        entry = expected.setdefault((key, int(seconds(time) // 10)), [0, 0])
        entry[0], entry[1] = entry[0] + 1, entry[1] + value
    start = min(r["wid"] for r in found)
    assert sorted((r["k"], r["wid"] - start, r["n"], r["total"]) for r in found) == sorted(
        (key, wid, *entry) for (key, wid), entry in expected.items()
    )
