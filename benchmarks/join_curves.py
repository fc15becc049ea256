"""How throughput of a join changes with the window's volume, the skew of keys, and the rate of matches.

Ours alone, over split sources; each point is checked against DuckDB.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import join_answers, join_contenders
from benchmarks.cases import SPLITS
from benchmarks.join_cases import JoinData, prepare, weights
from benchmarks.pictures import axes_of
from benchmarks.record import say
from benchmarks.windows import WrongAnswerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE = JoinData(batches=6, side_rows=200_000)
PARTNERS = 3.0
"""Partners of a row on average, where the curve is not about them."""


@dataclass(frozen=True)
class Point:
    """One setting; ``x`` is its place on the curve."""

    curve: str
    x: float
    data: JoinData
    band_seconds: float


def points(*, quick: bool = False) -> list[Point]:
    """All settings."""
    base = replace(BASE, batches=3, side_rows=5_000, keys=2_500, rate=125) if quick else BASE
    found = []
    # The band grows and keys with it, so that a row keeps its number of partners: only the state grows.
    for band in (5, 15, 30, 60, 90)[:: 4 if quick else 1]:
        data = replace(base, keys=round(base.keys * band / 30))
        found.append(Point("band, seconds to each side", band, data, band))
    for zipf in (0.0, 0.4, 0.8, 1.2)[:: 3 if quick else 1]:
        data = replace(base, zipf=zipf)
        found.append(Point("skew of keys (Zipf exponent)", zipf, data, band_for(data, PARTNERS)))
    for partners in (0.1, 1.0, 3.0, 10.0)[:: 3 if quick else 1]:
        keys = round(base.rate * 60 / partners)
        found.append(Point("partners of a row", partners, replace(base, keys=keys), 30))
    return found


def band_for(data: JoinData, partners: float) -> float:
    """Seconds to each side such that a row has so many partners on average, whatever the skew."""
    same_key = float(np.square(weights(data)).sum())
    return round(partners / (2 * data.rate * same_key), 6)


def measure(spark: SparkSession, scratch: Path, *, quick: bool = False) -> list[dict[str, Any]]:
    """Rows and pairs per second of each point, over the second half of its batches."""
    found = []
    for point in points(quick=quick):
        source = prepare(point.data, scratch)
        band = round(point.band_seconds * 1_000_000)
        work = scratch / "out" / "curves"
        run = join_contenders.run(spark, SPLITS, band, source, work)
        target = scratch / "out" / "d" / "x.parquet"
        right = join_answers.in_batch(band, source, target, times=1, skewed=point.data.zipf > 0)
        if join_answers.content(run.out) != right.content:
            raise WrongAnswerError(f"{point}: not the pairs that DuckDB finds")
        shutil.rmtree(work, ignore_errors=True)
        seconds = median(b.seconds for b in run.batches[len(run.batches) // 2 :])
        rows = point.data.batch_rows / seconds
        share = right.content[0] / point.data.rows
        say(f"{point.curve}: {point.x:g}: {rows / 1e3:.0f} k rows/s, {share * 2:.2f} pairs a row")
        found.append(
            {
                "curve": point.curve,
                "x": point.x,
                "rows_per_second": rows,
                "pairs_per_second": rows * share,
                "pairs": right.content[0],
                "state_rows": run.state_rows,
                "state_bytes": run.state_bytes,
                "batch_seconds": [b.seconds for b in run.batches],
                "duckdb_seconds": min(right.seconds),
            }
        )
    return found


def plot(found: list[dict[str, Any]], target: Path) -> None:
    """A panel per curve: rows per second, and pairs per second."""
    names = list(dict.fromkeys(p["curve"] for p in found))
    with axes_of(target, panels=len(names), size=(11, 3.6)) as panels:
        for axes, name in zip(panels, names, strict=True):
            points = [p for p in found if p["curve"] == name]
            x = [p["x"] for p in points]
            for key, label in (("rows_per_second", "rows"), ("pairs_per_second", "pairs")):
                axes.plot(x, [p[key] / 1e6 for p in points], marker="o", label=label)
            axes.set(xlabel=name, ylabel="million per second", ylim=(0, None))
            if min(x) > 0:
                axes.set_xscale("log")
                axes.set_xticks(x, [f"{v:g}" for v in x])
                axes.minorticks_off()
        panels[0].legend(frameon=False)
