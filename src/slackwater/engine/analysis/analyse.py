"""Expressions, analysed by Spark against an empty frame of the schema.

With ``expression_text`` the only place that touches Spark's JVM for expressions. What comes out are
plain values: SQL text that Spark reads back as the same expression, Spark's result type, and the
same expression for the column engine where a faithful translation exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from slackwater.engine.analysis.aggregates import Cutter, Text, items, text_of
from slackwater.engine.analysis.conjuncts import Conjunct, conjuncts
from slackwater.engine.analysis.schema import data_type, fields_of, struct_of, type_name
from slackwater.engine.analysis.session_settings import current
from slackwater.engine.analysis.spark_errors import captured, overflows, too_deep
from slackwater.engine.analysis.stream_columns import Place, placed
from slackwater.engine.analysis.text import Printer, Replace, ident
from slackwater.errors import AnalysisError
from slackwater.kernels.aggregates.kinds import kind_of
from slackwater.kernels.translate import NotTranslatable, translate
from slackwater.kernels.translate.distances import Read, TimeOf, distances
from slackwater.kernels.translate.shifts import shift_of
from slackwater.model.aggregate import Primitive
from slackwater.model.names import ours
from slackwater.model.schema import Expr, Field, Named
from slackwater.model.spark_sql import quoted
from slackwater.model.time import TimeColumn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Analyser", "data_type", "fields_of", "struct_of", "type_name"]

# where PySpark logs errors of SQL texts and of Columns
_ERROR_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# how an empty frame shows in a plan
_LEAVES = ("LogicalRDD", "LocalRelation")
# what Spark's parser says when it has come to the end of its thread's stack
_TOO_COMPLEX = "FAILED_TO_PARSE_TOO_COMPLEX"
KEPT = 256
"""Empty frames that a session keeps."""
_PLAN_NODES = {
    "Generate": "it makes several rows of one (a generator such as explode)",
    "Window": "it needs other rows (a window function)",
    "Aggregate": "it is an aggregate: use groupBy(..., sw.window(...)).agg(...)",
    "Expand": "it puts a row into several groups (Spark's window, cube or rollup)",
}


_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def _refusing_depth(work: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
    """What is nested more deeply than Spark's threads, or Python, can walk is refused by name."""

    @wraps(work)
    def done(*args: _Given.args, **named: _Given.kwargs) -> _Made:
        from py4j.protocol import Py4JJavaError

        try:
            return work(*args, **named)
        except (RecursionError, Py4JJavaError) as error:
            if isinstance(error, Py4JJavaError) and not overflows(error):
                raise
            raise too_deep() from error

    return done


