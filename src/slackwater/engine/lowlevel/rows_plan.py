"""The part of Spark's own plan of a batch that gives the rows of one input.

``foreachBatch`` hands over rows that exist: there Spark's plan of the batch ends, and every row is written out before
anybody sees it, the heartbeat's among them. A native query aggregates in the loop that reads; so does ours, if its
operators are put on top of this part of the plan instead of on top of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.engine.lowlevel.inputs import FrameInput, Input
from slackwater.model.names import SOURCE

_QUERY_ID = "sql.streaming.queryId"
LONGEST_COMPILED = 8000
"""The JVM compiles no method of more bytes (``HugeMethodLimit``): then two short loops are faster than a long one."""


def plan_of_rows(spark: Any, rows: Any, inputs: Sequence[Input], index: int, output: Any) -> Any:
    """The physical plan of those of ``rows`` that are of one input, inside of a stage of generated code; or None.

    ``rows`` are the RDD of this batch, ``output`` the attributes under which the plan is to give its columns. None where
    Spark's plan is not what `united` wrote, with exactly one part that is the input's own. Also where the user's plan keeps
    rows from batch to batch: what has an effect runs as Spark planned it.
    """
    item = inputs[index]
    if not (isinstance(item, FrameInput) and item.narrows):
        return None
    execution = _execution(spark, inputs[0])
    # These very rows, not those of another batch.
    if execution is None or not execution.toRdd().equals(rows):
        return None
    plan, generated = _generated(execution.executedPlan())
    # Without new rows of the others, and without a new heartbeat, Spark makes no union.
    parts = [plan]
    if _kind(plan) == "UnionExec":
        children = plan.children()
        parts = [children.apply(i) for i in range(children.size())]
    own = []
    for one in parts:
        part, by_itself = _generated(one)
        tag = _tag(part)
        if tag is None:
            return None
        if tag == index:
            own.append(part)
            generated |= by_itself
    return _under_names(spark, own[0], output) if len(own) == 1 and generated else None


def is_compiled(spark: Any, stage: Any) -> bool:
    """Whether the JVM will compile the methods of a stage of generated code."""
    codegen = spark._jvm.org.apache.spark.sql.catalyst.expressions.codegen
    statistics = codegen.CodeGenerator.compile(stage.doCodeGen()._2())._2()
    return 0 <= int(statistics.maxMethodCodeSize()) <= LONGEST_COMPILED


def _execution(spark: Any, first: Input) -> Any:
    """What Spark runs at this moment for the query in whose callback we are; the session of its first input started it."""
    id = spark.sparkContext.getLocalProperty(_QUERY_ID)
    started = first.frame.sparkSession if isinstance(first, FrameInput) else first.spark
    if id is None or not hasattr(started, "_jsparkSession"):
        return None
    query = started._jsparkSession.streams().get(id)
    if query is None or not hasattr(query, "streamingQuery"):
        return None
    return query.streamingQuery().lastExecution()


def _generated(plan: Any) -> tuple[Any, bool]:
    """The plan without the operator that makes it a stage of generated code, and whether it had that."""
    if _kind(plan) == "WholeStageCodegenExec":
        return plan.child(), True
    return plan, False


def _tag(part: Any) -> int | None:
    """The number of the input that a part of the union reads; None if the part is not as `united` wrote it."""
    if _kind(part) != "ProjectExec":
        return None
    first = part.projectList().apply(0)
    if _kind(first) != "Alias" or first.name() != SOURCE or _kind(first.child()) != "Literal":
        return None
    return int(first.child().value())


def _under_names(spark: Any, part: Any, output: Any) -> Any:
    """The part with the attributes of the union, which are those of its first part."""
    given = part.output()
    if given.mkString(",") == output.mkString(","):
        return part
    sql, to_seq = (
        spark._jvm.org.apache.spark.sql,
        spark._jvm.org.apache.spark.api.python.PythonUtils.toSeq,
    )
    none = spark._jvm.scala.Option.empty()
    names = [
        sql.catalyst.expressions.Alias(
            given.apply(i), wanted.name(), wanted.exprId(), wanted.qualifier(), none, to_seq([])
        )
        for i, wanted in ((i, output.apply(i)) for i in range(output.size()))
    ]
    return sql.execution.ProjectExec(to_seq(names), part)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
