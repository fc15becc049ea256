"""``python -m benchmarks.cold``: windows in new processes, from their first batches on, and over many columns.

Each run is a process of its own with a Spark session of its own, native and ours in turns. Two spans of batches are
told apart: `FIRST`, in which the JVM still compiles most of what it runs, and `LATER`. The wide cases read 3 of 50
columns. Every run's answer is compared with DuckDB's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import answers
from benchmarks.cases import FIVE, LABELS, NATIVE, ONE, ROWS, SPLITS, TUMBLING, Window
from benchmarks.datagen import Data, prepare
from benchmarks.memory import tree
from benchmarks.record import ROOT, heading, say, store
from benchmarks.tables import markdown, plain, ratio, verdict

Span = tuple[int, int]
FIRST, LATER, WIDE = (3, 5), (15, 24), (2, 4)
OPEN, CLOSE = "<!-- bench-cold -->", "<!-- /bench-cold -->"

NARROW_DATA = Data(batches=24, batch_rows=2_000_000, rate=5_000)
"""80 windows of 1,000 keys in each batch: 80,000 groups."""
WIDE_DATA = Data(batches=4, batch_rows=2_000_000, extra=47)


@dataclass(frozen=True)
class Case:
    """One window over one stream; ``bars`` are what a contender must reach, by span of batches."""

    name: str
    window: Window
    data: Data
    contenders: tuple[str, ...]
    bars: dict[str, dict[Span, float]]


CASES = (
    Case(
        "narrow", TUMBLING, NARROW_DATA, (NATIVE, ROWS, SPLITS),
        {ROWS: {FIRST: 1.1, LATER: 1.4}, SPLITS: {FIRST: 2.0, LATER: 2.0}},
    ),
    *(
        Case(f"wide-{w.name}", w, WIDE_DATA, (NATIVE, ROWS), {ROWS: {WIDE: 1.0}})
        for w in (TUMBLING, FIVE, ONE)
    ),
)  # fmt: skip


def main() -> None:
    """Measure, print, write; a case that is measured again replaces its own figures alone."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold", description=__doc__)
    parser.add_argument("--cases", help="parts of case names, e.g. narrow,wide-5s")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--heap", default="4g", help="memory of each JVM (default: 4g)")
    parser.add_argument("--scratch", default=".bench", help="data and outputs (default: .bench)")
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it works")
    parser.add_argument("--readme", action="store_true", help="rewrite docs/benchmarks.md")
    options = parser.parse_args()
    parts = (options.cases or "").split(",")
    chosen = [c for c in CASES if any(p in c.name for p in parts)]
    if options.quick:
        chosen = [
            replace(c, data=replace(c.data, batch_rows=10_000, rate=c.data.rate // 200))
            for c in chosen
        ]
    scratch = Path(options.scratch).absolute()
    known: dict[str, Any] = {}
    results = ROOT / "benchmarks" / "results" / "cold.json"
    if results.exists() and not options.quick:
        known = {c["name"]: c for c in json.loads(results.read_text())["cases"]}
    for case in chosen:
        known[case.name] = one_case(case, scratch, options.rounds, options.heap)
    order = [c.name for c in CASES if c.name in known]
    measured = {
        **heading(quick=options.quick, heap=options.heap),
        "cases": [known[name] for name in order],
    }
    print(plain(*table(measured["cases"])))
    print(plain(*profile(measured["cases"])))
    store("cold", measured, quick=options.quick)
    if options.readme:
        page = ROOT / "docs" / "benchmarks.md"
        page.write_text(with_section(page.read_text(), section(measured)))


def one_case(case: Case, scratch: Path, rounds: int, heap: str) -> dict[str, Any]:
    """All rounds of a case; the contenders take turns, a process each."""
    source = prepare(case.data, scratch)
    runs: dict[str, list[dict[str, Any]]] = {c: [] for c in case.contenders}
    for number in range(rounds):
        # The one that begins changes.
        order = case.contenders if number % 2 == 0 else case.contenders[::-1]
        for contender in order:
            done = process(case, contender, source, scratch, heap)
            runs[contender].append(done)
            taken = " ".join(f"{b['seconds']:.2f}" for b in done["batches"])
            say(
                f"{case.name}: {contender}, round {number + 1} of {rounds}: {taken} s a batch; "
                f"others used {done['others']} cores"
            )
    return {
        "name": case.name,
        "window": case.window.label,
        "commit": commit(),
        "data": asdict(case.data),
        "bars": {c: {_text(s): b for s, b in bars.items()} for c, bars in case.bars.items()},
        "contenders": {c: [r["batches"] for r in done] for c, done in runs.items()},
        "cores_of_others": {c: [r["others"] for r in done] for c, done in runs.items()},
    }


def process(case: Case, contender: str, source: Path, scratch: Path, heap: str) -> dict[str, Any]:
    """One run in a new process; a wrong answer ends the benchmark."""
    work, log = scratch / "out" / f"cold-{contender}", scratch / "log"
    log.mkdir(parents=True, exist_ok=True)
    answer = log / "cold.answer.json"
    answer.unlink(missing_ok=True)
    job = {
        "contender": contender, "range": case.window.range, "slide": case.window.slide,
        "source": str(source), "work": str(work), "heap": heap, "keep": True,
    }  # fmt: skip
    with (log / f"cold-{case.name}-{contender}.log").open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.child", json.dumps(job), str(answer)],
            stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, env=dict(os.environ),
        )  # fmt: skip
        others = cores_of_others(child)
    done: dict[str, Any] = json.loads(answer.read_text())
    done["others"] = others
    agreement = answers.check(contender, case.window, source, Path(done["out"]))
    if not agreement.exact or len(done["batches"]) != case.data.batches:
        raise SystemExit(f"{case.name}: {contender} gave a wrong answer: {agreement}")
    return done


def cores_of_others(child: subprocess.Popen[bytes]) -> float:
    """How many cores other processes used while this one ran with all that it started."""
    begin, busy = time.perf_counter(), _busy_ticks()
    own: dict[int, int] = {}
    while child.poll() is None:
        for pid in tree(child.pid):
            own[pid] = max(own.get(pid, 0), _ticks(pid))
        time.sleep(0.5)
    spent = time.perf_counter() - begin
    foreign = _busy_ticks() - busy - sum(own.values())
    return round(max(0.0, foreign / os.sysconf("SC_CLK_TCK") / spent), 2)


def _busy_ticks() -> int:
    """Ticks that all processes have used: user, nice, system, and interrupts."""
    numbers = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return sum(numbers[i] for i in (0, 1, 2, 5, 6))


def _ticks(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0  # it has ended
    return int(stat[11]) + int(stat[12])


def commit() -> str:
    """The commit that is measured; ``+`` if files differ from it."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    changed = subprocess.run([*git, "status", "--porcelain", "src"], capture_output=True, text=True)
    return name.stdout.strip() + ("+" if changed.stdout.strip() else "")


def _text(span: Span) -> str:
    return f"{span[0]}-{span[1]}"


def seconds(runs: Sequence[Sequence[dict[str, Any]]], span: str) -> list[list[float]]:
    """Seconds of the batches of a span (counted from 1), a list for each run."""
    first, last = map(int, span.split("-"))
    return [[b["seconds"] for b in run[first - 1 : last]] for run in runs]


def table(cases: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """What was reached, beside what was to be reached."""
    head = [
        "case, contender, batches", "native: s a batch", "ours: s a batch", "ratio", "rounds",
        "bar", "verdict", "commit", "cores of others",
    ]  # fmt: skip
    lines = []
    for case in cases:
        native = case["contenders"][NATIVE]
        for contender, bars in case["bars"].items():
            for span, bar in bars.items():
                theirs, mine = seconds(native, span), seconds(case["contenders"][contender], span)
                r = ratio(theirs, mine)
                lines.append(
                    [
                        f"{case['name']}, {LABELS[contender]}, {span}",
                        f"{median(chain(*theirs)):.2f}",
                        f"{median(chain(*mine)):.2f}",
                        f"{r['ratio']:.2f}x",
                        f"{r['least']:.2f} to {r['most']:.2f}",
                        f"{bar:.1f}x",
                        verdict(r["ratio"], bar),
                        case["commit"],
                        f"{max(max(o) for o in case['cores_of_others'].values()):.1f}",
                    ]
                )
    return head, lines


def profile(cases: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Where the time of a batch goes, in milliseconds: parts and stages as in the tables of ``windows``."""
    parts = ("spark", "plan", "job", "commit", "publish", "rest", "batch")
    lines = []
    for case in cases:
        spans = dict.fromkeys(s for bars in case["bars"].values() for s in bars)
        for span in spans:
            first, last = map(int, span.split("-"))
            for contender, runs in case["contenders"].items():
                batches = [b for run in runs for b in run[first - 1 : last]]
                stages = max(len(b["stages"]) for b in batches)
                lines.append(
                    [
                        f"{case['name']}, {LABELS[contender]}, {span}",
                        f"{1000 * median(b['seconds'] for b in batches):.0f}",
                        *(
                            f"{1000 * median(b['parts'][p] for b in batches):.0f}"
                            if p in batches[0]["parts"]
                            else ""
                            for p in parts
                        ),
                        " + ".join(
                            f"{1000 * median(b['stages'][i] for b in batches if len(b['stages']) > i):.0f}"
                            for i in range(stages)
                        ),
                    ]
                )
    return ["case, contender, batches", "whole", *parts, "stages"], lines


def section(measured: dict[str, Any]) -> str:
    """What the page says of it."""
    return "\n\n".join(
        [
            "## New processes, and many columns",
            "`python -m benchmarks.cold` runs each contender in a process of its own, in turns, and tells the first batches "
            "(3 to 5) from later ones (15 to 24). `narrow`: tumbling windows of 5 s, 1,000 keys, 2 M rows and 80,000 groups "
            "a batch. `wide`: 50 columns of which 3 are read, at each overlap of the tables above; batches 2 to 4 of a new "
            f"process. Measured on {measured['date']}: {measured['machine']['cores']} cores, heap "
            f"{measured['settings']['heap']}. `cores of others` is how many cores other processes used in the "
            "worst of the runs: figures of a machine that was not quiet say little. A commit that git does not know did not land "
            "under its name: [where it is](commits.md).",
            markdown(*table(measured["cases"])),
            "What warms up: Python workers import in the first batch, and Spark compiles generated code in the first two, not "
            "again. From then on it is the JVM's own compiler, which takes a part of the cores from the tasks for two dozen batches, "
            "and planning, which runs in code that is not compiled yet. So what is planned anew in each batch counts twice there: "
            "the plan of the partial aggregation is kept from the first batch on.",
            "What the first stage of a row source does beyond native's: the partial rows (160,000 in `narrow`) go to Python through Arrow, and there are five buffers to a "
            "group where native has two, since sums are exact beyond 64 bits and the newest time is needed for the bound. In a profile of the JVM, taken while reading and aggregating "
            "were still two loops, Arrow took about a sixth of the CPU time of the stage, half of it because Spark asks after each row how large the batch has become. "
            "What it no longer does: write out each row between reading and aggregating.",
            "Where the time of a batch goes, in milliseconds, medians; the columns are those above.",
            markdown(*profile(measured["cases"])),
        ]
    )


def with_section(text: str, content: str) -> str:
    """The page with this section in place of the one that it has, or in front of the joins."""
    block = f"{OPEN}\n\n{content}\n\n{CLOSE}"
    if OPEN in text:
        pattern = re.escape(OPEN) + r".*?" + re.escape(CLOSE)
        return re.sub(pattern, lambda _: block, text, flags=re.DOTALL)
    before, joins, after = text.partition("<!-- bench-joins -->")
    return f"{before.rstrip()}\n\n{block}\n" + (f"\n{joins}{after}" if joins else "")


def section_of(text: str) -> str | None:
    """What the page has of it, if anything."""
    match = re.search(re.escape(OPEN) + r"\n\n(.*?)\n\n" + re.escape(CLOSE), text, re.DOTALL)
    return match.group(1) if match else None


if __name__ == "__main__":
    main()
