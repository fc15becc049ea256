"""``CREATE STREAM``: inputs of Spark's and of ours, and streams made of raw inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slackwater.engine.analysis.bad_types import check_taken
from slackwater.engine.analysis.spark_errors import as_captured
from slackwater.errors import AnalysisError
from slackwater.model.policy import MaxDelay
from slackwater.surface.source import stream as stream_of
from slackwater.surface.sql.calls import AGGREGATES, calls
from slackwater.surface.sql.expressions import Expressions, quoted
from slackwater.surface.sql.extents import beginnings
from slackwater.surface.sql.places import Directory
from slackwater.surface.sql.text import Span, meant
from slackwater.surface.sql.tree import CreateStream, Option, Select, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.surface.stream import Stream

FILES = ("parquet", "csv", "json", "orc", "text", "avro", "xml")
OURS = ("parquet", "csv", "json")


class StreamStatements:
    """Makes the streams of a script; ``raw`` are its inputs without a time."""

    def __init__(self, expressions: Expressions, spark: SparkSession):
        self.expressions, self.text = expressions, expressions.text
        self._spark = spark
        self.raw: dict[str, Any] = {}
        self.directories: list[Directory] = []

    def made(self, statement: CreateStream, names: Mapping[str, Any]) -> Stream | None:
        """The stream; None for a raw input, which is kept."""
        if statement.query is not None:
            return self._stream(statement, self._selected(statement, names))
        given = self._input(statement)
        if not statement.clauses.times:
            self.raw[statement.name.name.lower()] = given
            return None
        return self._stream(statement, given)

    # --- inputs -----------------------------------------------------------------------------------

    def _input(self, statement: CreateStream) -> Any:
        from slackwater.sources.read_stream import readStream

        assert statement.format is not None
        kind = statement.format.name.lower()
        options = {o.name: o for o in statement.options}
        path = next((o for n, o in options.items() if n.lower() == "path"), None)
        if kind in FILES and path is None:
            raise self.text.error(
                statement.format.span, "NO_PATH", f"a stream of {kind} files has no path",
                hint="add OPTIONS (path '...')",
            )  # fmt: skip
        if path is not None:
            name = statement.name.name
            self.directories.append(Directory("stream", name, path.value, path.span))
        schema = self._schema(statement)
        span = path.span if path is not None else statement.format.span
        # Spark reads a raw input itself, whatever its format.
        ours = kind in OURS and (kind != "parquet" or bool(statement.clauses.times))
        with self._pointing(statement, span):
            if ours and path is not None:
                reader = readStream(self._spark)
                if schema is not None:
                    reader = reader.schema(schema)
                for option in options.values():
                    if option is not path:
                        reader = reader.option(option.name, option.value)
                return getattr(reader, kind)(path.value)
            theirs = self._spark.readStream.format(statement.format.name)
            if schema is not None:
                theirs = theirs.schema(schema)
            for option in options.values():
                theirs = theirs.option(option.name, option.value)
            return theirs.load()

    def _schema(self, statement: CreateStream) -> Any:
        from pyspark.sql.types import StructType

        if statement.columns is None:
            return None
        written = self.expressions.write(statement.columns)
        try:
            with self.expressions.pointing(written):
                made = StructType.fromDDL(written.text)
                check_taken(made)  # type: ignore[arg-type]
                return made
        except AnalysisError:
            # One column alone is a better place than all of them.
            first, last = statement.columns.first, statement.columns.last
            begins = beginnings(self.expressions.cursor, first, last)
            for begin, end in zip(begins, [*(b - 1 for b in begins[1:]), last], strict=True):
                if begin < end:
                    column = self.expressions.write(self.expressions.cursor.cut(begin, end))
                    with self.expressions.pointing(column):
                        check_taken(StructType.fromDDL(column.text))  # type: ignore[arg-type]
            raise

    def _pointing(self, statement: CreateStream, span: Span) -> Any:
        return _Pointing(self.expressions, span)

    # --- streams ----------------------------------------------------------------------------------

    def _stream(self, statement: CreateStream, given: Any) -> Stream:
        clauses = statement.clauses
        times = [t.column.name for t in clauses.times]
        units = {t.unit for t in clauses.times if t.unit is not None}
        if len(units) > 1:
            raise self.text.error(
                clauses.times[-1].span, "BAD_OPTION", "the time columns have different units",
                hint="give all integer times one unit",
            )  # fmt: skip
        progress: Any = clauses.times[0].policy
        if len(times) > 1:
            progress = {t.column.name: t.policy or MaxDelay() for t in clauses.times}
        try:
            with self.expressions.blamed([], clauses.times[0].span):
                return stream_of(
                    given,
                    time=times[0] if len(times) == 1 else times,
                    name=statement.name.name,
                    progress=progress,
                    late=clauses.late or "admit",
                    order=[w.name for w in clauses.order] or None,
                    partition=None if clauses.partition is None else clauses.partition.name,
                    partitions=clauses.partitions,
                    timeUnit=units.pop() if units else None,
                    endOfStream=clauses.end,
                )
        except AnalysisError as error:
            raise self._better(error, statement, given) from None

    def _better(self, error: AnalysisError, statement: CreateStream, given: Any) -> AnalysisError:
        """An error of a stream at the word that it is about."""
        name = str(error.parameters.get("name") or error.parameters.get("column") or "").lower()
        words = [t.column for t in statement.clauses.times] + list(statement.clauses.order)
        if statement.clauses.partition is not None:
            words.append(statement.clauses.partition)
        word = next((w for w in words if w.name.lower() == name), None)
        if word is None:
            return error
        if "NOT_FOUND" in error.condition:
            columns = (
                [f.name for f in given.fields] if hasattr(given, "fields") else list(given.columns)
            )
            error = AnalysisError(error.condition, error.message, hint=meant(word.name, columns, "the columns are"))  # fmt: skip
        return error.at(self.text.place(word.span))

    def _selected(self, statement: CreateStream, names: Mapping[str, Any]) -> Any:
        """A select that Spark runs over a raw input."""
        from pyspark.sql import functions as F

        query = statement.query
        assert query is not None
        select = query.body
        plain = (
            isinstance(select, Select)
            and isinstance(select.source, TableName)
            and not (query.views or query.order or query.promise or query.emit)
            and not (select.group or select.having or select.distinct or select.window)
            and select.source.window is None
        )
        if not plain:
            raise self.text.error(
                query.span, "BAD_SELECT", "a stream is made by a plain SELECT ... FROM raw [WHERE ...], which Spark runs",
                hint="do the rest in a view or table that reads the stream",
            )  # fmt: skip
        assert isinstance(select, Select) and isinstance(select.source, TableName)
        word = select.source.name
        if word.name.lower() not in self.raw:
            known = names.get(word.name.lower())
            if known is not None:
                raise self.text.error(
                    word.span, "NOT_RAW", f"'{word.name}' has a time already", also=known.span,
                    hint="write CREATE TEMPORARY VIEW ... AS SELECT ... instead",
                )  # fmt: skip
            raise self.text.error(
                word.span, "NO_TABLE", f"there is no raw input '{word.name}' above",
                hint=meant(word.name, self.raw) or "define it with CREATE STREAM ... USING ..., without TIME",
            )  # fmt: skip
        frame = self.raw[word.name.lower()]
        for item in select.items:
            if not item.star and (made := calls(self.expressions.tokens, item.cut, AGGREGATES)):
                call = self.expressions.tokens[made[0].first]
                raise self.text.error(
                    call.span, "BAD_SELECT", f"{call.text} needs other rows, and this select sees one row at a time",
                    hint="aggregate in a view or table that reads the stream",
                )  # fmt: skip
        alias = (select.source.alias or word).name
        frame = frame.alias(alias)
        if select.where is not None:
            written = self.expressions.write(select.where)
            with _Pointing(self.expressions, select.where.span, [written]):
                frame = frame.where(F.expr(written.text))
        columns: list[Any] = []
        for item in select.items:
            name = item.alias.name if item.alias is not None else None
            written = self.expressions.write(item.cut, alias=name)
            with _Pointing(self.expressions, item.cut.span, [written]):
                column = F.expr(written.text) if item.star else F.expr(written.named)
                if item.without:
                    kept = [
                        c
                        for c in frame.columns
                        if c.lower() not in {w.name.lower() for w in item.without}
                    ]
                    columns.extend(F.col(quoted(c)) for c in kept)
                    continue
                frame.select(column)
            columns.append(column)
        with _Pointing(self.expressions, select.list_span):
            return frame.select(*columns)


class _Pointing:
    """Errors of Spark's and of ours get a place."""

    def __init__(self, expressions: Expressions, span: Span, written: Any = ()):
        self._expressions, self._span, self._written = expressions, span, list(written)

    def __enter__(self) -> None:
        from slackwater.engine.analysis.analyse import _quiet

        self._silence = _quiet()
        self._silence.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        self._silence.__exit__(None, None, None)
        text = self._expressions.text
        if isinstance(error, Py4JJavaError) and self._written:
            error = as_captured(error)
        if isinstance(error, PySparkException):
            if self._written:
                names = (error.getMessageParameters() or {}).get("objectName", "")
                ours = None
                if str(error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
                    name = names.replace("`", "")
                    ours = AnalysisError("COLUMN_NOT_FOUND", name, name=name)
                proposal = (
                    (error.getMessageParameters() or {})
                    .get("proposal", "")
                    .replace("`", "")
                    .split(", ")
                )
                raise self._expressions._pointed(error, self._written, [p for p in proposal if p], ours) from None  # fmt: skip
            first = str(error).strip().splitlines()[0]
            raise text.error(
                self._span,
                "BAD_SOURCE",
                f"Spark cannot read this: {first}",
                hint="see the options of the format",
            ) from None
        if isinstance(error, Py4JJavaError):
            # What PySpark has no class for, such as a format that nobody registered.
            first = str(error.java_exception.getMessage()).strip().splitlines()[0]
            raise text.error(
                self._span,
                "BAD_SOURCE",
                f"Spark cannot read this: {first}",
                hint="check the format's name, and that its package is in the session (spark.jars.packages)",
            ) from None
        if isinstance(error, AnalysisError) and error.place is None:
            raise error.at(text.place(self._span)) from None


def option_value(options: tuple[Option, ...], name: str) -> Option | None:
    """The option of that name."""
    return next((o for o in options if o.name.lower() == name.lower()), None)
