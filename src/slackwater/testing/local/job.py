"""A user's own job, analysed once by Spark and then run in this process, as often as one likes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.engine.analysis.analyse import fields_of
from slackwater.engine.clock import Clock, NoClock
from slackwater.engine.driver.relations import RelationUse
from slackwater.engine.lowlevel.inputs import Input, SplitInput
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.plan import Plan
from slackwater.engine.store import failpoints
from slackwater.errors import AnalysisError, ExecutionError
from slackwater.kernels.buckets import BUCKETS
from slackwater.kernels.types import arrow_schema
from slackwater.sources.replay import replay
from slackwater.surface.options import check_names
from slackwater.surface.pace import check_pace
from slackwater.surface.relation_uses import check_clock, newest_versions, relation_uses
from slackwater.surface.start import plan_of, settings_of, shares_panes, window_plan_of
from slackwater.surface.stream import Stream
from slackwater.testing.job import ALONE, schemas_of, streams_of
from slackwater.testing.local.host import check_local
from slackwater.testing.local.run import LocalInput, LocalRun, NotReached, failing, scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.types import StructType

DEFAULT_GROUPS = 2


@dataclass(frozen=True)
class LocalJob:
    """A job that runs without Spark; see `local_job`."""

    plan: Plan
    schemas: Mapping[str, StructType]
    order: tuple[str, ...]
    """Of each input of the plan, the name of the batches that feed it."""
    inputs: tuple[LocalInput, ...]
    single: bool
    """Whether the job gave one stream, not several by name."""
    window_plan: str
    share_panes: bool
    settings: Settings
    relations: Mapping[str, RelationUse]
    newest_versions: bool

    def run(
        self,
        batches: Sequence[Any] | Mapping[str, Sequence[Any]],
        *,
        groups: int | Sequence[int] = DEFAULT_GROUPS,
        crash: str | None = None,
        clock: Clock | None = None,
        end: bool = True,
    ) -> Any:
        """The rows that the job puts out when it is fed ``batches``: as `slackwater.testing.run` gives them.

        Parameters
        ----------
        batches
            Lists of rows, or Arrow tables; by the name of the DataFrame if the job takes several.
        groups
            The number of partition groups; of several numbers each start takes the next.
        crash
            A failpoint (``slackwater.engine.store.failpoints.POINTS``) at which the query fails and is started again
            on its checkpoint, ``"manifest.after"`` say, or ``"manifest.after@3"`` for its third time there.
        clock, end
            As for `slackwater.testing.run`.
        """
        tables = self._tables(batches)
        numbers = [groups] if isinstance(groups, int) else list(groups)
        if not numbers or not all(1 <= n <= BUCKETS for n in numbers):
            raise AnalysisError(
                "BAD_OPTION",
                f"groups={groups!r} is no number of partition groups",
                hint=f"use a number from 1 to {BUCKETS}, or one for each start",
            )
        timed = clock or NoClock()
        check_clock(self.plan, self.relations, timed)
        check_pace(self.plan, timed)
        with scratch_folder() as folder:
            run = LocalRun(
                folder, self.plan, self.inputs, window_plan=self.window_plan,
                share_panes=self.share_panes, clock=timed, settings=self.settings,
                relations=self.relations,
            )  # fmt: skip
            run.newest_versions = self.newest_versions
            for i in range(max(map(len, tables.values()))):
                run.give(
                    {n: tables[name][i] for n, name in enumerate(self.order) if i < len(tables[name])}
                )  # fmt: skip
            _Starts(run, numbers, end).through(crash)
        rows = {name: self._rows(name, found) for name, found in run.published.items()}
        return next(iter(rows.values())) if self.single else rows

    def _tables(self, batches: Any) -> dict[str, list[pa.Table]]:
        given = batches if isinstance(batches, Mapping) else {ALONE: batches}
        if set(given) != set(self.schemas):
            raise AnalysisError(
                "BAD_BATCHES",
                f"there are batches of {_names(given)}, and the job reads {_names(self.schemas)}",
                hint="give batches as a list where the schema is one, else by the names of the schemas",
            )
        return {n: [_table(b, self.schemas[n]) for b in items] for n, items in given.items()}

    def _rows(self, name: str, found: Mapping[int, pa.Table]) -> list[Row]:
        from pyspark.sql.conversion import ArrowTableToRowsConversion
        from pyspark.sql.types import StructType

        from slackwater.engine.analysis.analyse import struct_of

        schema = struct_of(next(o.node.schema for o in self.plan.outputs if o.name == name))
        assert isinstance(schema, StructType)
        return [r for b in sorted(found) for r in ArrowTableToRowsConversion.convert(found[b], schema)]  # fmt: skip


def _names(streams: Mapping[str, Any]) -> str:
    return (
        ", ".join("one DataFrame" if n == ALONE else f"'{n}'" for n in sorted(streams)) or "nothing"
    )


def local_job(
    job: Callable[..., Stream | Mapping[str, Stream]],
    schema: StructType | str | Mapping[str, StructType | str],
    *,
    spark: SparkSession,
    splits: bool = False,
    options: Mapping[str, Any] | None = None,
) -> LocalJob:
    """A job that Spark analyses here, once, and that then runs in this process, in milliseconds.

    The loop, the checkpoint and the tasks are those of production; Spark's part, handing out batches and moving rows
    between tasks, is played. An expression that only Spark can evaluate is refused by name (``NEEDS_SPARK``), and so is a
    DataFrame that is changed before ``sw.stream``: run such a job with `slackwater.testing.run`.

    Parameters
    ----------
    job
        Takes a streaming DataFrame and returns a stream, or several by name.
    schema
        The columns of the DataFrame. Several by name, if the job takes several DataFrames by these names.
    splits
        Hand the job split sources, as ``sw.readStream(...).parquet(...)`` gives.
    options
        Options of the query, such as ``windowPlan``.

    Examples
    --------
    >>> counts = local_job(job, "t long", spark=spark)                              # doctest: +SKIP
    >>> counts.run([[(1,), (5,)], [(12,)]], crash="manifest.after")                 # doctest: +SKIP
    [Row(wid=0, window=Row(start=0, end=10), n=2), Row(wid=1, window=Row(start=10, end=20), n=1)]
    """
    check_names(options or {}, None)
    merged = {k.lower(): v for k, v in (options or {}).items()}
    schemas = schemas_of(schema)
    with tempfile.TemporaryDirectory(prefix="slackwater-local-") as folder:
        frames = {
            n: replay(spark, [], s, directory=f"{folder}/{i}", splits=splits)
            for i, (n, s) in enumerate(schemas.items())
        }
        made = streams_of(job, frames)
        streams = {"result": made} if isinstance(made, Stream) else dict(made)
        plan, inputs = plan_of(streams, merged)
        order = tuple(_name_of(item, frames) for item in inputs)
    check_local(plan)
    settings = settings_of(merged)
    return LocalJob(
        plan,
        schemas,
        order,
        tuple(LocalInput(fields_of(schemas[n]), splits) for n in order),
        isinstance(made, Stream),
        window_plan_of(merged),
        shares_panes(merged, settings),
        settings,
        relation_uses(plan, merged),
        newest_versions(merged),
    )


def _name_of(item: Input, frames: Mapping[str, Any]) -> str:
    """Which of the DataFrames that a job was given it reads as they are."""
    if isinstance(item, SplitInput):
        return next(n for n, f in frames.items() if f.path == item.path)
    for name, frame in frames.items():
        if frame is item.frame:
            return name
    plan = str(item.frame._jdf.queryExecution().analyzed().toString())
    changed = plan.splitlines()[0].strip(" ~")  # the sign marks a stream
    raise ExecutionError(
        "NEEDS_SPARK",
        f"a DataFrame is changed before sw.stream, by {changed}, and a local run has no Spark",
        hint="do it behind sw.stream, or run this job on Spark: slackwater.testing.run(job, ..., spark=spark)",
        expression=changed,
    )


def _table(batch: Any, schema: StructType) -> pa.Table:
    """A batch as Spark would have it."""
    wanted = arrow_schema(fields_of(schema))
    if isinstance(batch, pa.Table):
        return batch.select(wanted.names).cast(wanted)
    if hasattr(batch, "toArrow"):
        return batch.select(*wanted.names).toArrow().cast(wanted)
    from pyspark.sql.conversion import LocalDataToArrowConversion

    rows = list(batch)
    if not rows:
        return wanted.empty_table()
    return LocalDataToArrowConversion.convert(rows, schema, False).cast(wanted)


class _Starts:
    """The starts of a run: the first, and one more after each failure."""

    def __init__(self, run: LocalRun, groups: Sequence[int], end: bool):
        self.run = run
        self.groups = groups
        self.count = 0
        self.last = len(run.host.batches) if end else -1
        """The batch with which the streams end: the one after all that have input."""

    def through(self, crash: str | None) -> None:
        """All batches, with a failure on the way if one is asked for."""
        if crash is None:
            self.life()
            return
        if crash.partition("@")[0] not in failpoints.POINTS:
            raise AnalysisError(
                "BAD_OPTION",
                f"crash={crash!r} names no failpoint",
                hint=f"use one of: {', '.join(failpoints.POINTS)}",
            )
        try:
            with failing(crash):
                self.life()
        except failpoints.InjectedFailure:
            self.life()
        else:
            raise NotReached([crash])

    def life(self) -> None:
        """From a start to the end, or to a failure."""
        groups = self.groups[self.count % len(self.groups)]
        self.count += 1
        self.run.start(groups)
        try:
            # As Spark's start does: what cannot be used is refused before the first batch.
            self.run.loop.relations.open(self.run.loop.last)
            while self.run.done < len(self.run.host.batches) or self.run.done == self.last:
                self.run.step(final=self.run.done == self.last)
        finally:
            self.run.stop()
