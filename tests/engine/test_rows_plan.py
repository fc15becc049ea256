"""Which part of Spark's plan of a batch may stand under the aggregation: with plans played by hand, and with Spark."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import slackwater as sw
from slackwater.engine.lowlevel import map_side, rows_plan
from slackwater.engine.lowlevel.inputs import HEARTBEAT, FrameInput
from slackwater.model.names import SOURCE
from tests.surface.helpers import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = SimpleNamespace(name="the rows of this batch")
COLUMNS = SimpleNamespace(mkString=lambda _: "a#1,b#2")


def seq(items: list[Any]) -> Any:
    return SimpleNamespace(size=lambda: len(items), apply=items.__getitem__)


def node(kind: str, *below: Any, **methods: Any) -> Any:
    """A node as py4j shows it."""
    given = {name: (lambda v=v: v) for name, v in methods.items()}
    return SimpleNamespace(
        getClass=lambda: SimpleNamespace(getSimpleName=lambda: kind),
        children=lambda: seq(list(below)),
        child=lambda: below[0],
        **given,
    )


def part(tag: int, name: str = SOURCE) -> Any:
    """What `united` makes of an input."""
    first = node("Alias", node("Literal", value=tag), name=name)
    return node("ProjectExec", projectList=seq([first]), output=COLUMNS)


def stage(plan: Any) -> Any:
    return node("WholeStageCodegenExec", plan)


def read(
    monkeypatch: pytest.MonkeyPatch, plan: Any, *, rows: Any = ROWS, narrows: bool = True
) -> Any:
    """The part of the plan that is taken for input 0."""
    same = SimpleNamespace(equals=lambda other: other is rows)
    execution = SimpleNamespace(toRdd=lambda: same, executedPlan=lambda: plan)
    item = FrameInput(None)
    item.__dict__["narrows"] = narrows
    monkeypatch.setattr(rows_plan, "_execution", lambda spark, first: execution)
    return rows_plan.plan_of_rows(None, ROWS, [item], 0, COLUMNS)


def test_the_part_of_the_input_is_taken_from_a_union(monkeypatch: pytest.MonkeyPatch) -> None:
    own, beat = part(0), part(HEARTBEAT)
    assert read(monkeypatch, stage(node("UnionExec", own, beat))) is own
    # Spark may also generate the code of each part by itself.
    assert read(monkeypatch, node("UnionExec", stage(own), stage(beat))) is own
    # And if nothing else is new, there is no union.
    assert read(monkeypatch, stage(own)) is own


@pytest.mark.parametrize(
    "plan",
    [
        # The input itself is a union, and Spark made one of both: each part has some of the rows.
        stage(node("UnionExec", part(0), part(0), part(HEARTBEAT))),
        # Whose rows are those of the second?
        stage(node("UnionExec", part(0), node("FilterExec", part(0)), part(HEARTBEAT))),
        stage(node("UnionExec", part(0), part(1, "user"), part(HEARTBEAT))),
        # None of its own.
        stage(node("UnionExec", part(1), part(HEARTBEAT))),
        stage(node("FilterExec", part(0))),
        # No generated code, so there is no loop that the aggregation could be in.
        node("UnionExec", part(0), stage(part(HEARTBEAT))),
    ],
)
def test_any_other_plan_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, plan: Any) -> None:
    assert read(monkeypatch, plan) is None


def test_rows_of_another_batch_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = stage(node("UnionExec", part(0), part(HEARTBEAT)))
    assert read(monkeypatch, plan, rows=SimpleNamespace()) is None


def test_a_plan_that_keeps_rows_is_not_run_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = stage(node("UnionExec", part(0), part(HEARTBEAT)))
    assert read(monkeypatch, plan, narrows=False) is None


SCHEMA = "k bigint, v bigint, t bigint"
BATCHES = 3


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    rng = random.Random(4)
    for batch in range(BATCHES):
        times = [10 * batch + rng.randint(-15, 12) for _ in range(100)]
        columns = {
            "k": [rng.randint(0, 3) for _ in times],
            "v": [rng.choice([None, rng.randint(-(1 << 50), 1 << 50)]) for _ in times],
            "t": [rng.choice([*[t] * 20, None]) for t in times],
        }
        typed = {c: pa.array(values, pa.int64()) for c, values in columns.items()}
        write(tmp_path / "in", f"{batch}.parquet", typed)
    return tmp_path / "in"


def files(spark: SparkSession, folder: Path, *, splits: bool) -> Any:
    reader: Any = sw.readStream(spark) if splits else spark.readStream
    return reader.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(spark: SparkSession, work: Path, *frames: Any) -> tuple[Any, Any]:
    """Results of windows over the last of the inputs, and the counts of its rows; the others are read along."""
    writers = []
    for i, frame in enumerate(frames):
        stream = sw.stream(frame, time="t", name=f"s{i}", progress=sw.BoundedDelay(7))
        sums = stream.groupBy("k", sw.window(10, 5)).agg(
            F.sum("v").alias("s"), F.count("*").alias("n")
        )
        path = str(work / f"out{i}")
        writers.append(sums.writeStream.queryName(f"out{i}").format("parquet").option("path", path))
    query = sw.start(
        writers, checkpointLocation=str(work / "checkpoint"), trigger={"availableNow": True}
    )
    query.awaitTermination()
    at = len(frames) - 1
    results = spark.read.parquet(str(work / f"out{at}")).drop("window").collect()
    counts: Counter[str] = Counter()
    for record in query.recentProgress:
        one = record["streams"][f"s{at}"]
        counts.update(rows=one["numInputRows"], late=one["late"]["t"], null=one["nullTime"]["t"])
    return Counter(map(tuple, results)), counts


@pytest.mark.spark
@pytest.mark.usefixtures("compiled_code")
def test_rows_are_aggregated_where_they_are_read(
    spark: SparkSession, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone; behind another input, whose columns the union has; as a union, which is not read apart; as a long loop."""
    plans: list[Any] = []

    def noted(*given: Any) -> Any:
        plans.append(rows_plan.plan_of_rows(*given))
        return plans[-1]

    monkeypatch.setattr(map_side, "plan_of_rows", noted)
    right, counted = run(spark, tmp_path / "splits", files(spark, folder, splits=True))
    assert len(right) > 10 and counted["late"] and counted["null"]
    assert counted["rows"] == 100 * BATCHES
    rows = files(spark, folder, splits=False)
    halves = rows.where("v % 2 = 0").unionAll(rows.where("v % 2 <> 0 OR v IS NULL"))

    def agrees(name: str, *frames: Any) -> tuple[bool, bool | None]:
        """Whether a plan for the rows was found, and whether it was used."""
        plans.clear()
        monkeypatch.setattr(map_side, "_known", {})
        assert run(spark, tmp_path / name, *frames) == (right, counted), name
        (known,) = map_side._known.values()
        # A batch without rows has no such plan.
        found = sum(p is not None for p in plans)
        assert found >= BATCHES if known.one_loop else found <= 1
        return found > 0, known.one_loop

    assert agrees("rows", rows) == (True, True)
    assert agrees("second", files(spark, folder, splits=True), rows) == (True, True)
    assert agrees("union", halves) == (False, None)
    monkeypatch.setattr(rows_plan, "LONGEST_COMPILED", 10)
    assert agrees("long", rows) == (True, False)
