"""``python -m benchmarks experiments``: what others measured, measured here on the kernels; written to docs/experiments.md.

No Spark takes part. ``--cases X4,X10`` runs some and only prints them; ``--quick`` shows in tiny sizes that all works.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.experiments import analytic, groups, joins, panes, skew, slack
from benchmarks.experiments.common import Finding
from benchmarks.record import file_name, folder, heading, measured, say, store, written
from benchmarks.tables import Shape, markdown, plain

EXPERIMENTS: dict[str, Callable[..., Finding]] = {
    "X1": panes.buffers,
    "X2": slack.band,
    "X3": slack.blocks,
    "X4": panes.grid,
    "X5": groups.tumbling,
    "X6": groups.sliding,
    "Zipf": groups.zipf,
    "crossover": groups.crossover,
    "X7": joins.bands,
    "X10": skew.union,
    "X11": joins.unions,
    "X12": joins.control,
    "X13": skew.sliding,
    "1.1": analytic.lull,
    "8.3.1": analytic.split,
    "8.3.2": analytic.late_input,
    "8-5": analytic.ordered_output,
}
HEAD = ("experiment", "source", "here", "agrees")
PICTURES: dict[str, Callable[[Finding, Path], None]] = {
    "X10": skew.plot,
    "Zipf": groups.plot_zipf,
    "crossover": groups.plot_crossover,
}


def main(options: Namespace) -> None:
    """Measure, print, plot, write."""
    findings = findings_of(EXPERIMENTS, options)
    if options.cases:
        return
    for finding in findings:
        if finding.plot:
            PICTURES[finding.id](finding, folder(quick=options.quick) / finding.plot)
    found = record(findings, quick=options.quick)
    write("experiments", found, document(found, findings), quick=options.quick)


def findings_of(experiments: dict[str, Callable[..., Finding]], options: Namespace) -> list[Finding]:  # fmt: skip
    """Run those that are asked for, and print each as it is found."""
    wanted = [c.strip() for c in options.cases.split(",")] if options.cases else list(experiments)
    findings = []
    for name, run in experiments.items():
        if name in wanted:
            say(f"{name}: {(run.__doc__ or '').splitlines()[0]}")
            findings.append(run(quick=options.quick))
            print(f"\n{text(findings[-1], plain)}\n", flush=True)
    return findings


def record(findings: Sequence[Finding], *, quick: bool) -> dict[str, Any]:
    """All of it, as data."""
    return {**heading(quick=quick), "findings": [asdict(f) for f in findings]}


def write(name: str, found: dict[str, Any], page: str, *, quick: bool) -> None:
    """The numbers, and the page."""
    store(name, found, quick=quick)
    target = folder(quick=quick) / f"{file_name(name, quick=quick)}.md"
    target.write_text(page)
    written(target)


def text(finding: Finding, shape: Shape) -> str:
    """One experiment with its table and the two figures."""
    title = f"{finding.id}: {finding.title}"
    parts = [f"## {title}" if shape is markdown else title, finding.made]
    if finding.plot and shape is markdown:
        parts.append(f"![{finding.title}]({finding.plot})")
    parts.append(shape(finding.head, finding.rows))
    said = f"The source: {finding.theirs}.", f"Here: {finding.ours}. Agrees: {finding.verdict}."
    parts.append("\n".join(f"- {line}" for line in said))
    if finding.differs:
        parts.append(finding.differs)
    return "\n\n".join(parts)


def document(found: dict[str, Any], findings: Sequence[Finding]) -> str:
    """The page."""
    used = ", ".join(f"{n} {v}" for n, v in found["versions"].items() if n != "pyspark")
    lines = [[_link(f), f.theirs, f.ours, f.verdict] for f in findings]
    parts = [
        "# Experiments",
        "What the work that Slackwater builds on has measured, measured again with Slackwater's kernels and with baselines that need order "
        "(`benchmarks/baselines`: buffering aggregates, slack, an ordered merge, joins that keep order). Written by `make bench-experiments`; do not edit.",
        f"{measured(found)}: {found['machine']['cores']} cores, {found['machine']['memory_gb']} GB of memory; {used}. No Spark takes part, and one core does the work. Times are "
        "seconds of the processor, medians after a run to warm up; memory is bytes of columns, or rows. In every experiment the results of all ways are compared, except those of slack, where the "
        "difference is the finding. Numbers X1 to X13 are those of the dissertation's experiments (X9, the rate that a low level of fixed size sustains, is `python -m benchmarks.low_level`), others its sections and figures. Its "
        "machines were of 2005 and its sizes are scaled down here: ratios count, not the figures themselves.",
        "## In short",
        "\n".join("| " + " | ".join(line) + " |" for line in (HEAD, ["---"] * len(HEAD), *lines)),
        *(text(f, markdown) for f in findings),
    ]
    return "\n\n".join(parts) + "\n"


def _link(finding: Finding) -> str:
    title = f"{finding.id}: {finding.title}"
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return f"[{finding.id}](#{kept.replace(' ', '-')})"
