"""The engine without Spark, for tests of single plans: the real loop, checkpoint and tasks on a `LocalHost`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.clock import Clock
from slackwater.engine.driver.loop import Loop, Query
from slackwater.engine.driver.passes import Shown, passed
from slackwater.engine.driver.relations import RelationUse
from slackwater.engine.lowlevel.inputs import Input, SplitInput
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.plan import Plan
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.control import request_flush
from slackwater.engine.store.manifest import OutputFile
from slackwater.model.schema import Field
from slackwater.sinks.base import Sink
from slackwater.testing.clock import ManualClock
from slackwater.testing.local.host import Files, LocalHost, small_parquet
from tests.progress_schema import check_progress


class _Rows(Sink):
    """Keeps what was published."""

    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        tables = [small_parquet(self.staged / f.name) for f in files if f.name]
        self.found.setdefault(batch, [r for t in tables for r in t.to_pylist()])

    found: dict[int, list[dict[str, Any]]]


class Engine:
    """One query on one checkpoint, started as often as one likes; each batch gets one file per table given."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch | None = None):
        self.folder = folder
        self.host = LocalHost()
        self.inputs: list[Input] = []
        self.records: list[dict[str, Any]] = []
        self.results: dict[str, dict[int, list[dict[str, Any]]]] = {}

    @property
    def batches(self) -> list[Files]:
        """The files of each batch, by input."""
        return self.host.batches

    def open(self, settings: Settings = Settings()) -> Checkpoint:  # noqa: B008
        """Take the checkpoint, as a new process would."""
        self.checkpoint = Checkpoint(str(self.folder / "ck"), settings.storage)
        self.checkpoint.acquire()
        return self.checkpoint

    def start(
        self,
        plan: Plan,
        *,
        groups: int = 2,
        tasks: int = 2,
        settings: Settings = Settings(),  # noqa: B008
        inputs: Sequence[Input] | None = None,
        clock: Clock | None = None,
        query_id: str | None = None,
        relations: Mapping[str, RelationUse] | None = None,
    ) -> None:
        """Start, as a new process would.

        ``inputs`` are one split input by default. A ``query_id`` is that of a query on a checkpoint that is open.
        """
        if query_id is None:
            self.open(settings)
        sinks: dict[str, Sink] = {}
        for o in plan.outputs:
            sink = _Rows(o.name, o.node.schema)
            sink.checkpoint = self.checkpoint
            sink.found = self.results.setdefault(o.name, {})
            sinks[o.name] = sink
        self.inputs = list(inputs or [self.split_input(0, plan.sources[0].schema)])
        self.host.inputs = len(self.inputs)
        clock = clock or ManualClock(None)
        plan = passed(plan, Shown(self.inputs))
        query = Query(
            plan, self.inputs, sinks, groups, tasks, clock, settings, host=self.host, relations=relations or {}
        )  # fmt: skip
        self.loop = Loop(query, self.checkpoint, query_id or "query")

    def split_input(self, index: int, fields: tuple[Field, ...], by_rows: str = "") -> SplitInput:
        """An input of files, read as rows if ``by_rows`` says why."""
        return SplitInput(None, str(self._input(index)), fields, by_rows=by_rows)

    def _input(self, index: int) -> Path:
        return self.folder / (f"in{index}" if index else "in")

    def stop(self) -> None:
        self.checkpoint.release()

    def batch(
        self,
        *tables: pa.Table,
        flush: bool = False,
        final: bool = False,
        others: Mapping[int, Sequence[pa.Table]] | None = None,
    ) -> None:
        """One batch, maybe without input. The tables are those of the first input, and of ``others`` by their number."""
        number = len(self.batches)
        files: dict[int, list[str]] = {}
        for index, given in {0: tables, **(others or {})}.items():
            for i, table in enumerate(given):
                path = self._input(index) / f"{number:04d}-{i}.parquet"
                path.parent.mkdir(exist_ok=True)
                pq.write_table(table, path)
                files.setdefault(index, []).append(str(path))
        self.batches.append(files)
        if flush:
            request_flush(self.checkpoint)
        self.loop.final = final
        before = len(self.loop.records)
        self.loop.run(None, number)  # type: ignore[arg-type]
        self.records += self.loop.records[before:]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All results so far."""
        return [r for b in sorted(self.results[name]) for r in self.results[name][b]]


Make = Callable[..., Engine]
"""The fixture ``engine``."""


def run_whole(
    make: Make,
    plan: Plan,
    batches: Iterable[Sequence[pa.Table]],
    restarts: Mapping[int, Mapping[str, Any]] | None = None,
    groups: int = 2,
) -> Engine:
    """A query from its first batch to its end; before those in ``restarts`` it is started anew, with these settings.

    Every progress record is checked.
    """
    engine, again = make(), restarts or {}
    engine.start(plan, groups=groups)
    for i, tables in enumerate(batches):
        if i in again:
            engine.stop()
            engine.start(plan, **again[i])
        engine.batch(*tables)
    engine.batch(final=True)
    engine.stop()
    for record in engine.records:
        check_progress({**record, "id": "q", "runId": "r", "name": None, "inputRowsPerSecond": 0,
                        "processedRowsPerSecond": 0, "sources": []})  # fmt: skip
    return engine
