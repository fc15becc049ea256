"""The shape of a batch's job: one job, one read of the source, one exchange per level, every group there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.engine.driver import host, job
from slackwater.engine.lowlevel.tasks import split_task
from slackwater.engine.operators.group_task import group_task
from slackwater.engine.paths.reports import TaskReport, progress_of
from slackwater.engine.paths.wire import ARROW_SCHEMA, pack_control, routes, unpack
from slackwater.engine.store import failpoints
from slackwater.model.codec import from_json
from tests.surface.helpers import at, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "k string, ts timestamp, v bigint"
BATCHES = [
    [("a", at(1), 1), ("b", at(2), 2), ("a", at(3), 3)],
    [("a", at(100), 4), ("c", at(0), 5)],
]


class Watch:
    """What the engine asked of Spark: plans of its jobs and what their tasks returned."""

    def __init__(self) -> None:
        self.plans: list[str] = []
        self.reports: list[list[TaskReport]] = []
        self.calls: list[tuple[Any, ...]] = []
        self.adaptive: list[str] = []

    def pairs(self, batch: int) -> list[tuple[int, int]]:
        return sorted((r.level, r.group) for r in self.reports[batch] if r.level)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    from pyspark.sql.classic.dataframe import DataFrame

    seen = Watch()
    collect, real = DataFrame.collect, job.run_job

    def collecting(frame: Any) -> Any:
        rows = collect(frame)
        if frame.columns == ["route", "blob"]:
            seen.plans.append(frame._jdf.queryExecution().executedPlan().toString())
        return rows

    def running(frame: Any, *rest: Any) -> Any:
        seen.calls.append(rest)
        seen.reports.append(real(frame, *rest))
        return seen.reports[-1]

    monkeypatch.setattr(DataFrame, "collect", collecting)
    monkeypatch.setattr(host, "run_job", running)
    return seen


def exchanges(plan: str) -> list[str]:
    return re.findall(r"\b\w*Exchange\b.*", plan)


def jobs(spark: SparkSession, query: Any) -> int:
    """Spark jobs of a query's run: structured streaming puts them all into a group of the run's id."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(query.runId))


def noop(streams: dict[str, Any], checkpoint: Path) -> Any:
    writers = [s.writeStream.format("noop").queryName(n) for n, s in streams.items()]
    q = sw.start(writers, checkpointLocation=str(checkpoint), trigger={"availableNow": True})
    q.awaitTermination()
    return q


@pytest.fixture
def as_it_comes(spark: SparkSession) -> Iterator[None]:
    """The session plans anew on the way, as it does for users."""
    before = str(spark.conf.get("spark.sql.adaptive.enabled"))
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    yield
    spark.conf.set("spark.sql.adaptive.enabled", before)


@pytest.mark.usefixtures("as_it_comes")
@pytest.mark.spec("QD-A10")
@pytest.mark.parametrize("splits", [False, True], ids=["rows", "splits"])
def test_one_job_and_one_exchange_per_level_in_a_session_as_it_comes(
    spark: SparkSession, tmp_path: Path, watch: Watch, splits: bool
):
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    df = sw.replay(spark, BATCHES, SCHEMA, splits=splits)
    s = sw.stream(df, time="ts", progress=sw.Ordered())
    one = s.groupBy("k", sw.window("10 seconds")).agg("sum(v) AS v")
    q = noop(
        {"one": one, "two": one.groupBy(sw.window("1 minute")).agg("sum(v) AS v")}, tmp_path / "ck"
    )
    assert len(watch.plans) == len(BATCHES)
    assert jobs(spark, q) == len(BATCHES)
    for plan in watch.plans:
        found = exchanges(plan)
        assert len(found) == 2, plan  # two levels
        assert all("hashpartitioning(route" in e for e in found), plan
        assert "Broadcast" not in plan and "Adaptive" not in plan
        if splits:  # no file passes through the JVM
            assert "FileScan" not in plan and "binaryFile" not in plan
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"


@pytest.mark.parametrize("memory", [None, "1m"])
def test_a_join_and_windows_over_it_take_an_exchange_each(
    spark: SparkSession, tmp_path: Path, watch: Watch, memory: str | None
):
    """Both inputs of a join go through the one exchange of their level, and so does what stands beside it."""
    df = sw.replay(spark, BATCHES, SCHEMA, splits=True)
    s, t = (sw.stream(df, time="ts", name=n, progress=sw.Ordered()) for n in "st")
    pairs = s.join(t, "k", sw.band(before="10 seconds", after="10 seconds"), memory=memory)
    over = pairs.groupBy("k", sw.window("1 minute", on="s_ts")).count()
    beside = t.groupBy("k", sw.window("1 minute")).count()
    q = noop({"pairs": pairs, "over": over, "beside": beside}, tmp_path / "ck")
    assert jobs(spark, q) == len(BATCHES)
    assert [len(exchanges(p)) for p in watch.plans] == [2, 2], watch.plans
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getJobInfo(j) for j in tracker.getJobIdsForGroup(q.runId)]
    # The tasks that read, and those of the two levels.
    assert [len(i.stageIds) for i in infos if i is not None] == [3, 3]


