"""Transcripts on Spark, through the public surface: real micro-batches, real checkpoints.

Each step's rows are one file per stream, so that a step is one micro-batch; the clock and the ends of
streams are scripted. A ``crash`` step stops the query and starts it again on its checkpoint, with another
number of partition groups; the parameter ``crash`` makes it fail at a failpoint in the middle of a batch.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import slackwater as sw
from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.errors import SlackwaterError
from slackwater.model.node import (
    Aggregate,
    Dedup,
    Filter,
    Held,
    Join,
    Late,
    Lookup,
    Outpaced,
    Pace,
    Parted,
    Project,
    Sort,
    Source,
    Union,
    Waiting,
)
from slackwater.model.registry import Registry
from slackwater.sources.replay import replay, write_batch
from slackwater.surface.stream import Stream
from slackwater.testing.custom_windows import CUSTOM
from slackwater.testing.executors.observing import (
    clock_of,
    count_late,
    plain,
    shown_late,
    table_of,
)
from slackwater.testing.local.tables import WrittenTable
from slackwater.testing.transcripts.conditions import CONDITIONS
from slackwater.testing.transcripts.join import input_of
from slackwater.testing.transcripts.query import operator_of
from slackwater.testing.transcripts.script import Observed, Step, Transcript
from slackwater.testing.transcripts.windows import listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CRASH_POINTS = (
    "intent.before", "intent.after", "job.after", "manifest.before", "manifest.after",
    "publish.after", "published.after",
)  # fmt: skip

ZONE = "spark.sql.session.timeZone"


def spark_executor(
    spark: SparkSession,
    *,
    splits: bool = False,
    groups: Sequence[int] = (2, 3, 1),
    plan: str = "auto",
    crash: str | None = None,
    check: Callable[[dict[str, Any]], None] | None = None,
) -> Callable[[Transcript], list[Observed]]:
    """The executor on a session.

    ``splits`` reads files in the tasks instead of as rows; ``groups`` are the numbers of partition
    groups, one after each crash; ``plan`` is the option ``windowPlan``; ``crash`` names a failpoint of the
    driver, at which the batch in the middle fails; ``check`` gets every progress record.
    """

    def execute(transcript: Transcript) -> list[Observed]:
        before = str(spark.conf.get(ZONE))
        spark.conf.set(ZONE, transcript.text.get("zone", "UTC"))
        try:
            with tempfile.TemporaryDirectory(prefix="slackwater-transcript-") as folder:
                run = _SparkRun(spark, transcript, Path(folder), splits, plan, crash, check)
                return run.run(groups)
        finally:
            spark.conf.set(ZONE, before)

    return execute


class _SparkRun:
    """One run of a transcript, over one or several starts of its query."""

    def __init__(
        self,
        spark: SparkSession,
        transcript: Transcript,
        folder: Path,
        splits: bool,
        plan: str,
        crash: str | None,
        check: Callable[[dict[str, Any]], None] | None,
    ):
        self.spark = spark
        self.transcript = transcript
        self.folder = folder
        self.splits = splits
        self.plan = plan
        self.crash = crash
        self.check = check
        self.checkpoint = str(folder / "checkpoint")
        self.rows: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self.bounds: dict[int, dict[str, dict[str, int]]] = {}
        self.records: dict[int, dict[str, Any]] = {}
        self.tables = {
            n: WrittenTable(folder / "relations" / n, r) for n, r in transcript.relations.items()
        }

    def run(self, groups: Sequence[int]) -> list[Observed]:
        lives = [
            list(steps)
            for crash, steps in groupby(self.transcript.steps, key=lambda s: s.crash)
            if not crash
        ]
        inputs = {n: self._input(s) for n, s in self.transcript.sources.items()}
        done = 0
        for life, steps in enumerate(lives):
            for offset, step in enumerate(steps):
                self._write(step, done + offset)
            # All batches of a life run at once: a table changes from one life to the next alone.
            for name, rows in steps[0].tables.items():
                assert all(step.tables[name] is rows for step in steps)
                self.tables[name].write(rows)
            done += len(steps)
            try:
                if self.crash is not None and life == len(lives) - 1:
                    self._crash(inputs, groups[life % len(groups)], len(steps) // 2 + 1)
                    life += 1
                self._start(inputs, groups[life % len(groups)])
            except SlackwaterError as e:
                failed = max(self.bounds, default=-1) + 1
                return [*self._observed(failed), Observed.failed(e)]
        return self._observed(done)

    def _crash(self, inputs: Mapping[str, Any], groups: int, batch: int) -> None:
        """Run until the failpoint of the ``batch``-th batch from here."""
        failpoints.reset()
        os.environ[failpoints.ENV] = f"{self.crash}=raise@{batch}"
        try:
            self._start(inputs, groups)
        except failpoints.InjectedFailure:
            return
        finally:
            del os.environ[failpoints.ENV]
        raise AssertionError(f"failpoint {self.crash} was not hit {batch} times")

    def _input(self, source: Source) -> Any:
        ddl = ", ".join(f"`{f.name}` {f.type}" for f in source.schema)
        folder = str(self.folder / source.name)
        return replay(self.spark, [], ddl, directory=folder, splits=self.splits)

    def _write(self, step: Step, number: int) -> None:
        """The step's rows, one file per stream, also where there are none."""
        for name, source in self.transcript.sources.items():
            table = table_of(source, step.rows.get(name, []))
            (target,) = (self.folder / name).iterdir()
            struct = self._struct(source)
            write_batch(table, struct, target, number)

    def _struct(self, source: Source) -> Any:
        from pyspark.sql.types import StructType

        return StructType.fromDDL(", ".join(f"`{f.name}` {f.type}" for f in source.schema))

    def _start(self, inputs: Mapping[str, Any], groups: int) -> None:
        text = self.transcript.text
        streams = {
            name: self._stream(source, inputs[name], text["streams"][name])
            for name, source in self.transcript.sources.items()
        }
        queries = text["query"] if isinstance(text["query"], Mapping) else {"out": text["query"]}
        relations = {
            n: sw.relation(
                str(t.folder), list(self.transcript.relations[n].key), n, spark=self.spark
            )
            for n, t in self.tables.items()
        }
        builder = _Surface(streams, queries, relations)
        clock = clock_of(self.transcript)
        named = {f"out_{n}": builder.named(n) for n in queries}
        named |= {f"late_{n}": streams[n].late for n in shown_late(self.transcript)}
        writers = [
            s.writeStream.queryName(n)._foreach_table(self._collector(n)).clock(clock)
            for n, s in named.items()
        ]
        query = sw.start(
            writers,
            checkpointLocation=self.checkpoint,
            trigger={"availableNow": True},
            options={"partitionGroups": groups, "windowPlan": self.plan},
        )
        try:
            query.awaitTermination()
        finally:
            for record in query.recentProgress if self.check is not None else ():
                self.check(record)  # type: ignore[misc]

    def _late(self, name: str, batch: int) -> list[dict[str, Any]]:
        if name in shown_late(self.transcript):
            return self.rows.get((f"late_{name}", batch), [])
        return [{}] * count_late(self.transcript.sources[name], self.records, batch)

    def _stream(self, source: Source, df: Any, spec: Mapping[str, Any]) -> Stream:
        policies = {t.name: p for t, p in zip(source.times, source.policies, strict=True)}
        return sw.stream(
            df,
            time=[t.name for t in source.times] if len(policies) > 1 else source.times[0].name,
            name=source.name,
            progress=policies if len(policies) > 1 else source.policies[0],
            late=source.late,
            order=list(source.order) or None,
            partition=source.partition,
            partitions=source.partitions,
            timeUnit=spec.get("unit"),
        )

    def _collector(self, name: str) -> Callable[[pa.Table, int], None]:
        def collect(table: pa.Table, batch: int) -> None:
            manifest = manifests.read(Checkpoint(self.checkpoint), batch)
            assert manifest is not None, "a batch is published only after its commit"
            rows = [plain(r) for r in table.to_pylist()]
            self.rows[name, manifest.ordinal] = rows
            self.bounds[manifest.ordinal] = {n: dict(b) for n, b in manifest.bounds.items()}
            self.records[manifest.ordinal] = manifest.progress

        return collect

    def _observed(self, count: int) -> list[Observed]:
        return [
            Observed(
                {n: self.rows.get((f"out_{n}", i), []) for n in self.transcript.outputs},
                {n: self._late(n, i) for n in self.transcript.sources},
                self.bounds.get(i, {}),
            )
            for i in range(count)
        ]


