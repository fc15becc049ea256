"""What a running query does with silence, delays across tasks, and what it has measured."""

from __future__ import annotations

import io
import itertools
import threading
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.testing import ManualClock, delays
from tests.surface.helpers import at, run, seconds, times, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND = 1_000_000
START = int(at(0).timestamp()) * SECOND


# --- silence -----------------------------------------------------------------------------------------


@pytest.mark.spec("OO-F33")
@pytest.mark.parametrize(
    ("files", "idle"), [(1, [[], [], []]), (2, [[], ["a"]])], ids=["backlog", "none"]
)
def test_while_input_waits_no_partition_is_idle(
    spark: SparkSession, tmp_path: Path, files: int, idle: list[list[str]]
):
    """Three files, a minute of clock between batches: a partition whose rows wait in a file is not dead."""
    folder = tmp_path / "in"
    for i, (p, second) in enumerate([(["a", "b"], 1), (["a"], 20), (["b"], 10)]):
        write(folder, f"{i}.parquet", {"p": p, "ts": times(*[second] * len(p))})
    read = sw.readStream(spark).schema("p string, ts timestamp").option("maxFilesPerTrigger", files)
    s = sw.stream(
        read.parquet(str(folder)), time="ts", name="s", partition="p",
        progress=sw.Ordered().idleAfter("30 seconds").futureGuard(None),
    )  # fmt: skip
    clock = ManualClock(START)
    clock.script({1: START + 60 * SECOND, 2: START + 120 * SECOND})
    counts = s.groupBy(sw.window("5 seconds")).agg("count(*) AS n")
    done = run(counts, tmp_path / "ck", end=False, clock=clock)
    told = [r["streams"]["s"]["bounds"]["ts"] for r in done.records]
    assert [t["idle"] for t in told] == idle
    assert [r["streams"]["s"]["late"]["ts"] for r in done.records] == [0] * len(idle)
    # Who holds the bound is named, and how far it is behind; the bound waits for b's last row in any case.
    assert told[0]["holder"] == ("a" if files == 1 else "b")
    assert told[-1]["bound"].startswith("2026-01-01T00:00:10") and told[-1]["behind"] == 10 * SECOND
    assert [seconds(r["window"]["start"]) for r in done.rows()] == [0]
    for record in done.records:
        assert record["durationMs"]["total"] >= record["durationMs"]["job"] > 0


def test_files_come_as_fast_as_batches_go_or_as_many_a_batch_as_one_says(
    spark: SparkSession, tmp_path: Path
):
    """And a replay has the batches that were written down. The results are those of the rows."""
    lines = [[1, 2], [11], [12, 21, 22]]
    for i, batch in enumerate(lines):
        write(tmp_path / "in", f"{i}.parquet", {"ts": times(*batch)})
    read = sw.readStream(spark).schema("ts timestamp")
    replayed = sw.replay(
        spark, [[(at(t),) for t in b] for b in lines], "ts timestamp", directory=str(tmp_path / "b")
    )
    reads = {
        "all": (read.parquet(str(tmp_path / "in")), [6]),
        "two": (read.option("maxFilesPerTrigger", 2).parquet(str(tmp_path / "in")), [3, 3]),
        "replay": (replayed, [2, 1, 3]),
    }
    for name, (frame, rows) in reads.items():
        s = sw.stream(frame, time="ts", progress=sw.Ordered())
        counts = s.groupBy(sw.window("10 seconds")).agg("count(*) AS n")
        done = run(counts, tmp_path / name)
        assert [r["numInputRows"] for r in done.records if r["numInputRows"]] == rows
        assert [r["n"] for r in done.rows()] == [2, 2, 2]