def test_the_source_is_read_once_however_many_consumers_there_are(
    spark: SparkSession, tmp_path: Path, watch: Watch
):
    log = tmp_path / "reads"

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with log.open("a") as out:
                out.write("x" * batch.num_rows)
            yield batch

    df = sw.replay(spark, BATCHES, SCHEMA).mapInArrow(counted, SCHEMA)  # type: ignore[union-attr]
    s = sw.stream(df, time="ts", name="s", progress=sw.Ordered())
    t = sw.stream(df, time="ts", name="t", progress=sw.MaxDelay())
    streams = {
        "counts": s.groupBy("k", sw.window("10 seconds")).count(),
        "spoken": s.groupBy("soundex(k)", sw.window("10 seconds")).count(),
        "unique": s.dropDuplicates(["k", "ts"]),
        "sorted": t.where("v > 1").sort(),
        "late": s.late,
        "plain": s.select("ts", "k"),
    }
    q = noop(streams, tmp_path / "ck")
    assert jobs(spark, q) == len(BATCHES)
    assert len(log.read_text()) == sum(map(len, BATCHES))
    assert [len(exchanges(p)) for p in watch.plans] == [1, 1]


def test_partial_aggregation_in_the_jvm_reads_once_too(
    spark: SparkSession, tmp_path: Path, watch: Watch
):
    log = tmp_path / "reads"

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with log.open("a") as out:
                out.write("x" * batch.num_rows)
            yield batch

    df = sw.replay(spark, BATCHES, SCHEMA).mapInArrow(counted, SCHEMA)  # type: ignore[union-attr]
    s = sw.stream(df, time="ts", progress=sw.Ordered())
    q = noop({"counts": s.groupBy("k", sw.window("10 seconds")).count()}, tmp_path / "ck")
    assert jobs(spark, q) == len(BATCHES)
    assert len(log.read_text()) == sum(map(len, BATCHES))
    # Python got partial aggregates, not rows: two of the first batch's three rows have one key and pane.
    assert all("Scan ExistingRDD" in p and "__c0_" not in p for p in watch.plans), watch.plans[0]
    (operator,) = q.recentProgress[0]["operators"].values()
    assert operator["rowsIn"] == 2


@pytest.mark.parametrize("late", [False, True], ids=["partials", "rows"])
def test_guards_add_no_job_and_no_read(
    spark: SparkSession, tmp_path: Path, watch: Watch, late: bool
):
    """At the source and in front of an output: all of it is in the one job that there is."""
    log = tmp_path / "reads"

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with log.open("a") as out:
                out.write("x" * batch.num_rows)
            yield batch

    df = sw.replay(spark, BATCHES, SCHEMA).mapInArrow(counted, SCHEMA)  # type: ignore[union-attr]
    s = sw.stream(df, time="ts", name="s", progress=sw.Ordered())
    sums = s.groupBy("k", sw.window("10 seconds", "5 seconds")).agg("sum(v) AS v")
    outputs = {"sums": sums, **({"late": s.late} if late else {})}
    feedback = {"sums": ["~{k = 'b'}", "~{v > 4}"]}
    done = run(outputs, tmp_path / "ck", end=False, feedback=feedback)
    assert jobs(spark, done.query) == len(BATCHES)
    assert len(log.read_text()) == sum(map(len, BATCHES))
    assert [len(exchanges(p)) for p in watch.plans] == [1, 1]
    places = done.last["feedback"]["places"]
    assert places["s"]["totalRowsDropped"] == 1, "the row of b"
    assert places["out:sums"]["totalRowsDropped"] == 2, "two windows of c"
    assert [(r["k"], r["v"]) for r in done.rows("sums")] == [("a", 4)] * 2


@pytest.mark.parametrize("splits", [False, True], ids=["rows", "splits"])
def test_every_group_runs_though_no_row_survives_and_windows_still_close(
    spark: SparkSession, tmp_path: Path, watch: Watch, splits: bool
):
    batches = [BATCHES[0], [("x", at(200), 0)]]
    df = sw.replay(spark, batches, SCHEMA, splits=splits)
    s = sw.stream(df, time="ts", progress=sw.Ordered())
    result = s.where("k <> 'x'").groupBy("k", sw.window("10 seconds")).agg("sum(v) AS v")
    done = run(result, tmp_path / "ck", end=False, options={"partitionGroups": 3})
    assert [watch.pairs(b) for b in (0, 1)] == [[(1, 0), (1, 1), (1, 2)]] * 2
    # The dropped row closed the windows of the batch before, though none of its rows came through.
    (operator,) = done.last["operators"].values()
    assert operator["rowsIn"] == 0 and operator["rowsOut"] == 2
    assert sorted((r["k"], r["v"]) for r in done.rows()) == [("a", 4), ("b", 2)]


