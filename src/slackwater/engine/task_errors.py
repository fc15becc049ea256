"""Errors of Spark tasks as our own: what went wrong, without the stack traces of three layers around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from slackwater import errors
from slackwater.errors import ExecutionError, SetupError


@contextmanager
def task_errors() -> Iterator[None]:
    """Errors that a task raised on purpose come out as themselves, not as a quotation in Spark's."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        found = _OWN_ERROR.search(str(error))
        if found is None:
            failed = _column_engine_error(str(error)) or _missing_package(str(error))
            if failed is not None:
                raise failed from error
            raise
        kind = getattr(errors, found["kind"])
        raise kind(found["condition"], found["message"], hint=found["hint"] or "") from error


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
