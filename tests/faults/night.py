"""``make faults-night``: kills of random scenarios, victims and moments, each of which its seed repeats.

A seed says the scenario, who dies, when, and how many partition groups each start has. When is a share of the steps
that a whole run takes: a run without a kill is counted first, and the same tree counts the same. A moment inside a task
of Spark is the n-th hit of a failpoint, over all workers; which worker it is, Spark decides.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.engine.store import failpoints
from slackwater.testing.local.run import scratch_folder
from tests.faults import local
from tests.faults.child import failed_tasks, session
from tests.faults.commits import here
from tests.faults.killing import command, finish, has_ended, run_child
from tests.faults.night_child import Held
from tests.faults.night_table import DRIVER, MACHINE, PROCESS, WORKER, Case, Line, Table
from tests.faults.scenarios import Scenario, scenarios
from tests.faults.steps import Steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VICTIMS = {PROCESS: 78, DRIVER: 9, MACHINE: 3, WORKER: 10}
"""Of a hundred cases. A process without Spark costs half a second, a JVM ten."""

GROUPS = (1, 2, 3, 4)
COUNTED = 2
"""Groups with which the steps of a whole run on Spark are counted, so that a first start takes as many."""

TASK_POINTS = [p for p in failpoints.POINTS if p.startswith(("task.", "compact."))]
TOGETHER = 8  # queries that stand in one driver
AT_ONCE = 2  # processes


def drawn(seed: int) -> Case:
    """The case of a seed."""
    chance = random.Random(f"a night of faults, {seed}")
    scenario = chance.choice(list(scenarios()))
    victim = chance.choices(list(VICTIMS), list(VICTIMS.values()))[0]
    # A process without Spark is cheap, so it may be killed again while it recovers.
    kills = chance.choice((1, 1, 2, 3)) if victim == PROCESS else 1
    shares = tuple(round(chance.random(), 4) for _ in range(kills))
    groups = tuple(chance.choice(GROUPS) for _ in range(kills + 1))
    if victim != PROCESS:
        groups = (COUNTED, *groups[1:])
    point = chance.random()  # which of the failpoints that tasks come to
    kinds = tuple(round(chance.random(), 4) if chance.random() < 0.5 else None for _ in range(3))
    return Case(seed, scenario, victim, shares, groups, round(point, 4), kinds)


@dataclass(frozen=True)
class Result:
    """What became of a case: when it was killed and how often, and how the output differs from what must come out."""

    moment: str
    kills: int
    lost: int = 0
    twice: int = 0
    trouble: str = ""

    def line(self, case: Case) -> Line:
        return Line(
            case.seed, case.scenario, case.victim, self.moment, self.kills, self.lost, self.twice,
            self.trouble, here(),
        )  # fmt: skip


# --- a process without Spark ------------------------------------------------------------------------


def _life(
    sent: Connection, scenario: Scenario, state: Path, groups: int, moment: int, kind: str
) -> None:
    """Run a scenario to its end, unless it is killed at a step; send how many steps it took of each kind."""
    steps = Steps(state, moment, lambda: os.kill(os.getpid(), signal.SIGKILL), kind)
    try:
        local.finish(scenario, state, groups)
    except BaseException as error:
        sent.send(f"{type(error).__name__}: {error}")
        raise
    sent.send(steps.kinds)


def lived(
    scenario: Scenario, state: Path, groups: int, moment: int = 0, kind: str = ""
) -> Counter[str] | None:
    """How many steps of each kind a process took to its end; none if it was killed at one."""
    received, sent = local.processes.Pipe(duplex=False)
    child = local.processes.Process(
        target=_life, args=(sent, scenario, state, groups, moment, kind)
    )
    child.start()
    sent.close()
    try:
        told = received.recv()
    except EOFError:
        told = None
    child.join()
    if isinstance(told, str):
        raise RuntimeError(told)
    if told is None and child.exitcode != -signal.SIGKILL:
        raise RuntimeError(f"the process ended with {child.exitcode}")
    return told


@cache
def steps_of(name: str, groups: int) -> Counter[str]:
    """How many steps a whole run takes, by kind."""
    with scratch_folder() as state:
        count = lived(in_process(name), state, groups)
    assert count is not None
    return count


@cache
def in_process(name: str) -> Scenario:
    """The scenario as a process without Spark runs it: Parquet is the format that needs no JVM."""
    return replace(scenarios()[name], format="parquet")


def killed_process(case: Case) -> Result:
    """Kill a process, and its successors, then let one run to its end."""
    scenario = in_process(case.scenario)
    whole = steps_of(case.scenario, case.groups[0])
    moments: list[str] = []
    with scratch_folder() as state:
        for share, groups, which in zip(case.shares, case.groups, case.kinds, strict=False):
            kind = "" if which is None else sorted(whole)[int(which * len(whole))]
            steps = whole[kind] if kind else whole.total()
            moment = 1 + int(share * steps)
            if lived(scenario, state, groups, moment, kind) is not None:
                break  # a successor has less to do
            moments.append(f"{kind or 'step'} {moment} of {steps}")
        # Also if all was committed: the last results may not have been published.
        lived(scenario, state, case.groups[-1])
        return judged(scenario, state, ", then ".join(moments), len(moments))


def judged(scenario: Scenario, state: Path, moment: str, kills: int) -> Result:
    if not has_ended(state):
        return Result(moment, kills, trouble="it has not ended")
    return Result(moment, kills, *scenario.compare(state))


# --- Spark ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """What a whole run on Spark takes: steps of the driver, hits of failpoints inside tasks."""

    driver: int
    hits: dict[str, int]

    def hit(self, case: Case) -> tuple[str, int]:
        """The failpoint inside a task, and the number of its hit, at which a case kills."""
        reached = sorted(self.hits)
        point = reached[int(case.point * len(reached))]
        return point, 1 + int(case.shares[0] * self.hits[point])


class OnSpark:
    """Cases that need Spark. One session starts queries again, and has workers that are killed."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.counts = folder / "counts"
        self.whole: dict[str, Whole] = {}

    @cached_property
    def spark(self) -> SparkSession:
        return session("local[2,4]")

    def inputs(self, name: str) -> Path:
        folder = self.folder / "inputs" / name
        if not folder.exists():
            scenarios()[name].write_inputs(self.spark, folder)
        return folder

    def state(self, case: Case) -> Path:
        return self.folder / f"case{case.seed}"

    def run(self, case: Case, state: Path, groups: int) -> None:
        finish(
            scenarios()[case.scenario], self.spark.newSession(), self.inputs(case.scenario),
            state, groups,
        )  # fmt: skip

    @contextmanager
    def failing(self, points: Sequence[tuple[str, int]]) -> Iterator[str]:
        """Set failpoints whose hits all processes count together; a hit of number 0 never comes."""
        shutil.rmtree(self.counts, ignore_errors=True)
        self.counts.mkdir(parents=True)
        setting = ",".join(
            [f"{failpoints.SHARED}={self.counts}", *(f"{p}=kill@{hit}" for p, hit in points)]
        )
        os.environ[failpoints.ENV] = setting
        try:
            yield setting
        finally:
            del os.environ[failpoints.ENV]

    def steps(self, case: Case) -> Whole:
        if case.scenario not in self.whole:
            state = self.folder / "whole" / case.scenario
            with self.failing([(p, 0) for p in TASK_POINTS]):
                steps = Steps(state)
                self.run(case, state, COUNTED)
            hits = {p.name: p.stat().st_size for p in self.counts.iterdir()}
            self.whole[case.scenario] = Whole(steps.count, hits)
        return self.whole[case.scenario]

    def killed_drivers(self, cases: Sequence[Case]) -> list[Result]:
        """One driver runs all these queries; when each stands at its step it is killed, with its JVM."""
        held, moments = [], []
        for case in cases:
            whole = self.steps(case).driver
            moments.append(1 + int(case.shares[0] * whole))
            held.append(
                Held(case.scenario, str(self.inputs(case.scenario)), str(self.state(case)),
                     case.groups[0], moments[-1])
            )  # fmt: skip
        task = self.folder / "held.json"
        task.write_text(json.dumps([asdict(h) for h in held]))
        code, text = run_child(
            [sys.executable, "-m", "tests.faults.night_child", str(task)], "", self.folder
        )
        results = []
        for case, moment in zip(cases, moments, strict=True):
            stood = f"standing in {self.state(case)}" in text.splitlines()
            reached = code == -signal.SIGKILL and stood
            at = f"step {moment} of {self.steps(case).driver}"
            results.append(self.restarted(case, at, int(reached)))
        return results

    def restarted(self, case: Case, moment: str, kills: int) -> Result:
        """Start what was killed once more, in this process."""
        scenario, state = scenarios()[case.scenario], self.state(case)
        try:
            self.run(case, state, case.groups[-1])
            return judged(scenario, state, moment, kills)
        except Exception as error:
            traceback.print_exc()
            return Result(moment, kills, trouble=_short(error))
        finally:
            shutil.rmtree(state, ignore_errors=True)

    def killed_machine(self, case: Case) -> Result:
        """Driver, JVM and workers die while a task runs."""
        point, hit = self.steps(case).hit(case)
        state = self.state(case)
        with self.failing([(point, hit)]) as setting:
            arguments = command(
                scenarios()[case.scenario], self.inputs(case.scenario), state, case.groups[0]
            )
            code, _ = run_child(arguments, setting, state)
        return self.restarted(case, f"hit {hit} of {point}", int(code == -signal.SIGKILL))

    def killed_worker(self, case: Case) -> Result:
        """A worker dies, and Spark tries its task again."""
        point, hit = self.steps(case).hit(case)
        state, before = self.state(case), failed_tasks(self.spark)
        try:
            with self.failing([(point, hit)]):
                self.run(case, state, case.groups[0])
            kills = min(1, failed_tasks(self.spark) - before)
            return judged(scenarios()[case.scenario], state, f"hit {hit} of {point}", kills)
        finally:
            shutil.rmtree(state, ignore_errors=True)


