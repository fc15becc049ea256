"""Guards behind a join with a table and steps that only Spark evaluates, on one path."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from tests.surface.test_feedback_spark import (
    COUNT,
    SCHEMA,
    batches,
    counted,
    expected,
    shown,
    stream,
    written,
)

pytestmark = pytest.mark.spark


def labelled(spark: Any, folder: Path, rows: sw.Stream) -> sw.Stream:
    """Rows with a label of a table."""
    (folder / "labels").mkdir()
    table = pa.table({"segment": pa.array(range(7), pa.int32()), "label": list("abababa")})
    pq.write_table(table, folder / "labels" / "part.parquet")
    labels = sw.relation(str(folder / "labels"), "segment", "labels", spark=spark)
    return rows.join(labels, "segment")


def worded(rows: sw.Stream) -> sw.Stream:
    """With a word that the column engine cannot make."""
    return rows.withColumn("word", "soundex(concat(label, 'm'))")


def of_rows(cars: sw.Stream) -> sw.Stream:
    return cars


def of_words(cars: sw.Stream) -> sw.Stream:
    """Spark evaluates a step in front of the table, where it reads the rows, and none behind it."""
    return cars.withColumn("v", "v + length(soundex(cast(segment AS string)))")


@pytest.mark.parametrize(("made", "splits"), [(of_words, False), (of_rows, True), (counted, False)])
def test_guards_stand_behind_a_table_and_steps_of_spark(
    spark: Any, tmp_path: Path, made: Callable[[sw.Stream], sw.Stream], splits: bool
) -> None:
    """What stands behind the last step drops each row that matches, whoever evaluates the steps."""
    result = labelled(spark, tmp_path, made(stream(spark, splits=splits)))
    given_up = [sw.ignore("label = 'b'"), "~{label = 'a', segment < 2}"]
    if made is not of_words:
        result, given_up[0] = worded(result), sw.ignore("word = 'B500'")
    q, rows = written(spark, result, tmp_path, feedback={"map": given_up})
    assert {r.label for r in rows} == {"a"} and {r.segment for r in rows} == {2, 4, 6}
    each = 6 * COUNT if made is not counted else COUNT + 1
    assert len(rows) == 3 * each
    acted = q.lastProgress["feedback"]["places"]
    assert acted["out:map"]["records"] == 2


def test_darkness_stands_in_front_of_a_table_and_steps_of_spark(spark: Any, tmp_path: Path) -> None:
    """A window that lacks rows does not come out after a start that gives nothing up any more."""
    came, ck = tmp_path / "in", str(tmp_path / "ck")
    came.mkdir()
    frame = sw.readStream(spark).schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(came))
    cars = sw.stream(frame, time="ts", name="cars", progress=sw.BoundedDelay("0 seconds"))
    result = worded(labelled(spark, tmp_path, counted(cars)))
    out = str(tmp_path / "out")

    def run(until: int, **more: Any) -> None:
        for n in range(len(list(came.iterdir())), until):
            columns = zip(*batches()[n], strict=True)
            table = dict(zip(("segment", "ts", "v"), columns, strict=True))
            kinds = [
                ("segment", pa.int32()),
                ("ts", pa.timestamp("us", "UTC")),
                ("v", pa.float64()),
            ]
            pq.write_table(pa.table(table, schema=pa.schema(kinds)), came / f"{n}.parquet")
            os.utime(came / f"{n}.parquet", (1_700_000_000 + n, 1_700_000_000 + n))
        writer = result.writeStream.queryName("map").format("parquet").option("path", out)
        sw.start(
            [writer], checkpointLocation=ck, trigger={"availableNow": True}, **more
        ).awaitTermination()

    run(2, feedback={"map": [sw.ignore("segment = 4")]})
    run(COUNT)
    seen = shown(spark.read.parquet(out).collect())
    wanted = [r for r in expected(until=10 * COUNT - 1) if r[0] != 7]
    # Of segment 4 rows are missing up to second 19: the window up to 40 is the first that lacks none.
    assert seen == sorted(r for r in wanted if r[0] != 4 or r[1] >= 40)
