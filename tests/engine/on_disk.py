"""The engine without Spark on a whole checkpoint: Spark's logs are written here, in Spark's form and order.

A query is started, damaged, copied and started again as a user's would be: `recovered`, `open_query`, sinks that write
real files. Which batch comes next is decided from the logs, as Spark decides it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.driver import recovery
from slackwater.engine.driver.host import SparkHost
from slackwater.engine.driver.loop import Loop, Query
from slackwater.engine.driver.opening import open_query
from slackwater.engine.driver.passes import Shown, passed
from slackwater.engine.lowlevel.inputs import SplitInput
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.plan import Plan
from slackwater.engine.store import failpoints
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.control import request_flush
from slackwater.sinks.base import Sink
from slackwater.sinks.files import ParquetSink
from slackwater.sinks.others import MemorySink
from slackwater.testing.clock import ManualClock
from slackwater.testing.local.host import LocalHost, small_parquet


class LogHost(SparkHost):
    """Spark's logs, as they lie on disk, and jobs in this process."""

    def run_job(self, *given: Any) -> list[dict[str, Any]]:
        return LocalHost().run_job(*given)


HOST = LogHost()


class Kept(MemorySink):
    """A memory sink without Spark's view of it."""

    def _view(self) -> None:
        return None


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@dataclass(frozen=True)
class Place:
    """A query's files: input that is only read, and a checkpoint and sinks of one's own. Outputs are kept in turn in a
    directory and in the checkpoint.

    ``files`` are those of each batch; the batch after the last ends the stream.
    """

    root: Path
    plan: Plan
    files: Sequence[Sequence[str]]
    settings: Settings = Settings()  # noqa: RUF009

    @property
    def location(self) -> Path:
        return self.root / "ck"

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(str(self.location))

    def copy(self, root: Path, *, linked: bool = False) -> Place:
        """Another path: a cache knows a run by the path of the first. ``linked``: files that are never changed in place
        are the same, so they must not be damaged in place either."""
        shutil.copytree(self.root, root, copy_function=_link if linked else shutil.copy2)
        return replace(self, root=root)

    def run(
        self, until: int | None = None, *, plan: Plan | None = None, flush: bool = False
    ) -> None:
        """Start, and run all batches before ``until``; all there are, and the end, by default."""
        checkpoint = self.checkpoint
        checkpoint.acquire()
        try:
            loop = self._opened(checkpoint, plan or self.plan)
            if flush:
                request_flush(checkpoint)
            end = len(self.files) + 1 if until is None else until
            for batch in range(self._next(), end):
                self._log(batch)
                loop.final = batch == len(self.files)
                loop.run(None, batch)  # type: ignore[arg-type]
                _write(self.location / "commits" / str(batch), ['{"nextBatchWatermarkMs":0}'])
        finally:
            checkpoint.release()

    def crash(self, point: str, until: int) -> None:
        """Run until a failpoint is hit."""
        with failing(f"{point}=raise"), pytest.raises(failpoints.InjectedFailure):
            self.run(until)

    def _opened(self, checkpoint: Checkpoint, plan: Plan) -> Loop:
        last = recovery.recovered(checkpoint, HOST)
        query_id = open_query(checkpoint, plan, last)
        sinks: dict[str, Sink] = {}
        for number, output in enumerate(plan.outputs):
            path = str(self.root / "sink" / output.name)
            sink = (
                Kept(output.name, output.node.schema)
                if number % 2
                else ParquetSink(output.name, output.node.schema, path)
            )
            sink.open(None, checkpoint, query_id)  # type: ignore[arg-type]
            sinks[output.name] = sink
        item = SplitInput(None, "in", plan.sources[0].schema)
        plan = passed(plan, Shown([item]))
        query = Query(plan, [item], sinks, 2, 2, ManualClock(None), self.settings, host=HOST)
        return Loop(query, checkpoint, query_id)

    def _next(self) -> int:
        written, done = (_newest(self.location / name) for name in ("offsets", "commits"))
        return written + 1 if written == done else written

    def _log(self, batch: int) -> None:
        """What Spark writes before it runs a batch; a batch that it runs again has it."""
        names = self.files[batch] if batch < len(self.files) else []
        entry = sum(map(bool, self.files[: batch + 1])) - 1
        if names and _newest(self.location / "sources" / "0") < entry:
            stamp = {"timestamp": 1_600_000_000_000 + batch, "batchId": entry}
            lines = [json.dumps({"path": f"file://{n}", **stamp}) for n in names]
            _write(self.location / "sources" / "0" / str(entry), lines)
        if _newest(self.location / "offsets") < batch:
            offsets = ["{}", json.dumps({"logOffset": entry}), json.dumps({"offset": batch})]
            _write(self.location / "offsets" / str(batch), offsets)

    def rows(self) -> dict[str, Counter[str]]:
        """All that was published, by output."""
        shown: dict[str, Counter[str]] = {o.name: Counter() for o in self.plan.outputs}
        for path in self.published():
            name = path.parts[1 if path.parts[0] == "sink" else 3]
            if name in shown:
                shown[name].update(_rows(self.root / path))
        return shown

    def published(self) -> list[Path]:
        """The files that users see."""
        seen = [*self.root.glob("sink/*/part-*"), *self.root.glob("ck/slackwater/outputs/*/data/*")]
        return sorted(p.relative_to(self.root) for p in seen)

    def durable(self) -> list[Path]:
        """Everything below ``slackwater/``."""
        folder = self.location / "slackwater"
        return sorted(p.relative_to(self.root) for p in folder.rglob("*") if p.is_file())


@contextmanager
def failing(setting: str) -> Iterator[None]:
    failpoints.reset()
    os.environ[failpoints.ENV] = setting
    try:
        yield
    finally:
        del os.environ[failpoints.ENV]


def write_inputs(folder: Path, batches: Sequence[pa.Table | None]) -> list[list[str]]:
    """Files of each batch: two where there are rows enough."""
    folder.mkdir(parents=True)
    made: list[list[str]] = []
    for number, table in enumerate(batches):
        names = []
        for part in range(2 if table is not None and table.num_rows > 1 else 0):
            half = (table.num_rows + 1) // 2
            path = folder / f"{number:04d}-{part}.parquet"
            pq.write_table(table.slice(part * half, half), path)
            names.append(str(path))
        made.append(names)
    return made


_read: dict[tuple[int, ...], list[str]] = {}
"""The rows of files by what tells a file: copies of a place share the files that they link to."""


def _rows(path: Path) -> list[str]:
    status = path.stat()
    key = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
    if key not in _read:
        _read[key] = [repr(row) for row in small_parquet(path).to_pylist()]
    return _read[key]


def _link(source: str, target: str) -> None:
    if os.path.basename(source) in ("lock", "progress.jsonl"):
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def _newest(folder: Path) -> int:
    names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    return max((int(n) for n in names if n.isdigit()), default=-1)


def _write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", *lines]))
