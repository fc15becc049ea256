"""Streams by the names that ``createOrReplaceTempView`` gave them, for queries in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import AnalysisError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.surface.stream import Stream

_NAMED: dict[tuple[str, str], Stream] = {}


def name_view(stream: Stream, name: str) -> None:
    """Let SQL of the stream's session find it by this name, which ignores case."""
    if not isinstance(name, str) or not name.strip():
        raise AnalysisError(
            "BAD_OPTION",
            f"{name!r} is no name of a view",
            hint='give a text: stream.createOrReplaceTempView("packets")',
            value=name,
        )
    _NAMED[_session(stream._spark), name.lower()] = stream


def view_of(spark: SparkSession, name: str) -> Stream | None:
    """The stream of that name in a session."""
    return _NAMED.get((_session(spark), name.lower())) if _NAMED else None


def views_of(spark: SparkSession) -> list[str]:
    """The names in a session."""
    session = _session(spark)
    return [name for s, name in _NAMED if s == session]


def _session(spark: SparkSession) -> str:
    return str(spark._jsparkSession.sessionUUID())
