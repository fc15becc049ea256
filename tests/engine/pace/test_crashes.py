"""A pace judges a batch that is tried again as it did before, at whatever step the process failed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.failpoints import POINTS
from slackwater.model.node import Union
from slackwater.testing.local.run import LocalInput, LocalRun, failing, scratch_folder
from tests.engine.feedback.test_viewport import EARLY, ELSEWHERE
from tests.engine.pace.test_pace import FIELDS, SECOND, TS, A, B, counts, late, pace

BATCHES = 10


class Clock:
    """By batch; ``moved`` is how many seconds later it is in a second life."""

    def __init__(self) -> None:
        self.moved: dict[int, int] = {}

    def ended(self, batch: int) -> frozenset[str]:
        return frozenset()

    def now(self, batch: int) -> int | None:
        return (4 * batch + self.moved.get(batch, 0)) * SECOND


def plan_of(clock: bool) -> Plan:
    node = pace(Union(FIELDS, (TS,), (A, B)), clock=clock)
    outputs = {"live": node, "late": late(node), "counts": counts(node)}
    return passed(
        build([Output(n, o) for n, o in outputs.items()], ansi=True, zone="UTC"), Written()
    )


def rows(rng: random.Random, batch: int) -> dict[int, pa.Table]:
    """The second branch lags behind, now and then by more than the pace allows."""
    made = {}
    for branch, (low, high) in enumerate([(-3, 3), (-9, 0)]):
        times = pa.array([4 * batch + rng.randint(low, high) for _ in range(6)], pa.int64())
        made[branch] = pa.table({"ts": times, "k": times})
    return made


def started(folder: Path, clock: bool) -> tuple[LocalRun, Clock | None]:
    shown = Clock() if clock else None
    run = LocalRun(
        folder, plan_of(clock), [LocalInput(FIELDS, True), LocalInput(FIELDS)],
        clock=shown, settings=Settings(compact_runs=2),
    )  # fmt: skip
    rng = random.Random(5)
    for n in range(BATCHES):
        run.give(rows(rng, n))
    return run, shown


def live(run: LocalRun) -> None:
    run.start(run.done % 3 + 1)
    try:
        while run.done < len(run.host.batches):
            run.step()
        run.step(final=True)
    finally:
        run.stop()


Found = Mapping[str, Mapping[int, list[object]]]


def found(run: LocalRun) -> Found:
    return {
        name: {b: sorted(map(repr, t.to_pylist())) for b, t in tables.items() if t.num_rows}
        for name, tables in run.published.items()
    }


@pytest.fixture(scope="module", params=[False, True], ids=["mark", "clock"])
def whole(request: pytest.FixtureRequest) -> tuple[bool, Found]:
    with scratch_folder() as folder:
        run, _ = started(folder, request.param)
        live(run)
        made = found(run)
    assert len(made["live"]) > 5 and len(made["late"]) > 3 and made["counts"]
    return request.param, made


@pytest.mark.parametrize("point", sorted({*POINTS} - ELSEWHERE))
@pytest.mark.spec("FC-F41")
def test_a_crash_at_any_step_changes_no_row(point: str, whole: tuple[bool, Found]) -> None:
    clock, reference = whole
    with scratch_folder() as folder:
        run, shown = started(folder, clock)
        with (
            pytest.raises(failpoints.InjectedFailure),
            failing(f"{point}@{1 if point in EARLY else 4}"),
        ):
            live(run)
        tried = manifests.newest_intent(run.checkpoint)
        if shown is not None and tried is not None:
            shown.moved[tried.batch] = 3  # what the intent says of the clock stands
        live(run)
        assert found(run) == reference
