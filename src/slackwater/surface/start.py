"""Start a query: plan it, open its checkpoint, hand the loop to Spark."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.engine.analysis.session_settings import agreed, check_same, current
from slackwater.engine.clock import Clock, NoClock, SystemClock
from slackwater.engine.driver.feedback import Declared, guard_lines
from slackwater.engine.driver.handle import Change, Prepared, StreamingQuery
from slackwater.engine.driver.host import SparkHost
from slackwater.engine.driver.loop import Loop, Query
from slackwater.engine.driver.moving import resume
from slackwater.engine.driver.opening import (
    open_query,
    open_sources,
    stored_plans,
    stored_query,
    stored_stores,
)
from slackwater.engine.driver.pace import pace_lines
from slackwater.engine.driver.passes import Started, Written, passed
from slackwater.engine.driver.recovery import recovered
from slackwater.engine.driver.spark_logs import opened, quick_logs
from slackwater.engine.lowlevel.directories import SparkSource, source_numbers, spark_sources
from slackwater.engine.lowlevel.inputs import Input, united
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.known import NOTHING, Known, input_order, renumber
from slackwater.engine.plan.known_relations import as_known
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.feedback_log import send
from slackwater.engine.store.local import OWNER, UMASK, LocalStorage, Rights
from slackwater.engine.store.spark_log import forget_half_written
from slackwater.errors import AnalysisError, ExecutionError, SetupError
from slackwater.kernels.buckets import BUCKETS
from slackwater.semantics.bounds import topological
from slackwater.semantics.feedback.standing import Request
from slackwater.sinks.base import Sink
from slackwater.surface.check import CheckReport, check_start, report, warnings_of
from slackwater.surface.explain import explain_query
from slackwater.surface.feedback import (
    Attached,
    Ignored,
    SentFeedback,
    analysing,
    declared,
    reach_of,
)
from slackwater.surface.options import (
    check_names,
    check_trigger,
    flag,
    local_path,
    memory,
    whole,
)
from slackwater.surface.output_types import check_keys, check_types
from slackwater.surface.pace import check_pace
from slackwater.surface.relation_uses import (
    check_apart,
    check_beside,
    check_clock,
    newest_versions,
    relation_uses,
)
from slackwater.surface.writer import StreamWriter, check_writers

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery as SparkQuery

DEFAULT_TRIGGER = {"processingTime": "500 milliseconds"}

on_start: list[Callable[[StreamingQuery], None]] = []
"""Called with every query that is started; the command line follows a file's queries by it."""

instead: list[Callable[[Sequence[StreamWriter], Mapping[str, Any]], Any]] = []
"""Called with writers and options in place of starting a query; the command line checks a file's queries by it."""


