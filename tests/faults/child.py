"""A driver to be killed: runs one scenario to its end, unless a failpoint or the test stops it.

``python -m tests.faults.child SCENARIO INPUTS STATE GROUPS [worker]``. It leads a process group of its own, which
stands for the machine: a failpoint in a worker kills the whole group, or with ``worker`` only that worker,
whose task is then tried again.

``... STATE GROUPS standing POINT@HIT ...`` runs the scenario once per point, each on ``STATE/POINT``, up to where the
driver stands at that point; when all stand, the group is killed. A start of the JVM costs more than a run.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from slackwater.engine.store import failpoints
from slackwater.surface.session import DAEMON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.faults.scenarios import Scenario


def main(
    name: str, inputs: str, state: str, groups: str, scope: str = "machine", *points: str
) -> None:
    # Before the JVM starts: workers inherit its environment, not ours.
    if scope == "machine":
        os.environ[failpoints.KILL_GROUP] = str(os.getpgrp())
    from tests.faults.scenarios import scenarios

    spark = session("local[2,4]" if scope == "worker" else "local[2]")
    print("ready", flush=True)
    if scope == "standing":
        stand(spark, scenarios()[name], Path(inputs), Path(state), int(groups), points)
    query = scenarios()[name].start(spark, Path(inputs), Path(state), groups=int(groups))
    query.awaitTermination()
    print(f"failed tasks: {failed_tasks(spark)}", flush=True)
    spark.stop()


def session(master: str, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A small session that says nothing, with further settings. ``local[2,4]`` tries a task up to four times."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(master)
        .appName("slackwater-fault")
        .config("spark.driver.memory", "1g")
        .config("spark.python.daemon.module", DAEMON)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.session.timeZone", "UTC")
    )
    for name, value in (conf or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def failed_tasks(spark: SparkSession) -> int:
    """How many attempts at tasks have failed since the session was made."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)  # type: ignore[union-attr]
    return int(executors.head().failedTasks())


def stand(
    spark: SparkSession,
    scenario: Scenario,
    inputs: Path,
    state: Path,
    groups: int,
    points: Sequence[str],
) -> NoReturn:
    """One query after the other, each until it is held up at its point; then kill them all."""
    for item in points:
        point, _, hit = item.partition("@")
        settled = threading.Event()

        def hold(point: str = point, settled: threading.Event = settled) -> NoReturn:
            print(f"standing at {point}", flush=True)
            settled.set()
            while True:
                threading.Event().wait()

        def run(point: str = point, settled: threading.Event = settled) -> None:
            try:
                session = spark.newSession()  # a query's name is unique within its session
                query = scenario.start(session, inputs, state / point, groups=groups)
                query.awaitTermination()
            finally:
                settled.set()  # without a line for the point: it was not reached

        # Those before stand still and hit nothing more, so the setting is this query's alone.
        failpoints.reset()
        failpoints._kill = hold
        os.environ[failpoints.ENV] = f"{point}=kill@{hit}"
        threading.Thread(target=run, daemon=True).start()
        settled.wait()
    os.killpg(os.getpgrp(), signal.SIGKILL)
    raise AssertionError("still alive")


if __name__ == "__main__":
    main(*sys.argv[1:])
