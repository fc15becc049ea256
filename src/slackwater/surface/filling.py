"""``fillna``: what stands in place of nulls, by Spark's rules."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.model.join_times import leaves
from slackwater.model.schema import Field, Named, column
from slackwater.model.spark_sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

    from slackwater.surface.stream import Stream

NUMERIC = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
WITH_NAN = ("float", "double")


def filled(stream: Stream, value: Any, subset: Any) -> tuple[Named, ...] | None:
    """All columns of the stream, those that ``value`` is for without nulls; None if there are none."""
    fields = stream._node.schema
    values = _by_column(stream, value, subset)
    if not values:
        return None
    times = {c.name for t in stream._node.times for c in leaves(t)}
    for name in values:
        if name in times:
            others = [f"{n!r}" for n in values if n not in times]
            raise AnalysisError(
                "TIME_FILLED",
                f"fillna would fill '{name}', which the stream progresses on: "
                "a row without a time belongs to no window, and an invented time would be late or in the future",
                hint=f"name the other columns: subset=[{', '.join(others)}]"
                if others
                else "leave that column out; rows without a time are in the stream's .late",
                column=name,
            )
    chosen = [f for f in fields if f.name in values]
    new = stream._analyser.columns(
        fields, [_filled(f, _literal(stream, f, values[f.name])) for f in chosen], star_ok=False
    )
    by_name = {f.name: Named(f.name, n.expr) for f, n in zip(chosen, new, strict=True)}
    return tuple(by_name.get(f.name) or Named(f.name, column(f.name, f.type)) for f in fields)


def _by_column(stream: Stream, value: Any, subset: Any) -> dict[str, Any]:
    """The value of each column that gets one."""
    if isinstance(value, Mapping):
        return {
            stream._column(_name(n)): _checked(v, f"the value of {n!r}") for n, v in value.items()
        }
    value = _checked(value, "the value")
    if isinstance(subset, str):
        subset = [subset]
    if subset is not None and not isinstance(subset, (list, tuple)):
        raise AnalysisError(
            "BAD_FILL",
            f"fillna: subset is a {type(subset).__name__}",
            hint='give names of columns: subset=["v", "w"]',
        )
    names = stream.columns if subset is None else [stream._column(_name(n)) for n in subset]
    if isinstance(value, int) and not isinstance(value, bool):
        value = float(value)  # as PySpark does where one value is for several columns
    return {f.name: value for f in stream._node.schema if f.name in names and _fits(value, f.type)}


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise AnalysisError(
            "BAD_FILL",
            f"fillna: {name!r} is not the name of a column",
            hint="name columns as texts",
        )
    return name


def _checked(value: Any, what: str) -> Any:
    if not isinstance(value, (bool, int, float, str)):
        raise AnalysisError(
            "BAD_FILL",
            f"fillna: {what} is {value!r}, a {type(value).__name__}",
            hint="give a number, a text or a bool, or a dict of them by column: "
            'fillna({"v": 0, "k": "none"}); for other types use '
            "withColumn with coalesce",
        )
    return value


def _fits(value: Any, type: str) -> bool:
    """Whether a value that names no column is for columns of a type."""
    if isinstance(value, bool):
        return type == "boolean"
    if isinstance(value, str):
        return type == "string"
    return type.split("(")[0] in NUMERIC


def _literal(stream: Stream, field: Field, value: Any) -> Column:
    """The value in the column's type; refused if that has none, before a row asks for it."""
    from pyspark.sql import functions as F

    if _fits(value, field.type) and field.type in ("string", "boolean", *WITH_NAN):
        return F.lit(value).cast(field.type)
    result = None
    if not isinstance(value, int) or -(1 << 63) <= value < 1 << 63:
        # Rows that are written in the text itself need no job.
        row = stream._spark.sql("SELECT * FROM VALUES (1)")
        with suppress(Exception):  # Spark knows no such cast
            ((result,),) = row.select(F.lit(value).try_cast(field.type)).collect()
    if result is None:
        raise AnalysisError(
            "BAD_FILL",
            f"fillna: {value!r} is no {field.type}, the type of column '{field.name}'",
            hint="give a value of that type, or leave the column out",
            column=field.name,
            type=field.type,
        )
    # The column engine has all numbers, but not all casts.
    exact = field.type.split("(")[0] in NUMERIC and field.type not in WITH_NAN
    return F.lit(result if exact else value).cast(field.type)


def _filled(field: Field, value: Column) -> Column:
    """Spark's ``coalesce(nanvl(x, null), value)``, in words that the column engine has, too."""
    from pyspark.sql import functions as F

    own = F.col(quoted(field.name))
    known = F.coalesce(own, value)
    return F.when(F.isnan(own), value).otherwise(known) if field.type in WITH_NAN else known