def start(
    writers: Sequence[StreamWriter],
    *,
    checkpointLocation: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    feedback: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Run several outputs as one query that shares its sources and operators.

    Parameters
    ----------
    writers
        ``stream.writeStream...`` without ``start``; each but one needs a ``queryName``.
    checkpointLocation
        Directory of the query's state; from the first writer's options by default.
    trigger
        As the keywords of ``trigger``, e.g. ``{"availableNow": True}``.
    options
        Options of the query, such as ``endOfStream`` or ``partitionGroups``.
    feedback
        What consumers ignore from the first batch on, by output: a list of `sw.ignore`, `sw.only` or texts. It stands as long
        as starts declare it.

    Examples
    --------
    >>> q = start([counts.writeStream.format("noop")], checkpointLocation="ck")     # doctest: +SKIP
    """
    check_writers(writers)
    check_names(options or {}, None)
    merged: dict[str, Any] = {}
    for w in reversed(writers):
        merged.update({k.lower(): v for k, v in w._options.items()})
    merged.update({k.lower(): v for k, v in (options or {}).items()})
    given = trigger or next((w._trigger for w in writers if w._trigger), None) or DEFAULT_TRIGGER
    check_trigger(given)
    reach_of(merged)
    end_of_stream = flag(merged, "endOfStream")
    if end_of_stream and "processingTime" in given:
        raise AnalysisError(
            "BAD_OPTION",
            "endOfStream ends the streams when the available input has been read",
            hint="use it with trigger(availableNow=True)",
        )
    shown = name or writers[0]._name
    names = [w._name or ("output" if i == 0 else f"output{i + 1}") for i, w in enumerate(writers)]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise AnalysisError(
            "DUPLICATE_NAME",
            f"two outputs are called {twice!r}",
            hint="give each output a queryName of its own",
            name=twice,
        )
    location = checkpointLocation or merged.get("checkpointlocation")
    settings = settings_of(merged)
    known = known_at(location, settings)
    streams = dict(zip(names, [w._stream for w in writers], strict=True))
    plan, inputs = plan_of(streams, merged, known)
    if instead:
        return instead[-1](writers, merged)  # type: ignore[no-any-return]
    sinks = {n: w._sink(n) for n, w in zip(names, writers, strict=True)}
    check_start([w._stream._node for w in writers], merged, known=_known(location, settings))
    close = _nothing
    if location is None:
        if any(s.lasting for s in sinks.values()):
            raise AnalysisError(
                "NO_CHECKPOINT",
                "the query has no checkpoint directory",
                hint='add .option("checkpointLocation", "..."): state and progress are kept there',
            )
        temporary = tempfile.mkdtemp(prefix="slackwater-checkpoint-")
        location = temporary
        close = lambda: shutil.rmtree(temporary, ignore_errors=True)  # noqa: E731
        if any(s.read_later for s in sinks.values()):
            atexit.register(close)  # the view is read after the query's end
            close = _nothing
    checkpoint = Checkpoint(local_path(location, "checkpointLocation"), settings.storage)
    sources = spark_sources(inputs)
    _check_places(checkpoint, sinks, sources, plan)
    _acquire(checkpoint)
    group = _Group(
        dict(zip(names, writers, strict=True)), merged, settings, given, shown, sources,
        declared(plan, feedback, writers[0]._stream._spark), known,
    )  # fmt: skip
    try:
        prepared = group.prepared(plan, inputs, sinks, checkpoint)
        group.known = stored_query(checkpoint)
        started = CheckedQuery(
            shown, prepared.loop, checkpoint, prepared.loop.query_id, prepared.start, end_of_stream,
            prepared.explain, close, group,
        )  # fmt: skip
        for call in on_start:
            call(started)
        return started
    except BaseException:
        checkpoint.release()
        close()
        raise


class CheckedQuery(StreamingQuery):
    """A running query that can say what its contracts are, and takes feedback."""

    def contracts(self) -> CheckReport:
        """What `sw.check` says of the outputs that it has now."""
        assert isinstance(self._group, _Group)
        outputs = [w._stream._node for w in self._group.writers.values()]
        return report(outputs, ended=flag(self._group.options, "endOfStream"))

    def feedback(
        self,
        what: Ignored | str,
        *,
        output: str | None = None,
        name: str | None = None,
        lease: Any = None,
    ) -> SentFeedback:
        """Say which results will be ignored: they are not made any more, as far down as that is possible.

        It acts from the next batch on, and is on disk when this returns. See `slackwater.surface.feedback.Attached.feedback` for
        the parameters.

        Examples
        --------
        >>> view = q.feedback(sw.only("segment < 60"), name="view", lease="10 minutes")     # doctest: +SKIP
        """
        if not self.isActive:
            raise ExecutionError(
                "NOT_RUNNING",
                "feedback is for a query that runs, and this one has ended",
                hint="start it again on its checkpoint, or send it by sw.attach(checkpointLocation): the next start takes it in",
            )
        return self._attached().feedback(what, output=output, name=name, lease=lease)

    def remove(self, name: str) -> None:
        """No more results of an output; what only it needed is freed, and its feedback ends."""
        super().remove(name)
        # No batch may run before an output of this name is added again.
        for one in self.feedbacks():
            if one["output"] == name and one["state"] != "declared":
                send(self._checkpoint, Request("retract", target=one["id"]))

    def feedbacks(self) -> list[dict[str, Any]]:
        """What stands, since when, until when; and what was sent and not taken in yet."""
        return self._attached().feedbacks()

    def _attached(self) -> Attached:
        assert isinstance(self._group, _Group)
        writer = next(iter(self._group.writers.values()))
        return Attached(self._checkpoint, analysing(writer._stream._spark))


def known_at(location: str | None, settings: Settings) -> Known:
    """What a plan must know of the query that a checkpoint holds; nothing if it is new."""
    if location is None or not _known(location, settings):
        return NOTHING
    return stored_query(Checkpoint(local_path(location, "checkpointLocation"), settings.storage))


def _known(location: str | None, settings: Settings) -> bool:
    """Whether a checkpoint holds a query already: it may be older than the check, and must go on."""
    if location is None:
        return False
    checkpoint = Checkpoint(local_path(location, "checkpointLocation"), settings.storage)
    return checkpoint.storage.exists(checkpoint.description_file)


@dataclass
class _Group:
    """The outputs of one query, and how they are run; see `engine.handle.Group`.

    ``sources`` are those of its inputs, which stay the same while its outputs change. ``feedback`` is what the start declares,
    ``known`` is the query that runs, as its checkpoint has it.
    """

    writers: dict[str, StreamWriter]
    options: Mapping[str, Any]
    settings: Settings
    trigger: Mapping[str, Any]
    name: str | None
    sources: Sequence[SparkSource]
    feedback: Declared = ()
    known: Known = NOTHING

    def prepared(
        self, plan: Plan, inputs: list[Input], sinks: Mapping[str, Sink], checkpoint: Checkpoint
    ) -> Prepared:
        """Open the checkpoint and the sinks for a plan."""
        writers, merged = list(self.writers.values()), self.options
        spark = writers[0]._stream._spark
        resume(checkpoint)
        last = recovered(checkpoint, SparkHost())
        forget_half_written(checkpoint.location)
        start = Started(
            inputs, window_plan_of(merged), shares_panes(merged, self.settings),
            stored_plans(checkpoint), stored_stores(checkpoint), last,
        )  # fmt: skip
        plan = passed(plan, start)
        numbers = source_numbers(self.sources, len(inputs))
        clock = _clock(writers, plan)
        query_id = open_query(checkpoint, plan, last, numbers, clock=not isinstance(clock, NoClock))
        open_sources(checkpoint, plan, self.sources)
        for sink in sinks.values():
            sink.open(spark, checkpoint, query_id)
        query = Query(
            plan, inputs, dict(sinks), _groups(merged, spark), max(1, spark.sparkContext.defaultParallelism),
            clock, self.settings, numbers, feedback=self.feedback, reach=reach_of(merged),
            warnings=warnings_of([w._stream._node for w in writers], merged),
            relations=relation_uses(plan, merged), newest_versions=newest_versions(merged),
        )  # fmt: skip
        check_clock(query.plan, query.relations, query.clock)
        check_pace(plan, query.clock)

        def run(loop: Loop, final: bool) -> SparkQuery:
            # Texts are read again here: also long after the start, when the streams end.
            if plan.meaning is not None:
                check_same(plan.meaning, current(spark), "when the query started", "as it goes on")
            writer = (
                united(spark, plan, inputs)
                .writeStream.foreachBatch(loop)
                .option("checkpointLocation", str(checkpoint.location))
                .trigger(**({"availableNow": True} if final else dict(self.trigger)))
            )
            with quick_logs(spark):
                return opened((writer.queryName(self.name) if self.name else writer).start())

        loop = Loop(query, checkpoint, query_id)
        loop.relations.open(last)
        return Prepared(
            loop,
            run,
            lambda extended: explain_query(
                plan, inputs, [w._stream._node for w in writers], extended=extended,
                statistics=loop.last.statistics if loop.last is not None else {},
                states=loop.last.sources if loop.last is not None else {},
                feedback=[
                    *guard_lines(plan, loop.last, query.reach),
                    *pace_lines(plan, loop.last, query.reach),
                ],
                relations=loop.relations.described(loop.last),
            ),
        )  # fmt: skip

    def adding(self, writer: StreamWriter) -> Change:
        """With one more output."""
        check_writers([writer])
        if writer._name is None or writer._name in self.writers:
            named = "it has none" if writer._name is None else f"{writer._name!r} is there already"
            raise AnalysisError(
                "DUPLICATE_NAME",
                f"an output that is added needs a name of its own; {named}",
                hint=f"give it a queryName other than {', '.join(self.writers)}",
                name=writer._name,
            )
        check_start([writer._stream._node], {**self.options, **_options(writer)}, known=False)
        return self._changed({**self.writers, writer._name: writer})

    def removing(self, name: str) -> Change:
        """Without an output."""
        if name not in self.writers or len(self.writers) == 1:
            alone = name in self.writers
            raise AnalysisError(
                "NO_OUTPUT",
                f"{name!r} is the query's only output"
                if alone
                else f"no output is called {name!r}",
                hint="stop the query" if alone else f"its outputs are: {', '.join(self.writers)}",
                name=name,
            )
        return self._changed({n: w for n, w in self.writers.items() if n != name})

    def unchanged(self) -> Change:
        """As they are."""
        return self._changed(self.writers)

    def _changed(self, writers: dict[str, StreamWriter]) -> Change:
        plan, inputs = self._plan(writers)
        used = [id(i) for i in self._inputs(self.writers)]
        if [id(i) for i in inputs] != used:
            raise AnalysisError(
                "OTHER_INPUTS",
                "a running query reads the inputs that it was started with, no more and no fewer",
                hint="stop it and start other outputs on a checkpoint of their own",
            )
        sinks = {n: w._sink(n) for n, w in writers.items()}

        def change(checkpoint: Checkpoint) -> Prepared:
            _check_places(checkpoint, sinks, self.sources, plan)
            prepared = self.prepared(plan, inputs, sinks, checkpoint)
            self.writers, self.known = writers, stored_query(checkpoint)
            return prepared

        return change

    def _inputs(self, writers: Mapping[str, StreamWriter]) -> list[Input]:
        return self._plan(writers)[1]

    def _plan(self, writers: Mapping[str, StreamWriter]) -> tuple[Plan, list[Input]]:
        return plan_of({n: w._stream for n, w in writers.items()}, self.options, self.known)


def _acquire(checkpoint: Checkpoint) -> None:
    try:
        checkpoint.acquire()
    except OSError as error:
        raise SetupError(
            "NOT_WRITABLE",
            f"checkpoint directory '{checkpoint.location}' cannot be written: {error.strerror}",
            hint="give a checkpointLocation that this user may create and write",
            location=checkpoint.location,
        ) from error


def _check_places(
    checkpoint: Checkpoint, sinks: Mapping[str, Sink], sources: Sequence[SparkSource], plan: Plan
) -> None:
    """A reader of a sink's directory takes every file below it for data, unless a name starts with _ or a dot.

    But where a streaming query of Spark's has written, Spark reads the files of that query's log and no others.
    """
    read = {os.path.realpath(s.directory.path) for s in sources if s.directory is not None}
    check_apart(plan, read)
    for sink in sinks.values():
        path = getattr(sink, "path", None)
        if path is None:
            continue
        if os.path.realpath(path) in read:
            raise AnalysisError(
                "SINK_IS_SOURCE",
                f"the query reads '{path}' and would write there, so that it would read its own output",
                hint="give the output a directory of its own",
                path=path,
            )
        check_beside(plan, str(path))
        if (path / "_spark_metadata").exists():
            raise AnalysisError(
                "SPARK_METADATA_IN_SINK",
                f"the sink's directory '{path}' has a '_spark_metadata': a streaming query of Spark's wrote "
                "there, and spark.read finds the files of that query alone",
                hint="give a directory of its own; or, if that query is over, remove '_spark_metadata': "
                "then all files there are read",
                path=path,
            )
        if not checkpoint.location.is_relative_to(path):
            continue
        between = checkpoint.location.relative_to(path).parts
        if not any(part.startswith(("_", ".")) for part in between):
            raise AnalysisError(
                "CHECKPOINT_IN_SINK",
                f"checkpoint '{checkpoint.location}' lies in the sink's directory '{path}', "
                "where readers would take its files for data",
                hint="put it beside the directory, or give it a name that starts with '_'",
                path=path,
            )


def plan_of(
    streams: Mapping[str, Any], options: Mapping[str, Any], known: Known = NOTHING
) -> tuple[Plan, list[Input]]:
    """The plan of several named results, and its inputs in the order Spark will number them; ``known`` is the checkpoint's query."""
    inputs: dict[int, Input] = {}
    for s in streams.values():
        inputs.update(s._inputs)
    outputs = [Output(n, s._node) for n, s in streams.items()]
    check_types(outputs)
    check_keys(outputs)
    first = next(iter(streams.values()))
    used = input_order(outputs, known)
    numbers = {key: i for i, key in enumerate(used)}
    numbered = as_known(renumber(outputs, numbers, known), known.lines)
    wanted = window_plan_of(options)
    meaning = agreed(topological([o.node for o in outputs]), current(first._spark))
    plan = build(
        numbered,
        ansi=meaning.ansi,
        zone=meaning.zone,
        window_plan=wanted,
        meaning=meaning,
        known=known,
    )
    return passed(plan, Written()), [inputs[key] for key in used]


def window_plan_of(options: Mapping[str, Any]) -> str:
    """The option ``windowPlan``."""
    wanted = str(options.get("windowplan", "auto")).lower()
    if wanted not in ("auto", "panes", "wids", "buffered", "adaptive"):
        raise AnalysisError(
            "BAD_OPTION",
            f"windowPlan={wanted!r} is not known",
            hint='use "auto", "panes", "wids", "buffered" or "adaptive"',
        )
    return wanted


def shares_panes(options: Mapping[str, Any], settings: Settings) -> bool:
    """Whether aggregates may share panes: unless told not to, or each spreads its own work over batches."""
    asked = "sharepanes" not in options or flag(options, "sharePanes")
    return asked and not settings.smooth and not settings.low_table


def _clock(writers: Sequence[StreamWriter], plan: Plan) -> Clock:
    given = next((w._clock for w in writers if w._clock is not None), None)
    if given is not None:
        return given
    # A query over replays alone has no clock: nothing in it depends on when it runs.
    return NoClock() if all(s.replay for s in plan.sources) else SystemClock()


def _groups(options: Mapping[str, Any], spark: Any) -> int:
    text = options.get("partitiongroups")
    if text is None:
        return max(1, min(BUCKETS, int(spark.sparkContext.defaultParallelism)))
    try:
        groups = int(text)
    except ValueError:
        groups = 0
    if not 1 <= groups <= BUCKETS:
        raise AnalysisError(
            "BAD_OPTION",
            f"partitionGroups={text!r} is not a number from 1 to {BUCKETS}",
            hint="use about one group per core",
        )
    return groups


def settings_of(options: Mapping[str, Any]) -> Settings:
    """What tasks need of a query's options."""
    default = Settings()
    alone = next((n for n in ("lowFlush", "lowProbe") if n.lower() in options), None)
    if alone is not None and "lowtable" not in options:
        raise AnalysisError(
            "BAD_OPTION",
            f"{alone} says how low-level tables work, but there are none",
            hint='add option("lowTable", ...), the slots of each',
            option=alone,
        )
    return Settings(
        memory=memory(options, "memory", default.memory),
        compact_runs=whole(options, "compactRuns", default.compact_runs),
        compact_rows=whole(options, "compactRows", default.compact_rows),
        smooth=whole(options, "smooth", 1) if "smooth" in options else 0,
        smooth_windows=whole(options, "smoothWindows", default.smooth_windows),
        low_table=whole(options, "lowTable", 65_536) if "lowtable" in options else 0,
        low_flush=whole(options, "lowFlush", 1) if "lowflush" in options else 0,
        low_probe=flag(options, "lowProbe"),
        storage=LocalStorage(_rights(options)),
    )


def _rights(options: Mapping[str, Any]) -> Rights:
    modes = {"owner": OWNER, "umask": UMASK}
    text = str(options.get("checkpointmode", "owner")).lower()
    if text not in modes:
        raise AnalysisError(
            "BAD_OPTION",
            f"checkpointMode={text!r} is not known",
            hint='use "owner", or "umask" where executors run as another user',
        )
    return modes[text]


def _options(writer: StreamWriter) -> dict[str, Any]:
    return {k.lower(): v for k, v in writer._options.items()}


def _nothing() -> None:
    return None
