"""What a method takes besides its own stream: other streams, and nothing that only looks like one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.errors import AnalysisError


def check_streams(items: Sequence[Any], what: str) -> None:
    """Refuse DataFrames and other things in place of streams, each with what to do about it."""
    from slackwater.surface.relation import Relation
    from slackwater.surface.stream import Stream

    for item in items:
        if isinstance(item, Stream):
            continue
        if isinstance(item, Relation):
            raise AnalysisError(
                "NOT_A_STREAM",
                f"{what} got a relation, which sends nothing",
                hint="join it with one stream: stream.join(relation, on=...)",
            )
        streaming = getattr(item, "isStreaming", None)
        if streaming is None:
            shown = f"a {type(item).__name__}"
            hint = "give streams: results of sw.stream(...) and of methods on them"
        elif streaming is True:
            shown = "a streaming DataFrame, which has no progress"
            hint = 'say which column holds its time: sw.stream(df, time="ts")'
        elif what in ("join", "joinAll"):
            shown = "a static DataFrame, which has no time"
            hint = (
                'wrap it in sw.relation, which copies it once: s.join(sw.relation(static, key="k", name="devices"), on="k"); or '
                "join it before the stream is made, with Spark's join of a streaming and a static DataFrame: "
                'sw.stream(df.join(static, "k"), time="ts"); or join results as they leave: '
                '.writeStream.foreachBatch(lambda frame, batch: frame.join(static, "k")...)'
            )
        else:
            shown = "a static DataFrame, which does not go on"
            hint = (
                "play its rows as a stream: sw.stream(sw.replay(spark, [static], static.schema), "
                'time="ts")'
            )
        raise AnalysisError("NOT_A_STREAM", f"{what} got {shown}", hint=hint)


def bad_join(what: str, value: object, hint: str) -> AnalysisError:
    """The error of a join that cannot have this argument."""
    return AnalysisError("BAD_JOIN", f"{what}: {value!r} is not possible here", hint=hint)
