"""A query on a `LocalHost`: started, fed batch by batch, made to crash, started again."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.clock import Clock, NoClock
from slackwater.engine.driver.feedback import Reach
from slackwater.engine.driver.loop import Loop, Query
from slackwater.engine.driver.opening import open_query, stored_plans, stored_stores
from slackwater.engine.driver.passes import Started, passed
from slackwater.engine.driver.recovery import recovered
from slackwater.engine.driver.relations import RelationUse
from slackwater.engine.lowlevel.inputs import SplitInput
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.plan import Plan
from slackwater.engine.store import failpoints
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.feedback_log import send
from slackwater.engine.store.manifest import Manifest
from slackwater.model.schema import Field
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.feedback.value import Feedback
from slackwater.sinks.base import Sink
from slackwater.sinks.others import TableSink
from slackwater.testing.local.host import LocalHost, check_local

MEMORY = "/dev/shm"
ROOM = 1 << 30
"""Free bytes from which on files are kept in memory."""

AS_ROWS = "the test hands it over as rows"
"""Why an input of files is not read as splits."""


class NotReached(AssertionError):
    """Failpoints at which a run should have failed, and which it never came to."""

    def __init__(self, points: Sequence[str]):
        super().__init__(f"the run never came to {', '.join(points)}")
        self.points = frozenset(points)


@dataclass(frozen=True)
class LocalInput:
    """An input of a local run: its columns, and whether tasks read its files as splits or get rows."""

    fields: tuple[Field, ...]
    splits: bool = False


class LocalRun:
    """One query on one checkpoint, started as often as one likes.

    What was committed, published and not yet committed is told from the checkpoint on each start, as in production.
    The numbers of batches go on as Spark's do: a batch during which the query failed is run again.

    Parameters
    ----------
    folder
        An empty folder for checkpoint and input.
    plan
        The query as it was built; the next start may get another one. What a start decides about it, each start decides anew.
    window_plan, share_panes
        As the options ``windowPlan`` and ``sharePanes``.
    sink
        Makes the sink of an output from its name and its columns; by default rows are kept in ``published``.
    feedback
        What the next start declares, by output.
    relations
        The relations that the plan names, by name.
    reach
        As the option ``feedback``.
    """

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        inputs: Sequence[LocalInput],
        *,
        window_plan: str = "auto",
        share_panes: bool = True,
        clock: Clock | None = None,
        settings: Settings = Settings(),  # noqa: B008
        tasks: int = 2,
        sink: Callable[[str, tuple[Field, ...]], Sink] | None = None,
        feedback: Mapping[str, Sequence[Feedback]] | None = None,
        relations: Mapping[str, RelationUse] | None = None,
        reach: Reach = "source",
    ):
        check_local(plan)
        self.folder = folder
        self.plan = plan
        self.window_plan = window_plan
        self.share_panes = share_panes
        self.clock = clock or NoClock()
        self.settings = settings
        self.tasks = tasks
        self.sink = sink or self._kept
        self.feedback = feedback or {}
        self.relations = dict(relations or {})
        self.newest_versions = False
        """As ``option("relationVersions", "newest")``, for the next start."""
        self.reach = reach
        self.inputs = [
            SplitInput(None, str(folder / f"in{i}"), one.fields, by_rows="" if one.splits else AS_ROWS)
            for i, one in enumerate(inputs)
        ]  # fmt: skip
        self.host = LocalHost(len(inputs))
        self.published: dict[str, dict[int, pa.Table]] = {o.name: {} for o in plan.outputs}
        """The rows of each output, by batch."""
        self._opened: Loop | None = None
        self.done = 0
        """How many batches have ended: the next one has this number."""

    def give(self, tables: Mapping[int, pa.Table]) -> None:
        """The input of one more batch; an empty table is a batch without rows, none is no news of an input."""
        number = len(self.host.batches)
        files: dict[int, list[str]] = {}
        for index, table in tables.items():
            path = Path(self.inputs[index].path) / f"{number:08d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, path)
            files[index] = [str(path)]
        self.host.batches.append(files)

    def start(self, groups: int = 2) -> None:
        """Start as a new process would, from what the checkpoint holds."""
        self.checkpoint = Checkpoint(str(self.folder / "checkpoint"), self.settings.storage)
        try:
            self.checkpoint.acquire()
            last = recovered(self.checkpoint, self.host)
            shares = self.share_panes and not self.settings.smooth and not self.settings.low_table
            start = Started(
                self.inputs, self.window_plan, shares,
                stored_plans(self.checkpoint), stored_stores(self.checkpoint), last,
            )  # fmt: skip
            plan = passed(self.plan, start)
            numbers = tuple((i,) for i in range(len(self.inputs)))
            clock = not isinstance(self.clock, NoClock)
            query_id = open_query(self.checkpoint, plan, last, numbers, clock=clock)
            sinks: dict[str, Sink] = {}
            for output in plan.outputs:
                sinks[output.name] = self.sink(output.name, output.node.schema)
                sinks[output.name].open(None, self.checkpoint, query_id)  # type: ignore[arg-type]
            query = Query(
                plan, self.inputs, sinks, groups, self.tasks, self.clock, self.settings, numbers,
                self.host, feedback=tuple((o, f) for o, each in self.feedback.items() for f in each),
                reach=self.reach, relations=self.relations, newest_versions=self.newest_versions,
            )  # fmt: skip
            self.loop = self._opened = Loop(query, self.checkpoint, query_id)
        except BaseException:
            self.checkpoint.release()
            raise

    def step(self, *, final: bool = False) -> Manifest | None:
        """Run the next batch; ``final``: all streams end with it. The newest manifest after it."""
        if self.done == len(self.host.batches):
            self.host.batches.append({})
        self.loop.final = final
        self.loop.run(None, self.done)  # type: ignore[arg-type]
        self.done += 1
        return self.loop.last

    def send(self, request: Request) -> int:
        """Send feedback to the query, as any process may; the number of the request."""
        return send(Checkpoint(str(self.folder / "checkpoint"), self.settings.storage), request)

    def _kept(self, name: str, fields: tuple[Field, ...]) -> Sink:
        return TableSink(name, fields, partial(_keep, self.published.setdefault(name, {})))

    def stop(self) -> None:
        """Let go of the checkpoint; whatever the loop has not written is lost, as in a crash."""
        if self._opened is not None:
            self._opened.relations.stop()  # in production they go with the process
        self.checkpoint.release()


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for a run that nobody will look at again: in memory if there is room, where no write waits for a disk.

    A crash that a test plays is one of the process, and what a process wrote outlives it.
    """
    roomy = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM
    where = MEMORY if roomy else None
    with tempfile.TemporaryDirectory(prefix="slackwater-local-", dir=where) as folder:
        yield Path(folder)


@contextmanager
def failing(*points: str) -> Iterator[None]:
    """Inside, this process raises `InjectedFailure` where it first comes to one of the failpoints.

    ``"manifest.after@3"`` is the third time that it comes there.
    """
    failpoints.reset()
    pairs = [p.partition("@") for p in points]
    os.environ[failpoints.ENV] = ",".join(f"{point}=raise@{hit or 1}" for point, _, hit in pairs)
    try:
        yield
    finally:
        del os.environ[failpoints.ENV]


def _keep(tables: dict[int, Any], table: pa.Table, batch: int) -> None:
    # A batch may be handed over twice: the second time replaces the first.
    tables[batch] = table
