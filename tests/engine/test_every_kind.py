"""What every kind of operator owes the engine, whatever it computes; checked while all transcripts run.

Runs are merged as soon as there are two, rows are cut into as many pieces as there are, and state is watched: what
a kind once said it does not need any more, it never needs or asks for again. Nothing fails in these runs;
`test_transcripts_local.py` is about failures.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from slackwater.engine.operators import group_task, registry
from slackwater.engine.operators.group_runs import GroupRuns, Kept
from slackwater.engine.operators.program import MAIN, StateStep
from slackwater.engine.operators.shared_sort import SharedSortKind
from slackwater.engine.paths.batch import Settings
from slackwater.engine.store.manifest import Run
from slackwater.engine.store.runs import overlaps
from slackwater.semantics.limits import START
from slackwater.testing.executors.local import local_executor
from slackwater.testing.local import run as local_run
from slackwater.testing.transcripts.script import load, parse, run
from tests.progress_schema import check_progress
from tests.transcripts_on_spark import FILES, PARAMS

SEEN: set[type] = set()
"""The kinds that ran."""


class WatchedRuns(GroupRuns):
    """Runs that notice when their program breaks its word. ``freed`` holds runs that were left out, by operator."""

    freed: dict[str, list[Run]] = defaultdict(list)

    def __init__(self, operator: Any, context: Any, program: Any):
        super().__init__(operator, context, program)
        SEEN.add(type(registry.kind_of(operator)))
        for part in program.parts:
            before, after = (
                program.first_needed(part, context.old),
                program.first_needed(part, context.new),
            )
            assert before <= after, f"{operator.id} needs more of '{part}' as bounds advance"
        for gone in self.freed[operator.id]:
            assert not (program.needs(gone, context.old) and overlaps(gone, context.buckets)), (
                f"{operator.id} needs {gone.name} again, which it had freed"
            )

    def read(self, low: int, high: int, part: str = MAIN) -> pa.Table:
        needed = self.program.first_needed(part, self.context.old)
        if START < low <= high:  # from the start on: all that is kept
            assert low >= needed, f"{self.operator.id} asks '{part}' for what is not kept"
        return super().read(low, high, part)

    def after(self, step: StateStep) -> Kept:
        kept = super().after(step)
        merged = not step.rewritten and kept.merged == 0
        gone = [r for r in self.live if r not in kept.runs] if merged else []
        self.freed[self.operator.id] += gone
        return kept


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WatchedRuns, "freed", defaultdict(list))
    monkeypatch.setattr(group_task, "GroupRuns", WatchedRuns)
    whole = local_run.pq.write_table

    def in_pieces(table: pa.Table, path: Path, **options: Any) -> None:
        whole(table, path, **(options or {"row_group_size": 1}))

    monkeypatch.setattr(local_run.pq, "write_table", in_pieces)


@pytest.mark.parametrize("path", PARAMS)
def test_state_that_was_freed_is_never_needed(path: Path) -> None:
    plan = ("auto", "adaptive")[FILES.index(path) % 2]
    merging = Settings(compact_runs=1)
    run(load(path), local_executor(splits=True, plan=plan, settings=merging, check=check_progress))


SORTS = """
name: sorts behind different filters
streams:
  s: {columns: {ts: bigint, v: bigint}, time: ts, progress: {bounded_delay: 4}}
query:
  all: [{from: s}, {sort: ts}]
  even: [{from: s}, {where: v % 2 = 0}, {sort: ts}]
check:
  all: {columns: [ts, v], ordered: true}
  even: {columns: [ts, v], ordered: true}
script:
  - rows: {s: [[5, 1], [3, 2], [8, 4]]}
    expect: {all: [[3, 2]], even: [[3, 2]]}
  - rows: {s: [[4, 6], [12, 3]]}
    expect: {all: [[4, 6], [5, 1]], even: [[4, 6]]}
  - end: true
    expect: {all: [[8, 4], [12, 3]], even: [[8, 4]]}
"""


def test_sorts_that_share_their_rows() -> None:
    run(
        parse(yaml.safe_load(SORTS)), local_executor(splits=True, settings=Settings(compact_runs=1))
    )
    assert SharedSortKind in SEEN


def test_every_kind_was_watched() -> None:
    kinds = {type(k) for k in (*registry.PROGRAMS.values(), *registry.WINDOWS.values())}
    # A test may have added an operator of its own.
    own = {k for k in kinds if k.__module__.startswith("slackwater.")}
    assert own and own <= SEEN
