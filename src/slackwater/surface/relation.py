"""``sw.relation``: a table that a stream is joined with. It stands still within a batch, and may change from batch to batch."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.engine.analysis.analyse import Analyser, fields_of
from slackwater.engine.analysis.connect import check_classic
from slackwater.engine.driver.relations import BATCH, NEVER, Refresh, RelationUse
from slackwater.engine.plan.reserved import check_names
from slackwater.engine.store.exact_paths import spark_path
from slackwater.errors import AnalysisError, SetupError
from slackwater.model.node import Filter, Node, Project, Source
from slackwater.model.relation import Change
from slackwater.model.relation import Relation as Table
from slackwater.model.schema import Expr, Field
from slackwater.model.time import parse_duration
from slackwater.sources.split_rules import rows_because
from slackwater.sources.tables import ParquetTable
from slackwater.surface.sizes import bytes_of
from slackwater.surface.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

DEFAULT_MEMORY = "256m"
_AS_PARQUET = 'write it as Parquet, df.write.parquet("tables/devices"), and give the directory'
_SPARKS_WORDS = re.compile(r"\[[A-Z_.]+\].*")
_NESTED = ("array<", "struct<", "map<", "variant")


def relation(
    source: Any,
    key: str | Sequence[str] | None = None,
    name: str | None = None,
    *,
    refresh: Any = "batch",
    memory: str | int = DEFAULT_MEMORY,
    spark: SparkSession | None = None,
) -> Relation:
    """A table for ``stream.join``: a directory of Parquet files.

    A batch takes one version of it, the files that are there when the batch begins, and a batch that is repeated takes the
    same ones. So changes are seen from one batch to the next.

    Parameters
    ----------
    source
        The directory, or a symbolic link to it. Folders ``name=value`` give columns, as in Spark.
    key
        The column that rows of a stream are compared with, or several. A key may occur several times.
    name
        What it is called in records and plans, and in front of columns that the stream has too; by default the last
        part of the path.
    refresh
        When it is looked at for changes: ``"batch"``, as each batch begins; a duration of the query's clock, such as
        ``"10 minutes"``; or ``"never"``. ``query.refresh(name)`` asks for a look in any case.
    memory
        How much of it may be in memory in each executor: the columns that the query uses. If they take more when the query first
        starts, the table is read in segments, the row groups of its files, where rows need them; then it should be sorted by its key.
    spark
        The session; by default the active one.

    Examples
    --------
    >>> devices = relation("tables/devices", key="id")                              # doctest: +SKIP
    >>> full = readings.join(devices.where("active"), on=[("device", "id")])        # doctest: +SKIP
    """
    path = _path(source)
    session = spark if spark is not None else _active()
    check_classic(session, "sw.relation")
    label = name if name is not None else Path(path).name
    _check_name(label)
    if not any(_data_files(path)):
        raise AnalysisError(
            "EMPTY_RELATION",
            f"relation '{label}': '{path}' has no file to take columns from",
            hint="write the table before the query starts",
            path=path,
        )
    schema = _schema(session, path, label)
    # A file may lack any column, so nothing is ever known not to be null.
    fields = tuple(replace(f, nullable=True) for f in fields_of(schema))
    why = rows_because(fields, {}, session.conf.get)
    if why:
        raise AnalysisError(
            "UNSUPPORTED_TYPE",
            f"relation '{label}' cannot be read by the column engine: {why}",
            hint="write the table without the column; or join it before the stream is made, with Spark's own join",
            relation=label,
        )
    check_names((f.name for f in fields), way="rename it in the table")
    analyser = Analyser(session)
    table = ParquetTable(label, path, fields, analyser.zone)
    use = RelationUse(table, _refresh(refresh), bytes_of(memory, "relation"))
    rows = Stream(Source(fields, (), name=label), {}, analyser, session)
    return Relation(rows, path, _key(key, rows, label), label, use)


class Relation:
    """A table that a stream is joined with. Made by ``sw.relation``; every method returns a new one.

    The methods are named as those of a PySpark DataFrame and take Columns or SQL texts.
    """

    def __init__(self, rows: Stream, path: str, key: tuple[str, ...], name: str, use: RelationUse):
        self._rows = rows
        self._path = path
        self._key = key
        self._name = name
        self._use = use

    def _with(self, rows: Stream) -> Relation:
        for change in _changes(rows._node):
            blocked = next((e for e in _expressions(change) if e.duck is None), None)
            if blocked is not None:
                raise AnalysisError(
                    "RELATION_EXPRESSION",
                    f"relation '{self._name}': {blocked.sql} cannot be evaluated by the column engine: {blocked.why}",
                    hint="compute it where the table is written; or behind the join, on the stream",
                    expression=blocked.sql,
                )
        # select("ID") keeps the key "id".
        here = (next((c for c in rows.columns if rows._same(c, k)), k) for k in self._key)
        return Relation(rows, self._path, tuple(here), self._name, self._use)

    # ---- what it is ----
    @property
    def schema(self) -> StructType:
        """The columns, as PySpark shows them."""
        return self._rows.schema

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._rows.columns

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """Names and types of the columns."""
        return self._rows.dtypes

    @property
    def isStreaming(self) -> bool:
        """False: it sends nothing, but is looked at."""
        return False

    def printSchema(self) -> None:
        """Print the columns as a tree."""
        self._rows.printSchema()

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}: {f.type}" for f in self._rows._node.schema)
        return f"Relation[{shown}]"

    def __getitem__(self, key: Any) -> Any:
        """The column of that name or number; a condition filters, a list selects."""
        made = self._rows[key]
        return self._with(made) if isinstance(made, Stream) else made

    def __getattr__(self, name: str) -> Column:
        """The column of that name. Methods come first: then ``relation["name"]``."""
        if name.startswith("_"):
            raise AttributeError(f"a relation has no attribute '{name}'", name=name, obj=self)
        there = next((c for c in self.columns if self._rows._same(c, name)), None)
        if there is None:
            raise AttributeError(
                f"a relation has no method or column '{name}'; its columns are: {', '.join(self.columns)}. What needs "
                "all rows of the table, such as groupBy, is done where the table is written",
                name=name,
                obj=self,
            )
        column: Column = self._rows[there]
        return column

    # ---- its rows ----
    def where(self, condition: Column | str) -> Relation:
        """Rows for which the condition is true."""
        return self._with(self._rows.where(condition))

    filter = where

    def select(self, *columns: Column | str | Sequence[Column | str]) -> Relation:
        """Columns and expressions, as DataFrame.select takes them. Those that nobody reads are not kept in memory either way."""
        return self._with(self._rows.select(*columns))

    selectExpr = select

    def withColumn(self, name: str, value: Column | str) -> Relation:
        """Add or replace a column; text is read as SQL."""
        return self._with(self._rows.withColumn(name, value))

    def withColumns(self, columns: Mapping[str, Column | str]) -> Relation:
        """Add or replace several columns; each expression sees the columns as they were."""
        return self._with(self._rows.withColumns(columns))

    def withColumnRenamed(self, existing: str, new: str) -> Relation:
        """Rename a column; nothing happens if there is none of that name. The key is called as before."""
        return self._with(self._rows.withColumnRenamed(existing, new))

    def drop(self, *columns: Column | str) -> Relation:
        """Leave columns out; names that do not exist are ignored."""
        return self._with(self._rows.drop(*columns))

    def fillna(
        self,
        value: bool | float | str | Mapping[str, bool | float | str],
        subset: str | Sequence[str] | None = None,
    ) -> Relation:
        """Nulls, and NaN, replaced by a value in the columns that it fits, or by one value per column."""
        return self._with(self._rows.fillna(value, subset))

    def alias(self, name: str) -> Relation:
        """The same relation whose columns are told apart by another name in a join; records call it as before."""
        return self._with(self._rows.alias(name))

    # ---- inside ----
    def _table(self) -> Table:
        """The relation as operators name it."""
        schema = self._rows._node.schema
        gone = next((k for k in self._key if not any(f.name == k for f in schema)), None)
        if gone is not None:
            raise AnalysisError(
                "RELATION_KEY",
                f"relation '{self._name}' has no column '{gone}' any more, and that is its key",
                hint="keep it in select(...); a key of another name is given to sw.relation(..., key=...)",
                relation=self._name,
            )
        changes = tuple(_changes(self._rows._node))
        return Table(
            self._name, self._path, _fields(self._rows._node), self._key, schema, changes, self._use
        )


def _fields(node: Node) -> tuple[Field, ...]:
    while node.children:
        (node,) = node.children
    return node.schema


def _changes(node: Node) -> list[Change]:
    """What is made of the rows, the first change first."""
    made: list[Change] = []
    while isinstance(node, Filter | Project):
        made.insert(0, node.condition if isinstance(node, Filter) else node.columns)
        node = node.child
    return made


def _expressions(change: Change) -> list[Expr]:
    return [change] if isinstance(change, Expr) else [c.expr for c in change]


# --- what users give -------------------------------------------------------------------------------


def _path(source: Any) -> str:
    if isinstance(source, Stream) or getattr(source, "isStreaming", None) is True:
        raise AnalysisError(
            "NOT_A_RELATION",
            "sw.relation got a stream, which does not stand still",
            hint='join the two as streams: a.join(sw.stream(df, time="ts"), on="k", within=sw.band(...))',
        )
    if hasattr(source, "isStreaming"):
        raise AnalysisError(
            "NOT_A_RELATION",
            "sw.relation got a DataFrame, which has no versions; only directories of Parquet files are relations so far",
            hint=_AS_PARQUET,
        )
    if callable(source):
        raise AnalysisError(
            "NOT_A_RELATION",
            "sw.relation got a function; only directories of Parquet files are relations so far",
            hint="let the function write Parquet files, and give their directory",
        )
    if not isinstance(source, str | os.PathLike) or not str(source).strip():
        raise AnalysisError(
            "NOT_A_RELATION",
            f"sw.relation got {source!r}, which is no directory",
            hint='give the path of a directory of Parquet files, such as "tables/devices"',
        )
    text = str(source)
    if "://" in text and not text.startswith("file://"):
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


def _data_files(path: str) -> list[str]:
    return [seen[0] for seen in ParquetTable("", path, ()).look()]


def _schema(session: SparkSession, path: str, name: str) -> StructType:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return session.read.parquet(spark_path(path)).schema
    except (PySparkException, Py4JJavaError) as error:
        why = _SPARKS_WORDS.search(str(error))
        raise AnalysisError(
            "BAD_RELATION_FILE",
            f"relation '{name}': Spark cannot tell the columns of '{path}': {why[0] if why else error}",
            hint="let all files below it be whole Parquet files of columns that Spark has types for; one that is still being "
            "written, or that is none, needs a name that starts with '_' or '.'",
            path=path,
            relation=name,
        ) from error


def _active() -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise SetupError(
            "NO_SESSION",
            "sw.relation needs a Spark session to understand the table's columns, and none is active",
            hint="make one first, spark = sw.session(); or give it: sw.relation(..., spark=spark)",
        )
    return session


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


def _key(key: Any, rows: Stream, name: str) -> tuple[str, ...]:
    names = [key] if isinstance(key, str) else list(key) if isinstance(key, list | tuple) else []
    if not names or not all(isinstance(n, str) for n in names):
        raise AnalysisError(
            "RELATION_KEY",
            f"relation '{name}' has no key: key={key!r}",
            hint='name the column that rows of a stream are compared with, key="id", or several, key=["source", "id"]',
            relation=name,
        )
    columns = tuple(rows._column(n) for n in names)
    for column in columns:
        kind = rows._column_type(column)
        if kind.startswith(_NESTED):
            raise AnalysisError(
                "RELATION_KEY",
                f"key '{column}' of relation '{name}' is {kind}, and keys are plain values",
                hint="name the parts that tell rows apart as columns of their own",
                relation=name,
            )
    if len(set(columns)) < len(columns):
        raise AnalysisError(
            "RELATION_KEY",
            f"key={key!r} names a column twice",
            hint="name each column once",
            relation=name,
        )
    return columns


def _refresh(refresh: Any) -> Refresh:
    if isinstance(refresh, str) and refresh.lower() in (BATCH, NEVER):
        return BATCH if refresh.lower() == BATCH else NEVER
    try:
        return int(parse_duration(refresh, what="refresh"))
    except AnalysisError as error:
        raise AnalysisError(
            "BAD_OPTION",
            f"refresh={refresh!r} is not known",
            hint='use "batch", "never", or a duration such as "10 minutes"',
            value=refresh,
        ) from error
