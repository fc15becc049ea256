"""What Spark refuses, as an error of PySpark: also where PySpark has no class for it, and hands on the call that failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slackwater.errors import AnalysisError

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException


@contextmanager
def captured() -> Iterator[None]:
    """What Spark raises inside is a `PySparkException`; what is too deep for it is refused by name."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        if overflows(error):
            raise too_deep() from error
        raise as_captured(error) from None


def as_captured(error: Py4JJavaError) -> PySparkException:
    """The error of PySpark that says the same."""
    from pyspark.errors.exceptions.captured import UnknownException

    java = error.java_exception
    if java.getMessage():
        return UnknownException(origin=java)
    return UnknownException(desc=str(java.toString()), stackTrace="")


def overflows(error: Py4JJavaError) -> bool:
    """Whether the stack of Spark's thread was at its end."""
    return "StackOverflowError" in str(error.java_exception)


def too_deep() -> AnalysisError:
    """The error for what is nested more deeply than Spark's threads, or Python, can walk."""
    return AnalysisError(
        "TOO_DEEP",
        "the expression is nested more deeply than Spark takes: the stack of Spark's thread is too small for it",
        hint="compute it in steps, with withColumn(...), or give Spark's threads a larger stack before Spark starts: "
        'spark.driver.extraJavaOptions="-Xss16m"',
    )
