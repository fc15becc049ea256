"""Transcripts on the whole engine without Spark: real loop, checkpoint and tasks, on a `LocalHost`.

Each step is one batch with one file per stream; the clock and the ends of streams are scripted. A ``crash`` step stops
the query and starts it again with another number of partition groups; the parameter ``crash`` makes it fail at a
failpoint in the middle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.errors import SlackwaterError
from slackwater.model.node import LATE_FIELDS, Late, Node, Source
from slackwater.model.rewrite import Rewrite
from slackwater.semantics.bounds import topological
from slackwater.semantics.feedback.standing import Request
from slackwater.testing.clock import ManualClock
from slackwater.testing.executors.observing import (
    clock_of,
    count_late,
    plain,
    shown_late,
    table_of,
)
from slackwater.testing.local.run import LocalInput, LocalRun, NotReached, failing, scratch_folder
from slackwater.testing.local.tables import WrittenTable
from slackwater.testing.transcripts.script import Observed, Step, Transcript

START_POINTS = ("lock.taken", "epoch.written", "query.written")
"""Failpoints of a start; all others are those of a batch."""

HOUR = 3_600_000_000


def local_executor(
    *,
    splits: bool = False,
    groups: Sequence[int] = (2, 3, 1),
    plan: str = "auto",
    crash: str | Sequence[str] | None = None,
    crash_from: int | None = None,
    reached: set[str] | None = None,
    check: Callable[[dict[str, Any]], None] | None = None,
    settings: Settings = Settings(),  # noqa: B008
    relation_memory: int | None = None,
    relation_theta: int | None = None,
    relation_waiting: Mapping[str, Any] | None = None,
) -> Callable[[Transcript], list[Observed]]:
    """The executor in this process.

    ``splits`` reads files in the tasks instead of as rows; ``groups`` are the numbers of partition groups, one after
    each crash; ``plan`` is the option ``windowPlan``. ``crash`` names failpoints. The run fails once at each of them,
    where it first comes to it from batch ``crash_from`` on, by default the one in the middle; points of starting count
    from the first start on. `NotReached` tells those that it never came to; with a set ``reached``, points that it came
    to are put there instead, and the others are no error. ``check`` gets every progress record. With ``relation_memory`` relations are
    read in segments, of which so many bytes may stay. With ``relation_theta`` they are copied, into segments of at least so many bytes.
    ``relation_waiting`` is the ``waiting`` of their tables.
    """
    points = (crash,) if isinstance(crash, str) else tuple(crash or ())

    def execute(transcript: Transcript) -> list[Observed]:
        with scratch_folder() as folder:
            play = _Play(
                transcript,
                folder,
                splits,
                groups,
                plan,
                check,
                settings,
                (relation_memory, relation_theta, relation_waiting),
            )
            middle = len(transcript.batches) // 2
            observed = play.run(points, middle if crash_from is None else crash_from)
            if reached is not None:
                reached.update(set(points) - set(play.ahead))
            elif play.ahead and observed[-1].error is None:
                raise NotReached(play.ahead)
            return observed

    return execute


class _LaterClock:
    """The transcript's clock, but a batch that is tried again sees an hour later: it must take what its first try decided."""

    def __init__(self, clock: ManualClock):
        self.clock = clock
        self.tried: set[int] = set()
        """Ordinals of batches whose intent is on disk."""

    def ended(self, batch: int) -> frozenset[str]:
        return self.clock.ended(batch)

    def now(self, batch: int) -> int | None:
        shown = self.clock.now(batch)
        return shown if shown is None or batch not in self.tried else shown + HOUR


