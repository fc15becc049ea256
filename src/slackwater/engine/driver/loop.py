"""The batch loop: what happens inside ``foreachBatch``, as numbered steps, each a failpoint.

1. *Intent* (``intent``): what the batch depends on goes to disk; a retry repeats it.
2. *Job*: one Spark job; tasks write state runs and output files and return descriptors.
3. *Manifest*: one atomic commit. Before it nothing happened, after it everything did.
4. *Publish*: output files move to where users see them; repeatable. A mark says that it begins, another that it is done.
5. *Clean* (``cleaning``): what no manifest needs is removed.

A batch that has a manifest runs no job: it is published again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from slackwater.engine.clock import Clock, monotonic
from slackwater.engine.driver.cleaning import Cleaner
from slackwater.engine.driver.feedback import (
    Arranged,
    Declared,
    Reach,
    arranged,
    signed,
    with_counts,
    with_unread,
)
from slackwater.engine.driver.host import Host, SparkHost
from slackwater.engine.driver.intent import check_done, has_news, intended, time_tells
from slackwater.engine.driver.pace import behind, marks_in_force, pace_record, with_paces
from slackwater.engine.driver.passes import Begun, passed
from slackwater.engine.driver.records import feedback_log, feedback_record, progress_record
from slackwater.engine.driver.relations import Relations, RelationUse
from slackwater.engine.driver.sealing import sealed_after, sealed_panes
from slackwater.engine.lowlevel.inputs import Input, source_files
from slackwater.engine.lowlevel.splits import Split, plan_splits
from slackwater.engine.lowlevel.unread import Unread, joined, unread
from slackwater.engine.operators.ledgers import holds_of, regrouped
from slackwater.engine.operators.registry import kind_of
from slackwater.engine.paths.batch import Batch, Settings
from slackwater.engine.paths.reports import Progress, TaskReport, dropped_by, progress_of
from slackwater.engine.plan.paces import paced
from slackwater.engine.plan.placing import decisions, stores
from slackwater.engine.plan.plan import Plan
from slackwater.engine.progress.quality import adapted
from slackwater.engine.progress.recall import recall_adapted
from slackwater.engine.progress.statistics import gathered, measured
from slackwater.engine.progress.step import (
    bounds_of,
    held_bounds,
    known_marks,
    marks_by_name,
)
from slackwater.engine.store import failpoints, history
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.evidence import (
    begun_mark,
    is_published,
    lost_manifest,
    published_mark,
    set_mark,
)
from slackwater.engine.store.feedback_log import intent_of, set_aside
from slackwater.engine.store.manifest import Intent, Manifest, OutputFile, Run
from slackwater.engine.store.runs import regroup
from slackwater.engine.store.spark_log import is_committed
from slackwater.model.time import written
from slackwater.semantics.bounds import END
from slackwater.semantics.lateness import late_row_error
from slackwater.semantics.slack.routes import Decision
from slackwater.sinks.base import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BatchFailed(RuntimeError):
    """Tells Spark that a batch failed; the handle raises the error itself."""


@dataclass
class Query:
    """All that the loop needs to know of a query.

    ``numbers`` are Spark's numbers of the sources of each input; by default each input is one source.
    ``host`` gives the batches and runs their jobs: Spark, unless a test plays it. ``warnings`` say what of its state may grow.
    ``feedback`` is what the start declares, and ``reach`` how far down feedback acts. ``relations`` are those that the plan
    names; with ``newest_versions`` a batch that is repeated may take a newer version, where its own is gone.
    """

    plan: Plan
    inputs: Sequence[Input]
    sinks: dict[str, Sink]
    groups: int
    tasks: int
    clock: Clock
    settings: Settings = field(default_factory=Settings)
    numbers: tuple[tuple[int, ...], ...] | None = None
    host: Host = field(default_factory=SparkHost)
    warnings: tuple[str, ...] = ()
    feedback: Declared = ()
    reach: Reach = "source"
    relations: Mapping[str, RelationUse] = field(default_factory=dict)
    newest_versions: bool = False

    def sources_of(self, index: int) -> tuple[int, ...]:
        """Spark's numbers of the sources that an input reads."""
        return (index,) if self.numbers is None else self.numbers[index]


class Closed(Exception):
    """Spark asked for a batch behind the last one that a query was to run."""


