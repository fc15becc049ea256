"""Every transcript on the whole engine in one process: rows and splits, plans of windows, groups, every failpoint.

Without a failure they run in `records` and in `engine/test_every_kind.py`. `test_transcripts_*.py` run on Spark what is Spark's part in that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.paths.batch import Settings
from slackwater.engine.store import failpoints
from slackwater.model.join import Anytime
from slackwater.model.node import Aggregate, Join, Source
from slackwater.semantics.bounds import topological
from slackwater.testing.executors.local import START_POINTS, local_executor
from slackwater.testing.executors.spark import CRASH_POINTS
from slackwater.testing.transcripts.query import STEPS
from slackwater.testing.transcripts.script import load, run
from slackwater.testing.transcripts.windows import FORMS
from tests.progress_schema import check_progress
from tests.transcripts_on_spark import CRASHES, FILES, PARAMS, ROWS, SPLITS, path_of

BOTH = (
    "custom_shifts", "join_memory", "join_pair_windows", "lookup_deadline", "lookup_hold", "mini_by_tuple", "mini_landmark", "mini_rows",
    "mini_session",
)  # fmt: skip
"""Transcripts that fail in both ways of reading: the others of their kind, if any, are all read in the same way."""

PLANS = ("auto", "panes", "wids", "buffered", "adaptive")
GROUPS = ((1, 2), (2, 3, 1), (5, 1))
ALWAYS = {*START_POINTS, *CRASH_POINTS}
"""Failpoints that every start or every batch comes to; whether it comes to the others depends on the query."""


def by_splits(stem: str, other: bool) -> bool:
    """Whether tasks read the input of a transcript; it goes round over the files. ``other``: the other way."""
    return (FILES.index(path_of(stem)) % 2 == 1) != other


@pytest.mark.parametrize("path", PARAMS)
def test_every_failpoint(path: Path) -> None:
    """A run that fails at every point that it comes to, some fifteen times, each time with other numbers of groups.

    Rows or splits, where failures begin, the plan of windows and the numbers of groups go round over the files.
    """
    fail(path, FILES.index(path), other=False)


@pytest.mark.parametrize("stem", BOTH)
def test_every_failpoint_in_the_other_way(stem: str) -> None:
    path = path_of(stem)
    fail(path, FILES.index(path) + 1, other=True)


def fail(path: Path, turn: int, *, other: bool) -> None:
    reached: set[str] = set()
    transcript = load(path)
    executor = local_executor(
        splits=by_splits(path.stem, other),
        groups=GROUPS[turn % len(GROUPS)],
        plan=PLANS[turn % len(PLANS)],
        crash=tuple(failpoints.POINTS),
        crash_from=0 if turn // 3 % 2 else None,
        reached=reached,
        check=check_progress,
        settings=Settings(compact_runs=2),
    )
    run(transcript, executor)
    stops = any(step.expect_error for step in transcript.steps)
    assert stops or reached >= ALWAYS


def kinds(stems: Iterable[str]) -> set[str]:
    """The operators and the types of windows in these transcripts; a join in bounded memory is an operator of its own."""
    nodes = topological([o.node for s in stems for o in load(path_of(s)).outputs.values()])
    windows = [w for n in nodes if (w := getattr(n, "window", None)) is not None]
    bounded = {"bounded Join" for n in nodes if isinstance(n, Join) and n.memory is not None}
    return {type(x).__name__ for x in (*nodes, *windows)} | bounded


def test_every_operator_and_type_of_window_fails_by_rows_and_by_splits() -> None:
    ways = [(f.stem, False) for f in FILES] + [(stem, True) for stem in BOTH]
    for splits in (False, True):
        fails = kinds(stem for stem, other in ways if by_splits(stem, other) == splits)
        assert kinds(f.stem for f in FILES) - fails == set()


# --- what is left for Spark --------------------------------------------------------------------------


def test_every_operator_and_type_of_window_has_a_transcript_that_spark_reads_by_splits() -> None:
    # A test may have added one of its own.
    own = {t.__name__ for t in (*STEPS, *FORMS) if t.__module__.startswith("slackwater.")}
    seen = kinds(f.stem for f in FILES)
    assert own and own - seen == set()
    assert seen - kinds(SPLITS) == set()


def asked_of_rows(stem: str) -> set[str]:
    """What a transcript asks of Spark where it reads rows: operators, windows, aggregates, policies, verdicts, times."""
    transcript = load(path_of(stem))
    asked = kinds([stem])
    for node in topological([o.node for o in transcript.outputs.values()]):
        if isinstance(node, Join):
            asked.add(f"{node.how} join" + (" in memory" if node.memory is not None else ""))
            if isinstance(node.within, Anytime):
                asked.add("join at any time")
        if isinstance(node, Aggregate):
            asked |= {f"{p.function}()" for p in node.primitives} | set_fields(node.window)
        if isinstance(node, Source):
            asked |= {f"late: {node.late}", f"{len(node.times)} times"}
            asked |= {name for name in ("partition", "order") if getattr(node, name)}
            for time, policy in zip(node.times, node.policies, strict=True):
                rows = [r for step in transcript.steps for r in step.rows.get(node.name, [])]
                old = any((r.get(time.name) or 0) < 0 for r in rows)
                asked |= {
                    time.kind,
                    *set_fields(policy),
                    *([f"{time.kind} before 0"] if old else []),
                }
    asked |= {"zone"} & transcript.text.keys()
    asked |= {"an error" for s in transcript.steps if s.expect_error}
    return asked | {"a crash" for s in transcript.steps if s.crash}


def set_fields(thing: Any) -> set[str]:
    """The type of a policy or window, and its fields that have other than their usual values."""
    name = type(thing).__name__
    usual = {f.name: f.default for f in fields(thing) if f.default is not MISSING}
    return {name, *(f"{name}.{n}" for n, v in usual.items() if getattr(thing, n) != v)}


def test_whatever_a_transcript_asks_of_rows_is_asked_of_spark() -> None:
    asked = {f.stem: asked_of_rows(f.stem) for f in FILES}
    everything = set().union(*asked.values())
    assert everything - set().union(*(asked[stem] for stem in ROWS)) == set()
    for stem in ROWS:  # and none of them is there for nothing
        assert everything - set().union(*(asked[s] for s in ROWS if s != stem)), stem


def test_a_query_on_spark_fails_at_every_step() -> None:
    assert set(CRASHES) == set(CRASH_POINTS)
