"""The session that ``sw.session`` makes: who can talk to it."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import pytest

import slackwater as sw
from slackwater.surface.session import DAEMON, _addresses

BOTH = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]", "LOCAL[*]"])
def test_a_local_session_is_bound_to_loopback_unless_conf_says_otherwise(master: str):
    assert _addresses(master, {}, running=False) == BOTH
    for key in BOTH:
        assert _addresses(master, {key: "10.0.0.1"}, running=False) == {}
    assert _addresses(master, {}, running=True) == {}


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "k8s://h", "local-cluster[2,1,1024]"])
def test_with_another_master_nothing_changes(master: str):
    assert _addresses(master, {}, running=False) == {}


def test_workers_of_a_local_session_are_forked_from_a_process_that_has_their_modules(
    monkeypatch: pytest.MonkeyPatch,
):
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    others = ({"spark.master": "yarn"}, {"spark.pyspark.python": "/opt/another/python"})
    for conf, daemon in (({}, DAEMON), *((c, None) for c in others)):
        builder = Builder()
        monkeypatch.setattr(pyspark.sql.SparkSession, "builder", builder)
        sw.session(conf=conf)
        assert builder.settings.get("spark.python.daemon.module") == daemon
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/another/python")
    sw.session()
    assert builder.settings.get("spark.python.daemon.module") is None
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setattr(metadata, "version", not_installed)
    sw.session()
    assert builder.settings.get("spark.python.daemon.module") is None


def not_installed(name: str) -> str:
    raise metadata.PackageNotFoundError(name)


@pytest.mark.parametrize("said", [b"", b"\0\0"], ids=["nothing", "half a word"])
def test_a_worker_says_nothing_where_nobody_listens_any_more(said: bytes):
    """As where the JVM ends while workers wait: whether they see that, or are killed first, is chance."""
    daemon = Daemon()
    with daemon.connected() as waits:
        for _ in range(3):
            with daemon.connected() as gone:
                gone.sendall(said)
        waits.sendall(b"\0" * 3)
    assert daemon.ended() == ""


def test_other_errors_of_workers_are_shown():
    code = (
        f"import {DAEMON} as d, pyspark.daemon; pyspark.daemon.worker = lambda *_: 1 / 0; d.main()"
    )
    daemon = Daemon(code)
    with daemon.connected() as connection:
        assert connection.recv(1) == b""
    assert "ZeroDivisionError" in daemon.ended()


class Daemon:
    """What workers are forked from, started as Spark does it."""

    def __init__(self, code: str = ""):
        # a path of a test would be too long for a socket
        self.folder = tempfile.TemporaryDirectory(prefix="sw-")
        settings = {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": self.folder.name}  # fmt: skip
        what = ["-c", code] if code else ["-m", DAEMON, "pyspark.worker"]
        self.process = subprocess.Popen(
            [sys.executable, *what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **settings, "SPARK_REUSE_WORKER": "1"},
        )  # fmt: skip
        assert self.process.stdout is not None
        length = int.from_bytes(self.process.stdout.read(4), "big")
        self.place = self.process.stdout.read(length).decode()

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        """A worker, which has said that it is there."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.place)
            connection.settimeout(30)
            worker = int.from_bytes(connection.recv(4), "big")
            yield connection
        while Path(f"/proc/{worker}").exists():
            time.sleep(0.01)

    def ended(self) -> str:
        """What it has printed as an error when Spark has ended."""
        shown = self.process.communicate(timeout=30)[1].decode()
        self.folder.cleanup()
        return shown


def test_what_workers_are_forked_from_has_no_connection_and_no_thread():
    """Nor does a worker import any more: the kernels and the column engine are there."""
    pytest.importorskip("pyspark")
    code = (
        f"import json, sys, threading, {DAEMON}; from slackwater.kernels import column_engine; "
        "print(json.dumps([threading.active_count(), len(column_engine._roots), sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    threads, connections, modules = json.loads(done.stdout)
    assert (threads, connections) == (1, 0)
    assert {
        "duckdb",
        "pyarrow.parquet",
        "numpy",
        "slackwater.kernels.windows.partials_step",
    } <= set(modules)


class Builder:
    """Notes the settings of the session that it is asked for."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def config(self, key: str, value: str) -> Builder:
        self.settings[key] = value
        return self

    def getOrCreate(self) -> Builder:
        return self


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("conf", [{}, {"spark.driver.host": "h"}, {"spark.master": "yarn"}])
def test_only_a_new_local_session_is_bound(
    running: bool, conf: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    pyspark = pytest.importorskip("pyspark")
    builder = Builder()
    monkeypatch.setattr(pyspark.sql.SparkSession, "builder", builder)
    context = object() if running else None
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", context)
    sw.session(conf=conf)
    addresses = {k: v for k, v in builder.settings.items() if k in BOTH}
    if running or conf:
        assert addresses == {k: v for k, v in conf.items() if k in BOTH}
    else:
        assert addresses == BOTH


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="sockets are looked up in /proc")
def test_nothing_listens_for_other_machines():
    root = Path(__file__).parents[2]
    # SPARK_LOCAL_IP says where Spark would listen by itself.
    environment = {**os.environ, "SPARK_LOCAL_IP": "0.0.0.0"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.surface.listening", "{}"],
        cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    addresses = json.loads(done.stdout.splitlines()[0])
    assert addresses and all(ipaddress.ip_address(a).is_loopback for a in addresses)
