"""The transcripts, and which of them run on Spark in which way.

Whatever does not depend on Spark is proven by `test_transcripts_local.py`, on the same engine without Spark: rows, splits,
and a failure at every step. Spark's part in those is the same for every query that asks the same of it. So one transcript
per thing asked is enough for rows, one per operator and type of window for splits, and one per step for failures.
`make faults` runs all of them as rows.

Each way of running has a test file of its own, since a file is what the processes of a test run share out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.testing.transcripts.script import load, run
from tests.progress_schema import check_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = sorted((Path(__file__).parent / "transcripts").glob("*.yaml"))

ROWS = (
    "aggregates", "arrival_time", "before_the_epoch", "bounded_rows", "clock_in_steps", "closed_orders", "custom_shifts",
    "groupwise_window_types", "holistic_sliding", "join_delayed", "join_outer_disorder", "join_pair_windows",
    "join_semi_anti", "join_tumbling", "lag_limit", "late_drop", "late_raise", "local_times", "lookup_deadline", "lookup_hold",
    "max_delay", "mini_by_tuple", "mini_closed_session", "mini_rows", "negative_times", "pace_clock", "partitions_idle",
    "punctuated_partitions", "split_and_merge",
)  # fmt: skip
"""All that transcripts ask of rows; `test_transcripts_local.py` says what that is, and checks that nothing is missing."""

SPLITS = (
    "aggregates", "custom_shifts", "dedup_within", "groupwise_windows", "join_memory", "join_outer_disorder",
    "join_pair_windows", "late_union", "lookup_deadline", "lookup_hold", "mini_by_tuple", "mini_landmark", "mini_rows", "mini_session", "pace", "sort",
)  # fmt: skip
"""Every operator and every type of window; `test_transcripts_local.py` checks that none is missing."""

CRASHES = {
    "intent.before": "join_trace",
    "intent.after": "mini_sliding_by_group",
    "job.after": "dedup_time",
    "manifest.before": "groupwise_plan",
    "manifest.after": "sort_then_aggregate",
    "publish.after": "late_union",
    "published.after": "union_of_aggregates",
}
"""Where a query fails, and which transcript it runs."""


def _param(path: Path, *marks: pytest.MarkDecorator) -> object:
    ids = load(path).spec
    return pytest.param(
        path, id=path.stem, marks=[pytest.mark.spec(*ids), *marks] if ids else marks
    )


PARAMS = [_param(f) for f in FILES]
ROW_PARAMS = [_param(f, *([] if f.stem in ROWS else [pytest.mark.faults])) for f in FILES]


def path_of(stem: str) -> Path:
    """The file of a transcript."""
    (path,) = [f for f in FILES if f.stem == stem]
    return path


def run_on_spark(path: Path, spark: SparkSession, *, splits: bool) -> None:
    """Run a transcript over a row or a split source."""
    from slackwater.testing.executors.spark import spark_executor

    run(load(path), spark_executor(spark, splits=splits, groups=(2,), check=check_progress))


def crash_on_spark(point: str, spark: SparkSession) -> None:
    """Run a transcript with a failure and a restart on another number of partition-groups.

    The source and the plan of windows go round over the steps.
    """
    from slackwater.testing.executors.spark import spark_executor

    number = list(CRASHES).index(point)
    executor = spark_executor(
        spark,
        splits=number % 2 == 0,
        groups=(2, 3, 1),
        plan="wids" if number % 3 == 0 else "auto",
        crash=point,
        check=check_progress,
    )
    run(load(path_of(CRASHES[point])), executor)
