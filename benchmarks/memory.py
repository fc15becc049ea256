"""Memory of a process and all it started, sampled from /proc while a run goes on in a child process.

The figure is the sum of proportional set sizes (PSS): resident memory in which a page that several processes
share counts once. Summed resident set sizes would count pages of forked Python workers many times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INTERVAL_SECONDS = 0.2
PROC = Path("/proc")


@dataclass
class Peak:
    """Largest sums seen, in bytes, and how the largest was made up (program name to bytes)."""

    pss: int = 0
    rss: int = 0
    by_program: dict[str, int] | None = None


def tree(root: int) -> list[int]:
    """Ids of a process and all its descendants that live now."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue  # it has ended
        parent = int(stat.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo.extend(children.get(pid, []))
    return found


def sizes(pid: int) -> tuple[int, int, str] | None:
    """(PSS, RSS, program) of a process in bytes, or None if it has ended."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
        program = (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return None
    found = dict.fromkeys(("Pss", "Rss"), 0)
    for line in lines:
        name, _, rest = line.partition(":")
        if name in found:
            found[name] = int(rest.split()[0]) * 1024
    return found["Pss"], found["Rss"], program


class Watch(threading.Thread):
    """Samples the tree of ``root`` until `finish`."""

    def __init__(self, root: int):
        super().__init__(daemon=True)
        self.root = root
        self.peak = Peak()
        self._stop_now = threading.Event()

    def run(self) -> None:
        """Sample now and then, keep the largest."""
        while not self._stop_now.is_set():
            self.sample()
            self._stop_now.wait(INTERVAL_SECONDS)

    def sample(self) -> None:
        """One look at the tree."""
        found = [s for pid in tree(self.root) if (s := sizes(pid)) is not None]
        pss = sum(s[0] for s in found)
        self.peak.rss = max(self.peak.rss, sum(s[1] for s in found))
        if pss > self.peak.pss:
            by_program: dict[str, int] = {}
            for size, _, program in found:
                by_program[program] = by_program.get(program, 0) + size
            self.peak.pss, self.peak.by_program = pss, by_program

    def finish(self) -> Peak:
        """Stop sampling; the peak."""
        self._stop_now.set()
        self.join()
        return self.peak


def run_child(job: dict[str, Any], log: Path) -> tuple[dict[str, Any], Peak]:
    """Run ``benchmarks.child`` with a job; its answer and the peak of its tree."""
    log.parent.mkdir(parents=True, exist_ok=True)
    answer = log.with_suffix(".answer.json")
    answer.unlink(missing_ok=True)
    with log.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.child", json.dumps(job), str(answer)],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=Path(__file__).resolve().parent.parent,
            env=dict(os.environ),
        )
        watch = Watch(child.pid)
        watch.start()
        try:
            code = child.wait()
        except BaseException:
            child.terminate()
            raise
        finally:
            peak = watch.finish()
    if code != 0 or not answer.exists():
        raise RuntimeError(f"a run in a child process failed, see {log}")
    return json.loads(answer.read_text()), peak
