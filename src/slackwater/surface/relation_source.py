"""What ``sw.relation`` is given: a directory, a DataFrame or a function; its name, its columns, and where copies of it go."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.engine.analysis.analyse import fields_of
from slackwater.engine.driver.copies import CopySource
from slackwater.engine.plan.reserved import check_names
from slackwater.engine.store.exact_paths import spark_path
from slackwater.errors import AnalysisError
from slackwater.model.schema import Field
from slackwater.sources.called import (
    FrameRows,
    FunctionRows,
    arrow_reader,
    called,
    check_columns,
    check_stands,
)
from slackwater.sources.tables import ParquetTable
from slackwater.surface.options import local_path
from slackwater.surface.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""The beginning of an address: Hadoop's have one slash or several."""
_SPARKS_WORDS = re.compile(r"\[[A-Z_.]+\].*")
_FOLDERS = re.compile(r"\[CONFLICTING_(DIRECTORY_STRUCTURES|PARTITION_COLUMN_NAMES)\]")


@dataclass(frozen=True)
class Given:
    """A relation as it was given. ``path`` is that of a directory, and empty for all else: no address is part of a query."""

    name: str
    path: str
    fields: tuple[Field, ...]
    frame: Any = None
    function: Callable[[], Any] | None = None

    def sources(self, zone: str) -> tuple[ParquetTable | None, CopySource]:
        """The table, if it has versions; and what copies are made of."""
        if self.frame is not None:
            return None, FrameRows(self.name, self.frame, self.fields, zone)
        if self.function is not None:
            return None, FunctionRows(self.name, self.function, self.fields, zone, shown_fields)
        table = ParquetTable(self.name, self.path, self.fields, zone)
        return table, table


def read_source(source: Any, name: str | None, session: SparkSession) -> Given:
    """What was given, with its columns."""
    if isinstance(source, Stream) or getattr(source, "isStreaming", None) is True:
        raise AnalysisError(
            "NOT_A_RELATION",
            "sw.relation got a stream, which does not stand still",
            hint='join the two as streams: a.join(sw.stream(df, time="ts"), on="k", within=sw.band(...))',
        )
    if hasattr(source, "isStreaming") and not hasattr(source, "write"):
        raise AnalysisError(
            "NOT_A_RELATION",
            "sw.relation got a relation",
            hint="join it as it is: its methods where, select and withColumn change its rows",
        )
    is_frame = hasattr(source, "isStreaming")
    if is_frame or (callable(source) and not isinstance(source, str | os.PathLike)):
        if name is None:
            what = "a DataFrame" if is_frame else "a function"
            raise AnalysisError(
                "BAD_OPTION",
                f"sw.relation got {what} without a name",
                hint='give it one, which records and plans call it by: sw.relation(..., name="devices")',
            )
        _check_name(name)
        fields = shown_fields(source.schema) if is_frame else _first_fields(name, source)
        check_columns(name, fields)
        return Given(name, "", fields, *((source, None) if is_frame else (None, source)))
    path = _path(source)
    label = name if name is not None else Path(path).name
    _check_name(label)
    if not ParquetTable("", path, ()).look():
        raise AnalysisError(
            "EMPTY_RELATION",
            f"relation '{label}': '{path}' has no file to take columns from",
            hint="write the table before the query starts",
            path=path,
        )
    # A file may lack any column, so nothing is ever known not to be null.
    fields = tuple(replace(f, nullable=True) for f in fields_of(_schema(session, path, label)))
    return Given(label, path, fields)


def shown_fields(schema: Any) -> tuple[Field, ...]:
    """The columns of a DataFrame's schema, or of Arrow's."""
    import pyarrow as pa

    if not isinstance(schema, pa.Schema):
        return tuple(replace(f, nullable=True) for f in fields_of(schema))
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    from slackwater.kernels.column_engine import plain

    fields = []
    for field in plain(schema.empty_table()).schema:
        try:
            kind = from_arrow_type(field.type, prefer_timestamp_ntz=True)
        except (PySparkException, NotImplementedError, ValueError):
            kind = None
        too_long = pa.types.is_decimal(field.type) and field.type.precision > 38
        if kind is None or too_long or pa.types.is_null(field.type):
            raise AnalysisError(
                "UNSUPPORTED_TYPE",
                f"column '{field.name}' is {field.type}, which Spark has no type for",
                hint="cast it where the table is made, unsigned numbers to bigint say, or leave it out",
                column=field.name,
            )
        fields.append(StructField(field.name, kind))
    return tuple(replace(f, nullable=True) for f in fields_of(StructType(fields)))


