"""``sw.stream``: wrap a streaming DataFrame or a split source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slackwater.engine.analysis.analyse import Analyser
from slackwater.engine.analysis.connect import check_classic
from slackwater.engine.lowlevel.directories import directories_of, resolved
from slackwater.engine.lowlevel.inputs import FrameInput, Input, SplitInput
from slackwater.engine.plan.reserved import check_sources
from slackwater.errors import AnalysisError
from slackwater.kernels.types import Parsed, parse
from slackwater.model.node import Source
from slackwater.model.policy import BoundedRows, MaxDelay, Policy, Punctuated
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn, parse_duration
from slackwater.semantics.contracts.template_text import parse_scheme
from slackwater.semantics.settings import resolve_source
from slackwater.surface.frames import check_frame
from slackwater.surface.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KINDS = {
    "timestamp": "timestamp", "timestamp_ntz": "timestamp_ntz", "bigint": "long", "int": "long",
}  # fmt: skip
_PATTERNS = re.compile(r"map<string,struct<op:string,value:\w+>>")
REPLAY_MARK = "slackwater-replay-"


def stream(
    df: DataFrame | SplitInput,
    *,
    time: str | Sequence[str] | None = None,
    name: str = "stream",
    progress: Policy | Mapping[str, Policy] | None = None,
    late: str = "admit",
    order: str | Sequence[str] | None = None,
    partition: str | None = None,
    partitions: int | Sequence[str | None] | None = None,
    timeUnit: str | None = None,
    endOfStream: bool = False,
    movedFrom: str | None = None,
) -> Stream:
    """A stream over a streaming DataFrame or a split source (``sw.readStream(...)``).

    Parameters
    ----------
    df
        Any streaming DataFrame, or what ``sw.readStream(spark)...parquet(dir)`` gave.
    time
        The progressing column (timestamp, timestamp_ntz, or an integer); several with a mapping in ``progress``.
    name
        The stream's name in progress records; must differ between the streams of a query.
    progress
        How bounds are found: ``sw.MaxDelay()`` by default; a mapping gives several columns one each.
    late
        ``"admit"``: a late row enters the windows still open; ``"drop"``: it is kept out at the input;
        ``"raise"``: the query fails and shows it. ``stream.late`` has the rows in every case.
    order
        Column(s) that give the order of arrival, such as an offset.
    partition, partitions
        Column that names the source's partition; how many there are, or their values (None: null).
    timeUnit
        For an integer time column: what one unit is, e.g. ``"second"``; needed where clocks matter.
    endOfStream
        This stream ends when the input that is there has been read (a backfill beside a live stream).
    movedFrom
        Where the directory of this stream's files was when the checkpoint read it last; files that were read are known by
        their path below it. May stay on later starts.

    Examples
    --------
    >>> s = stream(df, time="ts", name="packets")        # doctest: +SKIP
    """
    check_classic(df, "sw.stream")
    item, spark = _input(df)
    fields = item.fields
    _check_columns(fields)
    policies = _policies(time, progress)
    times = tuple(_time_column(fields, n, timeUnit) for n in policies)
    if late not in ("admit", "drop", "raise"):
        raise AnalysisError(
            "BAD_OPTION",
            f"late={late!r} is not known",
            hint='use late="admit", late="drop" or late="raise"',
            value=late,
        )
    analyser = Analyser(spark)
    orders = (order,) if isinstance(order, str) else tuple(order or ())
    source = Source(
        fields,
        times,
        name=name,
        input=id(df),
        policies=tuple(policies.values()),
        late=late,  # type: ignore[arg-type]
        order=tuple(_find(fields, c, "order column").name for c in orders),
        partition=None if partition is None else _find(fields, partition, "partition column").name,
        partitions=_partitions(partition, partitions),
        end_of_stream=endOfStream,
        replay=item.replay,
        moved_from=_moved_from(item, movedFrom),
        zone=analyser.zone,
    )
    check_sources([source])
    _check_policies(source, fields)
    resolve_source(source)
    source = replace(source, meaning=analyser.meaning)
    return Stream(source, {id(df): item}, analyser, spark)


def _input(df: Any) -> tuple[Input, SparkSession]:
    if isinstance(df, SplitInput):
        return df, df.spark
    if isinstance(df, Stream):
        raise AnalysisError(
            "NOT_A_STREAM",
            "sw.stream got what is a stream already",
            hint="use it as it is; under another name with .alias(...), with another wait with .withQuality(...)",
        )
    if not hasattr(df, "isStreaming"):
        raise AnalysisError(
            "NOT_A_STREAM",
            f"sw.stream got a {type(df).__name__}",
            hint="give a streaming DataFrame (spark.readStream...) or sw.readStream(spark)...parquet(dir)",
        )
    if not df.isStreaming:
        raise AnalysisError(
            "NOT_A_STREAM",
            "sw.stream got a batch DataFrame, which does not go on",
            hint="read it with spark.readStream, or replay rows with sw.replay(spark, batches, schema)",
        )
    if hasattr(df, "_jdf"):
        check_frame(df)
    text = df._jdf.queryExecution().analyzed().toString() if hasattr(df, "_jdf") else ""
    return FrameInput(df, REPLAY_MARK in text), df.sparkSession


def _moved_from(item: Input, path: Any) -> str | None:
    if path is None:
        return None
    if not isinstance(path, str) or not path.strip():
        raise AnalysisError(
            "BAD_OPTION",
            f"movedFrom={path!r} is not a directory's path",
            hint="give the path that the stream was read from before, as a text",
        )
    directories = directories_of(item)
    if not directories or any(d.pattern for d in directories):
        pattern = next((d.path for d in directories if d.pattern), None)
        reads = "no files" if pattern is None else f"the pattern '{pattern}'"
        raise AnalysisError(
            "NO_DIRECTORY",
            f"movedFrom='{path}' says where a directory of files was, but this stream reads {reads}",
            hint="leave movedFrom out",
            path=path,
        )
    return resolved(item, path)


def _check_columns(fields: Sequence[Field]) -> None:
    """Names that no reader of files can tell: an empty one, or two that differ in letter case only."""
    seen: dict[str, str] = {}
    for field in fields:
        if not field.name or _has_empty_field(field.type):
            where = (
                f"column '{field.name}' has a field" if field.name else "the schema has a column"
            )
            raise AnalysisError(
                "EMPTY_NAME",
                f"{where} with an empty name",
                hint="give it a name in the schema; a column of the files that has none is not read",
                column=field.name,
            )
        if field.name.lower() in seen:
            raise AnalysisError(
                "DUPLICATE_COLUMN",
                f"the schema has columns '{seen[field.name.lower()]}' and '{field.name}'",
                hint="name them apart; column names are compared without regard to case",
                column=field.name,
            )
        seen[field.name.lower()] = field.name


def _has_empty_field(text: str) -> bool:
    def empty(kind: Parsed) -> bool:
        return "" in kind.names or any(empty(p) for p in kind.parts)

    try:
        return empty(parse(text))
    except AnalysisError:
        return False  # a type that we do not compute on


def _policies(time: Any, progress: Any) -> dict[str, Policy]:
    """Policy by time column, the default column first."""
    names = [time] if isinstance(time, str) else list(time or ())
    if isinstance(progress, Mapping):
        for n in names:
            if n not in progress:
                raise AnalysisError(
                    "BAD_POLICY",
                    f"progress= gives no policy for time column '{n}'",
                    hint=f'add it: progress={{"{n}": sw.MaxDelay(), ...}}',
                    column=n,
                )
        policies = {n: progress[n] for n in [*names, *(c for c in progress if c not in names)]}
    else:
        if not names:
            raise AnalysisError(
                "NO_TIME",
                "sw.stream needs to know the time column",
                hint='say which column holds the event time: time="ts"',
            )
        policies = dict.fromkeys(names, progress if progress is not None else MaxDelay())
    for n, p in policies.items():
        if not isinstance(p, Policy):
            raise AnalysisError(
                "BAD_POLICY",
                f"progress of '{n}' is {p!r}, not a policy",
                hint='use sw.Ordered(), sw.BoundedDelay("10 seconds"), sw.BoundedRows(n), sw.MaxDelay(), '
                'sw.BoundedLatency(d), sw.Punctuated("column") or sw.Quality(error=0.01)',
            )
    return policies


def _time_column(fields: Sequence[Field], name: str, unit: str | None) -> TimeColumn:
    field = _find(fields, name, "time column")
    kind = _KINDS.get(field.type)
    if kind is None:
        raise AnalysisError(
            "BAD_TIME_TYPE",
            f"time column '{field.name}' is {field.type}; a timestamp, timestamp_ntz or long is needed",
            hint=f"convert it before sw.stream, e.g. df.withColumn('{field.name}', "
            f"F.to_timestamp('{field.name}'))",
            column=field.name,
            type=field.type,
        )
    ticks: int | None = 1
    if kind == "long":
        ticks = None if unit is None else int(parse_duration(f"1 {unit}", what="timeUnit"))
    elif unit is not None:
        raise AnalysisError(
            "BAD_OPTION",
            f"timeUnit={unit!r} goes with integer time columns, but '{field.name}' is {field.type}",
            hint="leave timeUnit out",
        )
    return TimeColumn(field.name, kind, ticks)  # type: ignore[arg-type]


def _find(fields: Sequence[Field], name: str, what: str) -> Field:
    field = next((f for f in fields if f.name.lower() == str(name).lower()), None)
    if field is None:
        raise AnalysisError(
            "COLUMN_NOT_FOUND",
            f"{what} '{name}' does not exist",
            hint=f"use one of: {', '.join(f.name for f in fields)}",
            name=name,
        )
    return field


def _partitions(partition: str | None, partitions: Any) -> int | tuple[str | None, ...] | None:
    if partitions is None:
        return None
    if partition is None:
        raise AnalysisError(
            "BAD_OPTION",
            "partitions= is given without partition=",
            hint='say which column names the partition: partition="partition"',
        )
    if isinstance(partitions, int) and not isinstance(partitions, bool):
        return partitions
    return tuple(None if p is None else str(p) for p in partitions)


def _check_policies(source: Source, fields: Sequence[Field]) -> None:
    for time, policy in zip(source.times, source.policies, strict=True):
        if isinstance(policy, BoundedRows) and not source.order:
            raise AnalysisError(
                "ORDER_NEEDED",
                f"BoundedRows on '{time.name}' needs to know the order of arrival",
                hint='name the column(s) that give it: order="offset"',
            )
        if isinstance(policy, Punctuated):
            field = _find(fields, policy.column, "punctuation column")
            if field.type.startswith("map<"):
                _check_patterns(field)
                if policy.scheme is not None:
                    parse_scheme(policy.scheme, {f.name: f.type for f in fields})
                continue
            if policy.scheme is not None:
                raise AnalysisError(
                    "BAD_SCHEME",
                    f"scheme= declares patterns, but punctuation column '{field.name}' holds bounds on "
                    f"'{time.name}'",
                    hint=f"leave scheme= out: bounds are [[{time.name}:+]]",
                    column=field.name,
                )
            own = _find(fields, time.name, "time column")
            if field.type != own.type:
                raise AnalysisError(
                    "BAD_TIME_TYPE",
                    f"punctuation column '{field.name}' is {field.type}, but the time column "
                    f"'{own.name}' is {own.type}",
                    hint="make both the same type, or give patterns: map<string, struct<op, value>>",
                    column=field.name,
                )


def _check_patterns(field: Field) -> None:
    """Patterns are ``map<string, struct<op: string, value>>``."""
    if not _PATTERNS.fullmatch(field.type):
        raise AnalysisError(
            "BAD_PUNCTUATION_TYPE",
            f"punctuation column '{field.name}' is {field.type}",
            hint="patterns are of type map<string,struct<op:string,value:string>>: tests by column",
            column=field.name,
            type=field.type,
        )