class _Play:
    """One run of a transcript, over one or several starts of its query."""

    def __init__(
        self,
        transcript: Transcript,
        folder: Path,
        splits: bool,
        groups: Sequence[int],
        plan: str,
        check: Callable[[dict[str, Any]], None] | None,
        settings: Settings,
        relation_sizes: tuple[int | None, int | None, Mapping[str, Any] | None],
    ):
        self.transcript = transcript
        self.groups = groups
        self.check = check
        self.ahead: list[str] = []
        """Failpoints at which the run has not failed yet."""
        self.armed_from = 0
        self.starts = 0
        self.bounds: dict[int, Any] = {}
        self.records: dict[int, Any] = {}
        self.ordinals: dict[int, int] = {}
        self.sent: dict[str, int] = {}
        """The number of the feedback that was sent last under a name."""
        self.sources, outputs = numbered(transcript)
        zone = str(transcript.text.get("zone", "UTC"))
        built = passed(build(outputs, ansi=True, zone=zone, window_plan=plan), Written())
        self.clock = _LaterClock(clock_of(transcript))
        self.tables = {
            n: WrittenTable(folder / "relations" / n, r, *relation_sizes)
            for n, r in transcript.relations.items()
        }
        self.shown: Mapping[str, Any] = {}
        self.query = LocalRun(
            folder, built, [LocalInput(s.schema, splits) for s in self.sources],
            window_plan=plan, clock=self.clock, settings=settings,
            relations={n: t.use for n, t in self.tables.items()},
        )  # fmt: skip

    def run(self, points: Sequence[str], armed_from: int) -> list[Observed]:
        self.ahead, self.armed_from = list(points), armed_from
        batches = 0
        try:
            self._start()
            for step in self.transcript.steps:
                if step.crash:
                    self._restart()
                    continue
                self._batch(step, batches)
                batches += 1
        except SlackwaterError as error:
            return [*self._observed(batches), Observed.failed(error)]
        finally:
            self.query.stop()
        return self._observed(batches)

    def _start(self) -> None:
        """Start, and start again where that fails."""
        while True:
            groups = self.groups[self.starts % len(self.groups)]
            try:
                with self._failing(p for p in self.ahead if p in START_POINTS):
                    self.query.start(groups)
            except failpoints.InjectedFailure as failure:
                self._failed(failure)
                continue
            self.starts += 1
            return

    def _restart(self) -> None:
        self.query.stop()
        self._start()
        intent = manifests.read_intent(self.query.checkpoint, self.query.done)
        if intent is not None:
            self.clock.tried.add(intent.ordinal)

    def _batch(self, step: Step, number: int) -> None:
        """One batch, which is run again if the query fails in it; each stream has a file, also where it has no rows."""
        tables = {i: table_of(s, step.rows.get(s.name, [])) for i, s in enumerate(self.sources)}
        self.query.give(tables)
        for name, rows in step.tables.items():
            if rows is not self.shown.get(name):
                self.tables[name].write(rows)
        self.shown = step.tables
        self._send(step)
        while self.query.done == number:
            armed = self.ahead if number >= self.armed_from else []
            try:
                with self._failing(p for p in armed if p not in START_POINTS):
                    self.query.step()
            except failpoints.InjectedFailure as failure:
                self._failed(failure)
                self._restart()
        done = self.query.loop.last
        if done is None or done.batch != number:
            return  # nothing could change
        self.bounds[done.ordinal] = done.bounds
        self.records[done.ordinal] = done.progress
        self.ordinals[done.ordinal] = number
        if self.check is not None and self.query.loop.records:
            shared: dict[str, Any] = {"id": "query", "runId": "run", "name": None, "sources": []}
            rates = {"inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0}
            self.check({**shared, **rates, **self.query.loop.records[-1]})

    def _send(self, step: Step) -> None:
        """Feedback that the step says, as another process would send it."""
        for sent in step.feedback:
            request = Request("send", f"out_{sent.output}", sent.name, sent.feedback)
            self.sent[sent.name] = self.query.send(request)
        for name in step.retract:
            self.query.send(Request("retract", target=self.sent[name]))

    def _failing(self, points: Iterable[str]) -> AbstractContextManager[None]:
        chosen = list(points)
        return failing(*chosen) if chosen else nullcontext()

    def _failed(self, failure: failpoints.InjectedFailure) -> None:
        self.ahead.remove(str(failure).removeprefix("failpoint "))

    def _observed(self, count: int) -> list[Observed]:
        shown = shown_late(self.transcript)
        return [
            Observed(
                {n: self._rows(f"out_{n}", i) for n in self.transcript.outputs},
                {
                    n: self._rows(f"late_{n}", i)
                    if n in shown
                    else [{}] * count_late(source, self.records, i)
                    for n, source in self.transcript.sources.items()
                },
                self.bounds.get(i, {}),
                heeds=True,
            )
            for i in range(count)
        ]

    def _rows(self, output: str, ordinal: int) -> list[dict[str, Any]]:
        table = self.query.published[output].get(self.ordinals.get(ordinal, -1))
        return [] if table is None else [plain(r) for r in table.to_pylist()]


def numbered(transcript: Transcript) -> tuple[list[Source], list[Output]]:
    """The streams that are read, as inputs of their own in the order of Spark's numbers, and the outputs over them.

    Late rows are an output where the transcript looks at them.
    """
    nodes: dict[str, Node] = {f"out_{n}": o.node for n, o in transcript.outputs.items()}
    for name in shown_late(transcript):
        source = transcript.sources[name]
        nodes[f"late_{name}"] = Late((*source.schema, *LATE_FIELDS), source.times, source)
    order = [n for n in topological(list(nodes.values())) if isinstance(n, Source)]
    number = {source.name: i for i, source in enumerate(order)}
    rewrite = Rewrite(lambda source: replace(source, input=number[source.name]))
    outputs = [Output(name, rewrite(node)) for name, node in nodes.items()]
    sources = [rewrite(source) for source in order]
    return [s for s in sources if isinstance(s, Source)], outputs
