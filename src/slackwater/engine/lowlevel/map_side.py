"""Spark's map-side aggregation alone, as a DataFrame.

``groupBy`` puts a shuffle by all group columns behind its partial aggregation; we need the rows before that
shuffle. So the aggregation is planned as usual and the part below the exchange is executed. What is planned
anew each batch is kept small, since planning is a large part of a small batch's time: one SQL text, one
analysis, no renaming projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.engine.lowlevel.fused import Dialect, Fused, query
from slackwater.engine.lowlevel.inputs import Input, places, row_fields
from slackwater.engine.paths.batch import Batch
from slackwater.model.names import SOURCE, ours, sub_query
from slackwater.model.spark_sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Shape:
    """What stays the same from batch to batch: the columns' schema (in the JVM) and their meaning."""

    schema: Any
    width: int
    columns: Columns


# By query, columns and types: the outputs of a query may change while it runs. A driver may run one query after the other.
MOST_SHAPES = 64
_shapes: dict[tuple[Any, ...], _Shape] = {}


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
    frame.createOrReplaceTempView(view)
    fields = row_fields(batch.plan, inputs, index)
    held = zip(fields, places(batch.plan, inputs)[index], strict=True)
    names = [f"`{place}` AS {quoted(f.name)}" for f, place in held]
    base = f"SELECT {SOURCE}, {', '.join(names)} FROM {view} WHERE {SOURCE} = {index}"
    groups, items, relation = query(batch, fused, base, Dialect(False, index))
    by = ", ".join(str(i + 1) for i in range(len(groups)))
    text = f"SELECT {', '.join([*groups, *items])} FROM {sub_query(relation)} GROUP BY {by}"
    execution = spark.sql(text)._jdf.queryExecution()
    exchange = _find_exchange(execution.executedPlan())
    if exchange is None:
        return None
    child = exchange.child()
    # With the types: another query may come to the same folder in one process.
    key = (batch.root, fields, fused.path.steps, *groups, *items)
    shape = _shapes.get(key)
    if shape is None:
        made = _shape(spark, execution.optimizedPlan(), child.schema(), groups, items)
        if made is None:
            return None
        # Other queries may do the same at this moment, in threads of their own.
        for old in list(_shapes)[: max(0, len(_shapes) + 1 - MOST_SHAPES)]:
            _shapes.pop(old, None)
        shape = _shapes[key] = made
    if child.schema().size() != shape.width:
        return None
    jdf = spark._jsparkSession.internalCreateDataFrame(child.execute(), shape.schema, False)
    return Frame(jdf, spark), shape.columns


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