class Analyser:
    """Analyses expressions in one session.

    ``meaning`` are the session's settings when the stream was made. An expression is analysed, and
    translated, under those of its own moment, and says so: whether all agree is seen at the start.
    """

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self.meaning = current(spark)
        self._frames = _frames_of(spark)

    @property
    def zone(self) -> str:
        """The session's time zone when the stream was made."""
        return self.meaning.zone

    @cached_property
    def _printer(self) -> Printer:
        context = self._spark.sparkContext
        return Printer(context._jvm, context._gateway, self.meaning)

    @_refusing_depth
    def columns(
        self, fields: Sequence[Field], exprs: Sequence[Column | str], star_ok: bool = True
    ) -> tuple[Named, ...]:
        """What ``select(*exprs)`` gives on rows of ``fields``; text is read as in selectExpr."""
        if not star_ok and any(isinstance(e, str) and e.strip() == "*" for e in exprs):
            raise AnalysisError(
                "BAD_EXPRESSION", "'*' is not one column", hint="name the columns", expression="*"
            )
        frame = self._frame(fields)
        with self._errors(fields, exprs):
            plan = frame.select(*self._inputs(fields, exprs))._jdf.queryExecution().analyzed()
            lists = self._projects(plan)
            replace = self._inlined(fields, lists[1:]) if len(lists) > 1 else None
            named = []
            for item in lists[0]:
                node = item.child() if "Alias" in self._printer.kinds(item) else item
                named.append((str(item.name()), self._text(fields, node, replace)))
        self._check(fields, [text for _, text in named])
        return tuple(Named(n, self._expr(text, fields)) for n, text in named)

    def condition(self, fields: Sequence[Field], condition: Column | str) -> Expr:
        """A condition over rows of ``fields``."""
        (named,) = self.columns(fields, [condition], star_ok=False)
        if named.expr.type != "boolean":
            raise AnalysisError(
                "BAD_EXPRESSION",
                f"the condition {named.expr.sql} is of type {named.expr.type}, not boolean",
                hint="compare it with something",
                expression=named.expr.sql,
                type=named.expr.type,
            )
        return named.expr

    @_refusing_depth
    def conjuncts(
        self,
        fields: Sequence[Field],
        condition: Column | str,
        names: Mapping[str, str],
        *,
        fold: bool = False,
    ) -> list[Conjunct]:
        """A condition over rows of ``fields``, taken apart at its ANDs; ``names`` and ``fold`` as in `conjuncts`."""
        self.condition(fields, condition)  # refuses what is none
        with self._errors(fields, [condition]):
            chosen = self._frame(fields).select(*self._inputs(fields, [condition]))
            ((item,),) = self._projects(chosen._jdf.queryExecution().analyzed())
            node = item.child() if "Alias" in self._printer.kinds(item) else item
            return list(conjuncts(self._printer, node, fields, names, fold))

    @_refusing_depth
    def placed(
        self, fields: Sequence[Field], expression: Column | str, place: Place
    ) -> Column | str:
        """The same expression with other names in it, if any are others; see `stream_columns`."""
        with self._errors(fields, [expression]):
            (column,) = self._inputs(fields, [expression])
            new = placed(self._spark, column, place)
        return expression if new is column else new

    def distances(self, part: Conjunct, times: Mapping[str, TimeOf]) -> Read:
        """What a part of a condition says of the distances between times, which go by columns' names."""
        meaning = self._printer.meaning
        return distances(part.folded, times, ansi=meaning.ansi, zone=meaning.zone)

    @_refusing_depth
    def aggregates(
        self,
        fields: Sequence[Field],
        keys: Sequence[Column | str],
        aggs: Sequence[Column | str],
        time: Text | None = None,
    ) -> tuple[tuple[Named, ...], tuple[Primitive, ...], tuple[Named, ...]]:
        """Cut aggregate columns into primitives and expressions over them and the keys.

        ``time`` is the expression of the rows' time, for aggregates that depend on the order of rows.
        The primitives are named ``_a0``, ``_a1``...; the outputs speak of their columns and of the keys.
        """
        frame = self._frame(fields)
        with self._errors(fields, [*keys, *aggs]):
            grouped = frame.groupBy(*self._inputs(fields, keys))
            inputs = self._inputs(fields, aggs)
            plan = grouped.agg(*inputs)._jdf.queryExecution().analyzed()
            if plan.nodeName() != "Aggregate" or plan.child().nodeName() not in _LEAVES:
                raise self._plan_error(plan)
            grouping = items(plan.groupingExpressions())
            columns = items(plan.aggregateExpressions())
            named_keys = self._keys(fields, columns[: len(grouping)])
            names = [k.name for k in named_keys]
            cutter = Cutter(self._printer, tuple(fields), grouping, names, time)
            cut = [(str(item.name()), cutter.output(item)) for item in columns[len(grouping) :]]
        self._check(fields, [text for call in cutter.calls for text in call.args])
        primitives = tuple(
            Primitive(
                call.name,
                call.function,
                tuple(self._expr(text, fields) for text in call.args),
                call.type,
                call.params,
            )
            for call in cutter.calls
        )
        for p in primitives:
            kind_of(p)  # refuses what cannot be computed
        inside = tuple(Field(k.name, k.expr.type) for k in named_keys)
        inside += tuple(Field(p.column, p.type) for p in primitives)
        self._check(inside, [text for _, text in cut])
        outputs = tuple(Named(n, self._expr(text, inside)) for n, text in cut)
        return named_keys, primitives, outputs

    def united_type(self, one: str, other: str) -> str:
        """The type of a column that holds values of both types, as in a union."""
        left, right = (self._frame((Field("c", t),)) for t in (one, other))
        with self._errors((), [f"{one} UNION {other}"]):
            return type_name(left.union(right).schema.fields[0].dataType)

    def monotone(
        self,
        fields: Sequence[Field],
        named: Named,
        times: Sequence[TimeColumn],
        range: int | None = None,
    ) -> tuple[str, int] | None:
        """(progressing input column, shift in ticks) if ``named`` is that column moved by a constant.

        The shift is between the input's *time* and the output's: a row of an aggregate has the time
        ``window.end`` − 1 tick, so ``window.end`` is moved by 1 and ``window.start`` by 1 − ``range``.
        """
        types = {f.name: f.type for f in fields}
        by_name = {t.name: t for t in times}
        meaning = named.expr.meaning or self.meaning
        image = shift_of(
            named.expr.sql, types, by_name, range, ansi=meaning.ansi, zone=meaning.zone
        )
        if image is None:
            return None
        same = (types.get(image[0]), by_name[image[0]].type)
        # A text alone does not say of which type its result is.
        return image if named.expr.type in same else None

    # --- inside -----------------------------------------------------------------------------------

    def _keys(self, fields: Sequence[Field], columns: Sequence[Any]) -> tuple[Named, ...]:
        named = []
        for item in columns:
            node = item.child() if "Alias" in self._printer.kinds(item) else item
            named.append((str(item.name()), self._text(fields, node)))
        self._check(fields, [text for _, text in named])
        seen: set[str] = set()
        for name, text in named:
            if name.lower() in seen:
                raise AnalysisError(
                    "BAD_EXPRESSION",
                    f"the group column {text.sql} cannot have the name '{name}'",
                    hint="give it another name with .alias(...)",
                    name=name,
                )
            seen.add(name.lower())
        return tuple(Named(n, self._expr(text, fields)) for n, text in named)

    def _text(self, fields: Sequence[Field], node: Any, replace: Replace | None = None) -> Text:
        return text_of(self._printer, tuple(fields), node, replace)

    def _frame(self, fields: Sequence[Field]) -> DataFrame:
        key = tuple(fields)
        if key not in self._frames:
            if len(self._frames) >= KEPT:
                self._frames.clear()
            self._frames[key] = _empty(self._spark, struct_of(fields))
        return self._frames[key]

    def _inputs(self, fields: Sequence[Field], exprs: Sequence[Column | str]) -> list[Column]:
        from pyspark.sql import functions as F

        names = {f.name.lower() for f in fields}
        columns = []
        for e in exprs:
            if not isinstance(e, str):
                columns.append(e)
            elif e.lower() in names:
                columns.append(F.col(quoted(e)))
            else:
                columns.append(F.expr(e))
        return columns

    def _projects(self, plan: Any) -> list[list[Any]]:
        """The projections above the frame, top first: several if one column names another."""
        lists = []
        while plan.nodeName() == "Project":
            lists.append(items(plan.projectList()))
            plan = plan.child()
        if not lists or plan.nodeName() not in _LEAVES:
            raise self._plan_error(plan)
        return lists

    def _inlined(self, fields: Sequence[Field], lists: Sequence[Sequence[Any]]) -> Replace:
        """Puts the expressions of lower projections in place of their names."""
        inner: dict[int, Any] = {}
        scope = tuple(fields)
        for columns in lists:
            for item in columns:
                if "Alias" in self._printer.kinds(item):
                    inner[ident(item)] = item.child()

        def replace(node: Any) -> str | None:
            if "AttributeReference" in self._printer.kinds(node):
                child = inner.get(ident(node))
                if child is not None:
                    return self._printer.text(child, replace, scope)
            return None

        return replace

    def _expr(self, text: Text, fields: Sequence[Field]) -> Expr:
        sql, type = text.sql, text.type
        columns = {f.name: f.type for f in fields}
        meaning = self._printer.meaning
        if meaning.escaped and "\\" in sql:
            return Expr(sql, type, None, "a backslash that does not escape", meaning)
        try:
            done = translate(sql, columns, ansi=meaning.ansi, zone=meaning.zone)
        except NotTranslatable as reason:
            return Expr(sql, type, None, str(reason), meaning)
        if done.type != type:
            return Expr(sql, type, None, f"taken for {done.type}, but Spark says {type}", meaning)
        return Expr(sql, type, done.duck, meaning=meaning)

    def _check(self, fields: Sequence[Field], texts: Sequence[Text]) -> None:
        """Each text must be read back by Spark as the same expression."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        columns_as_they_are = {(quoted(f.name), f.type) for f in fields}
        texts = [t for t in texts if (t.sql, t.type) not in columns_as_they_are]
        if not texts:
            return
        wrong, failed = texts, None
        try:
            with _quiet(), captured():
                columns = [F.expr(t.sql).alias(ours(f"_c{i}")) for i, t in enumerate(texts)]
                plan = self._frame(fields).select(*columns)._jdf.queryExecution().analyzed()
            again = [item.child() for item in items(plan.projectList())]
            wrong = [t for t, a in zip(texts, again, strict=True) if not self._equal(fields, t, a)]
        except PySparkException as error:
            failed = error
        if not wrong:
            return
        if failed is not None and len(texts) > 1:
            for one in texts:
                self._check(fields, [one])
        if failed is not None and failed.getCondition() == _TOO_COMPLEX:
            raise too_deep() from failed
        raise AnalysisError(
            "BAD_EXPRESSION",
            f"the expression {wrong[0].sql} cannot be written down and read again",
            hint="compute it on the DataFrame, before sw.stream(...)",
            expression=wrong[0].sql,
        ) from failed

    def _equal(self, fields: Sequence[Field], text: Text, again: Any) -> bool:
        if text.node is not None and text.node.semanticEquals(again):
            return True
        printed = self._text(fields, again)
        return (printed.sql, printed.type) == (text.sql, text.type)

    def _plan_error(self, plan: Any) -> AnalysisError:
        node = plan
        while node.nodeName() == "Project":
            node = node.child()
        if node.nodeName() == "Aggregate" and node.child().nodeName() not in _LEAVES:
            node = node.child()
            while node.nodeName() in ("Project", "Filter"):
                node = node.child()
        why = _PLAN_NODES.get(node.nodeName(), "it needs more than the row itself")
        if node.nodeName() in _LEAVES:
            why = "Spark's own window functions do not go with ours: use sw.window(...)"
        return AnalysisError(
            "UNSUPPORTED_EXPRESSION",
            f"the expression is not computed from the row alone: {why}",
            hint="compute it on the DataFrame, before sw.stream(...), or use Slackwater's operator",
        )

    @contextmanager
    def _errors(self, fields: Sequence[Field], exprs: Sequence[Column | str]) -> Iterator[None]:
        """Spark's analysis under the settings of this moment, its errors as ours: also those of constants that it computes for a text."""
        from pyspark.errors import PySparkException

        self._printer.meaning = current(self._spark)
        try:
            with _quiet(), captured():
                yield
        except PySparkException as error:
            raise _translated(error, fields, exprs) from error


