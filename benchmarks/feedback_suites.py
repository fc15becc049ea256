"""How far up feedback goes, and what very restrictive feedback saves: sensors of a road, in the experiments' own queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.feedback_data import (
    PROBE_DDL,
    PROBE_ROWS,
    SENSOR_DDL,
    SENSOR_ROWS,
    SENSORS,
    locations,
    probes,
    sensors,
    written,
)
from benchmarks.feedback_live import (
    Files,
    Live,
    Ran,
    Treatment,
    between,
    dropped,
    records,
    rounds,
    saved,
    seconds,
    spread,
)
from benchmarks.windows import WrongAnswerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORIGIN = "2010-02-15 09:00:00"
OFF, EMPTY = "off", "near-empty"
WARM_UP = 2
MINUTE_ROWS = 3 * SENSORS
FEW = 150
"""Rows of a batch that is nearly empty, from all of its time."""


def stream(spark: SparkSession, folder: Path, ddl: str, name: str, delay: str = "0 seconds") -> Any:
    """The files of a folder, one a batch."""
    import slackwater as sw

    reader = sw.readStream(spark).schema(ddl).option("maxFilesPerTrigger", 1)
    frame = reader.parquet(str(folder))
    return sw.stream(frame, time="ts", name=name, progress=sw.BoundedDelay(delay))


def minutes() -> Any:
    """Windows of a minute, of which the first of the data has number 0."""
    import slackwater as sw

    return sw.window("1 minute", origin=ORIGIN)


def _few(file: Path) -> pa.Table:
    table = pq.read_table(file)
    return table.take(pa.array(range(0, table.num_rows, max(1, table.num_rows // FEW))))


def files_of(
    scratch: Path, name: str, make: Callable[[int, int], pa.Table], rows: int, batches: int
) -> list[tuple[Path, Path]]:
    """Per batch the file with ``rows`` rows, and one with nearly none."""
    folder = scratch / "data" / f"{name}-{rows}"
    found = []
    for n in range(batches):
        whole = written(folder, f"b{n:03d}", partial(make, n * rows, rows), rows)
        count = len(range(0, rows, max(1, rows // FEW)))
        few = written(folder, f"b{n:03d}-few", partial(_few, whole), count)
        found.append((whole, few))
    return found


# ---- suite 5 ----
@dataclass(frozen=True)
class Restrictive:
    """One query of suite 5 at one size of batches: days of data in a batch."""

    query: str
    days: int
    rounds: int = 10
    day_rows: int = SENSOR_ROWS
    day_probes: int = PROBE_ROWS

    @property
    def name(self) -> str:
        """E.g. ``suite5-q1-2.6m``."""
        return f"suite5-{self.query}-{self.rows / 1e6:.3g}m"

    @property
    def rows(self) -> int:
        """Rows of sensors in a batch."""
        return self.days * self.day_rows

    @property
    def bars(self) -> Mapping[str, float]:
        """What is to be reached."""
        return {"between": 1000.0, "operators": 0.15, "source": 0.70}

    def batches(self, scratch: Path) -> list[tuple[Files, Files]]:
        """The files of each batch."""
        count = self.rounds + WARM_UP
        sensor = files_of(scratch, "sensor", sensors, self.rows, count)
        if self.query != "q3":
            return [({"sensor": whole}, {"sensor": few}) for whole, few in sensor]
        probe = files_of(scratch, "probe", probes, self.days * self.day_probes, count)
        return [
            ({"sensor": s, "probe": p}, {"sensor": f, "probe": g})
            for (s, f), (p, g) in zip(sensor, probe, strict=True)
        ]


def restrictive(spark: SparkSession, case: Restrictive, scratch: Path) -> dict[str, Any]:
    """Measure one query, nearly all of whose results are given up."""
    import slackwater as sw

    place = scratch / "data" / "location" / "part.parquet"
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(locations(), place)

    def q1(folders: Mapping[str, Path]) -> Any:
        both = stream(spark, folders["sensor"], SENSOR_DDL, "sensor")
        return both.where("occupancy > 20").union(both.where("speed > 21"))

    def q2(folders: Mapping[str, Path]) -> Any:
        place_of = sw.relation(str(place.parent), "sensor_id", "location", spark=spark)
        met = stream(spark, folders["sensor"], SENSOR_DDL, "sensor").join(place_of, "sensor_id")
        return met.groupBy("freeway_id", "milepost", minutes()).agg("max(speed) AS fastest")

    def q3(folders: Mapping[str, Path]) -> Any:
        made = [
            stream(spark, folders[n], ddl, n).groupBy(minutes()).agg(f"avg(speed) AS {n}_speed")
            for n, ddl in (("sensor", SENSOR_DDL), ("probe", PROBE_DDL))
        ]
        return made[0].join(made[1], on="wid", within=sw.band())

    build = {"q1": q1, "q2": q2, "q3": q3}[case.query]
    given_up = {
        "q1": "ts >= timestamp'2010-02-15 09:01:00'",
        "q2": "wid >= 3",
        "q3": "wid >= 3",
    }[case.query]
    ignored = (sw.ignore(given_up),)
    treatments = [
        Treatment(OFF),
        Treatment("operators", ignored, "operators"),
        Treatment("source", ignored, "source"),
        Treatment(EMPTY, sparse=True),
    ]
    ran = rounds(
        spark, treatments, build, case.batches(scratch), scratch / "out", warm_up=WARM_UP,
        label=case.name,
    )  # fmt: skip
    results = same(ran, ("operators", "source"), f"NOT ({given_up})")
    off, empty = seconds(ran.steps[OFF]), seconds(ran.steps[EMPTY])
    counts = {t: between(ran.all[t]) for t in (OFF, "operators", "source")}
    return {
        "name": case.name,
        "bars": dict(case.bars),
        "rows": case.rows,
        "between": counts,
        "results": results,
        "saved": {t: saved(off, seconds(ran.steps[t]), empty) for t in ("operators", "source")},
        "whole": {t: saved(off, seconds(ran.steps[t]), [0.0] * len(off)) for t in ("operators", "source")},
        "seconds": {t.name: spread(seconds(ran.steps[t.name])) for t in treatments},
        "not_read": ran.all["source"][-1].record.get("feedback", {}).get("notRead", {}),
        "rounds_used": len(off),
    }  # fmt: skip


def same(ran: Ran, treatments: Sequence[str], wanted: str) -> int:
    """How many results there are that were not given up: the same in all treatments."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    asked = f"SELECT * FROM read_parquet('{ran.out[OFF]}/*.parquet') WHERE {wanted}"
    count = int(con.sql(f"SELECT count(*) FROM ({asked})").fetchall()[0][0])
    for name in treatments:
        given = f"SELECT * FROM read_parquet('{ran.out[name]}/*.parquet')"
        for one, other in ((asked, given), (given, asked)):
            odd = con.sql(f"SELECT count(*) FROM (({one}) EXCEPT ALL ({other}))").fetchall()[0][0]
            if odd:
                raise WrongAnswerError(f"{name}: {odd} rows differ from what was not given up")
    return count


