"""What users gain: a view of one part of a map, rare peaks, and catching up after an outage, each with feedback and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks.feedback_data import MAP_DDL, PEAK_DDL, map_rows, peak_rows, written
from benchmarks.feedback_live import (
    Files,
    Ran,
    Step,
    Treatment,
    ratios,
    rounds,
    seconds,
    spread,
    state_rows,
)
from benchmarks.windows import WrongAnswerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OFF, ON, EMPTY = "off", "on", "near-empty"
RANGE, SLIDE, DELAY = "60 seconds", "5 seconds", "1 second"
WARM_UP = 2
"""Batches of 100 s: after two of them all windows that were open at the start have closed."""
SPARSE = 200


@dataclass(frozen=True)
class Viewport:
    """One hundredth of the segments of a map is in view."""

    clustered: bool
    batch_rows: int = 10_000_000
    keys: int = 100_000
    seconds: int = 100
    rounds: int = 10

    @property
    def name(self) -> str:
        """What ``--cases`` finds it by."""
        return "viewport-clustered" if self.clustered else "viewport-scattered"

    @property
    def bars(self) -> Mapping[str, float]:
        """What is to be reached: times faster, and the share of the state's rows."""
        if self.clustered:
            return {"batch": 3.0, "scan": 5.0, "state": 0.02}
        return {"batch": 1.5, "state": 0.02}

    @property
    def view(self) -> tuple[int, int]:
        """The first and the last segment in view."""
        low = self.keys * 2 // 5
        return low, low + self.keys // 100 - 1

    def batches(self, scratch: Path) -> list[tuple[Files, Files]]:
        """The files of each batch, which are made once."""
        folder = scratch / "data" / f"map-{self.batch_rows}-k{self.keys}-s{self.seconds}"
        kind = "c" if self.clustered else "s"
        group = min(1_000_000, max(1, self.batch_rows // 100))
        found: list[tuple[Files, Files]] = []
        for n in range(self.rounds + WARM_UP):

            def make(rows: int, n: int = n) -> Any:
                return map_rows(n, rows, self.keys, self.seconds, clustered=self.clustered)

            whole = written(
                folder, f"{kind}{n:03d}", partial(make, self.batch_rows), self.batch_rows,
                group=group,
            )  # fmt: skip
            few = written(folder, f"{kind}{n:03d}-few", partial(make, SPARSE), SPARSE)
            found.append(({"cars": whole}, {"cars": few}))
        return found


def viewport(spark: SparkSession, case: Viewport, scratch: Path) -> dict[str, Any]:
    """Measure a view."""
    import slackwater as sw

    def build(folders: Mapping[str, Path]) -> Any:
        reader = sw.readStream(spark).schema(MAP_DDL).option("maxFilesPerTrigger", 1)
        frame = reader.parquet(str(folders["cars"]))
        cars = sw.stream(frame, time="ts", name="cars", progress=sw.BoundedDelay(DELAY))
        by_segment = cars.groupBy("segment", sw.window(RANGE, SLIDE))
        return by_segment.agg("sum(speed) AS total", "count(*) AS n")

    low, high = case.view
    view = sw.only(f"segment BETWEEN {low} AND {high}")
    treatments = [Treatment(OFF), Treatment(ON, (view,)), Treatment(EMPTY, sparse=True)]
    ran = rounds(
        spark, treatments, build, case.batches(scratch), scratch / "out", warm_up=WARM_UP,
        label=case.name,
    )  # fmt: skip
    rows = same(ran, f"segment BETWEEN {low} AND {high}")
    return {**compared(case.name, case.bars, ran), "results": rows}


@dataclass(frozen=True)
class Rare:
    """Maxima of which a filter keeps those above the 99.9th percentile of the values."""

    batch_rows: int = 5_000_000
    keys: int = 1_000_000
    seconds: int = 60
    rounds: int = 10

    @property
    def name(self) -> str:
        """What ``--cases`` finds it by."""
        return "rare-maxima"

    @property
    def bars(self) -> Mapping[str, float]:
        """What is to be reached."""
        return {"batch": 2.0, "state": 0.02}

    def batches(self, scratch: Path) -> list[tuple[Files, Files]]:
        """The files of each batch."""
        folder = scratch / "data" / f"peaks-{self.batch_rows}-k{self.keys}-s{self.seconds}"
        found: list[tuple[Files, Files]] = []
        for n in range(self.rounds + WARM_UP):

            def make(rows: int, n: int = n) -> Any:
                return peak_rows(n, rows, self.keys, self.seconds)

            whole = written(folder, f"b{n:03d}", partial(make, self.batch_rows), self.batch_rows)
            few = written(folder, f"b{n:03d}-few", partial(make, SPARSE), SPARSE)
            found.append(({"cars": whole}, {"cars": few}))
        return found


def rare(spark: SparkSession, case: Rare, scratch: Path) -> dict[str, Any]:
    """Measure maxima below a filter: without feedback all values are grouped first."""
    import slackwater as sw

    def build(folders: Mapping[str, Path]) -> Any:
        reader = sw.readStream(spark).schema(PEAK_DDL).option("maxFilesPerTrigger", 1)
        frame = reader.parquet(str(folders["cars"]))
        values = sw.stream(frame, time="ts", name="values", progress=sw.BoundedDelay(DELAY))
        peaks = values.groupBy("k", sw.window(RANGE)).agg("max(v) AS peak")
        return peaks.where("peak >= 999")

    treatments = [Treatment(OFF, reach="off"), Treatment(ON), Treatment(EMPTY, sparse=True)]
    ran = rounds(
        spark, treatments, build, case.batches(scratch), scratch / "out", warm_up=WARM_UP,
        label=case.name,
    )  # fmt: skip
    rows = same(ran, "TRUE")
    return {**compared(case.name, case.bars, ran), "results": rows}


def same(ran: Ran, wanted: str) -> int:
    """The results that are in view, which both gave: how many there are."""
    off, on = (f"read_parquet('{ran.out[n]}/*.parquet')" for n in (OFF, ON))
    con = duckdb.connect()
    asked = f"SELECT * FROM {off} WHERE {wanted}"
    lacks = con.sql(f"SELECT count(*) FROM (({asked}) EXCEPT ALL (SELECT * FROM {on}))")
    wrong = con.sql(f"SELECT count(*) FROM ((SELECT * FROM {on}) EXCEPT ALL ({asked}))")
    counts = [r.fetchall()[0][0] for r in (lacks, wrong)]
    if any(counts):
        raise WrongAnswerError(f"with feedback {counts[0]} rows are missing, {counts[1]} are wrong")
    return int(con.sql(f"SELECT count(*) FROM {on}").fetchall()[0][0])


def compared(name: str, bars: Mapping[str, float], ran: Ran) -> dict[str, Any]:
    """Times of batches and first stages, pair by pair, and the state after the last batch."""
    off, on = (ran.steps[n] for n in (OFF, ON))
    return {
        "name": name,
        "bars": dict(bars),
        "rows": off[-1].record["numInputRows"],
        "batch": ratios(seconds(off), seconds(on)),
        "scan": ratios(scans(off), scans(on)),
        "state": state_rows(on[-1]) / max(1, state_rows(off[-1])),
        "state_rows": [state_rows(off[-1]), state_rows(on[-1])],
        "seconds": {n: spread(seconds(ran.steps[n])) for n in (OFF, ON, EMPTY)},
        "scan_seconds": {n: spread(scans(ran.steps[n])) for n in (OFF, ON, EMPTY)},
        "not_read": on[-1].record.get("feedback", {}).get("notRead", {}),
    }


def scans(steps: Sequence[Step]) -> list[float]:
    """Seconds of the first stages."""
    return [s.scan for s in steps]
