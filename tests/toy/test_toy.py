"""An operator with its own files and a line per registry runs on the oracle, the kernels, the local host and Spark."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.store import failpoints
from slackwater.errors import AnalysisError
from slackwater.model.node import Aggregate, Source
from slackwater.model.policy import Punctuated
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import all_time
from slackwater.semantics.contracts.words import PATTERN_TYPE
from slackwater.surface.check import report
from slackwater.testing import oracle, parse, run_transcript
from slackwater.testing.executors.kernels import kernels
from slackwater.testing.executors.local import local_executor
from slackwater.testing.executors.spark import spark_executor
from slackwater.testing.transcripts.script import Observed
from tests.examples import examples
from tests.test_registries import BY_NODE, Listed, complaints, node_types
from tests.toy import written
from tests.toy.model import Delay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = """
name: rows a while after their time
about: A toy. Windows above it close by its own, later bound.
streams:
  s: {columns: {ts: bigint, v: bigint}, time: ts, progress: {bounded_delay: 4}}
query:
  rows:
    - from: s
    - delay: 5
  sums:
    - from: rows
    - window: {range: 4}
      agg: {total: sum(v)}
check:
  rows: {columns: [ts, v]}
  sums: {columns: [wid, total]}
script:
  - rows: {s: [[5, 1], [3, 2], [12, 3]]}
    about: The bound is 8, what is delayed has come to 3.
    expect: {rows: [], sums: []}
  - rows: {s: [[2, 9], [3, 4], [14, 5]]}
    about: Late, and too late for the delay; late, but not too late for it.
    expect: {rows: [[3, 2], [3, 4]], sums: [[0, 6]]}
    expect_late: 2
  - crash: true
  - rows: {s: [[17, 6]]}
    expect: {rows: [[5, 1]], sums: [[1, 1]]}
  - end: true
    expect: {rows: [[12, 3], [14, 5], [17, 6]], sums: [[3, 8], [4, 6]]}
"""


@pytest.mark.parametrize("listed", BY_NODE, ids=lambda r: f"{r.module}.{r.name}")
def test_it_has_the_entries_of_an_operator_of_the_product(listed: Listed) -> None:
    assert not complaints(listed, [*node_types(), Delay])


def test_on_the_oracle() -> None:
    run_transcript(parse(yaml.safe_load(SCRIPT)), oracle)


@pytest.mark.parametrize("plan", ["panes", "wids"])
def test_on_the_kernels(plan: str) -> None:
    run_transcript(parse(yaml.safe_load(SCRIPT)), kernels(plan))  # type: ignore[arg-type]


@pytest.mark.parametrize("splits", [False, True], ids=["rows", "splits"])
def test_on_the_local_host(splits: bool) -> None:
    run_transcript(parse(yaml.safe_load(SCRIPT)), local_executor(splits=splits))


def test_through_failures() -> None:
    points = tuple(failpoints.POINTS)
    run_transcript(
        parse(yaml.safe_load(SCRIPT)), local_executor(splits=True, crash=points, reached=set())
    )


@pytest.mark.spark
@pytest.mark.parametrize("splits", [False, True], ids=["rows", "splits"])
def test_on_spark(spark: SparkSession, splits: bool) -> None:
    run_transcript(parse(yaml.safe_load(SCRIPT)), spark_executor(spark, splits=splits))


TIMES = st.lists(st.lists(st.integers(0, 30), max_size=6), min_size=1, max_size=4)


@examples(30)
@given(TIMES, st.integers(0, 9))
def test_any_rows_leave_as_the_definition_says(batches: list[list[int]], by: int) -> None:
    steps = "\n".join(f"  - rows: {{s: {[[t, i] for i, t in enumerate(b)]}}}" for b in batches)
    head = SCRIPT.partition("script:")[0].replace("delay: 5", f"delay: {by}")
    script = parse(yaml.safe_load(f"{head}script:\n{steps}\n  - end: true\n"))
    wanted = [shown(step) for step in oracle(script)]
    assert [shown(step) for step in kernels("panes")(script)] == wanted
    assert [shown(step) for step in local_executor()(script)] == wanted


def shown(step: Observed) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The rows and the sums of a step, in any order."""
    assert step.error is None, step.message
    rows = sorted((r["ts"], r["v"]) for r in step.outputs["rows"])
    return rows, sorted((r["wid"], r["total"]) for r in step.outputs["sums"])


def test_groups_that_punctuation_cannot_end_behind_it_are_refused() -> None:
    """Its rules pass no patterns on, so that a group behind it would never be complete."""
    fields = (Field("ts", "bigint"), Field("k", "bigint"), Field("p", PATTERN_TYPE))
    times = (TimeColumn("ts", "long", None),)
    source = Source(fields, times, "s", policies=(Punctuated("p"),))
    keys = (Named("k", column("k", "bigint")),)
    window = all_time("ts")
    assert report([Aggregate((), times, source, keys, window)]).ok
    behind = report([Aggregate((), times, Delay(fields, times, source, "ts", 5), keys, window)])
    with pytest.raises(AnalysisError, match=r"UNBOUNDED_STATE.*which Delay cannot pass on"):
        behind.raise_for_problems()


def test_the_toy_is_known_to_its_own_files_alone() -> None:
    """No module of the product has a word about it."""
    source = Path(written.__file__).parents[2] / "src"
    for path in source.rglob("*.py"):
        names = {n.id for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Name)}
        assert Delay.__name__ not in names, path