@pytest.mark.spec("WQ-F104", "OO-F35", "WQ-F98")
def test_a_silent_input_delays_results_not_the_reduction_of_the_others(
    spark: SparkSession, tmp_path: Path
):
    schema = "k string, ts timestamp"
    batches = [[(k, at(b + i / 100)) for i in range(20) for k in "ab"] for b in (1, 2, 3)]
    fast = sw.stream(
        sw.replay(spark, batches, schema), time="ts", name="fast", progress=sw.Ordered()
    )
    slow = sw.stream(
        sw.replay(spark, [[("c", at(0))]], schema), time="ts", name="slow", progress=sw.Ordered()
    )
    result = fast.union(slow).groupBy("k", sw.window("1 second")).agg("count(*) AS n")
    done = run(result, tmp_path / "ck", options={"compactRuns": 1})
    operators = [next(iter(r["operators"].values())) for r in done.records]
    live = operators[:-1]
    assert sum(op["rowsOut"] for op in live) == 0
    # 121 rows have come; what is kept of them is one partial aggregate per group and pane.
    assert done.last["streams"]["fast"]["totalRows"] == 120
    assert [op["state"]["rows"] for op in live] == [3, 5, 7]
    assert operators[-1]["state"]["rows"] == 0 and operators[-1]["state"]["peakRows"] == 7
    assert operators[-1]["state"]["peakBytes"] > 0
    found = sorted((r["k"], seconds(r["window"]["start"]), r["n"]) for r in done.rows())
    assert found == [*((k, s, 20) for k in "ab" for s in (1, 2, 3)), ("c", 0, 1)]
    assert sum(r["durationMs"]["total"] for r in done.records) > 0


# --- delays ------------------------------------------------------------------------------------------


@pytest.mark.spec("WQ-F78")
@pytest.mark.parametrize("kind", ["splits", "rows"])
@pytest.mark.parametrize("how", ["apart", "interleaved"])
def test_delays_are_found_across_tasks(spark: SparkSession, tmp_path: Path, kind: str, how: str):
    """Order of arrival lies in a column: which task read a row must not matter."""
    arrived = [5, 50, 48, 90, 80, 88, 30, 85, 94, 96, 90, 99]
    rows = list(enumerate(arrived))
    parts = [rows[:6], rows[6:]] if how == "apart" else [rows[::2], rows[1::2]]
    for i, part in enumerate(parts):
        write(
            tmp_path / "in", f"{i}.parquet",
            {"offset": pa.array([o for o, _ in part], pa.int64()), "ts": times(*[t for _, t in part])},
        )  # fmt: skip
    df = sw.readStream(spark).schema("offset bigint, ts timestamp").parquet(str(tmp_path / "in"))
    s = sw.stream(df if kind == "splits" else df.rows_frame(), time="ts", name="s", order="offset",
                  progress=sw.MaxDelay().futureGuard(None))  # fmt: skip
    done = run(s.groupBy(sw.window("5 seconds")).agg("count(*) AS n"), tmp_path / "ck", end=False)
    told = done.last["streams"]["s"]["bounds"]["ts"]
    worst = int(delays(arrived).max())
    # No task saw it by itself.
    assert worst == 60 and all(delays([t for _, t in part]).max() < worst for part in parts)
    assert told["maxDelay"]["ticks"] == worst * SECOND
    assert told["maxDelay"]["time"].startswith("2026-01-01T00:00:30")
    assert told["bound"].startswith("2026-01-01T00:00:39")


# --- statistics --------------------------------------------------------------------------------------


