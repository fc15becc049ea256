"""``sw.relation``: a table that a stream is joined with. It stands still within a batch, and may change from batch to batch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slackwater.engine.analysis.analyse import Analyser
from slackwater.engine.analysis.connect import check_classic
from slackwater.engine.driver.copies import CopyUse
from slackwater.engine.driver.relations import BATCH, NEVER, Refresh, RelationUse
from slackwater.engine.plan.reserved import check_names
from slackwater.errors import AnalysisError, SetupError
from slackwater.model.node import Filter, Node, Project, Source
from slackwater.model.relation import Change
from slackwater.model.relation import Relation as Table
from slackwater.model.schema import Expr, Field
from slackwater.model.time import parse_duration
from slackwater.sources.split_rules import rows_because
from slackwater.surface.relation_source import checked_store, read_source
from slackwater.surface.sizes import bytes_of
from slackwater.surface.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

DEFAULT_MEMORY = "256m"
_NESTED = ("array<", "struct<", "map<", "variant")


def relation(
    source: Any,
    key: str | Sequence[str] | None = None,
    name: str | None = None,
    *,
    refresh: Any = None,
    memory: str | int = DEFAULT_MEMORY,
    store: str | os.PathLike[str] | None = None,
    spark: SparkSession | None = None,
) -> Relation:
    """A table for ``stream.join``: a directory of Parquet files, a batch DataFrame, or a function that returns one.

    A batch takes one version of it, the files that are there when the batch begins, and a batch that is repeated takes the
    same ones. So changes are seen from one batch to the next. What has no versions, a DataFrame or a function, is copied, and
    the copy is the version.

    Parameters
    ----------
    source
        The directory, or a symbolic link to it; folders ``name=value`` give columns, as in Spark. Or a batch DataFrame. Or a function without
        arguments that returns a batch DataFrame, or a table or reader of Arrow's: it is called here for the columns, and for each copy.
    key
        The column that rows of a stream are compared with, or several. A key may occur several times.
    name
        What it is called in records and plans, and in front of columns that the stream has too; by default the last
        part of the path. A DataFrame or a function must be given one.
    refresh
        When it is looked at for changes: ``"batch"``, as each batch begins, which is the default for directories; a duration of the
        query's clock, such as ``"10 minutes"``; or ``"never"``, the default for all else. ``query.refresh(name)`` asks for a look in any case.
    memory
        How much of it may be in memory in each executor: the columns that the query uses. If they take more when the query first
        starts, the table is read in segments, the row groups of its files, where rows need them; then it should be sorted by its key.
    store
        A directory that this relation has for itself: at each look at something new a copy is made there, sorted by the key, beside the
        running batches. By default what must be copied is copied below the checkpoint.
    spark
        The session; by default the active one.

    Examples
    --------
    >>> devices = relation("tables/devices", key="id")                              # doctest: +SKIP
    >>> full = readings.join(devices.where("active"), on=[("device", "id")])        # doctest: +SKIP
    """
    session = spark if spark is not None else _active()
    check_classic(session, "sw.relation")
    given = read_source(source, name, session)
    label = given.name
    why = rows_because(given.fields, {}, session.conf.get)
    if why:
        raise AnalysisError(
            "UNSUPPORTED_TYPE",
            f"relation '{label}' cannot be read by the column engine: {why}",
            hint="write the table without the column; or join it before the stream is made, with Spark's own join",
            relation=label,
        )
    check_names((f.name for f in given.fields), way="rename it in the table")
    analyser = Analyser(session)
    table, copied = given.sources(analyser.zone)
    copy = None
    if table is None or store is not None:
        copy = CopyUse(copied, None if store is None else checked_store(store, given.path, label))
    looked = _refresh(refresh if refresh is not None else BATCH if table else NEVER)
    if table is None and looked == BATCH:
        raise AnalysisError(
            "BAD_OPTION",
            f"relation '{label}' has no versions, so that nothing tells in each batch whether it has changed",
            hint='use refresh="10 minutes", or "never" and query.refresh(...)',
            value=refresh,
        )
    use = RelationUse(table, looked, bytes_of(memory, "relation"), copy=copy)
    rows = Stream(Source(given.fields, (), name=label), {}, analyser, session)
    return Relation(rows, given.path, _key(key, rows, label), label, use)


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
