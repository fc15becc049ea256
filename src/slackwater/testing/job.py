"""Run a user's own job over given micro-batches, and get its rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from slackwater.engine.analysis.bad_types import schema_of
from slackwater.engine.clock import Clock
from slackwater.surface.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

    Schema = StructType | str

ALONE = ""
"""The name of a DataFrame that has none, since it is the only one."""

KAFKA_COLUMNS = "partition int, offset bigint"


@overload
def run(
    job: Callable[..., Stream],
    batches: Sequence[Any] | Mapping[str, Sequence[Any]],
    schema: Schema | Mapping[str, Schema],
    *,
    spark: SparkSession,
    clock: Clock | None = None,
    splits: bool = False,
    end: bool = True,
    options: Mapping[str, Any] | None = None,
    local: bool = False,
) -> list[Row]: ...


@overload
def run(
    job: Callable[..., Mapping[str, Stream]],
    batches: Sequence[Any] | Mapping[str, Sequence[Any]],
    schema: Schema | Mapping[str, Schema],
    *,
    spark: SparkSession,
    clock: Clock | None = None,
    splits: bool = False,
    end: bool = True,
    options: Mapping[str, Any] | None = None,
    local: bool = False,
) -> dict[str, list[Row]]: ...


def run(
    job: Callable[..., Stream | Mapping[str, Stream]],
    batches: Sequence[Any] | Mapping[str, Sequence[Any]],
    schema: Schema | Mapping[str, Schema],
    *,
    spark: SparkSession,
    clock: Clock | None = None,
    splits: bool = False,
    end: bool = True,
    options: Mapping[str, Any] | None = None,
    local: bool = False,
) -> list[Row] | dict[str, list[Row]]:
    """The rows that a job puts out when it is fed ``batches``, one micro-batch each.

    The job really runs: on a checkpoint of its own, through the same engine as in production.

    Parameters
    ----------
    job
        Takes a streaming DataFrame and returns a stream, or several by name.
    batches, schema
        As for ``sw.replay``: lists of rows, and the columns. Both by name if the job takes several DataFrames by
        these names; a batch then has an item of each, as long as there are any.
    clock
        A `ManualClock` if the job depends on time passing (``idleAfter``, ``futureGuard``); without one
        no time passes.
    splits
        Hand the job a split source over the same rows, as ``sw.readStream(...).parquet(...)`` gives.
    end
        Whether the streams end after the last batch, so that every open window is reported.
    options
        Options of the query, such as ``partitionGroups``.
    local
        Run in this process: Spark analyses the job and runs no query. See `local_job`, which analyses once for many runs.

    Returns
    -------
    The rows in the order of their batches; by name if the job gave several streams.

    Examples
    --------
    >>> def job(df):                                               # doctest: +SKIP
    ...     s = sw.stream(df, time="t", progress=sw.Ordered())
    ...     return s.groupBy(sw.window(10)).agg("count(*) AS n")
    >>> run(job, [[(1,), (5,)], [(12,)]], "t long", spark=spark)   # doctest: +SKIP
    [Row(wid=0, window=Row(start=0, end=10), n=2), Row(wid=1, window=Row(start=10, end=20), n=1)]
    """
    from slackwater.sources.replay import replay
    from slackwater.surface.start import start

    if local:
        return _run_locally(job, batches, schema, spark, clock, splits, end, options)
    schemas = schemas_of(schema)
    given = batches if isinstance(batches, Mapping) else {ALONE: batches}
    with tempfile.TemporaryDirectory(prefix="slackwater-run-") as folder:
        frames = {
            name: replay(spark, given[name], columns, directory=f"{folder}/{i}", splits=splits)
            for i, (name, columns) in enumerate(schemas.items())
        }
        made = streams_of(job, frames)
        streams = {"result": made} if isinstance(made, Stream) else dict(made)
        found: dict[str, dict[int, list[Row]]] = {name: {} for name in streams}
        writers = []
        for name, stream in streams.items():
            writer = stream.writeStream.queryName(name).foreachBatch(_collector(found[name]))
            writers.append(writer if clock is None else writer.clock(clock))
        start(
            writers,
            checkpointLocation=f"{folder}/checkpoint",
            trigger={"availableNow": True},
            options={"endOfStream": end, **(options or {})},
        ).awaitTermination()
    rows = {
        name: [row for batch in sorted(by_batch) for row in by_batch[batch]]
        for name, by_batch in found.items()
    }
    return rows["result"] if isinstance(made, Stream) else rows


def _run_locally(
    job: Callable[..., Any], batches: Any, schema: Any, spark: Any, clock: Clock | None, splits: bool,
    end: bool, options: Mapping[str, Any] | None,
) -> list[Row] | dict[str, list[Row]]:  # fmt: skip
    from slackwater.testing.local.job import DEFAULT_GROUPS, local_job

    others = {k: v for k, v in (options or {}).items() if k.lower() != "partitiongroups"}
    named = {k.lower(): v for k, v in (options or {}).items()}
    analysed = local_job(job, schema, spark=spark, splits=splits, options=others)
    groups = int(named.get("partitiongroups", DEFAULT_GROUPS))
    rows: list[Row] | dict[str, list[Row]] = analysed.run(
        batches, groups=groups, clock=clock, end=end
    )
    return rows


def schemas_of(schema: Schema | Mapping[str, Schema]) -> dict[str, StructType]:
    """The columns of each DataFrame that a job takes; one alone has the name `ALONE`."""
    named = schema if isinstance(schema, Mapping) else {ALONE: schema}
    return {name: schema_of(one) for name, one in named.items()}


def streams_of(job: Callable[..., Any], frames: Mapping[str, Any]) -> Any:
    """What a job makes of its DataFrame, or of several by their names."""
    return job(frames[ALONE]) if list(frames) == [ALONE] else job(**frames)


def _collector(found: dict[int, list[Row]]) -> Callable[[DataFrame, int], None]:
    def take(frame: DataFrame, batch: int) -> None:
        # A batch may be handed over twice: the second time replaces the first.
        found[batch] = frame.collect()

    return take


def kafka_batches(
    batches: Sequence[Sequence[Sequence[Any]]],
    partition: int | Callable[[Any], int] = 1,
) -> list[list[tuple[Any, ...]]]:
    """Rows as Kafka would give them: with ``partition`` and ``offset`` behind their own columns.

    Add `KAFKA_COLUMNS` to the schema. ``partition`` is how many there are, rows taking turns, or a
    function from a row to its partition; offsets count on per partition, over all batches.

    Examples
    --------
    >>> kafka_batches([[("a",), ("b",)], [("c",)]], 2)
    [[('a', 0, 0), ('b', 1, 0)], [('c', 0, 1)]]
    >>> kafka_batches([[(5,)], [(6,)]], lambda row: row[0] % 2)
    [[(5, 1, 0)], [(6, 0, 0)]]
    """
    offsets: dict[int, int] = {}
    count = 0
    made = []
    for batch in batches:
        rows = []
        for row in batch:
            at = count % partition if isinstance(partition, int) else partition(row)
            rows.append((*row, at, offsets.get(at, 0)))
            offsets[at] = offsets.get(at, 0) + 1
            count += 1
        made.append(rows)
    return made
