"""Errors that come out of Spark tasks."""

from __future__ import annotations

import pytest

from slackwater.errors import ExecutionError, SetupError, SlackwaterError

pyspark_errors = pytest.importorskip("pyspark.errors")

from slackwater.engine.paths.task_errors import task_errors  # noqa: E402


def raised(text: str) -> BaseException:
    with pytest.raises(Exception) as caught, task_errors():
        raise pyspark_errors.PySparkException(text)
    return caught.value


def test_our_own_error_comes_out_as_itself() -> None:
    text = "Traceback ...\nslackwater.errors.ExecutionError: [LATE_ROW] 3 rows of 'a'\n  to fix: wait\n more"
    error = raised(text)
    assert isinstance(error, ExecutionError) and (error.condition, error.hint) == (
        "LATE_ROW",
        "wait",
    )
    assert "3 rows of 'a'" in str(error)


def test_workers_without_our_package_are_told_apart() -> None:
    error = raised(
        "cloudpickle.loads(obj)\nModuleNotFoundError: No module named 'slackwater'\n SQLSTATE"
    )
    assert isinstance(error, SetupError) and error.condition == "NO_PACKAGE_IN_WORKERS"
    assert "PYSPARK_PYTHON" in error.hint and "sw.session()" in error.hint


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("duckdb.duckdb.OutOfMemoryException: Out of Memory Error: x", "OUT_OF_MEMORY"),
        ("duckdb.ConversionException: Conversion Error: 'x'", "EXPRESSION_FAILED"),
    ],
)
def test_what_the_column_engine_could_not_do(text: str, condition: str) -> None:
    error = raised(text)
    assert isinstance(error, ExecutionError) and error.condition == condition


def test_any_other_error_stays() -> None:
    error = raised("ModuleNotFoundError: No module named 'mine'")
    assert not isinstance(error, SlackwaterError)
