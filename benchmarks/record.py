"""What all benchmarks write down: when, on which commit, on what machine, with which versions; and lines to follow a run by."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BEGIN = time.perf_counter()


def say(text: str) -> None:
    """A progress line with the seconds since the start."""
    print(f"[{time.perf_counter() - BEGIN:5.0f} s] {text}", flush=True)


def heading(*, quick: bool, **settings: Any) -> dict[str, Any]:
    """What a document of results begins with."""
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(),
        "settings": {"quick": quick, **settings},
    }


CODE = ("src", "benchmarks", ":!benchmarks/results")
"""What figures depend on."""
CHANGED = "with uncommitted changes"
UNKNOWN = "not recorded"


def commit(root: Path = ROOT) -> str:
    """The commit of the code that is measured; a tree whose code differs from it says so."""
    try:
        git = ["git", "-C", str(root)]
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], **_TEXT).stdout.strip()
        changes = subprocess.run([*git, "status", "--porcelain", "--", *CODE], **_TEXT).stdout
    except (OSError, subprocess.CalledProcessError):
        return f"{UNKNOWN}: the tree is no git repository"
    return f"{head} {CHANGED}" if changes.strip() else head


_TEXT: Any = {"check": True, "capture_output": True, "text": True}


def measured(found: dict[str, Any]) -> str:
    """When and on which commit, as pages say it."""
    return f"Measured on {found['date']} (commit {found['commit']})"


def machine() -> dict[str, Any]:
    """Cores and memory; nothing that names the machine."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cores": os.cpu_count(), "memory_gb": round(pages / 2**30)}


def versions() -> dict[str, str]:
    """Versions of what takes part."""
    names = ("slackwater", "pyspark", "pyarrow", "duckdb", "numpy")
    return {**{n: version(n) for n in names}, "python": platform.python_version()}


def file_name(name: str, *, quick: bool) -> str:
    """A quick run has files of its own, which git does not know: it must not replace figures."""
    return f"{name}-quick" if quick else name


def folder(*, quick: bool) -> Path:
    """Where pages and pictures go."""
    return RESULTS if quick else ROOT / "docs"


def store(name: str, found: dict[str, Any], *, quick: bool) -> None:
    """Write the numbers themselves."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    target = RESULTS / f"{file_name(name, quick=quick)}.json"
    target.write_text(json.dumps(found, indent=1, default=float) + "\n")
    written(target)


def written(target: Path) -> None:
    """Say which file was written."""
    say(f"written: {target.relative_to(ROOT)}")
