"""Every transcript on the whole engine in one process: rows and splits, plans of windows, groups, every failpoint.

`test_transcripts_*.py` run some of them on Spark.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.engine.store import failpoints
from slackwater.testing.executors.local import START_POINTS, local_executor
from slackwater.testing.local.run import NotReached
from slackwater.testing.transcripts.script import load, run
from tests.conftest import check_progress
from tests.transcripts_on_spark import FILES, PARAMS

PLANS = ("auto", "panes", "wids", "buffered", "adaptive")
GROUPS = ((1, 2), (2, 3, 1), (5, 1))

EACH_BATCH = {
    "intent.before", "intent.after", "job.after", "manifest.before", "manifest.after",
    "publish.after", "published.after",
}  # fmt: skip
"""Failpoints that every batch comes to."""


@pytest.mark.parametrize("splits", [False, True], ids=["rows", "splits"])
@pytest.mark.parametrize("path", PARAMS)
def test_without_a_failure(path: Path, splits: bool) -> None:
    run(load(path), local_executor(splits=splits, groups=(2,), check=check_progress))


@pytest.mark.parametrize("splits", [False, True], ids=["rows", "splits"])
@pytest.mark.parametrize("path", PARAMS)
def test_every_failpoint(path: Path, splits: bool) -> None:
    """A run that fails at every point that it comes to, some fifteen times, each time with other numbers of groups.

    Where failures begin, the plan of windows and the numbers of groups go round over the files.
    """
    transcript, turn = load(path), 2 * FILES.index(path) + splits
    executor = local_executor(
        splits=splits,
        groups=GROUPS[turn % len(GROUPS)],
        plan=PLANS[turn // 2 % len(PLANS)],
        crash=tuple(failpoints.POINTS),
        crash_from=0 if turn // 3 % 2 else None,
        check=check_progress,
    )
    left: frozenset[str] = frozenset()
    try:
        run(transcript, executor)
    except NotReached as error:
        left = error.points
    assert not left & {*EACH_BATCH, *START_POINTS}