def _short(error: BaseException) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}"[:200].replace("|", "/")


# --- the night --------------------------------------------------------------------------------------


class Night:
    """Runs cases until they or the time are at an end, and writes the table as it goes."""

    def __init__(self, cases: Sequence[Case], minutes: float):
        self.cases = cases
        self.until = time.monotonic() + 60 * minutes
        self.table = Table()

    def run(self) -> list[Line]:
        processes = [c for c in self.cases if c.victim == PROCESS]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for part in parts(processes, 20):
                if not self.over():
                    self.add(part, list(pool.map(self.process, part)))
        with tempfile.TemporaryDirectory(prefix="slackwater-night-") as folder:
            spark = OnSpark(Path(folder))
            drivers = [c for c in self.cases if c.victim == DRIVER]
            for part in parts(drivers, TOGETHER):
                if not self.over():
                    self.add(part, spark.killed_drivers(part))
            others = {MACHINE: spark.killed_machine, WORKER: spark.killed_worker}
            for case in self.cases:
                if case.victim in others and not self.over():
                    self.add([case], [self.caught(case, others[case.victim])])
        return list(self.table.lines.values())

    def over(self) -> bool:
        return time.monotonic() > self.until

    def process(self, case: Case) -> Result:
        return self.caught(case, killed_process)

    def caught(self, case: Case, kill: Callable[[Case], Result]) -> Result:
        try:
            return kill(case)
        except Exception as error:
            traceback.print_exc()
            return Result("", 0, trouble=_short(error))

    def add(self, cases: Sequence[Case], results: Sequence[Result]) -> None:
        for case, result in zip(cases, results, strict=True):
            line = self.table.add(result.line(case))
            if line.verdict != "ok":
                print(line, flush=True)
        self.table.write()


def parts(cases: Sequence[Case], size: int) -> Iterator[Sequence[Case]]:
    for start in range(0, len(cases), size):
        yield cases[start : start + size]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make faults-night", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="how many seeds")
    parser.add_argument("--seed", type=int, help="the first seed: these are run in any case")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin nothing after these")
    asked = parser.parse_args(arguments)
    first = asked.seed or 0
    cases = [drawn(s) for s in range(first, first + asked.cases)]
    table = Table.read()
    due = cases if asked.seed is not None else [c for c in cases if table.due(c)]
    print(f"{len(cases)} cases, {len(due)} to run", flush=True)
    begun = time.monotonic()
    lines = Night(due, asked.minutes).run()
    bad = [x for x in lines if x.verdict != "ok"]
    left = len(due) - len(lines)
    took = time.monotonic() - begun
    print(f"{len(lines)} run in {took:.0f} s, {len(bad)} failed, {left} left to run")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
