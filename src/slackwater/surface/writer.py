"""``stream.writeStream`` and ``sw.start``: where results go, and the start of a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from slackwater.engine.clock import Clock
from slackwater.engine.driver.handle import StreamingQuery
from slackwater.engine.plan.reserved import check_twice
from slackwater.errors import AnalysisError
from slackwater.sinks.base import Sink, check_format, check_partitions, check_types
from slackwater.sinks.files import ParquetSink, TextSink
from slackwater.sinks.others import (
    ConsoleSink,
    ForeachSink,
    MemorySink,
    NoopSink,
    TableSink,
    WriterSink,
)
from slackwater.surface.options import (
    QUERY_OPTIONS,
    check_name,
    check_names,
    check_trigger,
    flag,
    local_path,
    whole,
)
from slackwater.surface.unsupported_names import ON_WRITERS, Advising

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from slackwater.surface.stream import Stream

FILE_FORMATS = ("json", "csv", "orc", "text", "avro", "xml")


class StreamWriter(Advising):
    """Says where a stream's rows go; the methods are those of PySpark's DataStreamWriter."""

    _kind = "a writer"
    _advice = ON_WRITERS

    def __init__(self, stream: Stream):
        self._stream = stream
        self._format: str | None = None
        self._options: dict[str, str] = {}
        self._trigger: dict[str, Any] = {}
        self._name: str | None = None
        self._partition_by: tuple[str, ...] = ()
        self._function: Callable[[DataFrame, int], None] | None = None
        self._table_function: Callable[[pa.Table, int], None] | None = None
        self._table: str | None = None
        self._clock: Clock | None = None

    def format(self, source: str) -> StreamWriter:
        """``parquet``, ``json``, ``csv``, ``memory``, ``console``, ``noop``, or any format Spark can write."""
        self._format = source.lower()
        return self

    def option(self, key: str, value: Any) -> StreamWriter:
        """An option of the sink or of the query (``checkpointLocation``, ``endOfStream``...)."""
        self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: Any) -> StreamWriter:
        """Several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, outputMode: str) -> StreamWriter:
        """Only ``append``: each result appears once, when it is final."""
        if outputMode.lower() != "append":
            raise AnalysisError(
                "UNSUPPORTED_OUTPUT_MODE",
                f"output mode {outputMode!r}: results leave once, when their window is complete",
                hint='leave outputMode out, or use "append"; for earlier results use shorter windows '
                "or a policy that waits less",
                mode=outputMode,
            )
        return self

    def trigger(
        self,
        *,
        processingTime: str | None = None,
        once: bool | None = None,
        availableNow: bool | None = None,
        continuous: str | None = None,
    ) -> StreamWriter:
        """When batches run: ``processingTime="5 seconds"``, ``availableNow=True`` or ``once=True``."""
        if continuous is not None:
            raise AnalysisError(
                "UNSUPPORTED_TRIGGER",
                "continuous processing has no micro-batches",
                hint='use processingTime="100 milliseconds"',
            )
        given = {"processingTime": processingTime, "once": once, "availableNow": availableNow}
        chosen = {k: v for k, v in given.items() if v}
        if len(chosen) != 1:
            raise AnalysisError(
                "BAD_OPTION",
                "trigger takes exactly one setting",
                hint="e.g. trigger(availableNow=True)",
            )
        check_trigger(chosen)
        self._trigger = chosen
        return self

    def queryName(self, queryName: str) -> StreamWriter:
        """The output's name: of the query, and of the view of a memory sink."""
        check_name(queryName)
        self._name = queryName
        return self

    def partitionBy(self, *columns: str) -> StreamWriter:
        """Put the files into ``column=value`` directories."""
        flat = [
            c for item in columns for c in (item if isinstance(item, (list, tuple)) else [item])
        ]
        names = tuple(self._stream._column(c) for c in flat)
        check_twice(names, "name each column once")
        check_partitions(self._stream._node.schema, names)
        self._partition_by = names
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> StreamWriter:
        """Hand each batch's results to a function, at least once per batch id."""
        self._function = func
        return self

    def _foreach_table(self, func: Callable[[pa.Table, int], None]) -> StreamWriter:
        """As `foreachBatch`, but with an Arrow table: no Spark job, which tests with many small batches feel."""
        self._table_function = func
        return self

    def clock(self, clock: Clock) -> StreamWriter:
        """Use another clock than the machine's; for tests and replays."""
        self._clock = clock
        return self

    def start(self, path: str | None = None) -> StreamingQuery:
        """Start a query with this one output."""
        from slackwater.surface.start import start

        if path is not None:
            self.option("path", path)
        return start([self])

    def toTable(self, tableName: str) -> StreamingQuery:
        """Append to a table."""
        self._table = tableName
        return self.start()

    # ---- for start ----
    def _option(self, name: str) -> str | None:
        return next((v for k, v in self._options.items() if k.lower() == name.lower()), None)

    def _sink(self, name: str) -> Sink:
        fields = self._stream._node.schema
        own = {"path", *(k.lower() for k in QUERY_OPTIONS)}
        options = {k: v for k, v in self._options.items() if k.lower() not in own}
        path = self._option("path")
        if self._function is not None:
            check_names(self._options, "foreachBatch")
            return ForeachSink(name, fields, self._function)
        if self._table_function is not None:
            return TableSink(name, fields, self._table_function)
        if self._table is not None:
            check_names(self._options, self._format or "table")
            return WriterSink(name, fields, self._format, options, self._table, self._partition_by)
        kind = self._format or "parquet"
        check_names(self._options, kind)
        if kind == "memory":
            if self._name is None:
                raise AnalysisError(
                    "NO_NAME",
                    "a memory sink needs a name for its view",
                    hint='add .queryName("results")',
                )
            return MemorySink(name, fields)
        if kind == "console":
            lower = {"truncate": "true", **{k.lower(): v for k, v in options.items()}}
            return ConsoleSink(name, fields, whole(lower, "numRows", 20), flag(lower, "truncate"))
        if kind == "noop":
            return NoopSink(name, fields)
        if kind == "parquet" or kind in FILE_FORMATS:
            if path is None:
                raise AnalysisError(
                    "NO_PATH",
                    f"a {kind} sink needs a directory",
                    hint='add .option("path", "...") or .start("...")',
                )
            path = local_path(path, f"the path of a {kind} sink")
            if kind == "parquet":
                return ParquetSink(name, fields, path, self._partition_by)
            check_format(self._stream._spark, kind)
            check_types(fields, self._partition_by, kind)
            # Times as text are in the query's zone, whatever becomes of the session's.
            if not any(k.lower() == "timezone" for k in options):
                options["timeZone"] = self._stream._analyser.zone
            return TextSink(name, fields, path, kind, options, self._partition_by)
        check_format(self._stream._spark, kind)
        if path is not None:
            options["path"] = path
        return WriterSink(name, fields, kind, options, None, self._partition_by)


def check_writers(writers: Sequence[Any]) -> None:
    """Each item must be a writer."""
    if not writers:
        raise AnalysisError("NO_OUTPUT", "sw.start got no writers", hint="give at least one")
    for w in writers:
        if not isinstance(w, StreamWriter):
            raise AnalysisError(
                "NOT_A_WRITER",
                f"a writer was expected, not a {type(w).__name__}",
                hint='give writers: result.writeStream.format("parquet").option("path", "...")',
            )