class Loop:
    """Runs the batches of one query on one checkpoint; everything durable is in the checkpoint."""

    def __init__(self, query: Query, checkpoint: Checkpoint, query_id: str):
        self.query = query
        self.checkpoint = checkpoint
        self.query_id = query_id
        self.final = False
        self.idle_count = 0
        """Batches that had no news: nothing to do, or only what time had completed."""
        self.abandoned = False
        self.closed = False
        self.error: BaseException | None = None
        self.records: list[dict[str, Any]] = []
        self.last = manifests.last(checkpoint)
        self._newest = manifests.Newest(checkpoint)
        self._busy = Lock()
        self._planner = ThreadPoolExecutor(1, "slackwater-placing")
        self.relations = Relations(
            query.plan, query.relations, checkpoint, newest=query.newest_versions, query=query_id
        )
        self._cleaner = Cleaner(checkpoint, query.sinks)
        self._cleaner.started()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """One micro-batch, as Spark calls it.

        The error is kept for the handle. What Spark gets is short: it matches the text of a failed callback
        against a pattern whose matcher recurses per character, and a long stack trace overflows its stack.
        The pattern tells a call that ``stop()`` interrupted by the error's full name, so that one is given.
        """
        try:
            with self._busy:
                self.run(frame, batch_id)
        except BaseException as error:
            self.error = error
            text = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
            raise BatchFailed(text[:1000]) from None

    def abandon(self) -> None:
        """Do no more batches, and wait for one that still runs. The checkpoint is of no use afterwards: input gets lost."""
        self.abandoned = True
        with self._busy:
            pass

    def close(self) -> None:
        """Wait for a batch that still runs, and refuse all others: what Spark has planned runs after the next start."""
        with self._busy:
            self.closed = True
        self.relations.stop()

    def settle(self) -> None:
        """Wait for a batch that still runs, and publish what is committed: another loop will know other outputs."""
        with self._busy:
            done = manifests.last(self.checkpoint)
            if done is not None:
                self._publish(done, again=True)

    def end(self) -> None:
        """The query ends: what workers keep for it goes. If Spark has ended as well, it is gone."""
        self.relations.stop()
        kept = any(kind_of(o).keeps_blocks(o) for o in self.query.plan.operators)
        if kept or self.query.relations:
            with contextlib.suppress(Exception):
                self.query.host.forget(str(self.checkpoint.root))

    def run(self, frame: DataFrame, batch_id: int) -> None:
        """The steps of a batch."""
        if self.abandoned:
            return
        if self.closed:
            raise Closed
        done = manifests.read(self.checkpoint, batch_id)
        if done is not None:
            check_done(self.query.host, self.checkpoint, done)
            self._publish(done, again=True)
            self.last = done
            return
        base = self._newest.before(batch_id)
        self._check_last(base)
        started = monotonic()
        bounds = self._bounds(base)
        intent, has_rows, files = intended(
            self.query, self.checkpoint, self.relations, batch_id, base, bounds, final=self.final
        )
        feedback = arranged(self.query.plan, intent, base, bounds, self.query.reach)
        marks = marks_in_force(self.query.plan, base, intent.now)
        reach: Reach = intent_of(intent).reach or self.query.reach  # type: ignore[assignment]
        feedback = with_paces(feedback, self.query.plan, marks, base, bounds, reach)
        idle = not has_rows and not any(files.values())
        batch = self._batch(intent, base, bounds, feedback, marks, idle=idle)
        ended = base is not None and base.final
        news = has_news(self.query, self.checkpoint, self.relations, intent, base, batch)
        news = news or (feedback.changed and not ended)
        if not news and not time_tells(self.query, base, batch):
            self.idle_count += 1
            return
        intent = self._signed(intent, feedback)
        splits, left_out = self._splits(batch, files)
        feedback, batch = (
            replace(feedback, unread=left_out),
            replace(batch, skipped=left_out.reports),
        )
        failpoints.hit("intent.before")
        self.relations.write(intent.relations)
        manifests.write_intent(self.checkpoint, intent)
        failpoints.hit("intent.after")
        if feedback.changed:
            failpoints.hit("feedback.taken")
            set_aside(self.checkpoint, [name for name, _ in feedback.refused])
        planned = monotonic()
        # Where rows should wait next is worked out while the job runs.
        waits = bool(stores(self.query.plan))
        decided = self._planner.submit(decisions, self.query.plan, base) if waits else None
        reports = self.query.host.run_job(frame, batch, self.query.inputs, splits, has_rows)
        failpoints.hit("job.after")
        finished = monotonic()
        places = decided.result() if decided is not None else {}
        result = self._manifest(intent, batch, base, reports, places)
        dropped = with_unread(dropped_by(reports), feedback.unread)
        too_old = behind(self.query.plan, dropped)
        kept = with_counts(feedback.state, dropped)
        if feedback.proofs:
            sealed = sealed_after(self.query.plan, feedback.proofs, kept.sealed, reports)
            kept = replace(kept, sealed=sealed)
        result.feedback = kept.to_json()
        times = {"plan": planned - started, "job": finished - planned}
        result.progress = progress_record(self.query, batch, result, reports, times)
        log = feedback_log(self.query.plan, result.progress, feedback, dropped)
        shown = feedback_record(feedback, kept, dropped, batch.now, log)
        if shown and kept.sealed:
            shown["sealed"] = sealed_panes(self.query.plan, kept.sealed, result.bounds)
        if shown:
            result.progress["feedback"] = shown
        if too_old:
            result.progress["pace"] = pace_record(self.query.plan, marks, result, too_old)
        if result.relations:
            result.progress["relations"] = self.relations.record(result, reports, batch.now)
        self._sync()
        manifests.commit(self.checkpoint, result)
        committed = monotonic()
        self._publish(result)
        times.update(commit=committed - finished, publish=monotonic() - committed)
        times["total"] = monotonic() - started
        result.progress["durationMs"].update({k: round(v * 1000) for k, v in times.items()})
        for out in result.progress["outputs"].values():
            if out["rows"]:
                out["latencyMs"] = result.progress["durationMs"]["total"]
        self.last = result
        self.records = [*self.records[-99:], result.progress]
        history.append(self.checkpoint, result.progress)
        self._cleaner.committed(result)
        if self.relations.has_copies:
            self._cleaner.sweep_versions()  # a copy is large: it goes as soon as nothing needs it
            self.relations.sweep()
        if not news:
            # Whoever waits for input to be processed does not wait for what time may still complete.
            self.idle_count += 1

    def _signed(self, intent: Intent, feedback: Arranged) -> Intent:
        """The intent with a digest of its guards; a batch that is tried again must have the same."""
        repeated = intent.batch in manifests.intended(self.checkpoint) if intent.feedback else False
        return signed(
            self.query.plan, intent, feedback.guards, reach=self.query.reach,
            repeated=repeated, location=self.checkpoint.location,
        )  # fmt: skip

    def _check_last(self, base: Manifest | None) -> None:
        """A batch builds on the newest one that this loop knows."""
        if self.last is not None and (base is None or base.batch < self.last.batch):
            raise lost_manifest(
                self.checkpoint, self.last.batch, "this query has read or written it"
            )

    # ---- 2: job ----
    def _batch(
        self,
        intent: Intent,
        base: Manifest | None,
        bounds: dict[str, dict[str, int]],
        feedback: Arranged,
        marks: Mapping[str, int],
        *,
        idle: bool = False,
    ) -> Batch:
        runs: dict[str, list[list[Run]]] = {}
        if base is not None:
            runs = {op: regroup(groups, intent.groups) for op, groups in base.runs.items()}
        ledgers = base.ledgers if base is not None else {}
        staging = {n: s.staging() for n, s in self.query.sinks.items()}
        return Batch(
            plan=paced(passed(self.query.plan, Begun(base)), marks),
            id=intent.batch,
            epoch=intent.epoch,
            groups=intent.groups,
            now=intent.now,
            ended=frozenset(intent.ended),
            backlog=frozenset(intent.backlog),
            flush=intent.flushes > (base.flushes if base is not None else 0),
            states=base.sources if base is not None else {},
            bounds=bounds,
            runs=runs,
            ledgers=regrouped(self.query.plan, ledgers, intent.groups),
            holds=base.holds if base is not None else {},
            tables=base.tables if base is not None else {},
            relations=self.relations.at(intent.relations, base, idle=idle),
            root=str(self.checkpoint.root),
            staging={n: s for n, s in staging.items() if s is not None},
            settings=self.query.settings,
            failpoints=os.environ.get(failpoints.ENV, ""),
            guards=feedback.guards,
            proofs=feedback.proofs,
            marks=base.marks if base is not None else {},
        )

    def _bounds(self, base: Manifest | None) -> dict[str, dict[str, int]]:
        """Bounds in force, from those of the sources: a node that is new on a restart has them too."""
        if base is None:
            return bounds_of(self.query.plan, {})
        known = {s.name for s in self.query.plan.sources}
        return bounds_of(
            self.query.plan,
            {n: state.bounds for n, state in base.sources.items() if n in known},
            base.holds,
            known_marks(self.query.plan, base.sources, base.marks, None),
        )

    def _splits(
        self, batch: Batch, files: dict[int, list[str]]
    ) -> tuple[dict[int, dict[str, list[Split]]], Unread]:
        """What each task reads of the new files, and what no task does."""
        query, parts = self.query, []
        plan: dict[int, dict[str, list[Split]]] = {}
        for index, names in files.items():
            if not names:
                continue
            held = source_files(query.inputs[index], names, query.plan.zone)
            left_out = unread(batch, index, held)
            parts.append(left_out)
            tasks = 1 if query.plan.readings[index].in_one_task else query.tasks
            for task, splits in enumerate(plan_splits(held, tasks, left_out.pieces(held))):
                if splits:
                    plan.setdefault(task, {})[str(index)] = splits
        return plan, joined(parts)

    # ---- 3: manifest ----
    def _manifest(
        self,
        intent: Intent,
        batch: Batch,
        base: Manifest | None,
        reports: list[TaskReport],
        decided: dict[str, Decision],
    ) -> Manifest:
        progress = progress_of(reports)
        self._check_late(progress)
        runs: dict[str, list[list[Run]]] = {
            op.id: [[] for _ in range(intent.groups)] for op in self.query.plan.operators
        }
        outputs: dict[str, list[OutputFile]] = {n: [] for n in self.query.sinks}
        ledgers: dict[str, list[Any]] = {}
        held: dict[str, list[Sequence[int]]] = {}
        tables: dict[str, list[Run]] = {}
        for report in reports:
            for op, of in report.operators.items():
                if of.ledger is not None:
                    ledgers.setdefault(op, [None] * intent.groups)[report.group] = of.ledger
                    held.setdefault(op, []).append(of.hold)
                if report.group == 0:  # all groups say the same of them
                    tables[op] = list(of.tables or ())
                runs[op][report.group] = list(of.runs)
            for name, files in report.outputs.items():
                outputs[name].extend(files)
        holds = holds_of(batch, held)
        bounds = held_bounds(batch, progress, holds) if holds else progress.bounds
        ended = all(
            v >= END for s in self.query.plan.sources for v in progress.bounds[s.name].values()
        )
        sources = adapted(self.query.plan, batch.states, progress)
        sources, recalls = recall_adapted(self.query.plan, base, sources, progress.bounds, reports)
        stored = {op: [*groups, tables.get(op, [])] for op, groups in runs.items()}
        statistics = gathered(self.query.plan, base, reports, progress.summaries, stored)
        for op, recall in recalls.items():
            statistics[op] = replace(statistics[op], recall=recall)
        for op, waiting in measured(self.query.plan, base, decided, reports, bounds).items():
            statistics[op] = replace(statistics[op], waiting=waiting)
        return Manifest(
            batch=intent.batch,
            epoch=intent.epoch,
            ordinal=intent.ordinal,
            groups=intent.groups,
            sources=sources,
            bounds=bounds,
            runs=runs,
            outputs=outputs,
            final=intent.final or ended,
            flushes=intent.flushes,
            offsets=intent.offsets,
            inputs=intent.inputs,
            offsets_file=intent.offsets_file,
            logs=intent.logs,
            relations=self.relations.after(intent.relations, ledgers),
            query=self.query_id,
            description=list(self.checkpoint.description or ()),
            ledgers=ledgers,
            holds={op: list(h) for op, h in holds.items()},
            tables={op: live for op, live in tables.items() if live},
            statistics=statistics,
            marks=marks_by_name(
                self.query.plan, progress.states, holds or batch.holds, batch.marks, intent.now
            ),
        )

    def _check_late(self, progress: Progress) -> None:
        for source in self.query.plan.sources:
            late = progress.summaries[source.name].late
            if source.late == "raise" and any(late.values()):
                column, row = json.loads(progress.sample or '["?", {}]')
                bound = (self.last.bounds if self.last else {}).get(source.name, {}).get(column)
                shown = next((written(t, bound) for t in source.times if t.name == column), bound)
                raise late_row_error(source.name, column, row, shown)

    def _sync(self) -> None:
        """Make the names of what tasks wrote durable, before a manifest speaks of them."""
        self.checkpoint.storage.sync(self.checkpoint.runs)
        for sink in self.query.sinks.values():
            if sink.storage.exists(sink.staged):
                sink.storage.sync(sink.staged)

    # ---- 4: publish ----
    def _publish(self, done: Manifest, *, again: bool = False) -> None:
        """``again``: an earlier try may have begun it, and the staged files have been lying on disk."""
        checkpoint = self.checkpoint
        if is_published(checkpoint, done.batch) or (
            again and is_committed(checkpoint.location, done.batch)
        ):
            return
        outputs = [
            (self.query.sinks[name], files)
            for name, files in done.outputs.items()
            if name in self.query.sinks
        ]
        if again:
            for sink, files in outputs:
                sink.check(done.batch, files)
        if any(f.name for _, files in outputs for f in files):
            # Should the manifest get lost from here on, the batch must not be computed once more.
            set_mark(checkpoint, begun_mark(checkpoint, done.batch))
            checkpoint.storage.sync(checkpoint.published)
            failpoints.hit("publish.begun")
        for sink, files in outputs:
            sink.publish(done.batch, files)
        failpoints.hit("publish.after")
        set_mark(checkpoint, published_mark(checkpoint, done.batch))
        failpoints.hit("published.after")
        for sink, files in outputs:
            sink.clean(files)
