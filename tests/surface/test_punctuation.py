"""Patterns through the public surface: made by Spark expressions, on timestamps; and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from tests.surface.helpers import at, run, seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAP = "map<string, struct<op: string, value: string>>"
SCHEMA = f"k string, n int, ts timestamp, v double, p {MAP}, odd map<string, string>"

pytestmark = pytest.mark.spark


@pytest.fixture
def s(spark: SparkSession, tmp_path: Path) -> Any:
    (tmp_path / "in").mkdir()
    df = sw.readStream(spark).schema(SCHEMA).parquet(str(tmp_path / "in"))
    return sw.stream(df, time="ts", progress=sw.Punctuated("p"))


@pytest.mark.spec("WQ-F29", "OO-F29")
def test_groups_without_a_window_need_punctuation_that_reaches_them(s: Any) -> None:
    def refused(call: Any, *names: str) -> None:
        with pytest.raises(sw.AnalysisError) as e:
            call().writeStream.format("noop").start()
        assert e.value.condition == "UNBOUNDED_STATE" and e.value.hint
        text = f"{e.value} {e.value.hint}"
        assert all(n in text for n in names), text

    df = s._inputs[next(iter(s._inputs))]
    plain = sw.stream(df, time="ts", name="plain", progress=sw.Ordered())
    refused(lambda: plain.groupBy("k").count(), "'plain'", "punctuate k", "sw.window", "map<string")
    refused(
        lambda: s.select("k", "ts").union(plain.select("k", "ts")).groupBy("k").count(), "'plain'"
    )
    for key in ("upper(k)", "1", "true", "NULL"):
        refused(lambda key=key: s.groupBy(f"{key} AS u").count(), "u", "column of every stream")
    refused(lambda: s.sort().groupBy("k").count(), "sort()")
    refused(lambda: s.late.groupBy("k").count(), "late rows")
    refused(lambda: s.groupBy().count(), "never completes")
    some = s.where("v > 1").select("ts", "k").groupBy("k").count()
    assert some.columns == ["k", "count"] and some.contracts().ok
    both = s.groupBy("upper(k) AS u", "n").count()
    assert both.columns == ["u", "n", "count"] and both.contracts().ok


def test_a_map_of_another_shape_is_no_punctuation(s: Any) -> None:
    df = s._inputs[next(iter(s._inputs))]
    with pytest.raises(sw.AnalysisError) as e:
        sw.stream(df, time="ts", progress=sw.Punctuated("odd"))
    assert e.value.condition == "BAD_PUNCTUATION_TYPE" and "op:string" in str(e.value.hint)


@pytest.mark.spec("WQ-F4", "WQ-F6", "OO-F23")
def test_a_fast_group_finishes_and_frees_its_state(spark: SparkSession, tmp_path: Path) -> None:
    """A row with a value in ``until`` is data, and the last of its key before that time."""
    fast = [("fast", at(t), 1, None) for t in range(0, 600, 20)]
    batches = [
        [*fast, ("slow", at(30), 10, None)],
        [("fast", at(600), 2, at(600)), ("slow", at(90), 20, None)],
        [("slow", at(95), 40, at(60)), ("fast", at(610), 4, None)],
    ]
    df = sw.replay(spark, batches, "k string, ts timestamp, v int, until timestamp").withColumn(
        "p",
        _expr(
            "if(until IS NULL, NULL, map('k', named_struct('op', '=', 'value', k), "
            "'ts', named_struct('op', '<', 'value', CAST(until AS string))))"
        ),
    )
    s = sw.stream(df, time="ts", name="s", progress=sw.Punctuated("p", data=True))
    minutes = s.groupBy("k", sw.window("1 minute")).agg("sum(v) AS total")
    done = run(minutes, tmp_path / "checkpoint", end=False)
    by_batch = [
        sorted((r["k"], seconds(r["window"]["start"]), r["total"]) for r in rows)
        for _, rows in sorted(done.batches["output"].items())
    ]
    assert by_batch == [
        [],
        [("fast", 60.0 * m, 3) for m in range(10)],
        [("slow", 0.0, 10)],
    ]
    states = [next(iter(r["operators"].values()))["state"]["rows"] for r in done.records]
    assert states[1] == 3  # the open minute of fast, two of slow; ten were freed
    assert done.last["streams"]["s"]["patterns"] == 2


def _expr(text: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(text)
