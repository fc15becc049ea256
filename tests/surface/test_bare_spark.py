"""Rows of a DataFrame that nobody needs, on Spark: what leaves the JVM, in how many jobs and reads, and what is compiled."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.engine.driver import host, job
from slackwater.engine.lowlevel import bare, inputs
from slackwater.model.names import BARE, SOURCE
from slackwater.testing.clock import ManualClock
from tests.surface.helpers import at, run

pytestmark = pytest.mark.spark

SCHEMA = "segment int, ts timestamp, `a b` string, `x.y` struct<p:bigint,`q r`:string>, `tick``s` array<string>, v double"
NAMES = ("segment", "ts", "a b", "x.y", "tick`s", "v")
CENTURIES = dt.timedelta(days=80_000)
BATCHES: list[list[tuple[Any, ...]]] = [
    [(s, at(20 * n + s), f"text {s}", (s, "inner"), ["u", None], 0.5) for s in range(4)]
    for n in range(5)
]
BATCHES[2] += [
    (0, at(1), "late", (0, "late"), ["late"], 0.5),
    (0, None, "no time", None, None, 0.5),
    (0, at(0) + CENTURIES, "far ahead", (0, "far"), [], 0.5),
    (None, at(45), "no segment", (1, None), [None], None),
    (2, at(46), None, None, None, None),
]


@pytest.fixture(autouse=True)
def _few_columns_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare, "FEWEST", 1)


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, Any]]]:
    """The rows that leave the JVM, by batch, by the source's own names."""
    found: list[list[dict[str, Any]]] = []
    real = job.row_frame

    def watched(*given: Any) -> Any:
        read = real(*given)
        assert read is not None
        frame, described = read
        (one,) = [d for d in described if d.index == 0]
        rows = []
        for row in frame.where(f"{SOURCE} = 0").collect():
            known = {n: row[c] for n, c in zip(one.names, one.columns, strict=True)}
            rows.append({**known, BARE: row[BARE] if BARE in frame.columns else None})
        found.append(rows)
        return read

    monkeypatch.setattr(job, "row_frame", watched)
    return found


def stream(spark: Any, time: str = "timestamp", **others: Any) -> sw.Stream:
    rows = [list(map(tuple, rows)) for rows in BATCHES]
    if time == "bigint":
        rows = [[(r[0], None if r[1] is None else int(r[1].timestamp()), *r[2:]) for r in b] for b in rows]  # fmt: skip
    if time == "timestamp_ntz":
        rows = [[(r[0], None if r[1] is None else r[1].replace(tzinfo=None), *r[2:]) for r in b] for b in rows]  # fmt: skip
    df = sw.replay(spark, rows, SCHEMA.replace("timestamp", time))
    policy = sw.BoundedDelay("10 seconds").futureGuard("1 hour")
    if time == "bigint":
        policy = sw.BoundedDelay(10).futureGuard(3600)
        others["timeUnit"] = "second"
    return sw.stream(df, time="ts", name="cars", progress=policy, late="drop", **others)


def made(kind: str, s: sw.Stream) -> sw.Stream:
    if kind == "steps of Spark":
        return s.withColumn("word", "soundex(`a b`)")
    if kind == "dedup":
        return s.dropDuplicates(["segment", "a b", "ts"])
    return s


@pytest.mark.parametrize(
    ("kind", "time", "late"),
    [
        ("rows", "timestamp", True), ("rows", "bigint", False), ("rows", "timestamp_ntz", True),
        ("steps of Spark", "timestamp", True), ("dedup", "timestamp", False),
    ],
)  # fmt: skip
@pytest.mark.spec("FC-F19")
def test_what_nobody_needs_leaves_the_jvm_as_null(
    spark: Any, tmp_path: Path, handed: list[list[dict[str, Any]]], kind: str, time: str, late: bool
) -> None:
    found = []
    for feedback in (False, True):
        handed.clear()
        s = stream(spark, time)
        streams = {"map": made(kind, s), **({"late": s.late} if late else {})}
        wanted = {"map": [sw.only("segment BETWEEN 2 AND 3")]} if feedback else None
        found.append(played(streams, tmp_path / str(feedback), wanted))
    (rows, records), (view, others) = found
    assert [r["streams"] for r in others] == [r["streams"] for r in records]
    assert view.get("late") == rows.get("late")
    # What is far ahead is spared where rows are read, and dropped where they come out.
    assert view["map"] == [[r for r in b if r["segment"] in (2, 3)] for b in rows["map"]]
    whole = {"late", "no time", "far ahead"}
    for given, batch in zip(BATCHES, handed, strict=False):
        assert len(batch) == len(given)
        for row, (segment, _, text, *_rest) in zip(batch, given, strict=True):
            given_up = segment not in (2, 3) and text not in whole
            assert row[BARE] == given_up, row
            texts = [row[n] for n in NAMES[2:5]]
            assert texts == [None] * 3 if given_up else row["a b"] == text
    assert sum(r[BARE] for b in handed for r in b) == 2 * 5 + 1


