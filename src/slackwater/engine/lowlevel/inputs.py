"""The inputs of a query as one streaming DataFrame, and a batch of it as low-level tasks.

Every input is tagged with its index (`SOURCE`) and its columns are renamed ``__sw_c<type>_<i>``, so that inputs of
different shapes unite null-padded and Spark reads each once; columns of one type share their place, and a column that
nobody reads has none, since every column costs each row something on its way to Python. A heartbeat, one row per trigger, is always the last: a query
that waits for time to pass must run without new rows, and a source cannot be added later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from slackwater.engine.analysis.analyse import fields_of, struct_of
from slackwater.engine.lowlevel.bare import Bare, emptied
from slackwater.engine.lowlevel.tasks import RowInput
from slackwater.engine.parquet.folders import Folders, data_files
from slackwater.engine.paths.batch import Batch
from slackwater.engine.plan.columns import carried
from slackwater.engine.plan.plan import Path, Plan
from slackwater.engine.plan.reading import (
    FusedScan,
    JvmPartials,
    Rows,
    RowsWithSteps,
    Scan,
    unknown,
)
from slackwater.engine.plan.steps import FilterStep, LookupStep, PaceStep, ProjectStep, unknown_step
from slackwater.engine.store.exact_paths import check_folder, spark_path
from slackwater.model.names import BARE, PASS, SOURCE, ours
from slackwater.model.schema import Field
from slackwater.model.spark_sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEARTBEAT = -1
_WHOLE = ours("_whole")
_BINARY_FILE = "path string, modificationTime timestamp, length bigint, content binary"


@dataclass(frozen=True)
class FrameInput:
    """Rows of a streaming DataFrame."""

    frame: Any
    replay: bool = False

    by_rows: ClassVar[str] = "Spark alone reads a DataFrame"

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Its columns."""
        return fields_of(self.frame.schema)

    @cached_property
    def narrows(self) -> bool:
        """Whether Spark may leave out columns that nobody reads."""
        return not hasattr(self.frame, "_jdf") or _is_stateless(
            self.frame._jdf.queryExecution().analyzed()
        )


@dataclass(frozen=True)
class SplitInput:
    """Parquet files below ``path``, read as splits; ``options`` are those of Spark's file source.

    ``by_rows`` says why the column engine cannot read them as Spark does; empty if it can.
    """

    spark: Any
    path: str
    fields: tuple[Field, ...]
    options: dict[str, str] = field(default_factory=dict)
    replay: bool = False
    by_rows: str = ""

    narrows: ClassVar[bool] = True

    @property
    def recursive(self) -> bool:
        """Whether files of all folders are read, and folders give no columns."""
        given = {k.lower(): v for k, v in self.options.items()}
        return given.get("recursivefilelookup", "false").lower() == "true"

    def names_frame(self) -> DataFrame:
        """A stream of file names: one row per file, contents unread."""
        reader = self.spark.readStream.format("binaryFile").schema(_BINARY_FILE)
        for key, value in {"maxFileAge": "36500d", **self.options}.items():
            reader = reader.option(key, value)
        return reader.load(spark_path(self.path)).select("path")  # type: ignore[no-any-return]

    def rows_frame(self) -> DataFrame:
        """The same files as rows, for what the column engine cannot do."""
        check_folder(self.path, "source directory")
        reader = self.spark.readStream.schema(struct_of(self.fields))
        for key, value in {"maxFileAge": "36500d", **self.options}.items():
            reader = reader.option(key, value)
        return reader.parquet(self.path)  # type: ignore[no-any-return]


Input = FrameInput | SplitInput

_STATELESS = {
    "Project", "Filter", "TypedFilter", "SubqueryAlias", "View", "Union", "EventTimeWatermark", "Generate",
    "MapPartitions", "MapElements", "SerializeFromObject", "DeserializeToObject", "MapInPandas", "MapInArrow",
    "PythonMapInArrow", "Repartition", "RepartitionByExpression", "UnresolvedHint", "ResolvedHint",
}  # fmt: skip


def _is_stateless(plan: Any) -> bool:
    """Whether nothing in the user's own plan keeps rows from batch to batch.

    What Spark keeps has the columns that are read above it, so that a checkpoint would not open once others are.
    """
    children = plan.children()
    below = [children.apply(i) for i in range(children.size())]
    if not below:
        return True
    known = str(plan.getClass().getSimpleName()) in _STATELESS
    # A join holds rows of a stream only if both of its sides are streams.
    one_stream = sum(bool(b.isStreaming()) for b in below) == 1 and plan.nodeName() == "Join"
    return (known or one_stream) and all(map(_is_stateless, below))


def source_files(item: Input, files: Sequence[str], zone: str) -> dict[str, Folders]:
    """The files of a batch of a split source that hold rows, each with the columns that its folders give."""
    assert isinstance(item, SplitInput)
    return data_files(item.path, files, item.fields, zone, recursive=item.recursive)


def row_fields(plan: Plan, inputs: Sequence[Input], index: int) -> tuple[Field, ...]:
    """The columns that the rows of an input bring along."""
    item = inputs[index]
    return carried(plan, index, item.fields) if item.narrows else item.fields


