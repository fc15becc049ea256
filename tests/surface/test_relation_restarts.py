"""A start on a checkpoint whose relation's table has other columns now: what the query does not read is none of its business."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from tests.surface.helpers import run, seconds, times
from tests.surface.helpers import write as write_input
from tests.surface.test_relations import refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ON = [("device", "id")]
OLD = {"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"], "active": [True, True]}
MORE = {"extra": pa.array([7, 8], pa.int32())}
KINDS = ("directory", "store", "function", "DataFrame")


class Table:
    """A table that a test changes between two starts, and a stream that goes on with the next file."""

    def __init__(self, spark: SparkSession, folder: Path, kind: str):
        self.spark, self.folder, self.kind = spark, folder, kind
        self.columns: dict[str, Any] = OLD
        self.count = 0
        (folder / "in").mkdir()

    def relation(self, **more: Any) -> sw.Relation:
        table = pa.table(self.columns)
        given: Any = lambda: table  # noqa: E731
        if self.kind == "DataFrame":
            given = self.spark.createDataFrame(table.to_pylist(), self.schema())
        elif self.kind != "function":
            path = self.folder / "d"
            path.mkdir(exist_ok=True)
            pq.write_table(table, path / "a.parquet")
            given = str(path)
        store = self.folder / "copies" if self.kind == "store" else None
        return sw.relation(given, "id", "d", store=store, **more)

    def schema(self) -> str:
        kinds = {"id": "bigint", "name": "string", "active": "boolean", "extra": "int"}
        return ", ".join(f"{n} {kinds[n]}" for n in self.columns)

    def go(self, query: Callable[[sw.Stream, sw.Relation], Any], second: int = 0) -> Any:
        self.count += 1
        rows = {"device": [1, 9], "ts": times(second, second)}
        write_input(self.folder / "in", f"{self.count}.parquet", rows)
        source = sw.readStream(self.spark).schema("device bigint, ts timestamp")
        df = source.option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        s = sw.stream(df, time="ts", name="s", progress=sw.Ordered())
        made = query(s, self.relation())
        return run(made, self.folder / "q", end=False, options={"relationCopies": "wait"})


def selected(s: sw.Stream, d: sw.Relation) -> Any:
    return s.join(d.where("active").select("id", "name"), ON, how="left")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.spec("XJ-F57")
def test_a_column_that_the_query_does_not_read_may_come_and_go(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(spark, tmp_path, kind)
    assert [r["name"] for r in table.go(selected).rows()] == ["a", None]
    table.columns = {"id": OLD["id"], **MORE, "name": ["a2", "b2"], "active": [True, False]}
    done = table.go(selected)
    asked = table.kind in ("function", "DataFrame")  # copied once, unless somebody asks
    assert [r["name"] for r in done.rows()] == ["a" if asked else "a2", None]
    table.columns = OLD
    assert len(table.go(selected).rows()) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_column_of_a_table_that_is_joined_whole_is_named_with_the_way_out(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    def whole(s: sw.Stream, d: sw.Relation) -> Any:
        return s.join(d, ON)

    table = Table(spark, tmp_path, kind)
    table.go(whole)
    table.columns = {**OLD, **MORE}
    refused(
        "QUERY_CHANGED", lambda: table.go(whole), "relation 'd' has columns that it had not: \"extra\"",
        '.select("id", "name", "active")',
    )  # fmt: skip
    narrowed = table.go(lambda s, d: s.join(d.select("id", "name", "active"), ON))
    # Of the start that was refused, too, the row is here.
    assert [set(r) for r in narrowed.rows()] == [{"device", "ts", "id", "name", "active"}] * 2
    assert len(table.go(lambda s, d: s.join(d.drop("extra"), ON)).rows()) == 1


def test_what_is_joined_goes_on_with_its_state_beside_a_new_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Held rows, windows behind the join, conditions: operators are named by what they read."""

    def query(s: sw.Stream, d: sw.Relation) -> Any:
        held = s.join(d.select("id", "name"), ON, hold="1 hour")
        return {
            "lost": held.unmatched,
            "held": held,
            "counts": s.join(d.select("id", "name"), ON)
            .groupBy("name", sw.window("1 minute"))
            .agg("count(*) AS n"),
            "known": s.join(d, ON, how="left_semi"),
            "new": s.join(d, ON, how="left_anti", where="name <> 'z'"),
            "later": s.join(d.select("id", "name"), ON, how="left", deadline="1 hour"),
        }

    table = Table(spark, tmp_path, "directory")
    assert table.go(query).last["relations"]["d"]["heldRows"] == 1
    table.columns = {**MORE, **OLD}
    done = table.go(query)
    assert done.last["relations"]["d"]["heldRows"] == 2
    assert [r["n"] for r in table.go(query, 90).rows("counts")] == [2]


def test_another_output_may_join_a_column_that_is_new(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, tmp_path, "directory")
    table.go(selected)
    table.columns = {**OLD, **MORE}
    done = table.go(lambda s, d: {"output": selected(s, d), "more": s.join(d, ON)})
    assert ([r["extra"] for r in done.rows("more")], len(done.rows())) == ([7], 2)


def test_a_column_in_use_and_another_condition_are_another_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(spark, tmp_path, "directory")
    table.go(selected)
    table.columns = {**OLD, **MORE}
    for other in (
        lambda s, d: s.join(d.select("id", "name", "extra"), ON, how="left"),
        lambda s, d: s.join(d.where("extra > 7").select("id", "name"), ON, how="left"),
        lambda s, d: s.join(d.where("active"), ON, how="left"),
    ):
        refused("QUERY_CHANGED", lambda other=other: table.go(other), "another query")
    table.columns = {**OLD, "name": pa.array([1, 2], pa.int64())}
    refused("QUERY_CHANGED", lambda: table.go(selected), "another query")


def test_how_long_rows_are_held_may_change(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, tmp_path, "directory")

    def held(hold: str) -> Callable[[sw.Stream, sw.Relation], Any]:
        return lambda s, d: s.join(d, ON, hold=hold).unmatched

    assert not table.go(held("1 hour"), 0).rows()
    # Of the row at 0 the time is over at once, by what is asked now.
    assert [seconds(r["ts"]) for r in table.go(held("10 seconds"), 30).rows()] == [0]


@pytest.mark.parametrize("kind", ["directory", "function"])
def test_a_running_query_takes_an_output_with_a_new_relation(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(spark, tmp_path, kind)
    source = (
        sw.readStream(spark).schema("device bigint, ts timestamp").parquet(str(tmp_path / "in"))
    )
    s = sw.stream(source, time="ts", name="s", progress=sw.Ordered())
    given: dict[str, list[dict[str, Any]]] = {"one": [], "two": []}

    def writer(name: str, stream: sw.Stream) -> Any:
        made = stream.writeStream.queryName(name)
        return made._foreach_table(lambda rows, _: given[name].extend(rows.to_pylist()))

    def arrive(second: int) -> None:
        rows = {"device": [1, 9], "ts": times(second, second)}
        write_input(tmp_path / "in", f"{second}.parquet", rows)

    arrive(1)
    q = sw.start(
        [writer("one", s)], checkpointLocation=str(tmp_path / "q"),
        trigger={"processingTime": "100 milliseconds"},
    )  # fmt: skip
    try:
        q.processAllAvailable()
        q.add(writer("two", s.join(table.relation(), ON, how="left")))
        arrive(2)
        q.processAllAvailable()
        assert q.lastProgress["relations"]["d"]["unmatched"] == 1
    finally:
        q.stop()
    assert [r["name"] for r in given["two"]] == ["a", None]
    assert len(given["one"]) == 4
