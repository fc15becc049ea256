"""A driver with several queries, each held up at a step of its own; then all of it is killed.

``python -m tests.faults.night_child HELD.json``: the file is a list of `Held`. A start of the JVM costs more than a run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tests.faults.child import session
from tests.faults.scenarios import scenarios
from tests.faults.steps import Steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Held:
    """A query that is to stand at a step of its driver."""

    scenario: str
    inputs: str
    state: str
    groups: int
    moment: int


def main(path: str) -> NoReturn:
    spark = session("local[2]")
    for item in json.loads(Path(path).read_text()):
        hold(spark, Held(**item))
    os.killpg(os.getpgrp(), signal.SIGKILL)
    raise AssertionError("still alive")


def hold(spark: SparkSession, held: Held) -> None:
    """Run one query until it stands at its step. It never goes on, and hits nothing more."""
    settled = threading.Event()

    def stand() -> NoReturn:
        print(f"standing in {held.state}", flush=True)
        settled.set()
        while True:
            threading.Event().wait()

    def run() -> None:
        try:
            own = spark.newSession()  # a query's name is unique within its session
            query = scenarios()[held.scenario].start(
                own, Path(held.inputs), Path(held.state), groups=held.groups
            )
            query.awaitTermination()
        finally:
            settled.set()  # without a line for the query: the step was not reached

    Steps(Path(held.state), held.moment, stand)
    threading.Thread(target=run, daemon=True).start()
    settled.wait()


if __name__ == "__main__":
    main(sys.argv[1])
