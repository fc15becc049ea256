"""Quality targets: sums under error targets, also across changes, other aggregates, then joins under recall targets; without Spark, in stream time.

``--cases aggregates``, ``changes``, ``kinds``, ``joins`` or ``again``, ``joins-again`` (our lines of the aggregates or joins alone) runs one of them. The long ones keep each case in a file in the scratch folder, so that a stop loses
nothing; ``--so-far`` writes down what is there. ``--spark`` measures latency by the clock on Spark instead, ``--cost`` what gathering the statistics costs; both join the
figures that are there. All of it becomes docs/quality-experiments.md.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from itertools import product
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
from benchmarks.quality_kept import Kept
from benchmarks.record import RESULTS, commit, file_name, folder, heading, store, written

SEED = 1
"""No constant was chosen on it."""
CHANGE_SEEDS = (201, 202, 203, 61)
"""The same for changes; on 61 an earlier rule was measured, and its misses were looked at."""
NAME = "quality"
PAGE = "quality-experiments"


def aggregates(*, quick: bool, kept: Kept) -> dict[str, Any]:
    """Sums under error targets."""
    widths = (1.0,) if quick else quality_aggregates.WIDTHS
    errors = (0.01,) if quick else quality_aggregates.ERRORS
    return quality_aggregates.measured(tuple(AGGREGATES), widths, errors, SEED, quick=quick)


def joins(*, quick: bool, kept: Kept) -> dict[str, Any]:
    """Joins under recall targets."""
    out: dict[str, Any] = {"seed": SEED, "data": {}, "runs": [], "frontier": [], "immediate": []}
    for name in JOINS:
        part = kept.run(
            {"joins": name, "seed": SEED},
            partial(quality_joins.measured, (name,), SEED, quick=quick),
        )
        if part is not None:
            out["data"] |= part["data"]
            for lines in ("runs", "frontier", "immediate"):
                out[lines] += part[lines]
    return out


def changes(*, quick: bool, kept: Kept) -> dict[str, Any]:
    """Sums across changes of delays."""
    slides = (2.0,) if quick else quality_changes.SLIDES
    return quality_changes.everything((SEED,) if quick else CHANGE_SEEDS, slides, kept)


def kinds(*, quick: bool, kept: Kept) -> dict[str, Any]:
    """Averages, quantiles and groups."""
    return quality_kinds.measured(SEED, quick=quick)


def again(*, quick: bool, kept: Kept) -> dict[str, Any]:
    """Our lines of the sums, for comparison with those of an earlier commit."""
    cases = list(product(AGGREGATES, quality_aggregates.WIDTHS, quality_aggregates.ERRORS))
    return {"runs": quality_aggregates.again(cases[:1] if quick else cases, SEED, kept)}


def joins_again(*, quick: bool, kept: Kept) -> dict[str, Any]:
    """Our lines of the joins, for comparison with those of an earlier commit."""
    return {"runs": quality_joins.again(("x2",) if quick else tuple(JOINS), SEED, kept)}


PARTS = {
    "aggregates": aggregates,
    "changes": changes,
    "kinds": kinds,
    "joins": joins,
    "again": again,
    "joins-again": joins_again,
}


def _joined(new: dict[str, Any], old: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines of a commit, and those of an earlier one for cases that it lacks; each names its commit."""
    lines = {}
    for part in (old, new):
        for line in part["runs"]:
            key = (line["data"], line["window"], line["error"])
            lines[key] = {"commit": part["commit"], **line}
    return list(lines.values())


KEPT = ("before", "earlier")
"""Figures of earlier commits, for comparison."""


def _earlier(name: str, before: dict[str, Any]) -> dict[str, Any]:
    """What new figures are compared with from now on: the lines of before."""
    return {"commit": before["commits"][name], "runs": before[name]["runs"]}


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
            folder_ = Path(options.scratch)
            folder_.mkdir(parents=True, exist_ok=True)
            kept = Kept(
                folder_ / f"{file_name(f'{NAME}-{name}', quick=quick)}.jsonl", options.so_far
            )
            part = PARTS[name](quick=quick, kept=kept)
            found[name] = {**part, "minutes": (time.process_time() - began) / 60}
            if lines := kept.lines():
                found[name] |= {"commit": lines[-1]["commit"], "date": lines[-1]["date"]}
    # Another part may have been measured meanwhile, on another commit.
    before = known(quick=quick)
    own = {name: part.get("commit", commit()) for name, part in found.items()}
    commits = {**before.get("commits", {}), **own}
    for name in ("changes", "joins"):
        if name in found and name in before:
            if before["commits"][name] != own[name]:
                found[name]["earlier"] = _earlier(name, before)
            found[name] = {**{k: before[name][k] for k in KEPT if k in before[name]}, **found[name]}
            # What --so-far does not have.
            gone = [k for k, value in found[name].items() if value is None]
            found[name] |= {k: before[name].get(k) for k in gone}
    if "again" in found and "again" in before:
        found["again"]["runs"] = _joined(found["again"], before["again"])
    found = {**before, **heading(quick=quick, seed=SEED), "commits": commits, **found}
    store(NAME, found, quick=quick)
    target = folder(quick=quick) / f"{file_name(PAGE, quick=quick)}.md"
    target.write_text(quality_page.page(found))
    written(target)
