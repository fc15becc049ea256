"""The engine without Spark: the real loop, checkpoint and task functions; only the shuffle is played by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.clock import Clock, ManualClock
from slackwater.engine.driver import intent as intents
from slackwater.engine.driver import loop as loops
from slackwater.engine.driver.loop import Loop, Query
from slackwater.engine.lowlevel.fused import fusible
from slackwater.engine.lowlevel.inputs import Input, SplitInput, places, split_inputs
from slackwater.engine.lowlevel.tasks import RowInput, row_task, split_task
from slackwater.engine.operators.group_task import group_task
from slackwater.engine.paths.batch import Batch, Settings
from slackwater.engine.paths.wire import pack_control, routes, to_batches, unpack
from slackwater.engine.plan.plan import Plan, is_strict
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.control import request_flush
from slackwater.engine.store.manifest import OutputFile
from slackwater.kernels.types import arrow_schema
from slackwater.model.names import SOURCE
from slackwater.model.schema import Field
from slackwater.sinks.base import Sink
from tests.conftest import check_progress

Files = dict[int, list[str]]
"""Files of each input."""


def run_job(
    frame: Any, batch: Batch, inputs: Any, splits: dict[int, Any], has_rows: bool
) -> list[dict[str, Any]]:
    """The job of a batch, task after task. ``frame`` holds the files of inputs that are read as rows."""
    read = split_inputs(batch.plan, inputs)
    fused = frozenset(
        s.name for s in batch.plan.sources if s.input in read and fusible(batch.plan, s) is not None
    )
    sent: list[tuple[int, bytes]] = []
    for number in splits:
        task = split_task(batch, splits, fused)
        sent += _messages(task(iter([pa.record_batch([pa.array([number])], names=["id"])])))
    if has_rows:
        sent += _row_messages(frame, batch, inputs)
    for level in range(1, batch.plan.top + 1):
        targets = routes(batch.groups)
        made: list[tuple[int, bytes]] = []
        for g in range(batch.groups):
            mine = [(r, b) for r, b in sent if r == targets[g]]
            mine.append((targets[g], pack_control("group", g)))
            made += _messages(group_task(batch, level)(to_batches(mine)))
        sent = made
    return [unpack(blob)[1] for _, blob in sent]


def _row_messages(files: Files, batch: Batch, inputs: Sequence[Input]) -> list[tuple[int, bytes]]:
    """What the tasks over rows send: one task per file, or one in all where rows are judged in order of arrival.

    The rows have the shape of `engine.inputs.united`. What only Spark can evaluate is not played.
    """
    assert not any(p.blocked_by for p in batch.plan.paths)
    held = places(batch.plan, inputs)
    described = [
        RowInput(i, tuple(f.name for f in inputs[i].fields), columns) for i, columns in held.items()
    ]
    types = {
        column: field.type
        for i, columns in held.items()
        for column, field in zip(columns, arrow_schema(inputs[i].fields), strict=True)
    }
    parts = []
    for index in held:
        for name in files.get(index, ()):
            table = pq.read_table(name)
            there = dict(zip(held[index], table.columns, strict=True))
            made = {SOURCE: pa.array([index] * table.num_rows, pa.int32())}
            for column, type in types.items():
                made[column] = there.get(column, pa.nulls(table.num_rows, type))
            parts.append(pa.table(made).to_batches())
    if is_strict(batch.plan):
        parts = [[b for part in parts for b in part]]
    return [m for part in parts for m in _messages(row_task(batch, described)(iter(part)))]


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
        self.batches: list[Files] = []
        self.inputs: list[Input] = []
        self.records: list[dict[str, Any]] = []
        self.results: dict[str, dict[int, list[dict[str, Any]]]] = {}
        patch.setattr(loops, "run_job", run_job)
        patch.setattr(intents, "offsets", self._offsets)
        patch.setattr(intents, "new_files", self._files)
        patch.setattr(intents, "row_files", self._row_files)

    def _offsets(self, location: Path, batch: int) -> list[Any] | None:
        if batch < 0:
            return None
        done = self.batches[: batch + 1]
        counts = [sum(bool(b.get(i)) for b in done) for i in range(max(1, len(self.inputs)))]
        return [*counts, batch]

    def _files(self, location: Path, index: int, batch: int) -> list[str]:
        return self.batches[batch].get(index, [])

    def _row_files(self, location: Path, index: int, batch: int) -> list[str]:
        return self._files(location, index, batch) if self.inputs else []

    def open(self, settings: Settings = Settings()) -> Checkpoint:  # noqa: B008
        """Take the checkpoint, as a new process would."""
        self.checkpoint = Checkpoint(str(self.folder / "ck"), settings.rights)
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
        clock = clock or ManualClock(None)
        query = Query(plan, self.inputs, sinks, groups, tasks, clock, settings)
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
        files: Files = {}
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
        self.loop.run(files, number)  # type: ignore[arg-type]
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