def places(plan: Plan, inputs: Sequence[Input]) -> dict[int, tuple[str, ...]]:
    """For each input of rows, the column of the united DataFrame that holds each of its `row_fields`."""
    types: dict[str, int] = {}
    by_input = {}
    for index, reading in enumerate(plan.readings):
        if reading.by_columns:
            continue
        taken: Counter[int] = Counter()
        names = []
        for one in row_fields(plan, inputs, index):
            kind = types.setdefault(one.type, len(types))
            names.append(ours(f"_c{kind}_{taken[kind]}"))
            taken[kind] += 1
        by_input[index] = tuple(names)
    return by_input


def united(spark: SparkSession, plan: Plan, inputs: Sequence[Input]) -> DataFrame:
    """All inputs and the heartbeat as one streaming DataFrame."""
    from pyspark.sql import functions as F

    held = places(plan, inputs)
    parts = []
    for index, (item, reading) in enumerate(zip(inputs, plan.readings, strict=True)):
        if reading.by_columns:
            assert isinstance(item, SplitInput)
            parts.append(item.names_frame().select(F.lit(index).alias(SOURCE)))
            continue
        frame = item.rows_frame() if isinstance(item, SplitInput) else item.frame
        columns = [
            F.col(quoted(f.name)).alias(place)
            for f, place in zip(row_fields(plan, inputs, index), held[index], strict=True)
        ]
        parts.append(frame.select(F.lit(index).alias(SOURCE), *columns))
    beat = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 1)
        .option("numPartitions", 1)
        .option("startTimestamp", 0)
        .load()
        .select(F.lit(HEARTBEAT).alias(SOURCE))
    )
    whole = parts[0]
    for part in (*parts[1:], beat):
        whole = whole.unionByName(part, allowMissingColumns=True)
    return whole


def row_frame(
    frame: DataFrame, batch: Batch, inputs: Sequence[Input]
) -> tuple[DataFrame, list[RowInput]] | None:
    """The batch's raw rows for the Python low level, with what Spark must evaluate beforehand."""
    from pyspark.sql import functions as F

    plan = batch.plan
    held = places(plan, inputs)
    described = []
    # In the order of the DataFrame, each once: inputs share places.
    wanted = [c for c in frame.columns if c == SOURCE or any(c in used for used in held.values())]
    frame = frame.where(F.col(SOURCE).isin(list(held)))
    fields = {i: row_fields(plan, inputs, i) for i in held}
    bare = [one for i in held if (one := Bare.of(batch, i, fields[i])) is not None]
    if bare:
        by_name = {
            i: {f.name: c for f, c in zip(fields[i], columns, strict=True)}
            for i, columns in held.items()
        }
        for one in bare:
            frame = one.marked(frame, by_name[one.index])
        frame = emptied(frame, bare, by_name)
        wanted.append(BARE)
    for index, columns in held.items():
        names = [f.name for f in fields[index]]
        done = []
        for path in _evaluated(plan, index):
            column = ours(f"_p{path.id}")
            frame = _evaluate(frame, index, path, names, columns, column)
            done.append((path.id, column))
        described.append(RowInput(index, tuple(names), columns, tuple(done)))
        wanted += [c for _, c in done]
    if not described:
        return None
    return frame.select(*wanted), described


def _evaluated(plan: Plan, index: int) -> list[Path]:
    """The paths of an input whose steps Spark evaluates, where tasks are to get rows."""
    reading = plan.readings[index]
    if isinstance(reading, JvmPartials):
        reading = reading.otherwise
    match reading:
        case Rows():
            return []
        case RowsWithSteps():
            return [plan.path(p) for p in reading.paths]
        case Scan() | FusedScan():
            raise TypeError(f"input {index} is read by the column engine, not as rows")
        case _:
            raise unknown(reading)


def _evaluate(
    frame: DataFrame,
    index: int,
    path: Path,
    names: Sequence[str],
    columns: Sequence[str],
    result: str,
) -> DataFrame:
    """Run a path's row operators in Spark SQL; the result is a struct column, with `PASS` last.

    Only for rows of the path's own input: an expression may fail for values that another has in the same place.
    """
    from pyspark.sql import functions as F

    carried = frame.columns
    whole = F.struct(*[F.col(quoted(c)) for c in carried]).alias(_WHOLE)
    current = frame.select(
        whole,
        F.expr(f"{SOURCE} = {index}{' AND NOT ' + BARE if BARE in carried else ''}").alias(PASS),
        *[F.col(quoted(c)).alias(n) for c, n in zip(columns, names, strict=True)],
    )
    shown = list(names)
    for step in path.stretches[0].steps:
        match step:
            case FilterStep():
                test = f"CASE WHEN {PASS} THEN coalesce({step.condition.sql}, FALSE) ELSE FALSE END"
                current = current.withColumn(PASS, F.expr(test))
            case ProjectStep():
                items = [
                    F.expr(f"CASE WHEN {PASS} THEN {c.expr.sql} END").alias(c.name)
                    for c in step.columns
                ]
                current = current.select(_WHOLE, PASS, *items)
                shown = [c.name for c in step.columns]
            case LookupStep():
                raise TypeError("a table of a relation is with the column engine")
            case PaceStep():
                raise TypeError("the limit of a pace is with the column engine")
            case _:
                raise unknown_step(step)
    struct = F.struct(*[F.col(quoted(c)) for c in shown], F.col(PASS))
    return current.select(f"{_WHOLE}.*", struct.alias(result))
