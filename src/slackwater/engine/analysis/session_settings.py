"""The settings of a session that change what expressions mean: what they are now, and whether a query's agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from slackwater.errors import AnalysisError, SetupError
from slackwater.model.expressions import expressions
from slackwater.model.meaning import SETTINGS, Meaning
from slackwater.model.node import Node, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_known: dict[str, Meaning] = {}


def current(spark: SparkSession) -> Meaning:
    """The settings as they are now.

    All that was set comes over as one text, and only a text that is new is looked into setting by setting:
    every expression that is analysed asks.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise SetupError(
            "CONNECT_NOT_SUPPORTED",
            "expressions cannot be analysed over Spark Connect",
            hint="use a classic session: sw.session() or SparkSession.builder...getOrCreate()",
        )
    text = str(spark._jsparkSession.conf().getAll().mkString("\x01"))
    meaning = _known.get(text)
    if meaning is None:
        meaning = Meaning.of({name: _value(spark, name) for name in SETTINGS})
        if len(_known) > 16:
            _known.clear()
        _known[text] = meaning
    return meaning


def _value(spark: SparkSession, name: str) -> str:
    """The value of a setting; '' if it has none, or if this version of Spark does not know it."""
    from pyspark.errors import PySparkException

    try:
        # None for a setting without a value, whatever the type hint says
        return str(spark.conf.get(name) or "")
    except PySparkException:
        return ""


def agreed(nodes: Sequence[Node], session: Meaning) -> Meaning:
    """The settings that all streams and expressions of a query were made under, and that the session has now."""
    for what, meaning in _records(nodes):
        check_same(meaning, session, f"for {what}", "as the query starts")
    return session


def check_same(one: Meaning, other: Meaning, when: str, then: str) -> None:
    """Refuse two records that differ, with the names and both values."""
    differences = list(one.differences(other))
    if not differences:
        return
    shown = "; ".join(f"{name} was {a!r} {when}, and is {b!r} {then}" for name, a, b in differences)
    name, before, now = differences[0]
    raise AnalysisError(
        "SETTINGS_DIFFER",
        f"the query would mean two things: {shown}",
        hint=f'build and start the whole query under one value: spark.conf.set("{name}", "{before}") before '
        "start(), or build it again",
        setting=name,
        before=before,
        now=now,
    )


def _records(nodes: Sequence[Node]) -> Iterator[tuple[str, Meaning]]:
    """What each record of a query is about, and the record."""
    for node in nodes:
        if isinstance(node, Source) and node.meaning is not None:
            yield f"the stream '{node.given_name}'", node.meaning
        for expression in expressions(node):
            if expression.meaning is not None:
                yield f"the expression {expression.sql}", expression.meaning
