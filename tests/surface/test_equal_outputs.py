"""Outputs with equal parts on Spark: they come and go, at restarts and while the query runs, and no state changes hands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from tests.surface.helpers import at, feed, seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.surface.stream import Stream

TEXT = "SELECT k, window_start AS t, count(*) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL 10 SECONDS)) GROUP BY k, window_start, window_end"


class Running:
    """One query on one checkpoint, and the rows of each output: key, start of the window, count."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.query: Any = None

    def writer(self, name: str, stream: Stream) -> Any:
        def take(frame: Any, batch: int) -> None:
            for r in frame.toArrow().to_pylist():
                time = r["window"]["start"] if "window" in r else r.get("t", r.get("ts"))
                self.rows.setdefault(name, []).append((r["k"], seconds(time), r.get("n", 0)))

        return stream.writeStream.queryName(name).foreachBatch(take)

    def start(self, **outputs: Stream) -> None:
        self.stop()
        self.query = sw.start(
            [self.writer(name, stream) for name, stream in outputs.items()],
            checkpointLocation=str(self.folder / "ck"),
            trigger={"processingTime": "100 milliseconds"},
        )

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    one = Running(tmp_path)
    yield one
    one.stop()


def source(spark: SparkSession, folder: Path, name: str, delay: str = "0 seconds") -> Stream:
    folder.mkdir(exist_ok=True)
    reader = sw.readStream(spark).schema("k string, ts timestamp, v long")
    df = reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
    return sw.stream(df, time="ts", name=name, progress=sw.BoundedDelay(delay))


def feeding(folder: Path, query: Callable[[], Any]) -> Callable[..., None]:
    """What hands the query one more batch, and waits until it is done: keys and times."""
    count = iter(range(100))

    def give(*rows: tuple[str, int]) -> None:
        number = next(count)
        feed(folder, {number: [(k, at(t), 1) for k, t in rows]}, number, number + 1)  # type: ignore[arg-type]
        query().processAllAvailable()

    return give


@pytest.mark.spark
@pytest.mark.spec("XJ-F84")
def test_equal_aggregates_are_one_over_restarts_and_changes(
    spark: SparkSession, tmp_path: Path, running: Running
) -> None:
    s = source(spark, tmp_path / "in", "s")
    give = feeding(tmp_path / "in", lambda: running.query)

    def counts(having: str = "") -> Stream:
        return sw.sql(f"{TEXT}{having}", streams={"s": s})

    running.start(all=counts())
    give(("a", 1), ("b", 2), ("b", 3))
    # Another statement above what "all" counts, and it is named first.
    running.start(few=counts(" HAVING count(*) > 1"), all=counts())
    give(("b", 4), ("b", 59))
    assert sorted(running.rows["all"]) == [("a", 0, 1), ("b", 0, 3)]
    assert running.rows["few"] == [("b", 0, 3)]
    # While it runs: one more, in Python; then the older ones go.
    running.query.add(
        running.writer("peaks", s.groupBy("k", sw.window("10 seconds")).agg("count(*) AS n"))
    )
    give(("b", 58), ("a", 52))
    assert len(running.query.lastProgress["operators"]) == 1
    running.query.remove("all")
    running.query.remove("few")
    give(("a", 60), ("a", 70))
    assert sorted(running.rows["peaks"]) == [("a", 50, 1), ("a", 60, 1), ("b", 50, 2)]
    assert sorted(running.rows["all"]) == [("a", 0, 1), ("b", 0, 3)]


@pytest.mark.spark
@pytest.mark.spec("XJ-F84")
def test_any_output_can_be_removed(spark: SparkSession, tmp_path: Path, running: Running) -> None:
    """Also the last one on the stream's own slack, and one that read the streams in another order than the rest."""
    a = source(spark, tmp_path / "a", "a", "5 seconds")
    b = source(spark, tmp_path / "b", "b", "5 seconds")
    give = feeding(tmp_path / "a", lambda: running.query)

    def counts(stream: Stream) -> Stream:
        return stream.groupBy("k", sw.window("10 seconds")).agg("count(*) AS n")

    def soon(stream: Stream) -> Stream:
        return counts(stream).withQuality(sw.BoundedDelay("0 seconds"))

    feed(tmp_path / "b", [[("b", at(1), 1), ("b", at(100), 1)]], 0, 1)
    ab, ba = a.union(b), b.union(a)
    running.start(x=counts(ab), y=counts(ba), alarm=soon(ab))
    give(("a", 1), ("a", 10))
    running.query.remove("x")
    give(("a", 2), ("a", 15))
    running.query.remove("y")
    give(("a", 16), ("a", 20))
    assert sorted(running.rows["alarm"]) == [("a", 0, 1), ("a", 10, 3), ("b", 0, 1)]
    assert sorted(running.rows["y"]) == [("a", 0, 2), ("b", 0, 1)]
    feed(tmp_path / "b", [(), [("b", at(101), 1)]], 1, 2)
    running.start(y=counts(ba))
    give(("a", 21), ("a", 40))
    assert running.rows["y"][2:] == [("a", 20, 1)]