@pytest.mark.spec("WQ-F47")
def test_measurements_choose_the_plan_of_an_aggregate_without_state(
    spark: SparkSession, tmp_path: Path
):
    folder, number = tmp_path / "in", itertools.count()
    folder.mkdir()

    def feed(keys: list[int], at_second: int, done: int | None) -> None:
        column = [*[at_second] * len(keys), *([None] if done is not None else [])]
        write(folder, f"{next(number)}.parquet", {
            "k": pa.array([*keys, *([None] if done is not None else [])], pa.int64()),
            "ts": times(*column),
            "done": times(*[None] * len(keys), *([done] if done is not None else [])),
        })  # fmt: skip

    df = sw.readStream(spark).schema("k bigint, ts timestamp, done timestamp").parquet(str(folder))
    s = sw.stream(df, time="ts", name="s", progress=sw.Punctuated("done").futureGuard(None))
    result = s.groupBy("k", sw.window("60 seconds", "30 seconds")).agg("count(*) AS n")

    def go(**options: Any) -> tuple[dict[str, Any], list[int], str]:
        done = run(result, tmp_path / "ck", end=False, options=options)
        out = io.StringIO()
        with redirect_stdout(out):
            done.query.explain()
        (operator,) = done.last["operators"].values()
        return operator, sorted(r["n"] for r in done.rows()), out.getvalue()

    feed(list(range(20)), 5, 300)
    first, rows, shown = go()
    # Nothing was known at the start; then each row proved to be a group of its own.
    assert (first["plan"], first["rowsPerPartial"], first["state"]["rows"]) == ("panes", 1.0, 0)
    assert rows == [1] * 40
    assert (
        "measured: 1 rows per group and pane" in shown and "wids" not in shown.split("level 1")[0]
    )

    feed(list(range(20)), 305, None)
    second, rows, shown = go()
    assert (second["plan"], second["state"]["rows"], rows) == ("wids", 40, [])
    assert second["rowsPerPartial"] is None  # counted anew, in another unit

    feed([1] * 100, 306, 600)
    with pytest.raises(sw.CheckpointError) as caught:
        go(windowPlan="panes")
    assert caught.value.condition == "QUERY_CHANGED" and "windowPlan" in str(caught.value)
    third, rows, _ = go()
    assert third["plan"] == "wids" and rows == [*[1] * 38, 101, 101]
    assert third["rowsPerPartial"] == 3.0

    # Now that no state is stored, the plan may be another: by measurement, or as asked for.
    feed([2] * 10, 605, 900)
    fourth, rows, _ = go(windowPlan="panes")
    assert fourth["plan"] == "panes" and rows == [10, 10]


# --- stop --------------------------------------------------------------------------------------------


def test_a_stop_in_the_middle_of_a_batch_is_no_error(spark: SparkSession, tmp_path: Path):
    """``stop()`` interrupts the call into Spark that the batch waits for; nobody who waits is told of an error."""
    write(tmp_path / "in", "0.parquet", {"ts": times(1, 2)})
    read = sw.readStream(spark).schema("ts timestamp").parquet(str(tmp_path / "in"))
    s = sw.stream(read, time="ts", name="s")
    begun = threading.Event()

    def wait(df: Any, batch: int) -> None:
        begun.set()
        df.sparkSession._jvm.java.lang.Thread.sleep(60_000)

    w = s.writeStream.foreachBatch(wait).option("checkpointLocation", tmp_path / "ck")
    q = w.start()
    assert begun.wait(60)
    q.stop()
    q.awaitTermination()
    assert q.exception() is None


# --- input that changes ------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["gone", "other"])
@pytest.mark.parametrize("splits", [True, False], ids=["splits", "rows"])
def test_a_batch_is_repeated_with_the_files_it_had(
    spark: SparkSession, tmp_path: Path, splits: bool, change: str
):
    """A batch failed; before it is tried again, one of its files goes away or gets other rows."""
    folder = tmp_path / "in"
    write(folder, "0.parquet", {"ts": times(100)})

    def start(late: str) -> None:
        reader = sw.readStream(spark) if splits else spark.readStream
        df = reader.schema("ts timestamp").parquet(str(folder))
        s = sw.stream(df, time="ts", name="s", progress=sw.Ordered(), late=late)
        w = s.writeStream.format("parquet").option("checkpointLocation", tmp_path / "ck")
        w.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()

    start("raise")
    write(folder, "1.parquet", {"ts": times(50, 110)})
    with pytest.raises(sw.LateRowError):
        start("raise")
    if change == "gone":
        (folder / "1.parquet").unlink()
    else:
        write(folder, "1.parquet", {"ts": times(50, 110, 120)})
    with pytest.raises(sw.CheckpointError, match=r"INPUT_CHANGED.*1\.parquet"):
        start("admit")
    assert spark.read.parquet(str(tmp_path / "out")).count() == 1
