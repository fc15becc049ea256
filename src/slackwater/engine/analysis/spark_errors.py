"""What Spark refuses, as an error of PySpark: also where PySpark has no class for it, and hands on the call that failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException


@contextmanager
def captured() -> Iterator[None]:
    """What Spark raises inside is a `PySparkException`."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        raise as_captured(error) from None


def as_captured(error: Py4JJavaError) -> PySparkException:
    """The error of PySpark that says the same."""
    from pyspark.errors.exceptions.captured import UnknownException

    java = error.java_exception
    if java.getMessage():
        return UnknownException(origin=java)
    return UnknownException(desc=str(java.toString()), stackTrace="")
