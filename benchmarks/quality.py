"""Quality targets: sums under error targets, also across changes, other aggregates, then joins under recall targets; without Spark, in stream time.

``--cases aggregates``, ``changes``, ``kinds`` or ``joins`` runs one of them. ``--spark`` measures latency by the clock on Spark instead, ``--cost`` what gathering the statistics costs; both join the
figures that are there. All of it becomes docs/quality-experiments.md.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from benchmarks import (
    quality_aggregates,
    quality_changes,
    quality_joins,
    quality_kinds,
    quality_page,
    quality_spark,
)
from benchmarks.quality_data import GENERATORS as AGGREGATES
from benchmarks.quality_join_data import GENERATORS as JOINS
from benchmarks.record import RESULTS, commit, file_name, folder, heading, store, written

SEED = 1
"""No constant was chosen on it."""
CHANGE_SEEDS = (61, 62)
"""The same for changes."""
NAME = "quality"
PAGE = "quality-experiments"


def aggregates(*, quick: bool) -> dict[str, Any]:
    """Sums under error targets."""
    widths = (1.0,) if quick else quality_aggregates.WIDTHS
    errors = (0.01,) if quick else quality_aggregates.ERRORS
    return quality_aggregates.measured(tuple(AGGREGATES), widths, errors, SEED, quick=quick)


def joins(*, quick: bool) -> dict[str, Any]:
    """Joins under recall targets."""
    return quality_joins.measured(tuple(JOINS), SEED, quick=quick)


def changes(*, quick: bool) -> dict[str, Any]:
    """Sums across changes of delays."""
    slides = (2.0,) if quick else quality_changes.SLIDES
    return quality_changes.everything((SEED,) if quick else CHANGE_SEEDS, slides)


def kinds(*, quick: bool) -> dict[str, Any]:
    """Averages, quantiles and groups."""
    return quality_kinds.measured(SEED, quick=quick)


PARTS = {"aggregates": aggregates, "changes": changes, "kinds": kinds, "joins": joins}


def known(*, quick: bool) -> dict[str, Any]:
    """What was measured before."""
    path = RESULTS / f"{file_name(NAME, quick=quick)}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def main(options: argparse.Namespace) -> None:
    """Measure what was asked for, keep the rest, and write numbers and page."""
    quick = bool(options.quick)
    found: dict[str, Any] = {}
    if options.spark:
        found["spark"] = quality_spark.latency(Path(options.scratch), quick=quick)
    if options.cost:
        found["cost"] = quality_spark.cost(Path(options.scratch), quick=quick)
    if not (options.spark or options.cost):
        for name in options.cases.split(",") if options.cases else PARTS:
            began = time.process_time()
            part = PARTS[name](quick=quick)
            found[name] = {**part, "minutes": (time.process_time() - began) / 60}
    # Another part may have been measured meanwhile, on another commit.
    before = known(quick=quick)
    commits = {**before.get("commits", {}), **dict.fromkeys(found, commit())}
    found = {**before, **heading(quick=quick, seed=SEED), "commits": commits, **found}
    store(NAME, found, quick=quick)
    target = folder(quick=quick) / f"{file_name(PAGE, quick=quick)}.md"
    target.write_text(quality_page.page(found))
    written(target)
