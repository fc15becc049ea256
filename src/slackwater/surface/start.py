"""Start a query: plan it, open its checkpoint, hand the loop to Spark."""

from __future__ import annotations

import atexit
import difflib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slackwater.engine import manifest as manifests
from slackwater.engine.batch import Settings
from slackwater.engine.checkpoint import Checkpoint
from slackwater.engine.clock import Clock, NoClock, SystemClock
from slackwater.engine.handle import StreamingQuery
from slackwater.engine.inputs import Input, united
from slackwater.engine.loop import Loop, Query
from slackwater.engine.manifest import Manifest
from slackwater.engine.plan import Output, Plan, build, renumber
from slackwater.engine.statistics import holds_state, settled
from slackwater.errors import AnalysisError, CheckpointError, SetupError
from slackwater.kernels.buckets import BUCKETS
from slackwater.model.render import describe
from slackwater.sinks.base import Sink
from slackwater.surface.explain import explain_plan
from slackwater.surface.options import (
    check_names,
    check_trigger,
    flag,
    local_path,
    memory,
    whole,
)
from slackwater.surface.writer import StreamWriter, check_writers

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery as SparkQuery

DEFAULT_TRIGGER = {"processingTime": "500 milliseconds"}

on_start: list[Callable[[StreamingQuery], None]] = []
"""Called with every query that is started; the command line follows a file's queries by it."""


