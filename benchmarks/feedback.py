"""``python -m benchmarks feedback``: what feedback costs, how far up it goes, what it saves, and what users gain.

A case is run by itself with ``--cases viewport``; what was measured of others before stays in the results and on the page.
"""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import contenders
from benchmarks import feedback_page as pages
from benchmarks.cases import selected
from benchmarks.feedback_catch_up import CatchUp, catch_up
from benchmarks.feedback_gains import Rare, Viewport, rare, viewport
from benchmarks.feedback_overhead import Idle, Messages, Records, idle, messages, records
from benchmarks.feedback_suites import Reach, Restrictive, reach, restrictive
from benchmarks.record import RESULTS, ROOT, file_name, folder, heading, store, written

Case = Idle | Messages | Records | Reach | Restrictive | Viewport | Rare | CatchUp

CASES: tuple[Case, ...] = (
    Viewport(clustered=True),
    Viewport(clustered=False),
    Rare(),
    CatchUp(),
    *(Messages(filters) for filters in (1, 5, 10, 15)),
    Records(),
    Reach(),
    *(Restrictive(query, days) for days in (4, 16) for query in ("q1", "q2", "q3")),
    Idle(),
)


def main(options: Namespace) -> None:
    """Measure, print, plot, write."""
    scratch = Path(options.scratch).absolute()
    chosen = list(CASES)
    if options.quick:
        chosen = [
            small(c) for c in chosen if not isinstance(c, Idle) and getattr(c, "days", 4) == 4
        ]
    chosen = selected(chosen, CASES, options.cases, options.rounds)
    head = heading(quick=options.quick, heap=options.heap, cores=contenders.CORES)
    found = {**head, "cases": known(quick=options.quick)}
    on_spark = [c for c in chosen if not isinstance(c, Idle)]
    stamp = {k: head[k] for k in ("date", "commit")}
    spark = contenders.session(options.heap) if on_spark else None
    try:
        for case in on_spark:
            found["cases"][case.name] = {**one(spark, case, scratch), **stamp}
            shutil.rmtree(scratch / "out", ignore_errors=True)
            # After each case: what was measured is kept if a later one fails.
            store("feedback", found, quick=options.quick)
    finally:
        if spark is not None:
            spark.stop()
    for pair in chosen:
        if isinstance(pair, Idle):
            found["cases"][pair.name] = {**idle(pair, scratch, options.heap), **stamp}
            store("feedback", found, quick=options.quick)
    print(pages.plain_text(found))
    pictured = folder(quick=options.quick) / f"{file_name('feedback', quick=options.quick)}.svg"
    if "suite4" in found["cases"]:
        pages.plot(found, pictured)
        written(pictured)
    if not options.quick:
        page = ROOT / "docs" / "feedback-experiments.md"
        page.write_text(pages.page(found), encoding="utf-8")
        written(page)


def one(spark: Any, case: Case, scratch: Path) -> dict[str, Any]:
    """Measure a case that runs in this process."""
    match case:
        case Viewport():
            return viewport(spark, case, scratch)
        case Rare():
            return rare(spark, case, scratch)
        case CatchUp():
            return catch_up(spark, case, scratch)
        case Messages():
            return messages(spark, case, scratch)
        case Records():
            return records(spark, case, scratch)
        case Reach():
            return reach(spark, case, scratch)
        case Restrictive():
            return restrictive(spark, case, scratch)
        case Idle():
            raise TypeError("two trees cannot be in one process")


def known(*, quick: bool) -> dict[str, Any]:
    """What was measured before, by case; a quick run begins with nothing."""
    target = RESULTS / "feedback.json"
    if quick or not target.exists():
        return {}
    return dict(json.loads(target.read_text(encoding="utf-8"))["cases"])


def small(case: Case) -> Case:
    """The same case of few rows, to see that it works.

    >>> small(Viewport(clustered=True)).batch_rows
    20000
    """
    match case:
        case Viewport():
            return replace(case, batch_rows=20_000, keys=1_000, rounds=2)
        case Rare():
            return replace(case, batch_rows=20_000, keys=1_000, rounds=2)
        case CatchUp():
            return replace(case, file_rows=1_000, files=10, rounds=1)
        case Messages():
            return replace(case, batch_rows=1_500, rounds=6)
        case Records():
            return replace(case, batch_rows=1_500, records=120, rounds=2)
        case Reach():
            return replace(case, rows=9_000, batch_rows=1_500, windows=4, step=2)
        case Restrictive():
            return replace(case, days=1, day_rows=9_000, day_probes=200, rounds=2)
        case Idle():
            return replace(case, rounds=1)
