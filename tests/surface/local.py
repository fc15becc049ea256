"""Run streams that Spark has analysed on the engine in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slackwater.engine.lowlevel.directories import directories_of
from slackwater.engine.lowlevel.inputs import Input, SplitInput
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.errors import SlackwaterError
from slackwater.model.schema import Field
from slackwater.sinks.base import Sink
from slackwater.surface.start import plan_of, settings_of, shares_panes, window_plan_of
from slackwater.surface.stream import Stream
from slackwater.testing.local.host import LocalHost, check_local
from slackwater.testing.local.run import LocalInput, LocalRun
from tests.progress_schema import check_progress
from tests.surface.helpers import Run

SHARED = {"id": "query", "runId": "run", "name": None, "sources": [],
          "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0}  # fmt: skip


def run_locally(
    streams: Stream | Mapping[str, Stream],
    checkpoint: Path | str,
    *,
    end: bool = True,
    clock: Any = None,
    options: Mapping[str, Any] | None = None,
    sink: Callable[[str, tuple[Field, ...]], Sink] | None = None,
    host: LocalHost | None = None,
) -> Run:
    """As `helpers.run`, where only the answer matters: each file of a source is a batch, and no job of Spark runs.

    ``checkpoint`` is the folder in which there is a ``checkpoint``. With a ``sink``, that one has the rows.
    """
    named = {"output": streams} if isinstance(streams, Stream) else dict(streams)
    merged = {k.lower(): v for k, v in (options or {}).items()}
    plan, inputs = plan_of(named, merged)
    settings = settings_of(merged)
    query = LocalRun(
        Path(checkpoint), plan, [LocalInput(i.fields, isinstance(i, SplitInput)) for i in inputs],
        window_plan=window_plan_of(merged), share_panes=shares_panes(merged, settings),
        clock=clock, settings=settings, sink=sink,
    )  # fmt: skip
    if host is not None:
        host.inputs, query.host = len(inputs), host
    files = [_files(i) for i in inputs]
    for number in range(max(map(len, files))):
        batch = {i: [names[number]] for i, names in enumerate(files) if number < len(names)}
        query.host.batches.append(batch)
    last = manifests.last(Checkpoint(str(Path(checkpoint) / "checkpoint")))
    query.done = 0 if last is None else last.batch + 1
    query.start(int(merged.get("partitiongroups", 2)))
    done = Run()
    try:
        while query.done < len(query.host.batches):
            query.step()
        if end:
            query.step(final=True)
    finally:
        query.stop()
        done.records = [{**SHARED, **record} for record in query.loop.records]
        for record in done.records:
            check_progress(record)
    done.batches = {
        name: {batch: table.to_pylist() for batch, table in tables.items()}
        for name, tables in query.published.items()
    }
    return done


def is_local(stream: Stream) -> bool:
    """Whether the engine in this process can compute all of a stream."""
    try:
        check_local(plan_of({"output": stream}, {})[0])
    except SlackwaterError:
        return False
    return True


def _files(item: Input) -> list[str]:
    """The files that an input reads, in the order in which Spark takes them."""
    if not isinstance(item, SplitInput):
        analysed = item.frame._jdf.queryExecution().analyzed()
        assert analysed.children().isEmpty(), "the frame is not read as it is"
    (directory,) = directories_of(item)
    found = [p for p in Path(directory.path).iterdir() if p.name[0] not in "._"]
    return [str(p) for p in sorted(found, key=lambda p: (p.stat().st_mtime_ns, p.name))]
