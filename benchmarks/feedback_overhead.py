"""What the machinery costs where nothing flows, where a message comes with each batch, and where a thousand records match nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.between import GIT, Row, Tree, checked_out, child
from benchmarks.cases import ROWS, SPLITS
from benchmarks.feedback_data import SENSOR_DDL, sensors
from benchmarks.feedback_live import (
    Files,
    Live,
    Ran,
    Treatment,
    confident,
    rounds,
    spread,
)
from benchmarks.feedback_suites import files_of, stream
from benchmarks.record import ROOT, say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE = "853f8f1"
"""The last tree that runs and whose engine knows no feedback; contracts and relations have come since, too."""
PLANS = (
    Row("windows", "2m-60s-5s", SPLITS),
    Row("windows", "2m-60s-5s", ROWS),
    Row("joins", "400k-30s", SPLITS),
)
WARM_UP = 3
AT_ONCE = 50
"""Records in one request; 64 is the most."""


# ---- suite 1 ----
@dataclass(frozen=True)
class Idle:
    """The machinery is there and nothing flows, beside a commit without it."""

    rounds: int = 10
    commit: str = BEFORE

    @property
    def name(self) -> str:
        """What ``--cases`` finds it by."""
        return "suite1"


def idle(case: Idle, scratch: Path, heap: str) -> dict[str, Any]:
    """Two processes in turns, each with the modules of its own tree."""
    plans = PLANS
    with ExitStack() as stack:
        before = stack.enter_context(checked_out(case.commit, scratch))
        sides = {
            name: Tree(stack.enter_context(child(root, scratch, name, heap)))
            for name, root in (("before", before), ("now", ROOT))
        }
        for row in plans:
            for side in sides.values():
                side.run(row, warm_up=True)
            for number in range(case.rounds):
                for name in list(sides) if number % 2 == 0 else list(sides)[::-1]:
                    sides[name].run(row)
                taken = ", ".join(f"{n} {s.rounds[row][-1]:.3f} s" for n, s in sides.items())
                say(f"suite1, {row}, round {number + 1} of {case.rounds}: {taken}")
        found = {
            str(row): {
                "ratio": spread(
                    [n / b for b, n in zip(sides["before"].rounds[row], sides["now"].rounds[row], strict=True)]
                ),
                "before": spread(sides["before"].rounds[row]),
                "now": spread(sides["now"].rounds[row]),
            }
            for row in plans
        }  # fmt: skip
    return {"name": case.name, "bars": {"ratio": 1.03}, "beside": full(case.commit), "plans": found}


def full(commit: str) -> str:
    """The whole name of a commit."""
    done = subprocess.run([*GIT, "rev-parse", "--short=12", commit], capture_output=True, text=True, check=True)  # fmt: skip
    return done.stdout.strip()


# ---- suite 2 ----
@dataclass(frozen=True)
class Messages:
    """A message with each batch through a chain of filters."""

    filters: int
    batch_rows: int = 54_000
    rounds: int = 40

    @property
    def name(self) -> str:
        """What ``--cases`` finds it by."""
        return f"suite2-{self.filters}-filters"


@dataclass(frozen=True)
class Records:
    """Many records that stand all the time and match nothing."""

    records: int = 1000
    batch_rows: int = 54_000
    rounds: int = 40

    @property
    def name(self) -> str:
        """What ``--cases`` finds it by."""
        return f"suite2-{self.records}-records"


def messages(spark: SparkSession, case: Messages, scratch: Path) -> dict[str, Any]:
    """The driver's own time, and that of batches, with a message in each."""
    import slackwater as sw

    def send(live: Live) -> None:
        if live.treatment.name.startswith("message"):
            # About a sensor that there is not: nothing is dropped, and the record travels as far as it can.
            what = sw.ignore(f"sensor_id = -{len(live.steps) + 1} AND volume < 0")
            live.query.feedback(what, name="instrument", lease="forever")

    def build(folders: Mapping[str, Path]) -> Any:
        rows = stream(spark, folders["sensor"], SENSOR_DDL, "sensor")
        for _ in range(case.filters):
            rows = rows.where("volume > -1")
        return rows

    treatments = [
        Treatment("off"),
        Treatment("message, not exploited", reach="off"),
        Treatment("message, exploited"),
    ]
    ran = rounds(
        spark, treatments, build, batches_of(case, scratch), scratch / "out",
        warm_up=WARM_UP, send=send, label=case.name, collect=False,
    )  # fmt: skip
    return overhead(case, ran, treatments, {"cpu_ms": 5.0, "ratio": 1.05})


