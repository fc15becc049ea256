"""Errors that come out of Spark tasks."""

from __future__ import annotations

import traceback

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


BAD_VALUE = """[CAST_INVALID_INPUT] The value 'x' of the type "STRING" cannot be cast to "DATE". SQLSTATE: 22018
== SQL (line 1, position 26) ==
CASE WHEN __sw_pass THEN CAST(`k` AS DATE) END
                         ^^^^^^^^^^^^^^^^^
"""


def test_what_spark_could_not_compute_is_said_without_names_of_ours() -> None:
    error = raised(BAD_VALUE)
    assert isinstance(error, ExecutionError) and error.condition == "EXPRESSION_FAILED"
    assert "CAST(`k` AS DATE): The value 'x' of the type" in error.message
    assert "try_cast" in error.hint
    assert "__sw" not in "".join(traceback.format_exception(error))


def test_the_part_that_failed_is_left_out_where_it_has_a_name_of_ours() -> None:
    error = raised(BAD_VALUE.replace("`k`", "__sw"))
    assert isinstance(error, ExecutionError) and "__sw" not in error.message
    assert "The value 'x' of the type" in error.message


def test_an_error_of_another_kind_with_a_bad_value_below_it_stays() -> None:
    error = raised(f"[UDF_ERROR] It failed. SQLSTATE: 39000\nCaused by: {BAD_VALUE}")
    assert not isinstance(error, SlackwaterError)


def test_any_other_error_stays() -> None:
    error = raised("ModuleNotFoundError: No module named 'mine'")
    assert not isinstance(error, SlackwaterError)