class _Surface:
    """Pipelines as calls of the public surface."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        queries: Mapping[str, Any],
        relations: Mapping[str, Any] | None = None,
    ):
        self.streams = streams
        self.queries = queries
        self.relations = relations or {}
        self.lookups: dict[str, Stream] = {}
        self.built: dict[str, Stream] = {}

    def named(self, name: str) -> Stream:
        if name in self.streams:
            return self.streams[name]
        if name not in self.built:
            self.built[name] = self.pipeline(self.queries[name])
        return self.built[name]

    def pipeline(self, steps: Any) -> Stream:
        if isinstance(steps, str):
            return self.named(steps)
        stream: Any = None
        for step in steps:
            stream = self._step(step, stream)
        assert isinstance(stream, Stream)
        return stream

    def _step(self, step: Mapping[str, Any], s: Any) -> Stream:
        made = CALLS[operator_of(step)](self, step, s)
        assert isinstance(made, Stream)
        return made


Call = Callable[[_Surface, Mapping[str, Any], Any], Any]
"""Makes a stream of a step of a pipeline and of the stream before it, which is None at the beginning."""


def _from(surface: _Surface, step: Mapping[str, Any], s: Any) -> Any:
    return surface.named(step["from"])


def _late(surface: _Surface, step: Mapping[str, Any], s: Any) -> Any:
    return surface.streams[step["late"]].late


def _union(surface: _Surface, step: Mapping[str, Any], s: Any) -> Any:
    parts: list[Any] = [surface.pipeline(p) for p in step["union"]]
    parts = parts if s is None else [s, *parts]
    made = parts[0]
    for part in parts[1:]:
        made = made.union(part)
    return made


def _where(surface: _Surface, step: Mapping[str, Any], s: Any) -> Any:
    return s.where(step["where"])


def _select(surface: _Surface, step: Mapping[str, Any], s: Any) -> Any:
    return s.select(*_named(step["select"]))


def _dedup(surface: _Surface, step: Mapping[str, Any], s: Any) -> Any:
    spec = step["dedup"]
    return s.dropDuplicates(spec["subset"], within=spec.get("within"), on=spec.get("time"))


def _sort(surface: _Surface, step: Mapping[str, Any], s: Any) -> Any:
    return s.sort(step["sort"] if isinstance(step["sort"], str) else None)


def _pace(surface: _Surface, step: Mapping[str, Any], s: Any) -> Any:
    limit = step["pace"] if "pace" in step else step["outpaced"]
    made = s.pace(limit, on=step.get("time"), clock=bool(step.get("clock", False)))
    return made if "pace" in step else made.late


def _aggregate(surface: _Surface, step: Mapping[str, Any], s: Any) -> Any:
    keys: list[Any] = list(_named(step.get("by", [])))
    if "window" in step:
        keys.append(_window(step["window"], bool(step.get("emit_empty", False))))
    keys += [_window(w, False) for w in step.get("windows", [])]
    return s.groupBy(*keys).agg(*_named(step["agg"]))


def _join(surface: _Surface, step: Mapping[str, Any], s: Any) -> Any:
    inputs = []
    for spec in step["join"]:
        stream = surface.pipeline(input_of(spec))
        named = isinstance(spec, Mapping) and "as" in spec
        inputs.append(stream.alias(spec["as"]) if named else stream)
    keys = [k if isinstance(k, str) else tuple(k) for k in step.get("keys", [])]
    where, memory = step.get("where"), step.get("memory")
    if isinstance(where, Mapping):
        where = CONDITIONS[where["function"]]
    if "reach" in step:
        return sw.joinAll(inputs, keys, step["reach"], where, memory)
    within: Any = sw.band(**step["band"]) if "band" in step else step.get("tumbling")
    if "tumbling" in step:
        spec = within if isinstance(within, Mapping) else {"range": within}
        within = sw.window(spec["range"], origin=spec.get("origin"))
    if len(inputs) > 2:
        return sw.joinAll(inputs, keys, within, where, memory)
    left, right = inputs
    more = {k: step[k] for k in ("how", "times", "deadline") if k in step}
    if "mark_delayed" in step:
        more["markDelayed"] = step["mark_delayed"]
    return left.join(right, keys, within, where=where, memory=memory, **more)


def _lookup(surface: _Surface, step: Mapping[str, Any], s: Any) -> Any:
    if "unmatched" in step:
        return surface.lookups[step["unmatched"]].unmatched
    relation = surface.relations[step["lookup"]]
    if "only" in step:
        relation = relation.where(step["only"])
    keys = [k if isinstance(k, str) else tuple(k) for k in step.get("keys", relation._key)]
    more = {k: step[k] for k in ("how", "where", "hold", "deadline") if k in step}
    made = s.join(relation, keys, **more)
    if "as" in step:
        surface.lookups[step["as"]] = made
    return made


def _window(w: Mapping[str, Any], empty: bool) -> Any:
    """A window as a call of the public surface."""
    on = w.get("time")
    if "rows" in w:
        return sw.rows(w["rows"], w.get("slide"), per=w.get("per"), at=w.get("at", "source"), on=on)
    if "landmark" in w:
        return sw.landmark(w["landmark"], w["origin"], on=on)
    if "by_tuple" in w:
        over = w.get("over", "arrival")
        return sw.byTuple(w["by_tuple"], w.get("every", 1), over=over, on=on)
    if "session" in w:
        return sw.sessionWindow(w["session"], on=on, closed=w.get("closed", False))
    if "custom" in w:
        made = CUSTOM[w["custom"]]("")
        return sw.customWindow(made.windows, made.extent, made.wids, name=made.name, on=on)
    return sw.window(w["range"], w.get("slide"), origin=w.get("origin"), on=on, emitEmpty=empty)


def _named(spec: Any) -> list[str]:
    if isinstance(spec, Mapping):
        return [n if t == n else f"{t} AS `{n}`" for n, t in spec.items()]
    return [str(n) for n in listed(spec)]


CALLS: Registry[Call] = Registry(
    __name__,
    {
        Source: _from,
        Late: _late,
        Union: _union,
        Join: _join,
        Lookup: _lookup,
        Held: _lookup,
        Parted: _lookup,
        Waiting: _lookup,
        Filter: _where,
        Project: _select,
        Dedup: _dedup,
        Sort: _sort,
        Pace: _pace,
        Outpaced: _pace,
        Aggregate: _aggregate,
    },
)
"""How the public surface is called for each operator of a pipeline."""
