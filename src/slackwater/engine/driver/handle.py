"""The handle of a running query: StreamingQuery's surface over one or several runs of Spark's query.

All it shows is read from the checkpoint or from Spark's own query; it holds no state that a restart would miss.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from slackwater.engine.clock import monotonic, sleep
from slackwater.engine.driver.loop import Closed, Loop
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.control import request_flush, request_refresh
from slackwater.engine.store.evidence import is_published
from slackwater.errors import AnalysisError, ExecutionError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery as SparkQuery

Start = Callable[[Loop, bool], "SparkQuery"]


class Prepared(NamedTuple):
    """What is needed to run a query's outputs: its loop, how Spark's query is started, and its plan as text."""

    loop: Loop
    start: Start
    explain: Callable[[bool], str]


Change = Callable[[Checkpoint], Prepared]


class Group(Protocol):
    """The outputs of a query, as they may change while it runs. What cannot be is refused at once."""

    def adding(self, writer: Any) -> Change:
        """With one more output."""
        ...

    def removing(self, name: str) -> Change:
        """Without an output."""
        ...

    def unchanged(self) -> Change:
        """As they are."""
        ...


class StreamingQuery:
    """A running query. It has the members of PySpark's ``StreamingQuery``, ``flush`` and ``refresh``.

    ``endOfStream`` makes a second, short run of Spark's query after the first has drained its input.
    """

    def __init__(
        self,
        name: str | None,
        loop: Loop,
        checkpoint: Checkpoint,
        query_id: str,
        start: Start,
        end_of_stream: bool,
        explain: Callable[[bool], str],
        close: Callable[[], None],
        group: Group | None = None,
    ):
        self._name = name
        self._loop = loop
        self._checkpoint = checkpoint
        self._id = query_id
        self._start = start
        self._explain = explain
        self._close = close
        self._group = group
        self._change: Change | None = None
        self._refused: Exception | None = None
        self._changing = threading.Lock()
        self._changed = threading.Event()
        self._error: BaseException | None = None
        self._flushes = 0
        self._stopped = False
        self._done = threading.Event()
        finished = loop.last is not None and loop.last.final
        self._spark = _started(name, start, loop)
        self._end_of_stream = end_of_stream and not finished
        self._thread = threading.Thread(target=self._watch, name=f"slackwater-{name}", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        try:
            self._await_run()
            while self._change is not None and not self._stopped:
                self._apply(self._change)
                self._await_run()
            if self._end_of_stream and not self._stopped:
                self._loop.final = True
                self._spark = self._start(self._loop, True)
                self._spark.awaitTermination()
        except BaseException as error:
            self._error = self._own_error(error)
        finally:
            try:
                self._loop.end()
                self._checkpoint.release()
                self._close()
            finally:
                # Whoever waits must not wait for ever.
                self._done.set()
                self._changed.set()

    def _await_run(self) -> None:
        try:
            self._spark.awaitTermination()
        except BaseException:
            # A batch that a change of outputs cuts short is run again; if it was bad, it fails again.
            if self._change is None or self._stopped:
                raise

    def _apply(self, change: Change) -> None:
        """Start anew with other outputs, where the last batch that was committed left off."""
        self._loop.settle()
        self._checkpoint = self._checkpoint.handed_over()
        try:
            prepared = change(self._checkpoint)
        except Exception as error:
            # A sink that cannot be opened, say: the other outputs go on.
            assert self._group is not None
            self._refused = error
            prepared = self._group.unchanged()(self._checkpoint)
        loop, self._start, self._explain = prepared
        loop.records = [*self._loop.records]
        self._loop = loop
        self._change = None
        self._spark = self._start(loop, False)
        if self._stopped:  # meanwhile, when there was no run to stop
            self._spark.stop()
        self._changed.set()

    def _own_error(self, error: BaseException) -> BaseException:
        """Our own error where one is behind Spark's; Spark's text hides it in a stack of frames."""
        if self._loop.error is not None:
            return self._loop.error
        return error

    # ---- StreamingQuery's surface ----
    @property
    def id(self) -> str:
        """The query's id: the same on every restart from this checkpoint."""
        return self._id

    @property
    def runId(self) -> str:
        """The id of this run of Spark's query."""
        return str(self._spark.runId)

    @property
    def name(self) -> str | None:
        """The query's name."""
        return self._name

    @property
    def isActive(self) -> bool:
        """Whether it is still running."""
        return not self._done.is_set()

    @property
    def status(self) -> dict[str, Any]:
        """Spark's status of the query."""
        return dict(self._spark.status)

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """The record of the newest batch that did something; see ``docs/progress.md``."""
        records = self.recentProgress
        return records[-1] if records else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        """Records of recent batches, oldest first."""
        spark = {p["batchId"]: p for p in self._spark_progress()}
        records = list(self._loop.records)
        if not records and self._loop.last is not None:
            records = [self._loop.last.progress]
        return [self._whole(r, spark.get(r["batchId"])) for r in records if r]

    def _spark_progress(self) -> list[dict[str, Any]]:
        return [dict(p) for p in self._spark.recentProgress]

    def _whole(self, record: dict[str, Any], spark: dict[str, Any] | None) -> dict[str, Any]:
        shared = {"id": self._id, "runId": self.runId, "name": self._name}
        spark = spark or {}
        total = record["durationMs"].get("total", 0)
        rate = record["numInputRows"] * 1000 / total if total else 0.0
        return {
            "sources": spark.get("sources", []),
            "inputRowsPerSecond": spark.get("inputRowsPerSecond", rate) or 0.0,
            "processedRowsPerSecond": rate,
            **shared,
            **record,
            "durationMs": {**spark.get("durationMs", {}), **record["durationMs"]},
        }

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until the query ends (or ``timeout`` seconds); raises the error that ended it."""
        ended = self._done.wait(timeout)
        if ended and self._error is not None:
            raise self._error
        return ended if timeout is not None else None

    def processAllAvailable(self) -> None:
        """Wait until all input that is there now has been processed and its results are visible.

        Two batches that found nothing new prove it. Windows that only time completes may come later, as in PySpark.
        """
        seen = self._loop.idle_count
        while self._loop.idle_count < seen + 2 and self.isActive:
            sleep(0.02)
        if self._error is not None:
            raise self._error

    def exception(self) -> BaseException | None:
        """The error that ended the query, or None."""
        return self._error

    def stop(self) -> None:
        """Stop; a later start from the checkpoint goes on where this run stopped."""
        self._stopped = True
        if self._spark.isActive:
            self._spark.stop()
        self._done.wait()

    def finish(self) -> None:
        """Stop as soon as the batch at hand has ended, where `stop` cuts it short and the next start runs it again."""
        self._loop.close()
        self.stop()
        if isinstance(self._error, Closed):
            self._error = None

    def explain(self, extended: bool = False) -> None:
        """Print the plan: streams, operators, engines and the reasons for them."""
        print(self._explain(extended))

    @property
    def _has_begun(self) -> bool:
        """Whether a batch is done, one with rows or without."""
        return bool(self._loop.records) or self._loop.idle_count > 0

    def _abandon(self) -> None:
        """Take up no more input, for a checkpoint that nobody needs any more; `stop` interrupts no batch then."""
        self._loop.abandon()

    # ---- beyond Spark's ----
    def add(self, writer: Any) -> None:
        """One more output, from the next batch on; the others go on without losing or repeating a row.

        It reads the query's streams from here on, and must have a ``queryName`` that no other output has.
        """
        self._regroup(lambda group: group.adding(writer))

    def remove(self, name: str) -> None:
        """No more results of an output; what only it needed is freed."""
        self._regroup(lambda group: group.removing(name))

    def _regroup(self, change: Callable[[Group], Change]) -> None:
        with self._changing:
            if self._group is not None and self.isActive:
                self._changed.clear()
                self._change = change(self._group)
                if self._spark.isActive:
                    self._spark.stop()
                self._changed.wait()
                if self._error is not None:
                    raise self._error
                refused, self._refused = self._refused, None
                if refused is not None:
                    raise refused
                if self._change is None:
                    return
            raise ExecutionError(
                "NOT_RUNNING",
                "outputs can be added and removed while a query runs, and this one has ended",
                hint="start it again on its checkpoint with other outputs",
            )

    def refresh(self, relation: str) -> None:
        """Have a relation looked at when the next batch begins, whatever its ``refresh`` says; durable from the return on."""
        known = list(self._loop.query.relations)
        if relation not in known:
            raise AnalysisError(
                "NO_RELATION",
                f"the query reads no relation {relation!r}",
                hint=f"its relations are: {', '.join(known) or 'none'}",
                name=relation,
            )
        request_refresh(self._checkpoint, relation)

    def flush(self, timeout: float | None = 60) -> None:
        """Close every window that holds a row seen so far, and wait until the results are visible.

        Rows that come later for these windows are late.
        """
        number = self._flushes = request_flush(self._checkpoint, self._flushes)
        started = monotonic()
        while self.isActive:
            last = manifests.last(self._checkpoint)
            if (
                last is not None
                and last.flushes >= number
                and is_published(self._checkpoint, last.batch)
            ):
                return
            if timeout is not None and monotonic() - started > timeout:
                raise ExecutionError(
                    "FLUSH_TIMEOUT",
                    f"the query did not flush within {timeout} seconds",
                    hint="look at status and lastProgress; give a longer timeout",
                )
            sleep(0.02)
        if self._error is not None:
            raise self._error


def _started(name: str | None, start: Start, loop: Loop) -> SparkQuery:
    """Spark's query; that another one has its name is told as an error of ours."""
    try:
        return start(loop, False)
    except Exception as error:
        # The class of Spark's error is another one in each version, its words are not.
        if name is None or "with that name is already active" not in str(error):
            raise
        raise AnalysisError(
            "NAME_IN_USE",
            f"a query with the name {name!r} is running in this session",
            hint="give this one another queryName, or stop the other: "
            f"[q.stop() for q in spark.streams.active if q.name == {name!r}]",
            name=name,
        ) from error