def test_an_ending_stream_has_batches_without_input(
    spark: SparkSession, tmp_path: Path, watch: Watch
):
    s = sw.stream(sw.replay(spark, BATCHES[:1], SCHEMA), time="ts", progress=sw.Ordered())
    done = run(s.groupBy("k", sw.window("10 seconds")).count(), tmp_path / "ck")
    assert [r["numInputRows"] for r in done.records] == [3, 0]
    assert watch.pairs(1) == watch.pairs(0) and len(done.rows()) == 2
    assert [len(exchanges(p)) for p in watch.plans] == [1, 1]


def test_routes_lead_to_their_partition(spark: SparkSession):
    from pyspark.sql import functions as F

    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        for n in range(1, 18):
            rows = [(g, route) for g, route in enumerate(routes(n))]
            frame = spark.createDataFrame(rows, "g int, route int").repartition(n, "route")
            found = frame.select("g", F.spark_partition_id().alias("p")).collect()
            assert sorted((r.g, r.p) for r in found) == [(g, g) for g in range(n)], n
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", before)


def test_one_task_reads_the_rows_that_tell_groups_their_number(spark: SparkSession):
    """Spark would cut them among all cores, a task each."""
    control = job._group_rows(spark, 5)
    assert control.rdd.getNumPartitions() == 1
    assert control.count() == 5


@pytest.mark.parametrize("plan", ["panes", "wids"])
def test_a_second_attempt_of_a_task_counts_nothing_twice(
    spark: SparkSession, tmp_path: Path, watch: Watch, plan: str
):
    """A local session never retries, so the tasks of a recorded batch are run again here: a first attempt
    fails after it has written its state, the second must describe the same as the batch that was committed."""
    df = sw.replay(spark, BATCHES, SCHEMA, splits=True)
    s = sw.stream(df, time="ts", progress=sw.Ordered())
    result = s.groupBy("k", sw.window("10 seconds")).agg("sum(v) AS v")
    run({"sums": result, "late": s.late}, tmp_path / "ck", end=False, options={"windowPlan": plan})
    batch, _inputs, splits, _ = watch.calls[-1]

    def attempt(point: str | None) -> list[TaskReport]:
        failpoints.reset()
        failing = replace(batch, failpoints="" if point is None else f"{point}=raise")
        numbers = pa.record_batch([pa.array(range(max(splits) + 1), pa.int64())], names=["id"])
        sent = rows(split_task(failing, splits)(iter([numbers])))
        reports = []
        for g, route in enumerate(routes(failing.groups)):
            mine = [(route, pack_control("group", g)), *((r, b) for r, b in sent if r == route)]
            columns = [pa.array(c, f.type) for c, f in zip(zip(*mine), ARROW_SCHEMA, strict=True)]
            received = pa.record_batch(columns, schema=ARROW_SCHEMA)
            done = rows(group_task(failing, 1)(iter([received])))
            reports += [from_json(TaskReport, unpack(b)[1]) for _, b in done]
        return reports

    for point in ("task.run.after", "task.output.after"):
        with pytest.raises(failpoints.InjectedFailure):
            attempt(point)
    again = attempt(None)
    assert counts(again) == counts(watch.reports[-1])
    assert progress_of(again).summaries["stream"].late == {"ts": 1}
    names = [
        {run.name for of in report.operators.values() for run in of.runs}
        for report in (*again, *watch.reports[-1])
    ]
    assert len(set().union(*names)) > len(
        set().union(*names[: len(again)])
    )  # each attempt its own files


def rows(batches: Iterator[pa.RecordBatch]) -> list[tuple[int, bytes]]:
    return [
        (r, b)
        for batch in batches
        for r, b in zip(batch["route"].to_pylist(), batch["blob"].to_pylist())
    ]


def counts(reports: list[TaskReport]) -> Any:
    """What reports count, by (level, group); file names differ between attempts."""

    def plain(report: TaskReport) -> Any:
        operators = {
            id: (replace(of, runs=(), seconds=0.0), sum(run.rows for run in of.runs))
            for id, of in report.operators.items()
        }
        outputs = {n: sum(f.rows for f in files) for n, files in report.outputs.items()}
        return report.level, report.group, report.digest, operators, outputs

    return sorted((plain(report) for report in reports), key=str)


def test_the_reader_of_plans_sees_exchanges(spark: SparkSession):
    frame = spark.range(10).repartition(3, "id")
    assert len(exchanges(frame._jdf.queryExecution().sparkPlan().toString())) == 1
    check: Callable[[str], list[str]] = exchanges
    assert check("Scan\nProject") == []
