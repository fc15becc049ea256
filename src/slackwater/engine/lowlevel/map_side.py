"""Spark's map-side aggregation alone, as a DataFrame.

``groupBy`` puts a shuffle by all group columns behind its partial aggregation; we need the rows before that
shuffle. So the aggregation is planned as usual and the part below the exchange is executed. Parsing, analysis and
planning take longer than all else that the driver does for a batch, and most of all in a new process. But from batch to
batch nothing changes except the rows and some numbers: the plan is kept, and each batch gets a copy over its own
rows, with its own numbers in the place of those of the batch before.

``foreachBatch`` gives rows as they leave Spark's plan of the batch, each written out once. The part of that plan below
(`rows_plan`) is put under the aggregation instead, so that one generated loop reads and aggregates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.engine.lowlevel.fused import (
    Dialect,
    Fused,
    array_sql,
    marks,
    numbers_of,
    query,
)
from slackwater.engine.lowlevel.inputs import Input, places, row_fields
from slackwater.engine.lowlevel.rows_plan import is_compiled, plan_of_rows
from slackwater.engine.paths.batch import Batch
from slackwater.model.names import SOURCE, ours, sub_query
from slackwater.model.spark_sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Java:
    """Classes of the JVM. To find one by its name takes a call for each part of the name, so they are kept."""

    arrays: Any
    system: Any
    utilities: Any
    scan: Any

    @classmethod
    def of(cls, spark: Any) -> Java:
        """Those of a session's JVM."""
        spark_classes = spark._jvm.org.apache.spark
        return cls(
            spark_classes.sql.catalyst.util.GenericArrayData,
            spark._jvm.java.lang.System,
            spark_classes.api.python.PythonUtils,
            spark_classes.sql.execution.RDDScanExec,
        )


@dataclass(frozen=True)
class _Shape:
    """What stays the same from batch to batch: the columns' schema (in the JVM) and their meaning."""

    schema: Any
    width: int
    columns: Columns


@dataclass(frozen=True)
class _Kept:
    """A plan that is kept, as objects of the JVM: its nodes from the top down to the one above its leaf.

    ``leaf`` is what that is made of, with None where it has its rows, and ``output`` are its columns. ``arrays`` are
    those in its expressions that hold the numbers of a batch. A query runs one batch at a time, and what tasks get is a
    copy. ``java`` are the classes that it takes to make one. ``stage`` says which of the nodes makes generated code of all below, if one does.
    """

    nodes: tuple[Any, ...]
    leaf: tuple[Any, ...]
    output: Any
    arrays: tuple[Any, ...]
    java: Java
    stage: int | None


@dataclass
class _Known:
    """What is known of a query's aggregation; its plan is not kept if it has not the expected shape.

    ``one_loop`` says whether the JVM compiles reading and aggregating as one; None until that was tried.
    """

    shape: _Shape
    kept: _Kept | None
    one_loop: bool | None = None


_CAPACITY = "spark.sql.codegen.aggregate.fastHashMap.capacityBit"
_CAPACITY_BITS = "18"
"""Spark looks up so many groups (2 to this power) in generated code, the others in a slower map; 16 is its default."""

# By session, query, columns, types and text: the outputs of a query may change while it runs. A driver may run one query
# after the other.
MOST_SHAPES = 64
_known: dict[tuple[Any, ...], _Known] = {}


def partial_frame(
    frame: DataFrame, batch: Batch, inputs: Sequence[Input], fused: Fused
) -> tuple[DataFrame, Columns] | None:
    """The partial aggregates, and pairs (name, column of the DataFrame that holds it).

    None if Spark's plan has not the expected shape; the caller then takes the rows themselves.
    """
    from pyspark.sql import DataFrame as Frame

    spark = frame.sparkSession
    index = fused.source.input
    view = ours(f"_batch_{abs(hash(batch.root)) % 10**9}")
    fields = row_fields(batch.plan, inputs, index)
    held = zip(fields, places(batch.plan, inputs)[index], strict=True)
    names = [f"`{place}` AS {quoted(f.name)}" for f, place in held]
    base = f"SELECT {SOURCE}, {', '.join(names)} FROM {view} WHERE {SOURCE} = {index}"
    groups, items, relation = query(batch, fused, base, Dialect(False, index))
    by = ", ".join(str(i + 1) for i in range(len(groups)))
    text = f"SELECT {', '.join([*groups, *items])} FROM {sub_query(relation)} GROUP BY {by}"
    numbers = numbers_of(batch, fused)
    # With the types: another query may come to the same folder in one process.
    key = (spark._jsparkSession.hashCode(), batch.root, fields, text)
    known = _known.get(key)
    leaf = _leaf(frame)
    if known is not None and known.kept is not None and leaf is not None:
        child = _renewed(spark, known, leaf, inputs, index, numbers)
    else:
        if not spark._jsparkSession.sessionState().conf().contains(_CAPACITY):
            spark.conf.set(_CAPACITY, _CAPACITY_BITS)  # of this query's own session
        frame.createOrReplaceTempView(view)
        made = leaf is not None and known is None
        written = text if made else text.replace(array_sql(marks(len(numbers))), array_sql(numbers))
        execution = spark.sql(written)._jdf.queryExecution()
        exchange = _find_exchange(execution.executedPlan())
        if exchange is None:
            return None
        child = exchange.child()
        if known is None:
            shape = _shape(spark, execution.optimizedPlan(), child.schema(), groups, items)
            if shape is None:
                return None
            kept = _kept(spark, child, marks(len(numbers))) if made else None
            # Other queries may do the same at this moment, in threads of their own.
            for old in list(_known)[: max(0, len(_known) + 1 - MOST_SHAPES)]:
                _known.pop(old, None)
            known = _known[key] = _Known(shape, kept)
            if made:
                # The text had no numbers yet: now they are put in, or it is planned once more with them.
                return partial_frame(frame, batch, inputs, fused)
    shape = known.shape
    if child.schema().size() != shape.width:
        return None
    jdf = spark._jsparkSession.internalCreateDataFrame(child.execute(), shape.schema, False)
    return Frame(jdf, spark), shape.columns


