"""Every transcript on the whole engine in one process: rows and splits, plans of windows, groups, every failpoint.

Without a failure they run in `records` and in `engine/test_every_kind.py`. `test_transcripts_*.py` run on Spark what is Spark's part in that.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from slackwater.engine.paths.batch import Settings
from slackwater.engine.store import failpoints
from slackwater.semantics.bounds import topological
from slackwater.testing.executors.local import START_POINTS, local_executor
from slackwater.testing.executors.spark import CRASH_POINTS
from slackwater.testing.transcripts.query import STEPS
from slackwater.testing.transcripts.script import load, run
from slackwater.testing.transcripts.windows import FORMS
from tests.conftest import check_progress
from tests.transcripts_on_spark import CRASHES, FILES, PARAMS, SPLITS, path_of

PLANS = ("auto", "panes", "wids", "buffered", "adaptive")
GROUPS = ((1, 2), (2, 3, 1), (5, 1))
ALWAYS = {*START_POINTS, *CRASH_POINTS}
"""Failpoints that every start or every batch comes to; whether it comes to the others depends on the query."""


@pytest.mark.parametrize("splits", [False, True], ids=["rows", "splits"])
@pytest.mark.parametrize("path", PARAMS)
def test_every_failpoint(path: Path, splits: bool) -> None:
    """A run that fails at every point that it comes to, some fifteen times, each time with other numbers of groups.

    Where failures begin, the plan of windows and the numbers of groups go round over the files.
    """
    reached: set[str] = set()
    transcript, turn = load(path), 2 * FILES.index(path) + splits
    executor = local_executor(
        splits=splits,
        groups=GROUPS[turn % len(GROUPS)],
        plan=PLANS[turn // 2 % len(PLANS)],
        crash=tuple(failpoints.POINTS),
        crash_from=0 if turn // 3 % 2 else None,
        reached=reached,
        check=check_progress,
        settings=Settings(compact_runs=2),
    )
    run(transcript, executor)
    stops = any(step.expect_error for step in transcript.steps)
    assert stops or reached >= ALWAYS


# --- what is left for Spark --------------------------------------------------------------------------


def kinds(stems: Iterable[str]) -> set[str]:
    """The operators and the types of windows in these transcripts."""
    nodes = topological([o.node for s in stems for o in load(path_of(s)).outputs.values()])
    windows = [w for n in nodes if (w := getattr(n, "window", None)) is not None]
    return {type(x).__name__ for x in (*nodes, *windows)}


def test_every_operator_and_type_of_window_has_a_transcript_that_spark_reads_by_splits() -> None:
    # A test may have added one of its own.
    own = {t.__name__ for t in (*STEPS, *FORMS) if t.__module__.startswith("slackwater.")}
    seen = kinds(f.stem for f in FILES)
    assert own and own - seen == set()
    assert seen - kinds(SPLITS) == set()


def test_a_query_on_spark_fails_at_every_step() -> None:
    assert set(CRASHES) == set(CRASH_POINTS)
