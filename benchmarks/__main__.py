"""``python -m benchmarks [windows|growth|joins|experiments]``; without a name all of them."""

from __future__ import annotations

import argparse

from benchmarks import feedback, growth, join_experiments, joins, quality, relations, windows
from benchmarks.experiments import page as experiments

BENCHMARKS = {
    "windows": windows.main,
    "growth": growth.main,
    "joins": joins.main,
    "experiments": experiments.main,
    "join-experiments": join_experiments.main,
    "quality": quality.main,
    "relations": relations.main,
    "feedback": feedback.main,
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    found.add_argument("name", nargs="?", choices=[*BENCHMARKS, "all"], default="all")
    found.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    found.add_argument(
        "--cases", help="parts of case names, e.g. 2m-60s-5s,10m; names of experiments"
    )
    found.add_argument("--rounds", type=int, help="in place of each case's own number")
    found.add_argument("--heap", default="4g", help="memory of the driver's JVM (default: 4g)")
    found.add_argument("--no-memory", action="store_true", help="do not measure memory")
    found.add_argument("--no-latency", action="store_true", help="do not measure latency (windows)")
    found.add_argument("--no-curves", action="store_true", help="leave the curves out (joins)")
    found.add_argument(
        "--readme", action="store_true", help="rewrite README's table, docs/benchmarks.md"
    )
    found.add_argument(
        "--limit", type=float, default=180.0, help="seconds a point may take (growth)"
    )
    found.add_argument(
        "--spark", action="store_true", help="latency by the clock on Spark only (quality)"
    )
    found.add_argument(
        "--cost", action="store_true", help="what the statistics cost, on Spark, only (quality)"
    )
    found.add_argument(
        "--so-far", action="store_true", help="write down what was measured so far (quality)"
    )
    found.add_argument("--scratch", default=".bench", help="data and outputs (default: .bench)")
    return found


def main() -> None:
    """Run what was asked for."""
    options = parser().parse_args()
    if options.quick and options.readme:
        parser().error("--readme needs a full run: numbers of --quick say nothing of speed")
    for name, run in BENCHMARKS.items():
        if options.name in (name, "all"):
            run(options)


if __name__ == "__main__":
    main()
