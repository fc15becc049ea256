"""Errors of Spark tasks as our own: what went wrong, without the stack traces of three layers around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slackwater import errors
from slackwater.errors import ExecutionError, SetupError
from slackwater.kernels.room import disk_full, spill_error


@contextmanager
def task_errors() -> Iterator[None]:
    """Errors that a task raised on purpose come out as themselves, not as a quotation in Spark's."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        found = _OWN_ERROR.search(str(error))
        if found is None:
            text = str(error)
            failed = _column_engine_error(text) or _missing_package(text) or _no_room(text)
            if failed is not None:
                raise failed from error
            raise
        kind = getattr(errors, found["kind"])
        raise kind(found["condition"], found["message"], hint=found["hint"] or "") from error


@contextmanager
def written_by_spark(folder: Path, size: int) -> Iterator[None]:
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


def _column_engine_error(text: str) -> ExecutionError | None:
    """What the column engine could not compute, as an error of ours; None if it is something else."""
    found = _ENGINE_ERROR.search(text)
    if found is None:
        return None
    spill = spill_error(found["message"], "the executor's local directory (spark.local.dir)")
    if spill is not None:
        return spill
    if found["kind"] == "OutOfMemory":
        return ExecutionError(
            "OUT_OF_MEMORY",
            f"a task needs more memory than it may use: {found['message']}",
            hint='give tasks more with option("memory", "2GB"), or cut the work into more '
            'option("partitionGroups", ...)',
        )
    if found["kind"] in ("OutOfRange", "Conversion", "InvalidInput"):
        return ExecutionError(
            "EXPRESSION_FAILED",
            f"an expression fails for some row: {found['message']}",
            hint="keep such rows out with where(...), or use a function that gives null instead, "
            "such as try_add or try_cast",
        )
    return None


def _no_room(text: str) -> ExecutionError | None:
    """A full disk where Spark keeps what it sends between tasks; None if it is something else."""
    found = _NO_ROOM.search(text)
    if found is None:
        return None
    where = "the executor's local directory (spark.local.dir)"
    return disk_full("what Spark sends between tasks", where, "Spark does not tell how much")


def _missing_package(text: str) -> SetupError | None:
    """Workers that run a Python without our packages; None if it is something else."""
    found = _MISSING.search(text)
    if found is None:
        return None
    return SetupError(
        "NO_PACKAGE_IN_WORKERS",
        f"the Python that Spark runs its tasks with has no package {found['name']!r}",
        hint="make the session with sw.session(), or set PYSPARK_PYTHON to the Python that has slackwater (such as sys.executable) before "
        "the first SparkSession is made; on a cluster install slackwater on every node",
        name=found["name"],
    )
