"""The engine without Spark: the real loop, checkpoint and task functions; only the shuffle is played by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.clock import ManualClock
from slackwater.engine.driver import intent as intents
from slackwater.engine.driver import loop as loops
from slackwater.engine.driver.loop import Loop, Query
from slackwater.engine.lowlevel.fused import fusible
from slackwater.engine.lowlevel.inputs import SplitInput
from slackwater.engine.lowlevel.tasks import split_task
from slackwater.engine.operators.group_task import group_task
from slackwater.engine.paths.batch import Batch, Settings
from slackwater.engine.paths.wire import pack_control, routes, to_batches, unpack
from slackwater.engine.plan.plan import Plan
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.control import request_flush
from slackwater.engine.store.manifest import OutputFile
from slackwater.sinks.base import Sink
from tests.conftest import check_progress

Files = dict[int, list[str]]


def run_job(
    frame: Any, batch: Batch, inputs: Any, splits: dict[int, Any], has_rows: bool
) -> list[dict[str, Any]]:
    """The job of a batch, task after task."""
    assert not has_rows
    fused = frozenset(s.name for s in batch.plan.sources if fusible(batch.plan, s) is not None)
    sent: list[tuple[int, bytes]] = []
    for number in splits:
        task = split_task(batch, splits, fused)
        sent += _messages(task(iter([pa.record_batch([pa.array([number])], names=["id"])])))
    for level in range(1, batch.plan.top + 1):
        targets = routes(batch.groups)
        made: list[tuple[int, bytes]] = []
        for g in range(batch.groups):
            mine = [(r, b) for r, b in sent if r == targets[g]]
            mine.append((targets[g], pack_control("group", g)))
            made += _messages(group_task(batch, level)(to_batches(mine)))
        sent = made
    return [unpack(blob)[1] for _, blob in sent]


def _messages(batches: Any) -> list[tuple[int, bytes]]:
    return [
        (route.as_py(), blob.as_py())
        for b in batches
        for route, blob in zip(b.column(0), b.column(1), strict=True)
    ]


class _Rows(Sink):
    """Keeps what was published."""

    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        tables = [pq.read_table(self.staged / f.name) for f in files if f.name]
        self.found.setdefault(batch, [r for t in tables for r in t.to_pylist()])

    found: dict[int, list[dict[str, Any]]]


class Engine:
    """One query on one checkpoint, started as often as one likes; each batch gets one file per table given."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch):
        self.folder = folder
        self.batches: list[list[str]] = []
        self.records: list[dict[str, Any]] = []
        self.results: dict[str, dict[int, list[dict[str, Any]]]] = {}
        patch.setattr(loops, "run_job", run_job)
        patch.setattr(intents, "offsets", self._offsets)
        patch.setattr(intents, "new_files", self._files)

    def _offsets(self, location: Path, batch: int) -> list[Any] | None:
        return None if batch < 0 else [sum(map(bool, self.batches[: batch + 1])), batch]

    def _files(self, location: Path, index: int, batch: int) -> list[str]:
        return self.batches[batch]

    def start(
        self,
        plan: Plan,
        *,
        groups: int = 2,
        tasks: int = 2,
        settings: Settings = Settings(),  # noqa: B008
    ) -> None:
        """Start, as a new process would."""
        self.checkpoint = Checkpoint(str(self.folder / "ck"), settings.rights)
        self.checkpoint.acquire()
        sinks: dict[str, Sink] = {}
        for o in plan.outputs:
            sink = _Rows(o.name, o.node.schema)
            sink.checkpoint = self.checkpoint
            sink.found = self.results.setdefault(o.name, {})
            sinks[o.name] = sink
        item = SplitInput(None, str(self.folder / "in"), plan.sources[0].schema)
        query = Query(plan, [item], sinks, groups, tasks, ManualClock(None), settings)
        self.loop = Loop(query, self.checkpoint, "query")

    def stop(self) -> None:
        self.checkpoint.release()

    def batch(self, *tables: pa.Table, flush: bool = False, final: bool = False) -> None:
        """One batch, maybe without input."""
        number = len(self.batches)
        names = []
        for i, table in enumerate(tables):
            path = self.folder / "in" / f"{number:04d}-{i}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(table, path)
            names.append(str(path))
        self.batches.append(names)
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
) -> Engine:
    """A query from its first batch to its end; before those in ``restarts`` it is started anew, with these settings.

    Every progress record is checked.
    """
    engine, again = make(), restarts or {}
    engine.start(plan)
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
