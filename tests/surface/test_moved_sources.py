"""Source directories that move, on Spark: refused by name, or taken, and no file is read twice."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from slackwater.engine.lowlevel import directories
from slackwater.engine.lowlevel.directories import directories_of
from slackwater.engine.store import failpoints
from slackwater.engine.store.log_paths import uri
from tests.engine.test_moving import ODD
from tests.surface.helpers import run, times, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "ts timestamp, v bigint"
# Spark takes these for patterns.
PLAIN_FOR_SPARK = "".join(c for c in ODD if c not in "[]?*{}")


def source(spark: SparkSession, kind: str, folder: Path) -> Any:
    if kind == "splits":
        return (
            sw.readStream(spark).schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
        )
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder)).where("v > 0")  # fmt: skip


def read(spark: SparkSession, kind: str, folder: Path, ck: Path, **options: Any) -> list[int]:
    """The values that one start reads."""
    s = sw.stream(source(spark, kind, folder), time="ts", name="s", progress=sw.Ordered(), late="admit", **options)  # fmt: skip
    return sorted(r["v"] for r in run(s.select("v", "ts"), ck, end=False).rows())


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["splits", "rows"])
def test_a_moved_directory_is_refused_or_taken(
    spark: SparkSession, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
):
    old, new = tmp_path / PLAIN_FOR_SPARK, tmp_path / f"{PLAIN_FOR_SPARK} ü" / "in"
    ck = tmp_path / "ck"
    conf = "spark.sql.streaming.fileSource.log.compactInterval"
    spark.conf.set(conf, 2)  # so that the log has a compact file
    try:
        for v in (1, 2, 3):
            write(old, f"{v} é%41.parquet", {"ts": times(v), "v": [v]})
        assert read(spark, kind, old, ck) == [1, 2, 3]
        write(old, "4.parquet", {"ts": times(4), "v": [4]})
        # A batch whose files Spark has noted, and which was not committed.
        failpoints.reset()
        monkeypatch.setenv(failpoints.ENV, "intent.after=raise")
        with pytest.raises(failpoints.InjectedFailure):
            read(spark, kind, old, ck)
        monkeypatch.delenv(failpoints.ENV)
        assert list((ck / "sources" / "0").glob("*.compact"))

        shutil.copytree(old, new, copy_function=shutil.copyfile)  # with other times
        shutil.rmtree(old)
        with pytest.raises(sw.CheckpointError) as caught:
            read(spark, kind, new, ck)
        assert caught.value.condition == "SOURCE_MOVED"
        assert str(old) in str(caught.value) and str(new) in str(caught.value)

        failpoints.reset()
        monkeypatch.setenv(failpoints.ENV, "move.file=raise@2")
        with pytest.raises(failpoints.InjectedFailure):
            read(spark, kind, new, ck, movedFrom=str(old))
        monkeypatch.delenv(failpoints.ENV)
        write(new, "5.parquet", {"ts": times(5), "v": [5]})
        assert read(spark, kind, new, ck, movedFrom=str(old)) == [4, 5]
        write(new, "6.parquet", {"ts": times(6), "v": [6]})
        assert read(spark, kind, new, ck, movedFrom=str(old)) == [6]
        assert read(spark, kind, new, ck) == []
    finally:
        spark.conf.unset(conf)


@pytest.mark.spark
def test_wrong_use_is_refused_where_it_is_written(spark: SparkSession, tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    df = sw.readStream(spark).schema(SCHEMA).parquet(str(tmp_path / "a"))
    rate = spark.readStream.format("rate").load()
    pattern = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "[ab]"))
    for frame, time in ((rate, "timestamp"), (pattern, "ts")):
        with pytest.raises(sw.AnalysisError) as caught:
            sw.stream(frame, time=time, movedFrom="/old")
        assert caught.value.condition == "NO_DIRECTORY" and "/old" in str(caught.value)
    for bad in ("", 7):
        with pytest.raises(sw.AnalysisError) as caught:
            sw.stream(df, time="ts", movedFrom=bad)  # type: ignore[arg-type]
        assert caught.value.condition == "BAD_OPTION"
    one, two = (sw.stream(df, time="ts", name=n, movedFrom=f"/{n}") for n in ("one", "two"))
    with pytest.raises(sw.AnalysisError) as caught:
        run(one.union(two), tmp_path / "ck")
    assert caught.value.condition == "BAD_OPTION"
    assert "'/one'" in str(caught.value) and "'/two'" in str(caught.value)


@pytest.mark.spark
def test_a_start_walks_spark_s_plan_of_each_dataframe_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path / "in", "1.parquet", {"ts": times(1), "v": [1]})
    walks, walk = [], directories._relations
    monkeypatch.setattr(directories, "_relations", lambda f: walks.append(f) or walk(f))
    assert read(spark, "rows", tmp_path / "in", tmp_path / "ck") == [1]
    assert len(walks) == 1


@pytest.mark.spark
def test_what_spark_tells_of_directories(spark: SparkSession, tmp_path: Path):
    folder = tmp_path / PLAIN_FOR_SPARK
    folder.mkdir()
    frame = spark.readStream.schema(SCHEMA).json(str(folder))
    for df in (frame, frame.union(frame), frame.where("v > 1").dropDuplicates()):
        item = sw.stream(df, time="ts")._inputs[id(df)]
        assert [d.path for d in directories_of(item)] == [str(folder)]
    other = spark.readStream.schema(SCHEMA).csv(os.path.relpath(tmp_path))
    both = frame.union(spark.readStream.format("rate").load().selectExpr("timestamp", "value")).union(other)  # fmt: skip
    item = sw.stream(both, time="ts")._inputs[id(both)]
    assert [d.path for d in directories_of(item)] == [str(folder), str(tmp_path)]
    # Spark compares the texts of its log with those that it lists.
    jvm: Any = spark._jvm
    for text in (ODD, PLAIN_FOR_SPARK, "".join(map(chr, range(33, 127))).replace("/", "")):
        assert uri(f"/{text}") == "file://" + jvm.org.apache.hadoop.fs.Path(f"/{text}").toUri().toString()  # fmt: skip
