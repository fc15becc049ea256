"""Relations are known by their names, and what is made of their rows by all that it depends on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from tests.surface.helpers import run
from tests.surface.test_relations import readings, refused, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ON = [("device", "id")]


def test_two_tables_of_one_name_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing else tells them apart where rows are joined, if their columns are alike."""
    paths = [tmp_path / year for year in ("2025", "2026")]
    for path in paths:
        path.mkdir()
    directories = [sw.relation(write(p / "devices", {1: p.name}), "id") for p in paths]
    table = pa.table({"id": pa.array([1], pa.int64()), "name": ["c"]})
    frame = spark.createDataFrame([(1, "d")], "id bigint, name string")
    path = write(tmp_path / "devices", {1: "e"})
    given: list[list[Any]] = [
        directories,
        [directories[0], directories[0], sw.relation(lambda: table, "id", "devices")],
        [sw.relation(lambda: table, "id", "devices"), sw.relation(lambda: table, "id", "devices")],
        [sw.relation(frame, "id", "devices"), sw.relation(lambda: table, "id", "devices")],
        [sw.relation(path, "id"), sw.relation(path, "id", refresh="never")],
    ]
    s = readings(spark)
    for number, relations in enumerate(given):
        outputs = {f"o{i}": s.join(r, ON) for i, r in enumerate(relations)}
        refused("DUPLICATE_NAME", lambda o=outputs, n=number: run(o, tmp_path / f"q{n}"), "name=")
    a, b = (
        r.alias(r"x").withColumnRenamed("name", n) for r, n in zip(directories, "ab", strict=True)
    )
    joined = s.join(a, ON).drop("id").join(b, ON)
    refused("DUPLICATE_NAME", lambda: run(joined, tmp_path / "one"), "name=")
    one = directories[0]
    both = run({"o0": s.join(one, ON), "o1": s.join(one.where("id > 0"), ON)}, tmp_path / "same")
    assert [r["name"] for name in ("o0", "o1") for r in both.rows(name)] == ["2025", "2025"]


@pytest.mark.parametrize("form", ["whole", "segments"])
def test_a_checkpoint_that_is_made_anew_in_another_zone_reads_folders_anew(
    form: str, spark: SparkSession, tmp_path: Path
) -> None:
    write_to = tmp_path / "d" / "at=2026-01-01 00%3A00%3A00"
    write_to.parent.mkdir()
    write(write_to, {1: "a"})
    before = spark.conf.get("spark.sql.session.timeZone")
    hours = []
    try:
        for zone in ("Europe/Berlin", "Asia/Tokyo", "UTC", "Europe/Berlin"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            shutil.rmtree(tmp_path / "q", ignore_errors=True)
            joined = readings(spark).join(sw.relation(str(tmp_path / "d"), "id", "d"), ON)
            done = run(joined, tmp_path / "q", options={"relationForm": form})
            hours += [r["at"].timestamp() / 3600 % 24 for r in done.rows()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert hours == [23, 15, 0, 23]
