"""Several results with targets of their own over one stream, beside one alone: the driver's processor time by batch.

``python -m benchmarks.quality_shared`` runs both in turns, batch by batch, without Spark: the real loop and checkpoint, and tasks
whose time is left out. What is observed of a stream is observed once, so five results must not cost twice as much as one.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.clock import NoClock
from slackwater.engine.driver.loop import Loop, Query
from slackwater.engine.driver.passes import Shown, passed
from slackwater.engine.lowlevel.inputs import SplitInput
from slackwater.engine.paths.batch import Settings
from slackwater.engine.paths.reports import TaskReport
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.plan.sharing import share
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.model.aggregate import Primitive
from slackwater.model.node import Aggregate, Source
from slackwater.model.policy import Quality
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.sinks.base import Sink
from slackwater.testing.local.host import LocalHost

FIELDS = (Field("ts", "bigint"), Field("v", "double"))
TIME = TimeColumn("ts", "long", None)
MOST = 2.0
"""How many times as much five results may cost as one."""


def plan(targets: Sequence[float]) -> Any:
    """A sum by window for each error; all but the first over a stream that differs in its policy alone."""
    outputs = []
    for i, error in enumerate(targets):
        policy = Quality(error=error, granularity=2)
        source = Source(FIELDS, (TIME,), "s", 0, (policy,))
        if i:
            source = replace(source, name=f"s~out{i}", twin="s")
        parts = (Primitive("_a0", "sum", (column("v", "double"),), "double"),)
        fields = (
            Field("wid", "bigint"), Field("window", "struct<start:bigint,end:bigint>"), Field("total", "double"),
        )  # fmt: skip
        times = (TimeColumn("window", "window", None, True),)
        named = (Named("total", column("__sw_a0", "double")),)
        node = Aggregate(fields, times, source, (), TimeWindow(100, 20, 0, "ts"), parts, named)
        outputs.append(Output(f"out{i}", node))
    return build(outputs, ansi=True, zone="UTC")


class Timed(LocalHost):
    """A host that knows how long tasks took."""

    spent = 0.0

    def run_job(self, *args: Any, **named: Any) -> list[TaskReport]:
        """The job of a batch."""
        began = time.process_time()
        reports = super().run_job(*args, **named)
        self.spent += time.process_time() - began
        return reports


class _Nowhere(Sink):
    """Keeps nothing."""

    def publish(self, batch: int, files: Sequence[Any]) -> None:
        """Publish a batch."""


class Running:
    """A query that is fed batch by batch."""

    def __init__(self, folder: Path, targets: Sequence[float]):
        folder.mkdir()
        self.folder, self.host = folder, Timed()
        asked = plan(targets)
        inputs = [SplitInput(None, str(folder / "in"), FIELDS)]
        (folder / "in").mkdir()
        checkpoint = Checkpoint(str(folder / "ck"), Settings().storage)
        checkpoint.acquire()
        sinks: dict[str, Sink] = {o.name: _Nowhere(o.name, o.node.schema) for o in asked.outputs}
        for sink in sinks.values():
            sink.checkpoint = checkpoint
        shown = share(passed(asked, Shown(inputs)), {}, None)
        self.loop = Loop(Query(shown, inputs, sinks, 1, 1, NoClock(), Settings(), host=self.host, relations={}), checkpoint, "query")  # fmt: skip
        self.loop.final = False

    def batch(self, rows: pa.Table) -> tuple[float, float]:
        """Processor seconds of the driver and of the tasks for one batch."""
        number = len(self.host.batches)
        path = self.folder / "in" / f"{number:04d}.parquet"
        pq.write_table(rows, path)
        self.host.batches.append({0: [str(path)]})
        began, before = time.process_time(), self.host.spent
        self.loop.run(None, number)  # type: ignore[arg-type]
        tasks = self.host.spent - before
        return time.process_time() - began - tasks, tasks


def rows(seed: int, count: int) -> pa.Table:
    """Four rows a tick, 30 % of them late."""
    rng = np.random.default_rng(seed)
    made = np.arange(count) // 4
    late = np.where(rng.random(count) < 0.3, rng.exponential(30, count), 0)
    order = np.argsort(made + late, kind="stable")
    return pa.table({"ts": made[order].astype(np.int64), "v": rng.uniform(1, 9, count)})


def measured(batches: int, size: int, targets: Sequence[float]) -> dict[str, Any]:
    """Milliseconds of the driver and of the tasks by batch, of one result and of all, after the first quarter."""
    spent: dict[int, list[tuple[float, float]]] = {1: [], len(targets): []}
    data = rows(1, batches * size)
    with tempfile.TemporaryDirectory() as folder:
        queries = {n: Running(Path(folder) / str(n), targets[:n]) for n in spent}
        for a, b in pairwise(range(0, (batches + 1) * size, size)):
            for n, query in queries.items():
                spent[n].append(query.batch(data.slice(a, b - a)))
    out: dict[str, Any] = {}
    for n, lines in spent.items():
        warm = lines[len(lines) // 4 :]
        for name, one in zip(("driver", "tasks"), zip(*warm, strict=True), strict=True):
            out[f"{name}_{n}"] = 1000 * statistics.median(one)
    for name in ("driver", "tasks"):
        out[f"{name}_times"] = out[f"{name}_{len(targets)}"] / out[f"{name}_1"]
    return out


def main() -> None:
    """Measure and print; fails if several results cost more than they may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--rows", type=int, default=2_000, help="of a batch")
    asked = parser.parse_args()
    found = measured(asked.batches, asked.rows, [0.01, 0.02, 0.03, 0.05, 0.1])
    for name, value in found.items():
        print(f"{name}: {value:.2f}")
    if found["driver_times"] > MOST:
        raise SystemExit(
            f"the driver takes {found['driver_times']:.2f} times as long, at most {MOST:g} are allowed"
        )


if __name__ == "__main__":
    main()
