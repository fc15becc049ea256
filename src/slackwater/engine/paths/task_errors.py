"""Errors of Spark tasks as our own: what went wrong, without the stack traces of three layers around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from traceback import format_exception_only

from slackwater import errors
from slackwater.engine.parquet.columns import bad_file
from slackwater.engine.store.spark_log import local_file
from slackwater.errors import ExecutionError, SetupError
from slackwater.kernels.room import disk_full, spill_error
from slackwater.model.names import PREFIX


@contextmanager
def task_errors() -> Iterator[None]:
    """Errors that a task raised on purpose come out as themselves, not as a quotation in Spark's."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        match = _OWN_ERROR.search(text)
        if match is None:
            bad_value = _spark_expression_error(text)
            if bad_value is not None:
                # Spark's own text quotes the query as we wrote it, with names of ours in it.
                raise bad_value from None
            failed = (
                _file_error(text) or _column_engine_error(text) or _missing_package(text)
                or _no_room(text)
            )  # fmt: skip
            if failed is not None:
                raise failed from error
            raise
        kind = getattr(errors, match["kind"])
        raise kind(match["condition"], match["message"], hint=match["hint"] or "") from error


@contextmanager
def errors_here() -> Iterator[None]:
    """As `task_errors`, for tasks that run in this process: only errors of the column engine are not ours yet."""
    try:
        yield
    except Exception as error:
        failed = _column_engine_error("".join(format_exception_only(error)))
        if failed is None:
            raise
        raise failed from error


@contextmanager
def written_by_spark(folder: PurePath, size: int) -> Iterator[None]:
    """A disk that is full for what Spark writes to a directory, as an error of ours."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if _NO_ROOM.search(str(error)):
            raise disk_full("results", folder, f"{size} bytes before they are rewritten") from error
        raise


_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded")

_OWN_ERROR = re.compile(
    r"slackwater\.errors\.(?P<kind>\w+): \[(?P<condition>\w+)\] (?P<message>.*)"
    r"(?:\n  to fix: (?P<hint>.*))?"
)

_MISSING = re.compile(
    r"ModuleNotFoundError: No module named '(?P<name>slackwater|pyarrow|duckdb|numpy)\b"
)

_ENGINE_ERROR = re.compile(r"duckdb\.(?P<kind>\w+)Exception: (?P<message>.*)")


_FILE = re.compile(
    r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (?P<path>\S+)\. "
)
_COLUMN = re.compile(
    r"when reading Parquet column \[(?P<column>.+?)\]\. Expected Spark type (?P<wanted>.+?), "
    r"actual Parquet type (?P<stored>.+?)\. "
)
_CAUSE = re.compile(r"Caused by: (?:[\w.$]+: )+(?P<why>.*)")
_OTHER_SHAPE = (
    "Invalid Spark read type",
    "cannot be cast to class",
    "is not a group",
    "is not primitive",
)


def _file_error(text: str) -> ExecutionError | None:
    """What Spark could not read of a row source's file, as the error of a split source; None if it is something else."""
    match = _FILE.search(text)
    if match is None:
        return None
    path = local_file(match["path"])
    causes = [c["why"] for c in _CAUSE.finditer(text)]
    why = causes[-1] if causes else "its content is not what Spark expects"
    column = _COLUMN.search(text)
    if column is not None:
        return ExecutionError(
            "BAD_COLUMN_TYPE",
            f"column '{column['column']}' of '{path}' is stored as {column['stored']}, but the schema says "
            f"{column['wanted']}",
            hint="declare the type that the files have, and cast it on the stream",
            path=path,
            column=column["column"],
        )
    if "Found duplicate field(s)" in text:
        return ExecutionError(
            "AMBIGUOUS_COLUMN",
            f"'{path}' has several columns of one name: {why}",
            hint="name them apart; column names are compared without regard to case",
            path=path,
        )
    if any(shape in why for shape in _OTHER_SHAPE):
        return ExecutionError(
            "BAD_COLUMN_TYPE",
            f"a column of '{path}' has another type than the schema says: {why}",
            hint="declare the type that the files have, and cast it on the stream",
            path=path,
        )
    return bad_file(path, why)


def _column_engine_error(text: str) -> ExecutionError | None:
    """What the column engine could not compute, as an error of ours; None if it is something else."""
    match = _ENGINE_ERROR.search(text)
    if match is None:
        return None
    spill = spill_error(match["message"], "the executor's local directory (spark.local.dir)")
    if spill is not None:
        return spill
    if match["kind"] == "OutOfMemory":
        return ExecutionError(
            "OUT_OF_MEMORY",
            f"a task needs more memory than it may use: {match['message']}",
            hint='give tasks more with option("memory", "2GB"), or cut the work into more '
            'option("partitionGroups", ...)',
        )
    if match["kind"] in ("OutOfRange", "Conversion", "InvalidInput"):
        return _expression_failed(match["message"])
    return None


def _expression_failed(why: str) -> ExecutionError:
    return ExecutionError(
        "EXPRESSION_FAILED",
        f"an expression fails for some row: {why}",
        hint="keep such rows out with where(...), use a function that gives null instead, such as try_add or "
        "try_cast, or compute the column on the DataFrame, before sw.stream(...)",
    )


_BAD_VALUE = re.compile(
    r"\[[A-Z0-9_.]+\] (?P<message>(?:(?!SQLSTATE).)*?)\s*SQLSTATE: 22\w{3}\b", re.DOTALL
)
"""SQL states of this class are of values that an expression cannot take."""
_UNDERLINED = re.compile(r"^(?P<sql>.*)\n(?P<before> *)(?P<line>\^+)$", re.MULTILINE)


def _spark_expression_error(text: str) -> ExecutionError | None:
    """What an expression that Spark evaluates could not take, as an error of ours; None if it is something else."""
    match = _BAD_VALUE.match(text)
    if match is None:
        return None
    why, shown = match["message"], _UNDERLINED.search(text, match.end())
    part = "" if shown is None else shown["sql"][len(shown["before"]) :][: len(shown["line"])]
    return _expression_failed(f"{part}: {why}" if part and PREFIX not in part else why)


def _no_room(text: str) -> ExecutionError | None:
    """A full disk where Spark keeps what it sends between tasks; None if it is something else."""
    match = _NO_ROOM.search(text)
    if match is None:
        return None
    where = "the executor's local directory (spark.local.dir)"
    return disk_full("what Spark sends between tasks", where, "Spark does not tell how much")


def _missing_package(text: str) -> SetupError | None:
    """Workers that run a Python without our packages; None if it is something else."""
    match = _MISSING.search(text)
    if match is None:
        return None
    return SetupError(
        "NO_PACKAGE_IN_WORKERS",
        f"the Python that Spark runs its tasks with has no package {match['name']!r}",
        hint="make the session with sw.session(), or set PYSPARK_PYTHON to the Python that has slackwater (such as sys.executable) before "
        "the first SparkSession is made; on a cluster install slackwater on every node",
        name=match["name"],
    )
