"""``preview``: its time begins with the first batch, it says why there is nothing, and it stops without a stack trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from slackwater.engine.clock import sleep
from slackwater.engine.driver.loop import Loop
from tests.surface.helpers import at, refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = [[("a", at(0), 1), ("a", at(30), 2), ("b", at(45), None)]]
SCHEMA = "k string, ts timestamp, v bigint"


@pytest.fixture(scope="module")
def s(spark: SparkSession) -> Any:
    policy = sw.BoundedDelay("20 seconds")
    return sw.stream(sw.replay(spark, ROWS, SCHEMA), time="ts", name="s", progress=policy)


def said(capsys: pytest.CaptureFixture[str], stream: Any) -> list[str]:
    assert stream.preview(seconds=0) == []
    printed = capsys.readouterr()
    assert "\tat " not in printed.err and "Exception" not in printed.err, printed.err
    return printed.out.splitlines()


@pytest.mark.parametrize(("given", "named"), [((-1, 2), "n=-1"), ((3, "2"), "seconds='2'"), ((3, -1), "seconds=-1")])  # fmt: skip
def test_what_cannot_be_a_number_of_rows_or_seconds_is_refused(given: Any, named: str, s: Any):
    refused(lambda: s.preview(*given), "BAD_OPTION", named, "preview(20, 10)")


def test_the_time_begins_with_the_first_batch(s: Any, monkeypatch: pytest.MonkeyPatch):
    """A start that takes longer than the time that was given loses nothing."""
    run = Loop.run

    def slow(self: Loop, *args: Any) -> None:
        sleep(1)
        run(self, *args)

    monkeypatch.setattr(Loop, "run", slow)
    assert len(s.preview(3, seconds=0.1)) == 3


def test_without_results_it_says_what_completes_the_first(
    s: Any, capsys: pytest.CaptureFixture[str]
):
    first, stream, last = said(capsys, s.groupBy("k", sw.window("1 minute")).count())
    assert first == "no result within 0 seconds after the first batch"
    assert stream.startswith("stream s: 3 rows read; the bound on ts is 2026-01-01T00:00:25")
    assert "newest time 2026-01-01T00:00:45" in stream
    assert "ends at 2026-01-01T00:01:00.000000Z, 35 seconds after the bound" in last


def test_without_rows_it_says_so(s: Any, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]):  # fmt: skip
    assert said(capsys, s.where("v > 5"))[-1].startswith("no row is waiting: conditions")
    frame = spark.readStream.schema(SCHEMA).parquet(str(tmp_path))
    lines = said(capsys, sw.stream(frame, time="ts"))
    assert lines[-1] == "no rows were read: the source has none yet"


@pytest.mark.parametrize(
    ("query", "part"),
    [
        (lambda s: s.groupBy("k", sw.sessionWindow("5 minutes")).count(), "is 5 minutes past its last row"),
        (lambda s: s.groupBy(sw.rows(10, at="operator")).count(), "its 10 rows are there"),
        (lambda s: s.groupBy(sw.byTuple("1 second", 9, over="rank")).count(), "has passed its row"),
        (lambda s: s.groupBy(sw.landmark("1 hour", "2026-01-01")).count(), "59 minutes 35 seconds after the bound"),
        (lambda s: s.where("v IS NULL").sort(), "a row leaves when the bound on ts has passed its time"),
        (lambda s: s.alias("a").join(s.where("k = 'b'").alias("b"), [("v", "v")], sw.band()), "none has met a partner"),
    ],
    ids=["session", "rows", "tuples", "landmark", "sort", "join"],
)  # fmt: skip
def test_each_operator_says_what_lets_its_results_out(query: Any, part: str, s: Any, spark: SparkSession, tmp_path: Path):  # fmt: skip
    """From the record alone, which a local run has as Spark's has."""
    from types import SimpleNamespace

    from slackwater.surface.start import plan_of
    from slackwater.surface.waiting import why_nothing
    from slackwater.testing.local.run import LocalInput, LocalRun
    from tests.surface.local import _files

    plan, inputs = plan_of({"output": query(s)}, {})
    local = LocalRun(tmp_path, plan, [LocalInput(i.fields) for i in inputs])
    local.host.batches.append({i: _files(item) for i, item in enumerate(inputs)})
    local.start()
    try:
        local.step()
        text = why_nothing(SimpleNamespace(_loop=local.loop), 1.5)  # type: ignore[arg-type]
    finally:
        local.stop()
    assert text.splitlines()[0] == "no result within 1.5 seconds after the first batch"
    assert part in text.splitlines()[-1], text
