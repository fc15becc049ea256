"""``python -m benchmarks.between COMMIT``: this tree beside an earlier commit, in turns, over the same files.

Each of the two has a process with a Spark session of its own, which runs the benchmarks' own contenders. One round
of the one follows a round of the other, so that a machine that slows down slows both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks import cases as window_cases
from benchmarks import join_cases
from benchmarks.cases import OURS
from benchmarks.record import ROOT, say
from benchmarks.tables import plain

CONTENDERS = {*OURS, join_cases.BOUNDED}
ANSWER = "answer: "
GIT = ("git", "-C", str(ROOT))


@dataclass(frozen=True)
class Row:
    """One contender in one case of a benchmark."""

    benchmark: str
    case: str
    contender: str

    def __str__(self) -> str:
        return f"{self.benchmark} {self.case} {self.contender}"


@dataclass
class Tree:
    """One side: a process that runs the rounds it is asked for.

    With ``memory`` the bounded contender gets so many bytes per group, else what its case says. With ``tasks`` the time of the group tasks of joins
    is measured, added up, instead of that of whole batches.
    """

    process: subprocess.Popen[str]
    memory: int | None = None
    tasks: bool = False
    rounds: dict[Row, list[float]] = field(default_factory=dict)

    def run(self, row: Row, *, warm_up: bool = False) -> float:
        """Median seconds of a warm batch of one round; the answer was compared with the right one."""
        assert self.process.stdin is not None and self.process.stdout is not None
        order = {"benchmark": row.benchmark, "case": row.case, "contender": row.contender}
        how = {"warm_up": warm_up, "memory": self.memory, "tasks": self.tasks}
        self.process.stdin.write(json.dumps({**order, **how}) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(ANSWER):
                seconds = float(line.removeprefix(ANSWER))
                if not warm_up:
                    self.rounds.setdefault(row, []).append(seconds)
                return seconds
        raise SystemExit(f"the process for {row} ended with {self.process.wait()}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.between", description=__doc__)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("--benchmark", choices=["windows", "joins"], help="both unless given")
    parser.add_argument("--cases", help="parts of case names, e.g. 2m-60s-5s,10m")
    parser.add_argument(
        "--memory", type=int, help="bounded joins alone, with so many bytes a group"
    )
    parser.add_argument(
        "--tasks", action="store_true", help="time the group tasks of joins, not batches"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--heap", default="4g", help="memory of each JVM (default: 4g)")
    parser.add_argument("--scratch", default=".bench", help="data and outputs (default: .bench)")
    options = parser.parse_args()
    scratch = Path(options.scratch).absolute()
    rows = list(chosen(options.benchmark, options.cases, bounded=options.memory is not None))
    if not rows:
        parser.error(f"no case has {options.cases!r} in its name")
    verified = [*GIT, "rev-parse", "--verify", "--quiet", f"{options.commit}^{{commit}}"]
    if subprocess.run(verified, stdout=subprocess.DEVNULL, check=False).returncode:
        parser.error(f"{options.commit!r} is no commit of this repository")
    with ExitStack() as stack:
        before = stack.enter_context(checked_out(options.commit, scratch))
        sides = {
            name: Tree(
                stack.enter_context(child(root, scratch, name, options.heap)),
                options.memory,
                options.tasks,
            )
            for name, root in (("before", before), ("now", ROOT))
        }
        for row in rows:
            for side in sides.values():
                side.run(row, warm_up=True)
            for number in range(options.rounds):
                # The one that begins changes: what a round leaves in caches helps both.
                order = list(sides) if number % 2 == 0 else list(sides)[::-1]
                taken = {name: sides[name].run(row) for name in order}
                text = ", ".join(f"{name} {taken[name]:.3f} s" for name in sides)
                say(f"{row}, round {number + 1} of {options.rounds}: {text}")
        print(table(rows, sides["before"].rounds, sides["now"].rounds))


def chosen(benchmark: str | None, only: str | None, *, bounded: bool = False) -> Iterator[Row]:
    """Our contenders in the cases whose names have any of the parts; or bounded joins in the cases of joins."""
    if bounded:
        cases = (c for c in join_cases.FULL if _named(c.name, only))
        yield from (Row("joins", c.name, join_cases.BOUNDED) for c in cases)
        return
    if benchmark in (None, "windows"):
        for case in window_cases.FULL:
            if _named(case.name, only):
                yield from (
                    Row("windows", case.name, c) for c in case.contenders if c in CONTENDERS
                )
    if benchmark in (None, "joins"):
        for join in join_cases.FULL:
            if _named(join.name, only):
                yield from (Row("joins", join.name, c) for c in join.contenders if c in CONTENDERS)


def _named(name: str, only: str | None) -> bool:
    return only is None or any(part in name for part in only.split(","))


def table(rows: list[Row], before: dict[Row, list[float]], now: dict[Row, list[float]]) -> str:
    """Medians over the rounds and the least and greatest of them; the ratio of each pair of rounds."""
    lines = []
    for row in rows:
        ratios = [b / a for a, b in zip(before[row], now[row], strict=True)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        times = [f"{median(t):.3f} ({min(t):.3f} to {max(t):.3f})" for t in (before[row], now[row])]
        lines.append([str(row), *times, f"{median(ratios):.2f}", spread])
    head = [
        "benchmark, case, contender",
        "before: s a batch",
        "now: s a batch",
        "now / before",
        "rounds",
    ]
    return plain(head, lines)


@contextmanager
def checked_out(commit: str, scratch: Path) -> Iterator[Path]:
    """A tree of the commit, which is removed at the end."""
    folder = scratch / "before"
    scratch.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [*GIT, "worktree", "add", "--force", "--detach", str(folder), commit], check=True
    )
    try:
        yield folder
    finally:
        subprocess.run([*GIT, "worktree", "remove", "--force", str(folder)], check=True)


@contextmanager
def child(root: Path, scratch: Path, name: str, heap: str) -> Iterator[subprocess.Popen[str]]:
    """A process that imports package and benchmarks of a tree."""
    code = Path(__file__).with_name("between_child.py").read_text(encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(scratch), name, heap],
        cwd=root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.communicate()  # its input ends, and so does it


if __name__ == "__main__":
    main()
