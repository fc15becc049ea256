"""``sw.sql``: one query over streams that Python made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.surface.sql.builder import Builder, Known
from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.expressions import Expressions
from slackwater.surface.sql.queries import QueryReader, single
from slackwater.surface.sql.text import SqlText
from slackwater.surface.sql.tokens import tokens_of
from slackwater.surface.sql.variables import Variables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.surface.stream import Stream


def sql(
    text: str,
    *,
    streams: Mapping[str, Stream] | None = None,
    variables: Mapping[str, Any] | None = None,
    functions: Mapping[str, Any] | None = None,
) -> Stream:
    """The stream of one SQL query: the same tree as the Python calls.

    Parameters
    ----------
    text
        A query, as ``docs/sql.md`` describes it.
    streams
        What the query may read, by name; also what ``stream.createOrReplaceTempView`` named in the session.
    variables
        Values of ``${name}``; a value is never read as SQL.
    functions
        Aggregates made by ``sw.udaf``, by the name that the query calls them by.

    Examples
    --------
    >>> talkers = sql(
    ...     "SELECT srcIP, window_end, count(*) AS n FROM packets GROUP BY srcIP, window(ts, '10 minutes')",
    ...     streams={"packets": packets},
    ... )  # doctest: +SKIP
    """
    from slackwater.surface.relation import Relation
    from slackwater.surface.stream import Stream

    if not isinstance(text, str):
        raise AnalysisError(
            "BAD_OPTION",
            f"sw.sql takes a text, not a {type(text).__name__}",
            hint="give the query as a text",
        )
    known = {}
    for name, stream in (streams or {}).items():
        if isinstance(stream, Relation):
            raise AnalysisError(
                "NOT_A_STREAM",
                f"streams[{name!r}] is a relation, and SQL reads streams",
                hint=f"join it in Python, and give the result: streams={{{name!r}: stream.join(relation, on=...)}}",
            )
        if not isinstance(stream, Stream):
            raise AnalysisError(
                "NOT_A_STREAM",
                f"streams[{name!r}] is a {type(stream).__name__}, not a stream",
                hint="make it with sw.stream(...): a batch table or a DataFrame is none",
            )
        known[name.lower()] = Known(name, stream)
    whole = SqlText(text)
    cursor = Cursor(whole, tokens_of(whole), Variables(whole, variables))
    query = single(cursor, QueryReader(lambda _, __: None))
    spark = _session(known)
    expressions = Expressions(cursor, spark)
    for one in known.values():
        if one.stream is not None:
            expressions.clauses.note(one.stream._node, None)
    return Builder(expressions, functions).query(query, known)


def _session(known: Mapping[str, Known]) -> SparkSession:
    """The session of the streams; without any the active one, whose views the query may read."""
    from pyspark.sql import SparkSession

    given = next((k.stream for k in known.values() if k.stream is not None), None)
    spark = SparkSession.getActiveSession() if given is None else given._spark
    if spark is None:
        raise AnalysisError(
            "NO_TABLE",
            "sw.sql got no streams, and there is no session whose views it could read",
            hint='give streams={"packets": s}',
        )
    return spark
