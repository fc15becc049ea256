"""Who may read the files of a query on Spark: tasks in workers and Spark's own logs included."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import slackwater as sw
from tests.surface.helpers import times, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def umask() -> Iterator[int]:
    before = os.umask(0o022)
    yield 0o022
    os.umask(before)


def modes(root: Path) -> set[str]:
    return {oct(stat.S_IMODE(p.stat().st_mode)) for p in [root, *root.rglob("*")]}


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["owner", "umask"])
def test_checkpoint_and_output(spark: SparkSession, tmp_path: Path, umask: int, mode: str):
    write(tmp_path / "in", "a.parquet", {"ts": times(1, 2, 70), "v": [1, 2, 3]})
    df = sw.readStream(spark).schema("ts timestamp, v bigint").parquet(str(tmp_path / "in"))
    s = sw.stream(df, time="ts", name="s", progress=sw.Ordered())
    sums = s.groupBy(sw.window("1 minute")).agg("sum(v) AS v")
    sw.start(
        [
            sums.writeStream.queryName("sums").option("path", str(tmp_path / "out")),
            s.writeStream.queryName(f"rows_{mode}").format("memory"),
        ],
        checkpointLocation=str(tmp_path / "state" / "ck"),
        trigger={"availableNow": True},
        options={"checkpointMode": mode},
    ).awaitTermination()
    assert spark.table(f"rows_{mode}").count() == 3
    ours = tmp_path / "state" / "ck" / "slackwater"
    assert list((ours / "runs").iterdir())
    assert modes(tmp_path / "out") == {"0o755", "0o644"}
    assert oct(stat.S_IMODE((tmp_path / "state").stat().st_mode)) == "0o755"
    if mode == "umask":
        assert modes(tmp_path / "state" / "ck") == {"0o755", "0o644"}
    else:
        assert modes(ours) == {"0o700", "0o600"}
        # Spark's logs are as Spark makes them: the folder above them keeps others out.
        assert oct(stat.S_IMODE(ours.parent.stat().st_mode)) == "0o700"


@pytest.mark.spark
def test_a_replay(spark: SparkSession, tmp_path: Path, umask: int):
    sw.replay(spark, [[(1, "a")]], "t long, k string", directory=str(tmp_path / "a"))
    (folder,) = (tmp_path / "a").iterdir()
    assert modes(folder) == {"0o700", "0o600"}


@pytest.mark.spark
def test_an_unknown_mode_is_refused(spark: SparkSession, tmp_path: Path):
    (tmp_path / "in").mkdir()
    df = sw.readStream(spark).schema("ts timestamp, v bigint").parquet(str(tmp_path / "in"))
    writer = sw.stream(df, time="ts").writeStream.format("noop").option("checkpointMode", "0700")
    with pytest.raises(sw.AnalysisError) as caught:
        writer.start()
    assert caught.value.condition == "BAD_OPTION" and "checkpointMode" in str(caught.value)
