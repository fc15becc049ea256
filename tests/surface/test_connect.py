"""Spark Connect is refused at the door, before anything is asked of its session."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

import slackwater as sw
from tests.surface.helpers import refused


class Untouchable:
    """Fails when anything is asked of it, as a session without a server does."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


def stand_in(module: str, name: str) -> Any:
    """An object of a class that is called as one of Spark Connect is, or of one that was made of it."""
    theirs = type(name, (Untouchable,), {"__module__": module})
    return type("Mine", (theirs,), {"__module__": "mine"})()


SESSION = stand_in("pyspark.sql.connect.session", "SparkSession")
FRAME = stand_in("pyspark.sql.connect.dataframe", "DataFrame")
CALLS = {
    "sw.readStream": lambda session, frame: sw.readStream(session),
    "sw.replay": lambda session, frame: sw.replay(session, None, "no schema at all"),  # type: ignore[arg-type]
    "sw.stream": lambda session, frame: sw.stream(frame, time=None, late="no such thing"),
}


@pytest.mark.parametrize("call", CALLS)
def test_connect_is_refused_before_anything_else(call: str):
    error = refused(
        lambda: CALLS[call](SESSION, FRAME), "CONNECT_NOT_SUPPORTED", call, "Spark Connect", "sw.session()",
        kind=sw.SetupError,
    )  # fmt: skip
    assert "SPARK_REMOTE" in error.hint


@pytest.mark.skipif(
    not all(importlib.util.find_spec(m) for m in ("pyspark", "grpc", "pandas")),
    reason="the client of Spark Connect is not installed",
)
@pytest.mark.parametrize("call", CALLS)
def test_the_real_classes_are_known(call: str):
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

    session, frame = object.__new__(SparkSession), object.__new__(DataFrame)
    refused(lambda: CALLS[call](session, frame), "CONNECT_NOT_SUPPORTED", kind=sw.SetupError)
