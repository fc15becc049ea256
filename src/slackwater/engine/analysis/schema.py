"""Spark's schemas and types as names, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from slackwater.model.schema import Field
from slackwater.model.spark_sql import quoted

# the type, not a field of that name; names in backquotes stay
_TIMESTAMP = re.compile(r"(`(?:[^`]|``)*`)|\btimestamp\b(?!:)")

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def fields_of(schema: StructType) -> tuple[Field, ...]:
    """The columns of a Spark schema."""
    return tuple(Field(f.name, type_name(f.dataType), f.nullable) for f in schema.fields)


def struct_of(fields: Sequence[Field]) -> StructType:
    """The Spark schema of columns."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(f.name, data_type(f.type), f.nullable) for f in fields])


def type_name(kind: DataType) -> str:
    """Spark's ``simpleString``, with field names quoted where they would not be read back."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        inner = (f"{_plain_or_quoted(f.name)}:{type_name(f.dataType)}" for f in kind.fields)
        return f"struct<{','.join(inner)}>"
    if isinstance(kind, ArrayType):
        return f"array<{type_name(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{type_name(kind.keyType)},{type_name(kind.valueType)}>"
    return kind.simpleString()


@lru_cache(maxsize=1000)
def data_type(name: str) -> DataType:
    """The Spark type of a type's name.

    Cached, since Spark parses it in the JVM and every batch asks for the same ones.
    """
    from pyspark.sql.types import DataType, TimestampType

    # as `simpleString` means it, whatever the session's spark.sql.timestampType
    if name == "timestamp":
        return TimestampType()
    return DataType.fromDDL(_TIMESTAMP.sub(lambda m: m[1] or "timestamp_ltz", name))


def _plain_or_quoted(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else quoted(name)


def type_of(node: Any) -> str:
    """The type of an expression in the JVM."""
    from pyspark.sql.types import _parse_datatype_json_string

    return type_name(_parse_datatype_json_string(node.dataType().json()))
