"""An executor dies while a query joins a table in segments, on a standalone master with two workers of one core.

The table is switched while the query runs. Which one each batch took is told by the manifests, and the output must be that of these.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.store import failpoints, kept
from slackwater.engine.store.versions import version_id
from slackwater.sources.tables import ParquetTable
from tests.faults.child import session
from tests.faults.cluster import LONGEST, Cluster, standalone
from tests.faults.killing import ROOT, environment
from tests.faults.table import Table
from tests.faults.test_relation_kills import BATCHES, DISK, MEMORY, difference, on_spark, show

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SCENARIO = "relation in segments, two machines"
"""Of its lines in the table of faults."""

DIED = "an executor died"
"""Name of the file by which the test tells the driver."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with standalone(tmp_path) as made:
        yield made


def checked(state: Path) -> tuple[int, int]:
    """What the output lacks and has too often, against that of the tables that batches took."""
    known = {
        version_id(ParquetTable("d", str(folder), ()).look()): int(folder.name.removeprefix("table-"))
        for folder in state.glob("table-*")
    }  # fmt: skip
    batches = [(rows, known[version]) for rows, version in json.loads((state / "taken").read_text())]  # fmt: skip
    assert sum(rows > 0 for rows, _ in batches) == BATCHES
    taken = [number for _, number in batches]
    assert len(set(taken)) > 1, "no table was switched while the query ran"
    return difference(state, taken, [n for n, (rows, _) in enumerate(batches) if not rows])


def run(cluster: Cluster, folder: Path, setting: str, disk: int, at: Callable[[Path], None]) -> str:
    """Run a query in a driver of its own, switch its table, and call ``at`` again and again; what the driver said."""
    (folder / "hits").mkdir()
    with open(folder / "driver.log", "w+") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", __name__, cluster.url, str(folder), str(disk)],
            env=environment(setting),
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            number, end = 0, time.monotonic() + 4 * LONGEST
            while driver.poll() is None:
                assert time.monotonic() < end, "the query does not end"
                for state in (folder / "first", folder / "second"):
                    if (state / "table").exists():
                        number += 1
                        show(state, number % 5)
                at(folder)
                time.sleep(0.2)
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
            code = driver.wait()
        log.seek(0)
        text = log.read()
    assert code == 0, text[-3000:]
    return text


def check(table: Table, folder: Path, text: str, case: str) -> None:
    """Both queries are exact, executors died, and what others kept was met."""
    found = [checked(folder / name) for name in ("first", "second")]
    lost, twice = (sum(counts) for counts in zip(*found, strict=True))
    line = table.add(SCENARIO, case, figure(text, "dead executors"), lost, twice)
    assert line.verdict == "ok", f"{line}\n{text[-3000:]}"
    assert figure(text, "hits")


def figure(text: str, name: str) -> int:
    found = re.findall(rf"^{name}: (\d+)$", text, re.M)
    return int(found[-1])


@pytest.mark.spec("XJ-F57")
@pytest.mark.line(SCENARIO, "{point}, relationDisk {disk}")
@pytest.mark.parametrize("disk", [DISK, 0])
@pytest.mark.parametrize("point", ["task.run.after", "task.output.after"])
def test_a_machine_dies_in_a_task(
    point: str, disk: int, cluster: Cluster, tmp_path: Path, table: Table
) -> None:
    """Worker, executor and Python processes are gone at once, and with them what they kept and their part of a shuffle."""
    setting = f"{point}=kill@6,{failpoints.SHARED}={tmp_path / 'hits'}"

    def tell(folder: Path) -> None:
        if any(w.poll() is not None for w in cluster.workers):
            (folder / DIED).touch()

    text = run(cluster, tmp_path, setting, disk, tell)
    assert [w.poll() is None for w in cluster.workers].count(True) == 1
    check(table, tmp_path, text, f"{point}, relationDisk {disk}")


@pytest.mark.line(SCENARIO, "executor only")
def test_what_an_executor_kept_that_died_is_swept_by_the_next_one(
    cluster: Cluster, tmp_path: Path, table: Table
) -> None:
    """Its worker starts another one, which finds the directory once nobody has used it for long."""
    dead: list[Path] = []
    swept: list[Path] = []

    def kill(folder: Path) -> None:
        if not dead:
            done = list((folder / "first" / "checkpoint").glob("slackwater/manifests/[0-9]*.json"))
            homes = [h for h in cluster.homes(0) if any(h.glob("*/segments-d/*@0"))]
            running = cluster.executors(0)
            if len(done) >= 2 and homes and running:
                for pid in running:
                    os.kill(pid, signal.SIGKILL)
                dead.extend(homes)
                aged(homes[0])
                (folder / DIED).touch()
        # The worker itself removes the whole directory when the application ends.
        if dead and not swept and not dead[0].exists() and dead[0].parent.exists():
            swept.extend(dead)

    text = run(cluster, tmp_path, "", DISK, kill)
    check(table, tmp_path, text, "executor only")
    assert dead and swept == dead


def aged(home: Path) -> None:
    """As if nobody had used it for long."""
    then = time.time() - kept.UNUSED_SECONDS - 60
    for inner, _, _ in os.walk(home):
        os.utime(inner, (then, then))


# --- the driver ------------------------------------------------------------------------------------


def main(master: str, folder: Path, disk: int) -> None:
    """One query in which an executor dies, and one when another one is there or the death is known."""
    options = {"relationForm": "segments", "relationDisk": disk}
    conf = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.driver.host": "127.0.0.1"}  # fmt: skip
    spark = session(master, conf)
    status: Any = spark.sparkContext._jsc.sc().statusStore()  # type: ignore[union-attr]

    def executors(*, live: bool) -> int:
        listed = status.executorList(live)
        return sum(listed.apply(i).id() != "driver" for i in range(listed.size()))

    wait(lambda: executors(live=True) == 2)
    hits = 0
    for name in ("first", "second"):
        query = on_spark(spark, folder / name, MEMORY, options)
        query.awaitTermination()
        records = query.recentProgress
        hits += sum(r["relations"]["d"]["hits"] for r in records)
        taken = [(r["numInputRows"], r["relations"]["d"]["version"]) for r in records]
        (folder / name / "taken").write_text(json.dumps(taken))
        if name == "first":
            wait((folder / DIED).exists)
            wait(lambda: executors(live=False) > executors(live=True))
            end = time.monotonic() + 15
            while executors(live=True) < 2 and time.monotonic() < end:
                time.sleep(0.2)  # a machine that is gone does not come back
    print(f"hits: {hits}")
    print(f"dead executors: {executors(live=False) - executors(live=True)}", flush=True)
    spark.stop()


def wait(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + LONGEST
    while not ready():
        assert time.monotonic() < end, "nothing happens"
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
