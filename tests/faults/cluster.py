"""A standalone master of Spark with workers on this machine, whose executors can be killed.

PySpark's wheel has no start scripts, so that the servers are started by their classes. Each worker leads a process group of its own,
which stands for a machine: a failpoint in a task kills the worker and its executor (`failpoints.KILL_GROUP`).
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from slackwater.engine.store import failpoints
from slackwater.engine.store.kept import FOLDER

LOOPBACK = "127.0.0.1"
LONGEST = 90.0
"""Seconds until a server listens, or an executor is there."""

EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass
class Cluster:
    """A master's address, and its workers with the folders of their executors."""

    folder: Path
    url: str
    master: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def local(self, worker: int) -> Path:
        """Where executors of a worker have their directories."""
        return self.folder / f"local-{worker}"

    def executors(self, worker: int) -> list[int]:
        """The processes of a worker's executors."""
        found = []
        for pid in _children(self.workers[worker].pid):
            try:
                text = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if EXECUTOR.encode() in text:
                found.append(pid)
        return found

    def homes(self, worker: int) -> list[Path]:
        """What each executor of a worker keeps, those that died as well."""
        return sorted(self.local(worker).glob(f"spark-*/executor-*/blockmgr-*/{FOLDER}"))

    def stop(self) -> None:
        for server in (*self.workers, self.master):
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and workers of one core each, below ``folder``; they end with the block."""
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        port = one.getsockname()[1]
    place = ["--host", LOOPBACK, "--webui-port", "0"]
    master = _server(folder, "master", ["master.Master", *place, "--port", str(port)])
    cluster = Cluster(folder, f"spark://{LOOPBACK}:{port}", master)
    try:
        _wait(lambda: _listens(port))
        for number in range(workers):
            arguments = ["worker.Worker", *place, "--cores", "1", "--memory", "1g"]
            arguments += ["--work-dir", str(folder / f"work-{number}"), cluster.url]
            local = cluster.local(number)
            cluster.workers.append(_server(folder, f"worker-{number}", arguments, local))
        yield cluster
    finally:
        cluster.stop()


def _server(
    folder: Path, name: str, arguments: list[str], local: Path | None = None
) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}"]
    text = shlex.join([*command, *arguments[1:]])
    names = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "256m"}
    if local is not None:
        local.mkdir(parents=True)
        names["SPARK_LOCAL_DIRS"] = str(local)
    with open(folder / f"{name}.log", "wb") as log:
        return subprocess.Popen(
            ["/bin/sh", "-c", f"export {failpoints.KILL_GROUP}=$$; exec {text}"],
            env={**os.environ, **names},
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), 1).close()
    except OSError:
        return False
    return True


def _wait(ready: object) -> None:
    end = time.monotonic() + LONGEST
    while not ready():  # type: ignore[operator]
        assert time.monotonic() < end, "a server of Spark did not come up"
        time.sleep(0.1)


def _children(parent: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue  # it has ended
        if int(stat.rpartition(")")[2].split()[1]) == parent:
            pid = int(entry.name)
            found += [pid, *_children(pid)]
    return found
