"""What relations are copied from that has no files of its own: DataFrames, and functions that give tables.

Nothing of what others say is passed on: a text of theirs may have an address or a password in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.errors import AnalysisError, ExecutionError
from slackwater.kernels.column_engine import plain
from slackwater.kernels.types import arrow_schema
from slackwater.model.schema import Field
from slackwater.model.spark_sql import quoted
from slackwater.sources.feeding import fed
from slackwater.sources.tables import ParquetTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 16_384
"""Rows that are taken of a table at once."""


class FrameRows:
    """The rows of a batch DataFrame: Spark writes them down, and its files are read as those of a directory."""

    def __init__(self, name: str, frame: DataFrame, fields: tuple[Field, ...], zone: str):
        self._name, self._frame, self._fields, self._zone = name, frame, fields, zone

    def identity(self) -> str | None:
        """Nothing tells whether a DataFrame gives what it gave."""
        return None

    @contextmanager
    def rows(
        self, fields: Sequence[Field], scratch: PurePath, memory: int
    ) -> Iterator[pa.RecordBatchReader]:
        """The rows that it gives now."""
        names = [f.name for f in fields]
        with written(self._name, self._frame, fields, names, self._zone, scratch) as reader:
            yield reader


@contextmanager
def written(
    name: str, frame: DataFrame, fields: Sequence[Field], names: Sequence[str], zone: str,
    scratch: PurePath,
) -> Iterator[pa.RecordBatchReader]:  # fmt: skip
    """The columns ``fields`` of a DataFrame, which calls them by ``names``, by way of files. Where it reads files itself, those that are
    there now.
    """
    from pyspark.sql.functions import col

    folder, failed = str(scratch / "frame"), None
    try:
        _list_files_anew(frame)
        columns = (col(quoted(n)).alias(f.name) for n, f in zip(names, fields, strict=True))
        frame.select(*columns).write.parquet(folder)
    except Exception as error:
        failed = _failed(name, "Spark could not read it", error)
    if failed is not None:
        raise failed
    table = ParquetTable(name, folder, tuple(fields), zone)
    if not table.look():
        yield pa.RecordBatchReader.from_batches(arrow_schema(fields), [])
        return
    with table.rows(fields, scratch, 0) as reader:
        yield reader


def _list_files_anew(frame: DataFrame) -> None:
    """Let Spark look at the directories that a DataFrame reads: it goes by the files that were there when it was made.

    So does ``spark.table``, in all its calls, until the session that runs it has written the table itself.
    """
    plan = frame._jdf.queryExecution().analyzed()
    subqueries = plan.subqueriesAll()
    for each in (plan, *(subqueries.apply(i) for i in range(subqueries.size()))):
        leaves = each.collectLeaves()
        for leaf in (leaves.apply(i) for i in range(leaves.size())):
            if leaf.getClass().getSimpleName() != "LogicalRelation":
                continue
            relation = leaf.relation()
            if relation.getClass().getSimpleName() == "HadoopFsRelation":
                files = relation.location()
                before = len(files.inputFiles())
                files.refresh()
                _check_there(frame, files.rootPaths())
                # It may be in the middle of being written over. If it is still empty at the next look, it is so.
                if before and not len(files.inputFiles()):
                    raise FileNotFoundError


def _check_there(frame: DataFrame, paths: Any) -> None:
    """Refuse places that are gone: Spark would find no rows there, and say nothing."""
    settings = frame.sparkSession._jsparkSession.sessionState().newHadoopConf()
    for path in (paths.apply(i) for i in range(paths.size())):
        if not path.getFileSystem(settings).exists(path):
            raise FileNotFoundError


class FunctionRows:
    """The tables that a function returns, each time that it is called: a DataFrame, or what Arrow knows.

    ``shown`` gives the columns of a DataFrame, or of an Arrow schema.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[], Any],
        fields: tuple[Field, ...],
        zone: str,
        shown: Callable[[Any], tuple[Field, ...]],
    ):
        self._name, self._function, self._fields = name, function, fields
        self._zone, self._shown = zone, shown

    def identity(self) -> str | None:
        """Nothing tells whether a function gives what it gave."""
        return None

    @contextmanager
    def rows(
        self, fields: Sequence[Field], scratch: PurePath, memory: int
    ) -> Iterator[pa.RecordBatchReader]:
        """The rows that it gives now."""
        made = called(self._name, self._function)
        check_stands(self._name, made)
        if hasattr(made, "isStreaming"):
            names = self._names(made.schema, fields)
            with written(self._name, made, fields, names, self._zone, scratch) as reader:
                yield reader
            return
        reader = arrow_reader(self._name, made)
        names = self._names(reader.schema, fields)
        with fed(arrow_schema(fields), self._pieces(reader, fields, names)) as made_reader:
            yield made_reader

    def _names(self, given: Any, fields: Sequence[Field]) -> list[str]:
        """What ``fields`` are called now: names are compared without regard to case, as in files.

        Other columns than those that the function gave first are refused; new ones are passed over.
        """
        shown = self._shown(given)
        check_columns(self._name, shown)
        there = {f.name.lower(): f for f in shown}
        for field in fields:
            now = there.get(field.name.lower())
            if now is None:
                raise _other(self._name, f"no column '{field.name}' any more")
            if now.type != field.type:
                raise _other(
                    self._name, f"column '{field.name}' as {now.type}, and it was {field.type}"
                )
        return [there[f.name.lower()].name for f in fields]

    def _pieces(
        self, reader: pa.RecordBatchReader, fields: Sequence[Field], names: Sequence[str]
    ) -> Iterator[pa.Table]:
        schema, failed = arrow_schema(fields), None
        while True:
            try:
                batch = reader.read_next_batch()
                table = pa.Table.from_batches([batch]).select(names).rename_columns(schema.names)
                whole = plain(table).cast(schema)
            except StopIteration:
                break
            except BaseException as error:
                if is_of_the_user(error):
                    raise
                failed = _failed(self._name, "its rows could not be read", error)
                break
            for at in range(0, whole.num_rows, ROWS):
                yield whole.slice(at, ROWS)
        if failed is not None:
            raise failed


