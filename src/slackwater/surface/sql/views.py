"""Streams that a text does not define: those that Python named as views, and streaming views of Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.surface.named_views import view_of
from slackwater.surface.source import stream as stream_of
from slackwater.surface.sql.expressions import Expressions, quoted
from slackwater.surface.sql.text import Span, meant
from slackwater.surface.sql.tree import TimeOf, Word

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from slackwater.surface.stream import Stream

_WATERMARK = "WATERMARK ts DELAY OF INTERVAL 10 SECONDS"


class Views:
    """Knows the views of a text's session; a view of Spark's is one stream, however often it is read."""

    def __init__(self, expressions: Expressions):
        self._expressions, self._text = expressions, expressions.text
        self._made: dict[str, tuple[Stream, TimeOf]] = {}

    def named(self, name: str) -> Stream | None:
        """The stream that ``createOrReplaceTempView`` gave this name."""
        made = view_of(self._expressions.spark, name)
        if made is not None:
            self._expressions.clauses.note(made._node, None)
        return made

    def of_spark(self, word: Word, watermark: TimeOf) -> Stream:
        """A streaming view of Spark's under the time that the query names."""
        frame = self._frame(word.name)
        if frame is None:
            raise self._text.error(
                word.span, "NO_TABLE", f"the session has no view '{word.name}'",
                hint=f"make it first: frame.createOrReplaceTempView({word.name!r})", name=word.name,
            )  # fmt: skip
        if not frame.isStreaming:
            raise self.batch(word)
        made, before = self._made.get(word.name.lower(), (None, watermark))
        if (before.column.name.lower(), before.policy) != (watermark.column.name.lower(), watermark.policy):  # fmt: skip
            raise self._text.error(
                watermark.span, "SEVERAL_WATERMARKS", f"'{word.name}' has another watermark above, and a stream has one",
                hint="write the same one, or give the view a second name", also=before.span,
            )  # fmt: skip
        if made is None:
            made = self._stream(frame, word, watermark)
            self._made[word.name.lower()] = made, watermark
            self._expressions.clauses.note(made._node, word.span)
        return made

    def missing(self, word: Word) -> AnalysisError | None:
        """The error of a name that only Spark knows."""
        frame = self._frame(word.name)
        if frame is None:
            return None
        if not frame.isStreaming:
            return self.batch(word)
        times = [f.name for f in frame.schema if f.dataType.typeName().startswith("timestamp")]
        clause = _WATERMARK.replace("ts", times[0]) if times else _WATERMARK
        return self._text.error(
            word.span, "NO_PROGRESS", f"'{word.name}' is a streaming view of Spark's, and nothing names its time",
            hint=f"write FROM STREAM {word.name} {clause}", name=word.name,
        )  # fmt: skip

    def batch(self, word: Word) -> AnalysisError:
        """The error of a table that is all there."""
        return self._text.error(
            word.span, "NOT_A_STREAM", f"'{word.name}' is a batch table of Spark's: its rows do not keep coming",
            hint="read its files as a stream with CREATE STREAM, or join it in Python with sw.relation(...)",
            name=word.name,
        )  # fmt: skip

    def _frame(self, name: str) -> DataFrame | None:
        from pyspark.errors import PySparkException

        try:
            return self._expressions.spark.table(quoted(name))
        except PySparkException:
            return None

    def _stream(self, frame: Any, word: Word, watermark: TimeOf) -> Stream:
        span: Span = watermark.span
        column = watermark.column
        if column.name.lower() not in [c.lower() for c in frame.columns]:
            raise self._text.error(
                column.span, "COLUMN_NOT_FOUND", f"'{word.name}' has no column '{column.name}'",
                hint=meant(column.name, frame.columns, "its columns are"), name=column.name,
            )  # fmt: skip
        with self._expressions.blamed([], span):
            return stream_of(frame, time=column.name, name=word.name, progress=watermark.policy)
