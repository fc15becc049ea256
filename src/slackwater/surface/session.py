"""A local Spark session with settings that suit streams on one machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING

from slackwater.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_NEEDED = 17
# When a query is stopped, Spark matches its error text with a pattern that recurses for each letter.
JAVA_OPTIONS = "-Xss4m"
LOOPBACK = "127.0.0.1"
DAEMON = "slackwater.engine.lowlevel.daemon"
# The second is the first's by default; a local-cluster has executors that are no part of the driver.
_ADDRESSES = ("spark.driver.host", "spark.driver.bindAddress")
_LOCAL = re.compile(r"local(\[.*\])?", re.IGNORECASE)


def session(
    app: str = "slackwater",
    *,
    cores: int | None = None,
    memory: str | None = None,
    conf: dict[str, str] | None = None,
) -> SparkSession:
    """A tuned local SparkSession; any other one works too.

    Parameters
    ----------
    app
        Name of the application.
    cores
        Number of cores, all by default.
    memory
        Memory of the driver, which is also the executor here, e.g. ``"4g"``.
    conf
        Further Spark settings; they win over ours.

    On a ``local`` master nothing listens on an address that other machines can reach, unless ``conf`` says
    ``spark.driver.host`` or ``spark.driver.bindAddress``.

    Examples
    --------
    >>> spark = session(cores=2, memory="2g")        # doctest: +SKIP
    """
    check_java()
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SetupError(
            "NO_PYSPARK",
            "PySpark is not installed",
            hint="pip install 'slackwater[spark]', or install the PySpark of your cluster (4.0 or later)",
        ) from error
    # Workers must run the interpreter that has our packages, not the first python3 on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    count = cores or os.cpu_count() or 2
    given = conf or {}
    master = given.get("spark.master", f"local[{cores or '*'}]")
    settings = {
        "spark.master": master,
        "spark.app.name": app,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(count),
        "spark.default.parallelism": str(count),
        "spark.sql.streaming.numRecentProgressUpdates": "50",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        # Over TCP a Python task of a small batch waits 40 ms for an acknowledgement that the system delays.
        "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
        **({"spark.driver.memory": memory} if memory else {}),
        **_workers(master, given),
        **_addresses(master, given, running=SparkContext._active_spark_context is not None),
        **given,
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _addresses(master: str, given: Mapping[str, str], *, running: bool) -> dict[str, str]:
    """Where the driver listens: on a local master only this machine talks to it.

    Not if the user chose an address, nor in a session that runs already, whose sockets are open.
    PySpark itself talks to the JVM over 127.0.0.1, so that this address is there.
    """
    if running or not _LOCAL.fullmatch(master) or any(k in given for k in _ADDRESSES):
        return {}
    return dict.fromkeys(_ADDRESSES, LOOPBACK)


def _workers(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """What Python workers are forked from: on a local master it imports what tasks need, once for all of them.

    Only if workers run this Python, and this package is installed: it may be on a path that the daemon learns too late.
    A Python without the package would not run a task, and Spark's error would come before ours.
    """
    theirs = given.get("spark.pyspark.python") or os.environ["PYSPARK_PYTHON"]
    if not _LOCAL.fullmatch(master) or (shutil.which(theirs) or theirs) != sys.executable:
        return {}
    try:
        metadata.version("slackwater")
    except metadata.PackageNotFoundError:
        return {}
    return {"spark.python.daemon.module": DAEMON}


def check_java() -> int:
    """The version of the Java that Spark will use; a `SetupError` if there is none that it can."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    hint = (
        f"install Java {JAVA_NEEDED} or later (Debian and Ubuntu: apt-get install "
        f"openjdk-{JAVA_NEEDED}-jre-headless; macOS: brew install openjdk@{JAVA_NEEDED}), "
        "or set JAVA_HOME to it"
    )
    if java is None or not os.path.exists(java):
        where = f"JAVA_HOME is {home}, which has none" if home else "there is no java on the PATH"
        raise SetupError("NO_JAVA", f"Spark needs Java {JAVA_NEEDED} or later: {where}", hint=hint)
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    text = done.stderr + done.stdout
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    version = 0
    if match is not None:
        version = int(match.group(1))
        if version == 1:  # 1.8 is Java 8
            version = int(match.group(2) or 0)
    if version < JAVA_NEEDED:
        raise SetupError(
            "OLD_JAVA",
            f"Spark needs Java {JAVA_NEEDED} or later, but {java} is version {version or 'unknown'}",
            hint=hint,
            java=java,
        )
    return version