def _leaf(frame: DataFrame) -> Any:
    """The rows of a batch as an RDD of the JVM; None if the frame is more than rows that exist."""
    if not hasattr(frame, "_jdf"):
        return None
    logical = frame._jdf.queryExecution().logical()
    return logical.rdd() if logical.getClass().getSimpleName() == "LogicalRDD" else None


def _kept(spark: Any, child: Any, numbers: Sequence[int]) -> _Kept | None:
    """The plan from ``child`` down, if it is a chain over rows that exist and holds the array of its numbers."""
    nodes, arrays, current = [], [], child
    while current.children().size() == 1:
        nodes.append(current)
        arrays += _arrays_of(current, numbers)
        current = current.child()
    if current.getClass().getSimpleName() != "RDDScanExec" or not arrays:
        return None
    rows = current.rdd()
    parts = [current.productElement(i) for i in range(current.productArity())]
    leaf = tuple(None if hasattr(p, "equals") and p.equals(rows) else p for p in parts)
    if leaf.count(None) != 1:
        return None
    kinds = [str(n.getClass().getSimpleName()) for n in nodes]
    last = max(
        (i for i, k in enumerate(kinds) if k in ("WholeStageCodegenExec", "InputAdapter")),
        default=None,
    )
    stage = last if last is not None and kinds[last] == "WholeStageCodegenExec" else None
    return _Kept(tuple(nodes), leaf, current.output(), tuple(arrays), Java.of(spark), stage)


def _arrays_of(node: Any, numbers: Sequence[int]) -> list[Any]:
    """The arrays in a node's expressions that hold just these numbers, as arrays of the JVM."""
    text = f"[{','.join(map(str, numbers))}]"
    arrays = []
    expressions = node.expressions()
    for i in range(expressions.size()):
        leaves = expressions.apply(i).collectLeaves()
        for j in range(leaves.size()):
            leaf = leaves.apply(j)
            # A literal of one number is no array, whatever its text.
            if leaf.getClass().getSimpleName() == "Literal" and str(leaf.toString()) == text:
                arrays.append(leaf.value().array())
    return arrays


def _renewed(
    spark: Any,
    known: _Known,
    rows: Any,
    inputs: Sequence[Input],
    index: int,
    numbers: Sequence[int],
) -> Any:
    """A copy of the plan with other numbers, over the plan of other rows; or over these, if they have no such plan."""
    kept = known.kept
    assert kept is not None
    gateway, java = spark.sparkContext._gateway, kept.java
    longs = gateway.new_array(gateway.jvm.long, len(numbers))
    for i, number in enumerate(numbers):
        longs[i] = number
    boxed = java.arrays(longs).array()
    for array in kept.arrays:
        java.system.arraycopy(boxed, 0, array, 0, len(numbers))
    if known.one_loop is not False and kept.stage is not None:
        below = plan_of_rows(spark, rows, inputs, index, kept.output)
        if below is not None:
            whole = _over(kept, below)
            if known.one_loop is None:
                stage = whole
                for _ in range(kept.stage):
                    stage = stage.child()
                known.one_loop = is_compiled(spark, stage)
            if known.one_loop:
                return whole
    return _over(kept, java.scan(*(rows if p is None else p for p in kept.leaf)))


def _over(kept: _Kept, plan: Any) -> Any:
    for node in reversed(kept.nodes):
        plan = node.withNewChildren(kept.java.utilities.toSeq([plan]))
    return plan


def _shape(
    spark: Any, plan: Any, schema: Any, groups: Sequence[str], items: Sequence[str]
) -> _Shape | None:
    places = _buffer_places(plan, len(groups))
    if places is None or schema.size() != len(groups) + len(set(places)):
        return None
    from pyspark.sql.types import StructField, StructType

    fields = StructType.fromJson(_json(schema)).fields
    renamed = StructType([StructField(f"c{i}", f.dataType, True) for i, f in enumerate(fields)])
    columns = [(_alias(g), f"c{i}") for i, g in enumerate(groups)]
    columns += [
        (_alias(item), f"c{len(groups) + p}") for item, p in zip(items, places, strict=True)
    ]
    made = spark._jsparkSession.parseDataType(renamed.json())
    return _Shape(made, schema.size(), tuple(columns))


def _json(schema: Any) -> dict[str, Any]:
    import json

    parsed: dict[str, Any] = json.loads(schema.json())
    return parsed


def _buffer_places(plan: Any, groups: int) -> list[int] | None:
    """For each aggregate column the place of its buffer: Spark computes equal aggregates once.

    Every aggregate used here has a buffer of one column, in order of first appearance.
    """
    if plan.getClass().getSimpleName() != "Aggregate":
        return None
    items = plan.aggregateExpressions()
    seen: dict[str, int] = {}
    places = []
    for i in range(groups, items.size()):
        item = items.apply(i)
        if item.getClass().getSimpleName() != "Alias":
            return None
        text = str(item.child().canonicalized().toString())
        places.append(seen.setdefault(text, len(seen)))
    return places


def _find_exchange(plan: Any) -> Any:
    if plan.getClass().getSimpleName() == "ShuffleExchangeExec":
        return plan
    children = plan.children()
    for i in range(children.size()):
        exchange = _find_exchange(children.apply(i))
        if exchange is not None:
            return exchange
    return None


def _alias(item: str) -> str:
    return item.rsplit(" AS ", 1)[1].strip('`"')