def _frames_of(spark: SparkSession) -> dict[tuple[Field, ...], DataFrame]:
    """The empty frames of a session by their columns, kept with it: all its streams analyse over the same ones."""
    frames: dict[tuple[Field, ...], DataFrame] = spark.__dict__.setdefault("__sw_frames", {})
    return frames


def _empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame without rows. ``createDataFrame`` would write a file and make an RDD, in a dozen calls to the JVM."""
    from pyspark.sql import DataFrame

    java: Any = spark._jsparkSession
    return DataFrame(java.createDataFrame([], java.parseDataType(schema.json())), spark)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps PySpark from logging an error that is raised anyway, with its whole stack."""
    from pyspark.logger import PySparkLogger

    # by PySpark's own call: plain loggers of these names would break PySpark's logging
    loggers = [PySparkLogger.getLogger(name) for name in _ERROR_LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _translated(
    error: Any, fields: Sequence[Field], exprs: Sequence[Column | str]
) -> AnalysisError:
    condition = error.getCondition() or ""
    parameters: Mapping[str, str] = error.getMessageParameters() or {}
    known = ", ".join(f.name for f in fields)
    if condition == _TOO_COMPLEX:
        return too_deep()
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = parameters.get("objectName", "?").replace("`", "")
        return AnalysisError(
            "COLUMN_NOT_FOUND", f"there is no column '{name}'",
            hint=f"use one of: {known}", name=name,
        )  # fmt: skip
    if condition.startswith("MISSING_ATTRIBUTES"):
        return AnalysisError(
            "BAD_EXPRESSION",
            f"the expression uses a column of another DataFrame: {parameters.get('missingAttributes', '?')}",
            hint=f'name the column as F.col("...") instead of df.column; there are: {known}',
        )
    text = "; ".join(str(e) for e in exprs)
    first = str(error).strip().splitlines()[0]
    return AnalysisError(
        "BAD_EXPRESSION",
        f"Spark does not accept {text}: {first}",
        hint=f"the columns are: {known}",
        expression=text,
        spark=condition,
    )