def called(name: str, function: Callable[[], Any]) -> Any:
    """What a function returns; what it raises is an error that has no text of it."""
    try:
        return function()
    except BaseException as error:
        if is_of_the_user(error):
            raise
        failed = _failed(name, "its function raised an error", error)
    raise failed


def is_of_the_user(error: BaseException) -> bool:
    """Whether somebody at the keyboard ends the program, whose signal comes to the main thread: elsewhere a source has raised it."""
    return isinstance(error, KeyboardInterrupt) and current_thread() is main_thread()


def check_stands(name: str, made: Any) -> None:
    """Refuse a stream where a function of a relation is to return rows."""
    if getattr(made, "isStreaming", None) is True:
        raise AnalysisError(
            "NOT_A_RELATION",
            f"the function of relation '{name}' returned a stream, which does not stand still",
            hint="return a batch DataFrame",
            relation=name,
        )


def arrow_reader(name: str, made: Any) -> pa.RecordBatchReader:
    """What a function returned as a reader of Arrow's; refused if it is nothing of the kind."""
    if isinstance(made, pa.RecordBatchReader):
        return made
    if isinstance(made, pa.RecordBatch):
        made = pa.Table.from_batches([made])
    if isinstance(made, pa.Table):
        return made.to_reader(max_chunksize=ROWS)
    failed = None
    if hasattr(made, "__arrow_c_stream__"):
        try:
            return pa.RecordBatchReader.from_stream(made)
        except Exception as error:
            failed = _failed(name, "its result is no table of Arrow's", error)
    raise failed or ExecutionError(
        "NOT_A_RELATION",
        f"the function of relation '{name}' returned a {type(made).__name__}",
        hint="return a batch DataFrame, or a table or reader of Arrow's: duckdb.sql(...).arrow(), pa.table(...)",
        relation=name,
    )


def check_columns(name: str, fields: Sequence[Field]) -> None:
    """Refuse a relation without a column, or with two that Spark cannot tell apart."""
    lower = [f.name.lower() for f in fields]
    twice = next((f.name for f in fields if lower.count(f.name.lower()) > 1), None)
    if twice is not None or not fields:
        raise AnalysisError(
            "AMBIGUOUS_COLUMN",
            f"relation '{name}' has "
            + ("no column" if twice is None else f"two columns '{twice}'"),
            hint="give columns names that differ; they are compared without regard to case",
            relation=name,
        )


def _failed(name: str, what: str, error: BaseException) -> ExecutionError:
    kind = type(error).__name__
    condition = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    try:
        known = condition() if callable(condition) else None
    except Exception:
        known = None
    shown = f"{kind} {known}" if known else kind
    return ExecutionError(
        "RELATION_SOURCE",
        f"relation '{name}' could not be copied: {what} ({shown})",
        hint="the error's text is left out, since it may have an address or a password in it: run the source by itself to see it",
        relation=name,
    )


def _other(name: str, what: str) -> ExecutionError:
    return ExecutionError(
        "RELATION_SOURCE",
        f"relation '{name}' could not be copied: its source gives {what}",
        hint="let it give the columns and types that it gave when the query was written; what is new is passed over",
        relation=name,
    )