# ---- suite 4 ----
@dataclass(frozen=True)
class Reach:
    """How far up feedback on 100 windows goes, and what is left to avoid if it comes later."""

    batch_rows: int = 54_000
    windows: int = 100
    rows: int = SENSOR_ROWS
    rounds: int = 1
    step: int = 20

    @property
    def name(self) -> str:
        """What ``--cases`` finds it by."""
        return "suite4"

    @property
    def avoidable(self) -> int:
        """Rows of the windows that are given up."""
        return self.windows * MINUTE_ROWS

    @property
    def arrivals(self) -> range:
        """Batches, of ``step`` windows each, before which feedback arrives."""
        return range(self.windows // self.step + 1)


def joined(spark: SparkSession, folder: Path, *, propagate: bool = True) -> Any:
    """Sensors with themselves: each row meets itself; the join may let nothing go on to its inputs."""
    import slackwater as sw

    one = stream(spark, folder, SENSOR_DDL, "sensor")
    other = stream(spark, folder, SENSOR_DDL, "other").select("sensor_id", "ts", "speed")
    both = one.join(other, on="sensor_id", within=sw.band()).withFeedback(propagate=propagate)
    return both.select("sensor_ts", "other_ts", "sensor_id", "other_speed")


def reach(spark: SparkSession, case: Reach, scratch: Path) -> dict[str, Any]:
    """Rows that are avoided by how far up feedback goes, and by when it arrives."""
    import slackwater as sw

    def average(rows: Any) -> Any:
        return rows.groupBy(minutes()).agg("avg(other_speed) AS speed")

    def build(folders: Mapping[str, Path]) -> Any:
        return average(joined(spark, folders["sensor"]))

    def alone(folders: Mapping[str, Path]) -> Any:
        return average(joined(spark, folders["sensor"])).withFeedback(propagate=False)

    def with_input(folders: Mapping[str, Path]) -> Any:
        return average(joined(spark, folders["sensor"], propagate=False))

    ignored = (sw.ignore(f"wid < {case.windows}"),)
    treatments = [
        Treatment(OFF),
        Treatment("aggregate", ignored, "operators", build=alone),
        Treatment("+ its input", ignored, "operators", build=with_input),
        Treatment("+ join", ignored, "operators"),
        Treatment("+ scan", ignored, "source"),
    ]
    count = case.rows // case.batch_rows
    files = files_of(scratch, "sensor", sensors, case.batch_rows, count)
    batches: list[tuple[Files, Files]] = [({"sensor": w}, {"sensor": f}) for w, f in files]
    ran = rounds(spark, treatments, build, batches, scratch / "out", warm_up=0, label=case.name)
    results = same(ran, [t.name for t in treatments[1:]], f"wid >= {case.windows}")
    found = {
        t.name: {
            "between": between(ran.all[t.name]),
            "operators": flows(ran, t.name),
            "avoided": dropped(ran.all[t.name]),
        }
        for t in treatments
    }
    return {
        "name": case.name, "rows": case.rows, "batch_rows": case.batch_rows, "avoidable": case.avoidable,
        "windows": case.windows, "step": case.step, "treatments": found, "results": results, "arrival": arrival(spark, case, scratch),
    }  # fmt: skip


def flows(ran: Ran, treatment: str) -> dict[str, list[int]]:
    """By operator, rows in and out of a whole run."""
    found: dict[str, list[int]] = {}
    for record in records(ran.all[treatment]):
        for name, o in record["operators"].items():
            total = found.setdefault(f"{o['kind']} {name}", [0, 0])
            total[0] += o["rowsIn"]
            total[1] += o["rowsOut"]
    return found


def arrival(spark: SparkSession, case: Reach, scratch: Path) -> list[list[float]]:
    """Effectiveness: by the batch before which feedback arrives, the share of the rows that it avoids."""
    import slackwater as sw

    rows = case.step * MINUTE_ROWS
    files = files_of(scratch, "sensor", sensors, rows, case.windows // case.step + 1)
    batches: list[tuple[Files, Files]] = [({"sensor": w}, {"sensor": f}) for w, f in files]

    def build(folders: Mapping[str, Path]) -> Any:
        sensor = stream(spark, folders["sensor"], SENSOR_DDL, "sensor")
        return sensor.groupBy(minutes()).agg("avg(speed) AS speed")

    def send(live: Live) -> None:
        if str(len(live.steps)) == live.treatment.name:
            live.query.feedback(sw.ignore(f"wid < {case.windows}"))

    treatments = [Treatment(str(n)) for n in case.arrivals]
    ran = rounds(spark, treatments, build, batches, scratch / "out", warm_up=0, before=send)
    return [[n, dropped(ran.all[str(n)]).get("sensor", 0) / case.avoidable] for n in case.arrivals]