def records(spark: SparkSession, case: Records, scratch: Path) -> dict[str, Any]:
    """The driver's own time, and that of batches, with many records."""
    import slackwater as sw

    def build(folders: Mapping[str, Path]) -> Any:
        return stream(spark, folders["sensor"], SENSOR_DDL, "sensor").where("volume > -1")

    def treatment(kind: str) -> Treatment:
        return Treatment(kind, tuple(sw.ignore(t) for t in texts(case.records, kind)))

    treatments = [Treatment("off"), treatment("one shape"), treatment("ranges")]
    ran = rounds(
        spark, treatments, build, batches_of(case, scratch), scratch / "out",
        warm_up=WARM_UP, label=case.name, collect=False,
    )  # fmt: skip
    return overhead(case, ran, treatments, {"cpu_ms": 20.0, "ratio": 1.05})


def batches_of(case: Messages | Records, scratch: Path) -> list[tuple[Files, Files]]:
    """The files of all batches."""
    files = files_of(scratch, "sensor", sensors, case.batch_rows, case.rounds + WARM_UP)
    return [({"sensor": whole}, {"sensor": few}) for whole, few in files]


def overhead(
    case: Messages | Records,
    ran: Ran,
    treatments: Sequence[Treatment],
    bars: Mapping[str, float],
) -> dict[str, Any]:
    """What all treatments take above the first one."""
    return {
        "name": case.name,
        "bars": dict(bars),
        "batch_rows": case.batch_rows,
        "found": {t.name: beside(ran, t.name) for t in treatments[1:]},
    }


def beside(ran: Ran, name: str) -> dict[str, Any]:
    """Milliseconds of the driver's CPU above those without feedback, and the ratio of times, pair by pair."""
    # Others in the round may have got their message in a batch of its own: this pair is sound all the same.
    both = zip(ran.all["off"][WARM_UP:], ran.all[name][WARM_UP:], strict=True)
    pairs = [(a, b) for a, b in both if len(a.records) == len(b.records) == 1 and b.alone]
    if not pairs:
        raise RuntimeError(f"{name}: no message came with the rows of a batch; give more rounds")
    return {
        "cpu_ms": confident([1000 * (b.cpu - a.cpu) for a, b in pairs]),
        "ratio": confident([b.seconds / a.seconds for a, b in pairs]),
        "cpu_off_ms": 1000 * median(a.cpu for a, _ in pairs),
        "sending_ms": 1000 * median(b.sending for _, b in pairs),
    }


def texts(count: int, kind: str) -> list[str]:
    """Conditions of ``count`` records that no row matches.

    >>> len(texts(120, "one shape")), texts(2, "ranges")[0]
    (3, '(sensor_id BETWEEN 1000 AND 1004 AND volume < -1) OR (sensor_id BETWEEN 1010 AND 1014 AND volume < -2)')
    """
    one = "(sensor_id = -{0} AND volume = {0})"
    ranges = "(sensor_id BETWEEN {1} AND {2} AND volume < -{0})"
    form = one if kind == "one shape" else ranges
    each = [form.format(k + 1, 1000 + 10 * k, 1004 + 10 * k) for k in range(count)]
    return [" OR ".join(each[i : i + AT_ONCE]) for i in range(0, count, AT_ONCE)]