def _first_fields(name: str, function: Callable[[], Any]) -> tuple[Field, ...]:
    made = called(name, function)
    check_stands(name, made)
    if hasattr(made, "isStreaming"):
        return shown_fields(made.schema)
    reader = arrow_reader(name, made)
    fields = shown_fields(reader.schema)
    reader.close()
    return fields


def checked_store(store: Any, table: str, name: str) -> str:
    """The directory of a relation's copies; ``table`` is that of the relation, if it has one."""
    if not isinstance(store, str | os.PathLike):
        raise AnalysisError(
            "BAD_OPTION", f"store={store!r} is no directory", hint='give a path, such as "copies/devices"'
        )  # fmt: skip
    path = os.path.abspath(local_path(store, f"the store of relation '{name}'"))
    if os.path.exists(path) and not os.path.isdir(path):
        raise AnalysisError(
            "BAD_OPTION", f"store '{path}' is not a directory", hint="give a directory that is new or empty"
        )  # fmt: skip
    if table and overlap(path, table):
        raise AnalysisError(
            "STORE_IS_TABLE",
            f"the store '{path}' of relation '{name}' and its table '{table}' lie in each other",
            hint="give the copies a directory of their own, beside the table",
            path=path,
            relation=name,
        )
    return path


def overlap(one: str, other: str) -> bool:
    """Whether two directories are the same, or one is in the other."""
    a, b = os.path.realpath(one), os.path.realpath(other)
    return a == b or a.startswith(b + os.sep) or b.startswith(a + os.sep)


def _path(source: Any) -> str:
    if not isinstance(source, str | os.PathLike) or not str(source).strip():
        raise AnalysisError(
            "NOT_A_RELATION",
            f"sw.relation got {source!r}, which is no directory",
            hint='give the path of a directory of Parquet files, such as "tables/devices"; a batch DataFrame; or a function that returns one',
        )
    text = str(source)
    if _REMOTE.match(text) and not text.startswith("file:") and not os.path.exists(text):
        raise AnalysisError(
            "NOT_LOCAL",
            f"relation '{text}' is not on a file system of this machine",
            hint="copy the table to a directory that driver and workers share",
            path=text,
        )
    local = Path(text.removeprefix("file://").removeprefix("file:")).absolute()
    if not local.is_dir():
        what = "is not a directory" if local.exists() else "does not exist"
        raise AnalysisError(
            "PATH_NOT_FOUND",
            f"relation '{text}' {what}",
            hint="give the directory of its Parquet files; it must be there before the query starts",
            path=text,
        )
    return str(local)


def _schema(session: SparkSession, path: str, name: str) -> StructType:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return session.read.parquet(spark_path(path)).schema
    except (PySparkException, Py4JJavaError) as error:
        why = _SPARKS_WORDS.search(str(error))
        hint = (
            "let all files below it be whole Parquet files of columns that Spark has types for; one that is still being "
            "written, or that is none, needs a name that starts with '_' or '.'"
        )
        if why is not None and _FOLDERS.match(why[0]):
            hint = (
                "where some files lie in folders name=value, let all do, with the same names in the same order; move other "
                "folders out of it, or give them names that start with '.'"
            )
        raise AnalysisError(
            "BAD_RELATION_FILE",
            f"relation '{name}': Spark cannot tell the columns of '{path}': {why[0] if why else error}",
            hint=hint,
            path=path,
            relation=name,
        ) from error


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise AnalysisError("BAD_OPTION", f"name={name!r} is not a name", hint="give a text")
    if "/" in name or "\0" in name or name.startswith(".") or len(name.encode()) > 100:
        raise AnalysisError(
            "BAD_OPTION",
            f"name={name!r} cannot be part of a file's name",
            hint="use at most 100 letters, no slash, and no dot in front",
            name=name,
        )
    check_names([name], "relation", "give the relation another name=")
