"""``python -m benchmarks.feedback_scan``: CPU of the driver and of tasks, apart, where feedback gives up rows of files that hold all keys.

The batch loop and its tasks are those of production, in one process without Spark. So it takes seconds, and two trees can be
compared by it: run it with the other one's modules.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.feedback_data import map_rows
from benchmarks.record import heading, store
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.model.node import LATE_FIELDS, Late, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.feedback.text import parsed
from slackwater.testing.local.host import LocalHost
from slackwater.testing.local.run import LocalInput, LocalRun, scratch_folder
from slackwater.testing.transcripts.query import aggregate

FIELDS = (Field("segment", "int"), Field("ts", "timestamp"), Field("speed", "bigint"))
AT_ONCE, WARM_UP = 50, 1
READINGS = ("fused", "rows")


@dataclass(frozen=True)
class Case:
    """Feedback on a query that runs some batches; without ``texts`` there is none."""

    name: str
    rows: int
    keys: int
    texts: tuple[str, ...]
    reading: str = "fused"


def plan_of(reading: str) -> Plan:
    """Windows by segment. If late rows are wanted as well, scans hand rows on."""
    policy = BoundedDelay(delay="1 second")
    source = Source(FIELDS, (TimeColumn("ts", "timestamp", None),), "cars", policies=(policy,))
    step: dict[str, Any] = {
        "window": {"range": "60 seconds", "slide": "5 seconds"},
        "by": ["segment"],
        "agg": {"n": "count(*)", "total": "sum(speed)"},
    }
    outputs = [Output("map", aggregate(source, step))]
    if reading == "rows":
        outputs.append(Output("late", Late((*FIELDS, *LATE_FIELDS), source.times, source)))
    return passed(build(outputs, ansi=True, zone="UTC"), Written())


def cases(rows: int, keys: int, few: int, records: int) -> list[Case]:
    """Views of some shares, and many records that match nothing."""
    made = []
    for reading in READINGS:
        made.append(Case(f"{reading}, no feedback", rows, keys, (), reading))
        for share in (0.01, 0.05, 0.5):
            low = keys * 2 // 5
            text = f"~{{segment < {low} OR >= {low + int(keys * share)} OR IS NULL}}"
            made.append(Case(f"{reading}, {share:.0%} in view", rows, keys, (text,), reading))
    made.append(Case("no records", few, keys, ()))
    forms: dict[str, Callable[[int], str]] = {
        "of one shape": lambda k: f"~{{segment = -{k}, n = {k}}}",
        "of ranges": lambda k: f"~{{segment >= {-10 * k - 10} AND < {-10 * k - 5}, n < {-k}}}",
    }
    for name, form in forms.items():
        each = [form(k) for k in range(1, records + 1)]
        texts = tuple(" ".join(each[i : i + AT_ONCE]) for i in range(0, records, AT_ONCE))
        made.append(Case(f"{records} records {name}", few, keys, texts))
    return made


class Timed(LocalHost):
    """A host that takes the time of its tasks."""

    tasks = 0.0

    def run_job(self, *given: Any, **named: Any) -> Any:
        """As the host does."""
        begin = time.process_time()
        try:
            return super().run_job(*given, **named)
        finally:
            self.tasks = time.process_time() - begin


def run(case: Case, batches: int) -> dict[str, Any]:
    """Milliseconds of CPU of a batch, of the driver and of its tasks."""
    plan = plan_of(case.reading)
    with scratch_folder() as folder:
        local = LocalRun(folder, plan, [LocalInput(FIELDS, True)])
        local.host = host = Timed(1)
        for n in range(batches + WARM_UP):
            table = map_rows(n, case.rows, case.keys, 10, clustered=False)
            local.give({0: table.set_column(2, "speed", table["speed"].cast(pa.int64()))})
        for path in Path(local.inputs[0].path).glob("*.parquet"):
            pq.write_table(pq.read_table(path), path, row_group_size=max(1, case.rows // 10))
        local.start()
        for i, text in enumerate(case.texts):
            feedback = parsed(text, Columns.of(plan.outputs[0].node))
            local.send(Request("send", "map", f"view {i}", feedback))
        driver, tasks = [], []
        for _ in range(batches + WARM_UP):
            begin = time.process_time()
            local.step()
            tasks.append(1000 * host.tasks)
            driver.append(1000 * (time.process_time() - begin) - tasks[-1])
        local.stop()
    return {
        "name": case.name,
        "first": round(driver[0], 1),
        "driver": round(median(driver[WARM_UP:]), 1),
        "tasks": round(median(tasks[WARM_UP:]), 1),
    }


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.feedback_scan", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a batch")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    args = parser.parse_args(given)
    rows, few, keys, records = args.rows, 54_000, 100_000, 1000
    if args.quick:
        rows, few, keys, records, args.batches = 2_000, 500, 100, 40, 1
    print(f"{'case':32} {'driver, first':>14} {'driver':>8} {'tasks':>8}  ms of CPU of a batch")
    points = []
    for case in cases(rows, keys, few, records):
        if args.only in case.name:
            points.append(run(case, args.batches))
            p = points[-1]
            print(f"{p['name']:32} {p['first']:14} {p['driver']:8} {p['tasks']:8}", flush=True)
    settings = {n: v for n, v in vars(args).items() if n != "quick"}
    store("feedback-scan", {**heading(quick=args.quick, **settings), "points": points}, quick=args.quick)  # fmt: skip


if __name__ == "__main__":
    main()
