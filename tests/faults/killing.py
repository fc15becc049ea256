"""Start children, kill them, and carry on where they stopped."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from tests.faults.scenarios import Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
TIMEOUT = 900

# Which hit kills: one that is surely not in the first batch. A start has one of the first three; the
# driver's others are hit in each batch, of which there are eight and a last one; a worker's are counted per
# process, several in each batch. State is merged from the third batch on, garbage collected from the sixth.
HITS = {
    "lock.taken": 1, "epoch.written": 1, "query.written": 1,
    "intent.before": 4, "intent.after": 4,
    "task.run.before": 6, "task.run.after": 6, "task.output.before": 8, "task.output.after": 8,
    "job.after": 4, "manifest.before": 4, "manifest.after": 4,
    "publish.begun": 4, "publish.rename": 4, "publish.after": 4, "published.after": 4,
    "compact.before": 2, "gc.before": 2, "gc.after": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a child ended: its code (negative: the signal), what it printed, batches it had committed."""

    code: int
    text: str
    committed: int


def command(
    scenario: Scenario, inputs: Path, state: Path, groups: int, scope: str = "machine"
) -> list[str]:
    arguments = [scenario.name, str(inputs), str(state), str(groups), scope]
    return [sys.executable, "-m", "tests.faults.child", *arguments]


def environment(setting: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, failpoints.ENV: setting}


def kill_at(
    scenario: Scenario,
    inputs: Path,
    state: Path,
    point: str,
    hit: int,
    groups: int = 2,
    scope: str = "machine",
) -> Ended:
    """Run a child that kills itself (or its ``worker``) at a failpoint; else it ends by itself."""
    arguments = command(scenario, inputs, state, groups, scope)
    code, text = run_child(arguments, f"{point}=kill@{hit}", state)
    return Ended(code, text, _committed(state))


def kill_standing(
    scenario: Scenario, inputs: Path, state: Path, points: Mapping[str, int], groups: int = 2
) -> dict[str, Ended]:
    """Run one child that is killed when a query stands at each of these points of the driver.

    Each has its state below ``state``. A point that was not reached ends with code 0.
    """
    arguments = command(scenario, inputs, state, groups, "standing")
    code, text = run_child([*arguments, *(f"{p}@{hit}" for p, hit in points.items())], "", state)
    reached = {p for p in points if f"standing at {p}" in text.splitlines()}
    return {
        p: Ended(code if p in reached or code >= 0 else 0, text, _committed(state / p))
        for p in points
    }


def kill_each(
    pool: Executor, scenario: Scenario, inputs: Path, root: Path, points: Mapping[str, int]
) -> Callable[[str], Ended]:
    """Start children for all these points, with state below ``root``; how the one of a point ended.

    One child serves all steps of the driver, each with a query of its own that stands there when it is killed. A step
    inside a task kills a child of its own.
    """
    inside = {p for p in points if p.startswith(("task.", "compact."))}
    standing = {p: hit for p, hit in points.items() if p not in inside}
    shared = pool.submit(kill_standing, scenario, inputs, root, standing) if standing else None
    alone = {p: pool.submit(kill_at, scenario, inputs, root / p, p, points[p]) for p in inside}

    def ended(point: str) -> Ended:
        if point in alone:
            return alone[point].result()
        assert shared is not None
        return shared.result()[point]

    return ended


def run_child(arguments: list[str], setting: str, state: Path) -> tuple[int, str]:
    """Run a child with failpoints set: the code it ended with, and what it printed."""
    state.mkdir(parents=True, exist_ok=True)
    with open(state / "child.log", "w+") as log:
        child = subprocess.Popen(
            arguments,
            cwd=ROOT,
            env=environment(setting),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            code = child.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            code = 1  # not what was asked for
        log.seek(0)
        return code, log.read()


def kill_after(
    scenario: Scenario, inputs: Path, state: Path, delay: float, groups: int = 2
) -> Ended:
    """Run a child and kill its group ``delay`` seconds after its session is there."""
    state.mkdir(parents=True, exist_ok=True)
    with open(state / "child.log", "a") as log:
        child = subprocess.Popen(
            command(scenario, inputs, state, groups),
            cwd=ROOT,
            env=environment(""),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        assert child.stdout is not None
        ready = child.stdout.readline()
        try:
            child.wait(delay)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
        rest = child.stdout.read()
        return Ended(child.wait(), ready + rest, _committed(state))


def _committed(state: Path) -> int:
    folder = Checkpoint(str(state / "checkpoint")).manifests
    return len(list(folder.glob("[0-9]*.json"))) if folder.exists() else 0


def finish(scenario: Scenario, spark: SparkSession, inputs: Path, state: Path, groups: int) -> None:
    """Start once more, in this process, and run to the end."""
    scenario.start(spark, inputs, state, groups=groups).awaitTermination()


def visible(state: Path) -> dict[str, int]:
    """Everything in the sinks that a reader sees, and the manifests: path and time of change."""
    files = [
        *(p for p in (state / "sink").rglob("part-*") if "_slackwater" not in p.parts),
        *(state / "checkpoint" / "slackwater" / "manifests").glob("[0-9]*.json"),
    ]
    return {str(p.relative_to(state)): p.stat().st_mtime_ns for p in files}


def has_ended(state: Path) -> bool:
    last = manifests.last(Checkpoint(str(state / "checkpoint")))
    return last is not None and last.final


def jitter(seed: int, count: int, longest: float) -> list[float]:
    """Moments to kill at."""
    chosen = random.Random(seed)
    return [chosen.uniform(0.0, longest) for _ in range(count)]
