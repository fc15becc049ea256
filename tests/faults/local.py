"""A scenario on the engine without Spark, in a process that may be killed."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pyarrow.parquet as pq

from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.layout import build
from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.model.schema import Field
from slackwater.sinks.base import Sink
from slackwater.sinks.files import ParquetSink
from slackwater.testing.executors.local import numbered
from slackwater.testing.executors.observing import clock_of, table_of
from slackwater.testing.local.run import LocalInput, LocalRun
from tests.faults.scenarios import Scenario, scenarios

# A new process costs a second of imports, a copy of one that has them milliseconds.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.faults.local"])


def finish(scenario: Scenario, state: Path, groups: int) -> None:
    """Start on the checkpoint and the sinks below ``state``, and run to the end. The sinks write Parquet.

    As Spark does, it begins with the newest batch once more: it does not know that this one was published.
    """
    transcript = scenario.transcript
    sources, outputs = numbered(transcript)

    def sink(name: str, fields: tuple[Field, ...]) -> Sink:
        return ParquetSink(name, fields, str(state / "sink" / name.removeprefix("out_")))

    run = LocalRun(
        state, build(outputs, ansi=True, zone="UTC", window_plan="auto"),
        [LocalInput(s.schema, s.name in scenario.splits) for s in sources],
        clock=clock_of(transcript), settings=Settings(compact_runs=scenario.runs), sink=sink,
    )  # fmt: skip
    steps = transcript.batches[:-1]  # the last one ends the streams
    for number, step in enumerate(steps):
        files = {}
        for i, source in enumerate(sources):
            if source.name in step.rows:
                path = Path(run.inputs[i].path) / f"{number}.parquet"
                if not path.exists():  # a file that was changed would be noticed
                    path.parent.mkdir(exist_ok=True)
                    pq.write_table(table_of(source, step.rows[source.name]), path)
                files[i] = [str(path)]
        run.host.batches.append(files)
    last = manifests.last(Checkpoint(str(state / "checkpoint")))
    run.done = 0 if last is None else last.batch
    run.start(groups)
    try:
        while run.done < len(steps):
            run.step()
        run.step(final=True)
    finally:
        run.stop()


def kill_at(scenario: Scenario, state: Path, point: str, hit: int, groups: int = 2) -> int:
    """The code with which a process ended that kills itself at a failpoint; negative: the signal."""
    child = processes.Process(target=_run, args=(scenario.name, state, point, hit, groups))
    child.start()
    child.join()
    assert child.exitcode is not None
    return child.exitcode


def _run(name: str, state: Path, point: str, hit: int, groups: int) -> None:
    os.environ[failpoints.ENV] = f"{point}=kill@{hit}"
    finish(scenarios()[name], state, groups)
