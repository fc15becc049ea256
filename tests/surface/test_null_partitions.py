"""Null and the empty text are two partitions of a source, on every way of its rows, and a record tells them apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.engine.lowlevel import source_task
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.semantics.partition_names import partition_name
from slackwater.testing import run
from tests.surface.helpers import at
from tests.surface.local import run_locally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEHIND = [
    {None: -20, "": 0, "a": 0},
    {None: 0, "": -20, "a": 0},
    {None: 0, "": 0, "<null>": -20, "<empty>": 0},
]


_VALUES = st.none() | st.text("<>ab") | st.just("<2 not seen>")


@example(one=None, other="<null>")
@example(one="", other="<empty>")
@example(one="<null>", other="<<null>")
@example(one="<>", other="<<>")
@example(one="<2 not seen>", other=None)
@given(one=_VALUES, other=_VALUES)
def test_two_values_never_share_a_name(one: str | None, other: str | None) -> None:
    assert (partition_name(one) == partition_name(other)) == (one == other)
    # That is what a record says of those that are awaited.
    assert partition_name(one) != "<2 not seen>"


def batches(shifts: dict[Any, int]) -> list[list[tuple[Any, Any]]]:
    return [
        [(p, at(60 + 10 * n + i + by)) for p, by in shifts.items() for i in range(10)]
        for n in range(4)
    ]


@pytest.mark.spark
@pytest.mark.parametrize("shifts", BEHIND, ids=["null", "empty", "words"])
@pytest.mark.parametrize(
    ("splits", "rows", "local"),
    [(True, False, True), (True, True, True), (False, False, True), (False, True, True)],
    ids=["fused splits", "splits", "fused rows", "rows"],
)
def test_no_row_is_late_behind_another_partition(
    spark: SparkSession, shifts: dict[Any, int], splits: bool, rows: bool, local: bool
) -> None:
    _none_is_late(spark, shifts, splits=splits, rows=rows, local=local)


@pytest.mark.spark
def test_no_row_is_late_where_spark_reduces_the_rows(spark: SparkSession) -> None:
    _none_is_late(spark, BEHIND[0], splits=False, rows=False, local=False)


def _none_is_late(
    spark: SparkSession, shifts: dict[Any, int], *, splits: bool, rows: bool, local: bool
) -> None:
    """``rows`` are handed on one by one, for the late ones are an output, too."""

    def job(df: Any) -> dict[str, sw.Stream]:
        policy = sw.BoundedDelay("1 second")
        s = sw.stream(df, time="ts", progress=policy, partition="p", late="drop")
        counts = s.groupBy(sw.window("5 seconds")).agg("count(*) AS n")
        return {"counts": counts, **({"late": s.late} if rows else {})}

    given = batches(shifts)
    schema = "p string, ts timestamp"
    done = run(job, given, schema, spark=spark, splits=splits, local=local)
    assert sum(r.n for r in done["counts"]) == sum(map(len, given))
    assert not done.get("late")


@pytest.mark.spark
def test_a_record_tells_them_apart(spark: SparkSession, tmp_path: Path) -> None:
    df = sw.replay(spark, batches(BEHIND[0]), "p string, ts timestamp")
    policy = sw.BoundedDelay("1 second").lagLimit("15 seconds")
    s = sw.stream(df, time="ts", name="s", progress=policy, partition="p", partitions=["", None])
    t = sw.stream(df, time="ts", name="t", partition="p", partitions=["", None, "None"], progress=sw.Ordered())  # fmt: skip
    windows = sw.window("5 seconds")
    counts = {n: x.groupBy(windows).agg("count(*) AS n") for n, x in {"s": s, "t": t}.items()}
    last = run_locally(counts, tmp_path, end=False).last["streams"]
    told = last["s"]["bounds"]["ts"]
    assert (told["holder"], told["excluded"], told["partitions"]) == ("<empty>", ["<null>"], 3)
    # A text that reads None is not the null partition.
    assert last["t"]["bounds"]["ts"]["holder"] == "None"


def _old(value: object) -> str:
    return "" if value is None else str(value)


@pytest.mark.spark
@pytest.mark.parametrize("value", [None, "", "<null>", "a"])
def test_a_checkpoint_that_knows_them_as_one_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """A checkpoint of an older version goes on if none of its names means anything else now."""
    df = sw.replay(spark, batches({value: 0, "b": 0}), "p string, ts timestamp")
    late = sw.stream(df, time="ts", name="s", progress=sw.Ordered(), partition="p").late
    with monkeypatch.context() as patch:
        patch.setattr(source_task, "partition_name", _old)
        run_locally(late, tmp_path, end=False)
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    checkpoint.acquire()
    checkpoint.update_query({**checkpoint.open_query({}), "meaning": 2})
    checkpoint.release()
    if value == "a":
        run_locally(late, tmp_path)
        assert checkpoint.open_query({})["meaning"] > 2
        return
    with pytest.raises(sw.CheckpointError, match=f"partition '{_old(value)}' of stream 's'") as e:
        run_locally(late, tmp_path)
    assert e.value.condition == "MEANING_CHANGED" and e.value.hint
    assert e.value.parameters["reason"] == "NULL_PARTITIONS"