def played(
    streams: dict[str, sw.Stream], folder: Path, wanted: Any, **options: Any
) -> tuple[dict[str, list[list[dict[str, Any]]]], list[Any]]:
    """The rows of each output by batch, and the progress records."""
    taken: dict[str, dict[int, pa.Table]] = {name: {} for name in streams}
    writers = [
        one.writeStream.queryName(name)
        ._foreach_table(lambda table, batch, name=name: taken[name].__setitem__(batch, table))
        .clock(ManualClock(int(at(120).timestamp()) * 1_000_000))
        for name, one in streams.items()
    ]
    q = sw.start(
        writers, checkpointLocation=str(folder), trigger={"availableNow": True},
        options={"endOfStream": True}, feedback=wanted, **options,
    )  # fmt: skip
    q.awaitTermination()
    rows = {
        name: [sorted(tables[b].to_pylist(), key=repr) for b in sorted(tables)]
        for name, tables in taken.items()
    }
    return rows, list(q.recentProgress)


def test_two_inputs_that_share_places_lose_each_its_own(
    spark: Any, tmp_path: Path, handed: list[list[dict[str, Any]]]
) -> None:
    """A text of the left stream lies in the column in which the right one has its partition."""
    left = stream(spark)
    rows = [[(r[0], r[1], f"side {r[0]}") for r in b if r[1]] for b in BATCHES]
    df = sw.replay(spark, rows, "place int, at timestamp, side string")
    policy = sw.BoundedDelay("10 seconds").futureGuard("1 hour")
    right = sw.stream(df, time="at", name="right", progress=policy, partition="side")
    result = left.join(
        right,
        on=left["segment"] == right["place"],
        within=sw.band(before="1 second", after="1 second"),
    )
    rows_of, records = played({"map": result}, tmp_path / "all", None)
    view, others = played({"map": result}, tmp_path / "view", {"map": [sw.only("segment = 2")]})
    assert [r["streams"] for r in others] == [r["streams"] for r in records]
    assert view["map"] == [[r for r in b if r["segment"] == 2] for b in rows_of["map"]]
    assert sum(map(len, view["map"])) > 4
    assert any(r[BARE] for b in handed for r in b)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, str]]]:
    """Of each batch how often code was compiled, and the limits that its guards have."""
    from pyspark.sql import SparkSession

    seen: list[tuple[int, str]] = []
    real = host.run_job

    def watched(frame: Any, batch: Any, *rest: Any) -> Any:
        spark = SparkSession.getActiveSession()
        assert spark is not None
        metrics = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics
        before = metrics.METRIC_COMPILATION_TIME().getCount()
        found = real(frame, batch, *rest)
        seen.append(
            (metrics.METRIC_COMPILATION_TIME().getCount() - before, str(dict(batch.guards.scans)))
        )
        return found

    monkeypatch.setattr(host, "run_job", watched)
    return seen  # type: ignore[return-value]


@pytest.mark.spec("FC-F19")
def test_a_limit_that_moves_compiles_nothing_anew_in_one_job_and_one_read(
    spark: Any, tmp_path: Path, batches: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: list[tuple[int, ...]] = []
    real = inputs.emptied

    def watched(frame: Any, found: Any, places: Any) -> Any:
        numbers.extend(one.numbers for one in found)
        return real(frame, found, places)

    monkeypatch.setattr(inputs, "emptied", watched)
    log = tmp_path / "reads"

    def counted(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            with log.open("a") as out:
                out.write("x" * batch.num_rows)
            yield batch

    schema = "segment int, ts timestamp, note string"
    rows = [[(s, at(20 * n + s), "x") for s in range(4)] for n in range(7)]
    df = sw.replay(spark, rows, schema).mapInArrow(counted, schema)  # type: ignore[union-attr]
    s = sw.stream(df, time="ts", name="cars", progress=sw.BoundedDelay("90 seconds"))
    live = s.where("segment >= 0").pace("5 seconds")
    done = run(live, tmp_path / "ck", end=False)
    limits = [text for _, text in batches]
    assert len(set(limits)) == len(limits) == 7, "the limit does not move"
    assert len(set(numbers)) == len(numbers) >= 6
    assert [n for n, _ in batches][3:] == [0] * 4, batches
    assert len(log.read_text()) == sum(map(len, rows))
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(done.query.runId)
    assert len(jobs) == 7