def start(
    writers: Sequence[StreamWriter],
    *,
    checkpointLocation: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
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
    end_of_stream = flag(merged, "endOfStream")
    if end_of_stream and "processingTime" in given:
        raise AnalysisError(
            "BAD_OPTION",
            "endOfStream ends the streams when the available input has been read",
            hint="use it with trigger(availableNow=True)",
        )
    names = [w._name or ("output" if i == 0 else f"output{i + 1}") for i, w in enumerate(writers)]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise AnalysisError(
            "DUPLICATE_NAME",
            f"two outputs are called {twice!r}",
            hint="give each output a queryName of its own",
            name=twice,
        )
    plan, inputs = plan_of(dict(zip(names, [w._stream for w in writers], strict=True)), merged)
    sinks = {n: w._sink(n) for n, w in zip(names, writers, strict=True)}
    spark = writers[0]._stream._spark
    location = checkpointLocation or merged.get("checkpointlocation")
    settings = _settings(merged)
    close = _nothing
    if location is None:
        if not all(
            type(s).__name__ in ("MemorySink", "ConsoleSink", "NoopSink") for s in sinks.values()
        ):
            raise AnalysisError(
                "NO_CHECKPOINT",
                "the query has no checkpoint directory",
                hint='add .option("checkpointLocation", "..."): state and progress are kept there',
            )
        temporary = tempfile.mkdtemp(prefix="slackwater-checkpoint-")
        location = temporary
        close = lambda: shutil.rmtree(temporary, ignore_errors=True)  # noqa: E731
        if any(type(s).__name__ == "MemorySink" for s in sinks.values()):
            atexit.register(close)  # the view is read after the query's end
            close = _nothing
    checkpoint = Checkpoint(local_path(location, "checkpointLocation"))
    _check_places(checkpoint, sinks)
    _acquire(checkpoint)
    try:
        last = manifests.last(checkpoint)
        plan = settled(plan, _window_plan(merged), _stored_plans(checkpoint), last)
        query_id = _open(checkpoint, plan, last)
        for sink in sinks.values():
            sink.open(spark, checkpoint, query_id)
        query = Query(
            plan, inputs, sinks, _groups(merged, spark), max(1, spark.sparkContext.defaultParallelism),
            _clock(writers, plan), settings,
        )  # fmt: skip
        loop = Loop(query, checkpoint, query_id)

        def run(loop: Loop, final: bool) -> SparkQuery:
            writer = (
                united(spark, plan, inputs)
                .writeStream.foreachBatch(loop)
                .option("checkpointLocation", str(checkpoint.location))
                .trigger(**({"availableNow": True} if final else dict(given)))
            )
            shown = name or writers[0]._name
            return (writer.queryName(shown) if shown else writer).start()

        started = StreamingQuery(
            name or writers[0]._name, loop, checkpoint, query_id, run, end_of_stream,
            lambda extended: explain_plan(
                plan, inputs, extended=extended,
                statistics=loop.last.statistics if loop.last is not None else {},
            ), close,
        )  # fmt: skip
        for call in on_start:
            call(started)
        return started
    except BaseException:
        checkpoint.release()
        close()
        raise


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


def _check_places(checkpoint: Checkpoint, sinks: Mapping[str, Sink]) -> None:
    """A reader of a sink's directory takes every file below it for data, unless a name starts with _ or a dot."""
    for sink in sinks.values():
        path = getattr(sink, "path", None)
        if path is None or not checkpoint.location.is_relative_to(path):
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


def plan_of(streams: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[Plan, list[Input]]:
    """The plan of several named results, and its inputs in the order Spark will number them."""
    found: dict[int, Input] = {}
    for s in streams.values():
        found.update(s._inputs)
    outputs = [Output(n, s._node) for n, s in streams.items()]
    first = next(iter(streams.values()))
    used = _input_order(outputs)
    numbered = renumber(outputs, {key: i for i, key in enumerate(used)})
    wanted = _window_plan(options)
    plan = build(numbered, ansi=first._analyser.ansi, zone=first._analyser.zone, window_plan=wanted)
    return plan, [found[key] for key in used]


def _window_plan(options: Mapping[str, Any]) -> str:
    wanted = str(options.get("windowplan", "auto")).lower()
    if wanted not in ("auto", "panes", "wids", "buffered", "adaptive"):
        raise AnalysisError(
            "BAD_OPTION",
            f"windowPlan={wanted!r} is not known",
            hint='use "auto", "panes", "wids", "buffered" or "adaptive"',
        )
    return wanted


def _input_order(outputs: Sequence[Output]) -> list[int]:
    from slackwater.model.node import Source
    from slackwater.semantics.bounds import topological

    order: dict[int, None] = {}
    for node in topological([o.node for o in outputs]):
        if isinstance(node, Source):
            order[node.input] = None
    return list(order)


def _stored_plans(checkpoint: Checkpoint) -> dict[str, str]:
    """The window plans of the query that a checkpoint belongs to; none if it is new."""
    if not (checkpoint.root / "query.json").exists():
        return {}
    stored: dict[str, str] = checkpoint.open_query({})["plans"]
    return stored


def _open(checkpoint: Checkpoint, plan: Plan, last: Manifest | None) -> str:
    """Compare the query with the one the checkpoint belongs to; its id."""
    trees = describe([(o.name, o.node) for o in plan.outputs])
    sources = [[s.name, s.input] for s in plan.sources]
    settings = {"ansi": plan.ansi, "zone": plan.zone}
    plans = {op.id: op.spec.plan for op in plan.operators if op.spec is not None}
    fresh = {"outputs": trees, "sources": sources, "settings": settings, "plans": plans}
    stored = checkpoint.open_query(fresh)
    problems: list[str] = []
    for name, tree in trees.items():
        before = stored["outputs"].get(name)
        if before is not None and before != tree:
            diff = difflib.unified_diff(before, tree, "checkpoint", "this query", lineterm="", n=2)
            problems.append("\n".join(diff))
    if stored["sources"] != sources:
        problems.append(f"streams: checkpoint {stored['sources']}, this query {sources}")
    if stored["settings"] != settings:
        problems.append(
            f"session: checkpoint {stored['settings']}, this session {settings} "
            "(spark.sql.ansi.enabled, spark.sql.session.timeZone)"
        )
    # Without state there is nothing that the plan could misread.
    changed = [
        op for op, p in plans.items() if stored["plans"].get(op, p) != p and holds_state(op, last)
    ]
    if changed:
        problems.append(f"windowPlan: checkpoint {stored['plans']}, this query {plans}")
    if problems:
        raise CheckpointError(
            "QUERY_CHANGED",
            f"checkpoint '{checkpoint.location}' belongs to another query:\n" + "\n".join(problems),
            hint="may change on one checkpoint: policy parameters, late, sink options, trigger, "
            "partitionGroups, outputs added or removed; for anything else use a new checkpointLocation",
            location=checkpoint.location,
        )
    if trees != stored["outputs"] or plans != stored["plans"]:
        checkpoint.update_query({**stored, "outputs": trees, "plans": {**stored["plans"], **plans}})
    return str(stored["id"])


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


def _settings(options: Mapping[str, Any]) -> Settings:
    default = Settings()
    return Settings(
        memory=memory(options, "memory", default.memory),
        compact_runs=whole(options, "compactRuns", default.compact_runs),
        compact_rows=whole(options, "compactRows", default.compact_rows),
        smooth=whole(options, "smooth", 1) if "smooth" in options else 0,
        smooth_windows=whole(options, "smoothWindows", default.smooth_windows),
        low_table=whole(options, "lowTable", 65_536) if "lowtable" in options else 0,
        low_flush=whole(options, "lowFlush", 1) if "lowflush" in options else 0,
        low_probe=flag(options, "lowProbe"),
    )


def _nothing() -> None:
    return None
