"""``python -m benchmarks.bounded_step COMMIT``: the CPU time of a bounded join's steps beside an earlier commit, in turns, without Spark.

One process is one partition-group of two over the rows of a join case. CPU time tells more than the clock on a machine that others use.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean, median

from benchmarks.between import checked_out
from benchmarks.record import ROOT, say
from benchmarks.tables import plain

CASES = {"bounded-270s": 5_600_000, "400k-30s": 128 << 20}
"""Names of join cases, with bytes of memory of a group: a window of nine times that, and windows that fit."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bounded_step", description=__doc__)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("--cases", default=",".join(CASES), help="names of cases")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--scratch", default=".bench", help="state files (default: .bench)")
    options = parser.parse_args()
    scratch, rows = Path(options.scratch).absolute(), []
    with checked_out(options.commit, scratch) as before:
        for case in options.cases.split(","):
            taken: dict[Path, list[list[float]]] = {before: [], ROOT: []}
            sums = set()
            for number in range(options.rounds):
                for root in list(taken)[:: 1 if number % 2 == 0 else -1]:
                    found = _round(root, case, scratch)
                    taken[root].append(found["seconds"])
                    sums.add(found["results"])
                now, then = (mean(taken[r][-1]) for r in (ROOT, before))
                say(f"{case}, round {number + 1}: before {then:.3f} s, now {now:.3f} s")
            assert len(sums) == 1, f"the two gave other results: {sums}"
            rows.append(_row(case, *(taken[r] for r in (before, ROOT))))
    head = ["case", "before: CPU s a batch", "now: CPU s a batch", "now / before", "rounds"]
    print(plain(head, rows))


def _round(root: Path, case: str, scratch: Path) -> dict[str, list[float]]:
    """CPU seconds of each warm batch, and a sum over all results."""
    code = Path(__file__).with_name("bounded_step_child.py").read_text(encoding="utf-8")
    path = f"{root / 'src'}{os.pathsep}{root}"
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, case, str(CASES[case]), str(scratch)],
        cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


def _row(case: str, before: list[list[float]], now: list[list[float]]) -> list[str]:
    times = [[mean(r) for r in rounds] for rounds in (before, now)]
    ratios = [b / a for a, b in zip(*times, strict=True)]
    medians = [f"{median(t):.3f} ({min(t):.3f} to {max(t):.3f})" for t in times]
    return [case, *medians, f"{median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"]


if __name__ == "__main__":
    main()
