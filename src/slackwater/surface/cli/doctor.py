"""``slackwater doctor``: what a query needs of this machine, what is missing, and what helps."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from slackwater import __version__
from slackwater.errors import SetupError

ROOM_NEEDED = 1 << 30
_ASKED = (
    "import json, sys, importlib.util as u;"
    "print(json.dumps([list(sys.version_info[:2]), [m for m in {names!r} if u.find_spec(m) is None]]))"
)
_IMPORTED = ("slackwater", "pyspark", "pyarrow", "numpy", "duckdb")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; ``help`` is empty if it is as it should be."""

    name: str
    ok: bool
    text: str
    help: str = ""


def findings() -> list[Finding]:
    """All that is looked at; Spark is not started."""
    return [_python(), _java(), _pyspark(), _workers(), *_disks()]


def _python() -> Finding:
    return Finding("Python", True, f"{platform.python_version()}, slackwater {__version__}, {sys.executable}")  # fmt: skip


def _java() -> Finding:
    from slackwater.surface.session import check_java

    home = os.environ.get("JAVA_HOME")
    try:
        version = check_java()
    except SetupError as error:
        return Finding("Java", False, error.message, error.hint)
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    return Finding("Java", True, f"{version}, {java}")


def _pyspark() -> Finding:
    way = "pip install 'slackwater[spark]', or install the PySpark of your cluster (4.0 or later)"
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return Finding("PySpark", False, "it is not installed", way)
    if int(version.partition(".")[0]) < 4:
        return Finding("PySpark", False, f"{version} is older than 4.0", way)
    return Finding("PySpark", True, version)


def _workers() -> Finding:
    """The Python that Spark starts for tasks: it must have our packages, and be of the driver's version."""
    name = "workers' Python"
    given = os.environ.get("PYSPARK_PYTHON", sys.executable)
    path = shutil.which(given)
    way = f"set PYSPARK_PYTHON={sys.executable}, or unset it"
    if path is None:
        return Finding(name, False, f"PYSPARK_PYTHON is {given}, which cannot be run", way)
    command = [path, "-c", _ASKED.format(names=_IMPORTED)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        version, lacking = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Finding(name, False, f"{path} is no Python that runs: {error}", way)
    if tuple(version) != sys.version_info[:2]:
        shown, own = ".".join(map(str, version)), ".".join(map(str, sys.version_info[:2]))
        return Finding(name, False, f"{path} is {shown}, and the driver's is {own}", way)
    if lacking:
        packages = ", ".join(lacking)
        return Finding(name, False, f"{path} lacks {packages}", f"{way}, or install them there: {path} -m pip install slackwater")  # fmt: skip
    return Finding(name, True, f"{'.'.join(map(str, version))}, {path}")


def _disks() -> list[Finding]:
    """Room where checkpoints and Spark's scratch files go by default."""
    scratch = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    return [
        _disk("scratch disk", Path(scratch), "set SPARK_LOCAL_DIRS or TMPDIR to a directory with room"),
        _disk("working directory", Path.cwd(), "make room, or put checkpoint and outputs elsewhere"),
    ]  # fmt: skip


def _disk(name: str, folder: Path, way: str) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(name, False, f"{folder} cannot be used: {error.strerror}", way)
    if not os.access(folder, os.W_OK):
        return Finding(name, False, f"{folder} cannot be written", way)
    text = f"{free / (1 << 30):,.1f} GiB free in {folder}"
    return Finding(name, free >= ROOM_NEEDED, text, "" if free >= ROOM_NEEDED else way)


def as_document(made: list[Finding]) -> dict[str, Any]:
    """For programs."""
    return {"ok": all(f.ok for f in made), "findings": [asdict(f) for f in made]}


def as_text(made: list[Finding]) -> str:
    """For people."""
    width = max(len(f.name) for f in made)
    lines = []
    for f in made:
        lines.append(f"{'ok     ' if f.ok else 'MISSING'}  {f.name.ljust(width)}  {f.text}")
        if f.help:
            lines.append(f"{' ' * (width + 11)}to fix: {f.help}")
    return "\n".join(lines)
